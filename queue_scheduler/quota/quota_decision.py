"""Demands on quotas, and problems of quotas."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from queue_scheduler.decision import Reason
from shared_api.objects.meta import NO_UID, Uid


class PodStage(StrEnum):
    """How far a pod is that no unit stands for."""

    BOUND = "bound"
    """It has a node."""
    PENDING = "pending"
    """It may get one at any moment."""
    STUCK = "stuck"
    """It cannot be bound now: it fits no node, another gate holds it, or no scheduler takes it."""
    HELD = "held"
    """The queue's own gate holds it."""


class Demand(msgspec.Struct, frozen=True, gc=False):
    """What a unit asks for; never changed after creation.

    Attributes:
        amounts: In base units per resource, unmasked.
        non_preemptible: Whether its pods may not be preempted.
        job: Of a question, the job that asks: its held pods are this demand. NO_UID: none.
        firm: The part of the amounts that may not be preempted although the unit may be: living
            pods with a label of their own.
    """

    amounts: Mapping[str, int]
    non_preemptible: bool = False
    job: Uid = NO_UID
    firm: Mapping[str, int] = {}

    @property
    def firm_amounts(self) -> Mapping[str, int]:
        """What may not be preempted."""
        return self.amounts if self.non_preemptible else self.firm


Rule: TypeAlias = tuple[Reason, str, str]
"""(kind, resource, `via`) of a refusal: together with the quota, the one sum that it is about."""


class LimitKind(StrEnum):
    """Which limit a demand is compared with; the values are those of the debug API."""

    MAX = "max"
    MIN = "min"
    RUNTIME = "runtime"
    """What koord-scheduler would grant with the demand added."""
    NODES = "nodes"
    """What all nodes have."""


class AppliedLimit(msgspec.Struct, frozen=True, gc=False):
    """A limit that a demand was compared with, and what was used before; amounts in base units."""

    quota: str
    kind: LimitKind
    resource: str
    limit: int
    used: int
    requested: int


class Borrowed(msgspec.Struct, frozen=True, gc=False):
    """What a quota uses above its guarantee on one resource; amounts in base units.

    `lenders` are the siblings of which it may be, each with how much of its guarantee is lent at
    most; () if no quota is guaranteed what is borrowed.
    """

    quota: str
    resource: str
    used: int
    guaranteed: int
    lenders: tuple[tuple[str, int], ...] = ()

    @property
    def amount(self) -> int:
        """How much is borrowed."""
        return self.used - self.guaranteed


class MinRunTime(msgspec.Struct, frozen=True, gc=False):
    """How long after its admission a unit is not evicted for some others, and what says so.

    Attributes:
        seconds: The time.
        by: The name of the quota or queue that states it.
    """

    seconds: int
    by: str


class ProblemKind(StrEnum):
    """What may be wrong with a quota; the values are reasons of events and never change."""

    UNREADABLE_AMOUNT = "UnreadableAmount"
    NEGATIVE_AMOUNT = "NegativeAmount"
    UNREADABLE_ANNOTATION = "UnreadableAnnotation"
    UNREADABLE_ATTRIBUTE = "UnreadableAttribute"
    UNREADABLE_LABEL = "UnreadableLabel"
    UNKNOWN_RECLAIM_POLICY = "UnknownReclaimPolicy"
    MIN_OVER_MAX = "MinOverMax"
    MIN_KEY_NOT_IN_MAX = "MinKeyNotInMax"
    RESOURCE_WITHOUT_EFFECT = "ResourceWithoutEffect"
    NO_WEIGHT = "NoWeight"
    ATTRIBUTE_WITHOUT_EFFECT = "AttributeWithoutEffect"
    DUPLICATE_NAME = "DuplicateName"
    PARENT_MISSING = "ParentMissing"
    CYCLE = "Cycle"
    TOO_DEEP = "TooDeep"
    BAD_NAME = "BadName"
    NAMESPACE_TWICE = "NamespaceTwice"
    NOT_MARKED_AS_PARENT = "NotMarkedAsParent"
    RESOURCES_DIFFER = "ResourcesDiffer"
    TREE_ID_DIFFERS = "TreeIdDiffers"
    TREE_CHANGED = "TreeChanged"
    RESOURCE_STILL_COUNTED = "ResourceStillCounted"
    CHILDREN_MIN_OVER_MIN = "ChildrenMinOverMin"


class QuotaProblem(msgspec.Struct, frozen=True, gc=False):
    """A problem of a quota; `fatal`: it and its subtree admit nothing until it is repaired."""

    kind: ProblemKind
    namespace: str
    quota: str
    text: str
    fatal: bool = False
