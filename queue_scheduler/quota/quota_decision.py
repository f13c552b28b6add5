"""What is asked of a quota, and its "no" with the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from shared_api.resource_list import Amounts


class Demand(msgspec.Struct, frozen=True, gc=False):
    """What a unit wants: base units per resource, unmasked; never changed after it was made."""

    amounts: Mapping[str, int]
    non_preemptible: bool = False


class RefusalReason(StrEnum):
    """Why a quota says no; the values are condition reasons and never change."""

    UNKNOWN_QUOTA = "UnknownQuota"
    """No ElasticQuota of that name."""
    BROKEN_CHAIN = "BrokenChain"
    """The quota or one of its ancestors cannot be used: cycle, missing parent, bad amounts."""
    NO_CAPACITY = "NoCapacity"
    """The nodes together have too little (or none is known)."""
    OVER_QUOTA_MAX = "OverQuotaMax"
    OVER_PARENT_MAX = "OverParentMax"
    OVER_RUNTIME = "OverRuntime"
    """koord-scheduler would not let all pods through: its runtime would be too small."""
    OVER_PARENT_RUNTIME = "OverParentRuntime"
    """The same at an ancestor (setting checkParent)."""
    OVER_MIN = "OverMin"
    NON_PREEMPTIBLE_OVER_MIN = "NonPreemptibleOverMin"
    HURTS_OTHERS = "HurtsOthers"
    """Another quota, covered until now, would lose part of what it was promised."""
    GUARANTEE_OF_OTHERS = "GuaranteeOfOthers"
    """It would borrow room that an owner, waiting within its min, needs."""


class Grounds(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a refusal by runtimes follows from, besides what is charged below two quotas.

    On the resource that was refused the demand makes `asker` be asked for `more`, and then
    `subject`, the asker or a sibling of it, gets `has`, without the demand `had`. While nothing is
    charged below either and these numbers stay, the refusal stands (`runtime_wake_check`). `scope`
    is the highest quota (or the root) whose division is not plain, `parent` theirs. `unseeded` and
    `unrefreshed` say in which state of memory (`level_division`).
    """

    scope: str
    parent: str
    asker: str
    more: int
    subject: str
    had: int | None
    has: int | None
    unseeded: bool
    unrefreshed: bool


class QuotaRefusal(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A "no" with its numbers, at the first limit that was found too small.

    `used + requested > limit`, and `missing` is by how much. `quota` is the node whose limit it
    is (the root's name for the total of the nodes); `other` the quota that would be hurt, or
    whose guarantee would be. All 0 where the reason has no numbers. `grounds`: where runtimes
    decided, unless anything may change the answer. `via`: the quota asked for, where what is left
    under the limit is not the same for all who come from below (`tree_books.taken_by`). `rounded`:
    koord-scheduler's rounding half up loses no less than what is missing.
    """

    reason: RefusalReason
    quota: str
    resource: str = ""
    limit: int = 0
    used: int = 0
    requested: int = 0
    missing: int = 0
    other: str = ""
    grounds: Grounds | None = None
    via: str = ""
    rounded: bool = False


Rule: TypeAlias = tuple[RefusalReason, str, str]
"""(reason, resource, `via`) of a refusal: with the quota, the one sum that it is about."""


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
    """Something wrong with a quota; `fatal`: it and its subtree admit nothing until repaired."""

    kind: ProblemKind
    namespace: str
    quota: str
    text: str
    fatal: bool = False


class QuotaView(msgspec.Struct, frozen=True, kw_only=True):
    """One quota as a person may see it, at one moment; amounts in base units.

    `booked`: sum of the units charged to it. `demand`: what the division is fed with: bookings
    and counted foreign pods, masked to the keys of `max`. `used`: the same over its subtree.
    `limits`: what `used` is compared with now in this mode; a missing key is unlimited.
    `runtime`: as koord-scheduler would compute it from these demands (empty in other modes), with
    the units that its rounding would lose.
    """

    name: str
    namespace: str
    tree_id: str
    parent: str
    children: tuple[str, ...]
    is_parent: bool
    lends: bool
    min: Amounts
    scaled_min: Amounts
    max: Amounts
    weight: Amounts
    booked: Amounts
    foreign: Amounts
    demand: Amounts
    used: Amounts
    request: Amounts
    runtime: Amounts
    limits: Amounts
    protected: Amounts
    usable: bool
    problems: tuple[QuotaProblem, ...] = ()
