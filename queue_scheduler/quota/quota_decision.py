"""Demands on quotas, and problems of quotas."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from queue_scheduler.decision import Reason


class Demand(msgspec.Struct, frozen=True, gc=False):
    """What a unit asks for: base units per resource, unmasked; never changed after creation."""

    amounts: Mapping[str, int]
    non_preemptible: bool = False


Rule: TypeAlias = tuple[Reason, str, str]
"""(kind, resource, `via`) of a refusal: together with the quota, the one sum that it is about."""


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
    CHILDREN_MIN_OVER_MIN = "ChildrenMinOverMin"


class QuotaProblem(msgspec.Struct, frozen=True, gc=False):
    """A problem of a quota; `fatal`: it and its subtree admit nothing until it is repaired."""

    kind: ProblemKind
    namespace: str
    quota: str
    text: str
    fatal: bool = False
