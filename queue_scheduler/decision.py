"""The engine's decisions, as frozen values that carry their numbers.

A refusal is data. The only module that renders it as text is `refusal_texts`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Flag, StrEnum, auto
from typing import Final

import msgspec

from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import Admission
from shared_api.queue_unit_phases import Phase
from shared_api.resource_list import Amounts

BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The time if the caller gives none: no protection has ended, and no unit has run yet."""


class Moment(msgspec.Struct, frozen=True, gc=False):
    """When a decision is asked for: seconds of the monotonic clock, and wall time."""

    now: float
    wall: datetime

    @property
    def seconds(self) -> int | None:
        """Whole seconds since the epoch; None if the caller gave no wall time."""
        return None if self.wall == BEGINNING else int(self.wall.timestamp())


class Reason(StrEnum):
    """Why a unit is pending or on hold. The values are the condition reasons that users see.

    The first group is about the unit's place, the second about amounts, the third about what the
    unit itself or its environment lacks.
    """

    WAITING = "Pending"
    BEHIND_REFUSED_UNIT = "BehindRefusedUnit"
    BEHIND_HIGHER_BAND = "BehindHigherBand"
    BEHIND_ACCOUNT = "BehindAccount"
    """Others have used less of its queue (policy Fair); it holds nobody back."""
    BEHIND_QUEUE = "BehindQueue"
    """Another queue goes first: its quota has used less (`fairTurns`)."""
    BEYOND_MAX_DEPTH = "BeyondMaxDepth"
    WOULD_DELAY_HEAD = "WouldDelayHead"
    NO_MAX_EXECUTION_TIME = "NoMaximumExecutionTime"
    WAITING_FOR_PODS_RUNNING = "WaitingForPodsRunning"
    WAITING_FOR_NODES_OF_OTHERS = "WaitingForNodesOfOthers"
    WRITE_FAILED = "WriteFailed"
    STOPPED_QUEUE = "StoppedQueue"
    GROWS_AFTER_OTHERS = "GrowsAfterOthers"

    EXCEEDS_QUOTA = "ExceedsQuota"
    """It asks for more than a max or min in total, whatever is free: waiting does not help."""
    OVER_QUOTA_MAX = "OverQuotaMax"
    OVER_PARENT_MAX = "OverParentMax"
    OVER_RUNTIME = "OverRuntime"
    """koord-scheduler would not let all pods through: its runtime would be too small."""
    OVER_PARENT_RUNTIME = "OverParentRuntime"
    """The same at an ancestor (setting checkParent)."""
    OVER_MAX_JOBS = "OverMaxJobs"
    """A limit on the number of jobs."""
    OVER_MIN = "OverMin"
    NON_PREEMPTIBLE_OVER_MIN = "NonPreemptibleOverMin"
    HURTS_OTHERS = "HurtsOthers"
    """Another quota, covered until now, would lose part of what it was promised."""
    GUARANTEE_OF_OTHERS = "GuaranteeOfOthers"
    """It would borrow capacity that another quota's unit, waiting within its min, needs."""
    ROOM_FOR_PREEMPTOR = "RoomForPreemptor"
    NO_CAPACITY = "NoCapacity"
    """The nodes together have too little, or there is none."""
    BROKEN_CHAIN = "BrokenChain"
    """The quota or one of its ancestors cannot be used: cycle, missing parent, bad amounts."""
    UNKNOWN_QUOTA = "UnknownQuota"
    """There is no quota of that name."""
    EVICTION_DELAY = "EvictionDelay"
    """It may evict others, but not yet: its queue has it wait for nodes first."""
    EVICTION_RATE = "EvictionRate"
    """It may evict others, but not yet: many were evicted lately."""
    MIN_RUNTIME = "MinRuntime"
    """It may evict others, but not yet: they were admitted not long ago."""
    REFUSED_BY_PLUGIN = "RefusedByPlugin"
    USER_LIMIT = "UserLimit"
    """Its user, or the group that it names, may not have more at a quota."""
    BUDGET_SPENT = "BudgetSpent"
    """The budget of a quota has too little left for the time that it declares."""
    RESERVED_FOR = "ReservedFor"
    """It would run into a window in which units must not run; it holds nobody back."""

    NO_QUOTA = "NoQuota"
    AMBIGUOUS_QUOTA = "AmbiguousQuota"
    QUOTA_NOT_IN_NAMESPACE = "QuotaNotInNamespace"
    QUOTA_NOT_IN_QUEUE = "QuotaNotInQueue"
    NO_QUEUE = "NoQueue"
    INVALID_DEMAND = "InvalidDemand"
    GATED_BY = "GatedBy"
    """Another program holds its job back, by an annotation."""
    PODS_REFUSED = "PodsRefused"
    REQUESTS_MISSING = "RequestsMissing"
    INACTIVE = "Inactive"
    IN_BACKOFF = "InBackoff"
    BLOCKED_FOR_TEST = "BlockedForTest"
    ADMISSION_CHECK_INACTIVE = "AdmissionCheckInactive"


class Trait(Flag):
    """One question about reasons; a reason has the trait if the answer is yes."""

    OTHER_UNIT = auto()
    """It is about another unit, which `Refusal.other` names."""
    BACKFILL = auto()
    """The unit would delay the head of a queue that backfills; it fitted when it was asked."""
    PAST_FILTERS = auto()
    """The unit passes the filters; it is considered again when the cause ends."""
    NO_HEAD = auto()
    """A unit refused so is no head: others may pass it without delaying it."""
    STANDS_ASIDE = auto()
    """A unit refused so holds back no other, whatever the policy of its queue."""
    NOT_BY_EVICTION = auto()
    """No eviction ends it, or only evictions that the refused unit may not ask for."""
    NEEDS_CORRECTION = auto()
    """The unit, its quota or its queue must be corrected: waiting does not help."""
    TOO_LARGE = auto()
    """The unit is larger than a limit, whatever is free: it does not start as it is."""
    FIXED_LIMIT = auto()
    """The limit is written in a quota, and does not depend on other quotas."""
    SUM = auto()
    """A sum of charges is compared with a limit: what is left is known (`limit_checks.room`)."""
    RUNTIME = auto()
    """Runtimes are compared, which follow from the requests of other quotas."""
    GUARD = auto()
    """The unit may evict others for what it lacks, and is kept from it for a time, which
    `Refusal.detail` names (RFC 3339)."""


_NONE: Final = Trait(0)
_BEHIND_HEAD: Final = Trait.OTHER_UNIT | Trait.BACKFILL | Trait.PAST_FILTERS | Trait.NO_HEAD
_UNUSABLE: Final = Trait.NO_HEAD | Trait.NOT_BY_EVICTION

TRAITS: Final[dict[Reason, Trait]] = {
    Reason.WAITING: _NONE,
    Reason.BEHIND_REFUSED_UNIT: Trait.OTHER_UNIT,
    Reason.BEHIND_HIGHER_BAND: Trait.OTHER_UNIT,
    Reason.BEHIND_ACCOUNT: Trait.OTHER_UNIT,
    Reason.BEHIND_QUEUE: Trait.OTHER_UNIT,
    Reason.BEYOND_MAX_DEPTH: _NONE,
    Reason.WOULD_DELAY_HEAD: _BEHIND_HEAD,
    Reason.NO_MAX_EXECUTION_TIME: _BEHIND_HEAD,
    Reason.WAITING_FOR_PODS_RUNNING: Trait.PAST_FILTERS,
    Reason.WAITING_FOR_NODES_OF_OTHERS: _NONE,
    Reason.WRITE_FAILED: _NONE,
    Reason.STOPPED_QUEUE: _NONE,
    Reason.GROWS_AFTER_OTHERS: Trait.OTHER_UNIT,
    Reason.EXCEEDS_QUOTA: _UNUSABLE | Trait.NEEDS_CORRECTION | Trait.TOO_LARGE,
    Reason.OVER_QUOTA_MAX: Trait.SUM | Trait.FIXED_LIMIT,
    Reason.OVER_PARENT_MAX: Trait.SUM | Trait.FIXED_LIMIT,
    Reason.OVER_RUNTIME: Trait.RUNTIME,
    Reason.OVER_PARENT_RUNTIME: Trait.RUNTIME,
    Reason.OVER_MAX_JOBS: _NONE,
    Reason.OVER_MIN: Trait.SUM | Trait.FIXED_LIMIT,
    Reason.NON_PREEMPTIBLE_OVER_MIN: Trait.SUM,
    Reason.HURTS_OTHERS: Trait.RUNTIME,
    Reason.GUARANTEE_OF_OTHERS: _NONE,
    Reason.ROOM_FOR_PREEMPTOR: Trait.PAST_FILTERS | Trait.NOT_BY_EVICTION,
    Reason.NO_CAPACITY: Trait.SUM,
    Reason.BROKEN_CHAIN: _UNUSABLE,
    Reason.UNKNOWN_QUOTA: _UNUSABLE,
    Reason.EVICTION_DELAY: Trait.GUARD,
    Reason.EVICTION_RATE: Trait.GUARD,
    Reason.MIN_RUNTIME: Trait.GUARD,
    Reason.REFUSED_BY_PLUGIN: _NONE,
    Reason.USER_LIMIT: Trait.NO_HEAD | Trait.STANDS_ASIDE | Trait.NOT_BY_EVICTION,
    Reason.BUDGET_SPENT: Trait.NO_HEAD | Trait.STANDS_ASIDE | Trait.NOT_BY_EVICTION,
    Reason.RESERVED_FOR: (
        Trait.PAST_FILTERS | Trait.NO_HEAD | Trait.STANDS_ASIDE | Trait.NOT_BY_EVICTION
    ),
    Reason.NO_QUOTA: Trait.NEEDS_CORRECTION,
    Reason.AMBIGUOUS_QUOTA: Trait.NEEDS_CORRECTION,
    Reason.QUOTA_NOT_IN_NAMESPACE: Trait.NEEDS_CORRECTION,
    Reason.QUOTA_NOT_IN_QUEUE: Trait.NEEDS_CORRECTION,
    Reason.NO_QUEUE: Trait.NEEDS_CORRECTION,
    Reason.INVALID_DEMAND: Trait.NEEDS_CORRECTION,
    Reason.GATED_BY: _NONE,
    Reason.PODS_REFUSED: _NONE,
    Reason.REQUESTS_MISSING: Trait.NEEDS_CORRECTION,
    Reason.INACTIVE: _NONE,
    Reason.IN_BACKOFF: _NONE,
    Reason.BLOCKED_FOR_TEST: _NONE,
    Reason.ADMISSION_CHECK_INACTIVE: _NONE,
}
"""What is true of each reason: a new one gets a row, so each question about reasons is answered."""


def reasons_with(trait: Trait) -> frozenset[Reason]:
    """Return the reasons that have the trait."""
    return frozenset(reason for reason, traits in TRAITS.items() if trait in traits)


class RuntimeBasis(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a refusal by runtimes follows from, in addition to the usage below two quotas.

    On the refused resource, the demand raises the request of `asker` by `more`. Then `subject`, the
    asker or a sibling of it, gets `has`; without the demand it had `had`. While nothing is charged
    below either and these numbers stay, the refusal stands (`runtime_wake_check`). `scope` is the
    highest quota (or the root) whose division is not plain, `parent` the parent of both.

    `needs`: what the subject uses, or would use with the demand, where that alone is compared: the
    refusal stands while it gets less with the demand, and, if it is a sibling, as much without it.
    Then `had` and `has` are None.

    `relief`: what held pods of the demand's own job already make the asker ask for. Without the
    demand it asks for that much less than now, and with it for `more` than now (`claims`).

    `unseeded`, `unrefreshed` and `exact` are what is assumed of koord-scheduler
    (`level_division.Memory`).
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
    exact: bool = False
    needs: int | None = None
    relief: int = 0


class BudgetShortage(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a budget lacks for a unit, in its unit (`queue_scheduler.tenants.budget_rules`).

    Attributes:
        scale: How much is what users call 1.
        limit: What may be used in the period, with what the last one has left or owes.
        spent: What is used in it.
        committed: What running units may still use of it.
        needed: What the unit needs in it; 0: nothing is left, whatever it needs.
        begins: When the unit's part of the period begins, in seconds since the epoch.
        resets_at: When the budget may have more left by time alone; None: never.
        would_start_seconds: The longest time to declare with which it would start now; 0: none.
        declares_nothing: It declares no time, and the budget asks for one.
    """

    scale: int
    limit: int
    spent: int
    committed: int
    needed: int
    begins: int
    resets_at: int | None
    would_start_seconds: int = 0
    declares_nothing: bool = False

    @property
    def left(self) -> int:
        """What new units may use of it; negative: a debt."""
        return self.limit - self.spent - self.committed

    @property
    def missing(self) -> int:
        """By how much it would have to be raised."""
        return max(0, self.needed - self.left)


class ReservedWindow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A window into which a unit would run (`queue_scheduler.reservations`).

    Attributes:
        name: The QueueReservation.
        start: When the window begins, in seconds since the epoch.
        end: When it ends.
        margin: The seconds before it at which units must have ended.
        would_start_seconds: The longest time to declare with which the unit would start now; 0:
            none.
        declares_nothing: It declares no time.
        longest_gap: Set if windows follow without end, and it never starts between two of them: the
            longest time to declare with which it would.
    """

    name: str
    start: int
    end: int
    margin: int
    would_start_seconds: int
    declares_nothing: bool = False
    longest_gap: int | None = None


EVICTIONS: Final = "evictions"
"""The resource of a refusal since too many units were evicted."""


class EvictionGuard(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What keeps a unit for a time from evicting others.

    Attributes:
        reason: Which guard it is; one with `Trait.GUARD`.
        by: The queue or quota whose setting it is; "": that of the program.
        until: When it is over (RFC 3339).
        per_hour: How many units may be evicted in an hour; 0: it is about something else.
        used: How many of these are used.
        needed: How many the unit needs.
    """

    reason: Reason
    by: str
    until: str
    per_hour: int = 0
    used: int = 0
    needed: int = 0


class Refusal(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Why a unit did not start, with the numbers of the first limit that was found too small.

    `told_of`, `via` and `basis` are for waking the unit: the plugin that refused gets its refusal
    back when the unit waits. They are not read elsewhere.

    Attributes:
        reason: The kind of limit, as users see it.
        quota: The quota whose limit it is; "" if no quota is concerned. The root's name for the
            total of the nodes.
        quota_namespace: The namespace of the quota's object, if there are others of its name, which
            do not count.
        resource: The resource that is short.
        limit: The limit, in base units (cpu in milli, everything else in units).
        used: The usage that already counts against it.
        requested: What the unit would add.
        other: The quota that would be hurt or whose guarantee would be, the unit ahead, or the
            queue or plugin concerned.
        detail: What numbers do not say, in words; stable while the reason is.
        pods: Set when it is told: the pods without a node that count against the limit, largest
            first; those of other namespaces only by their number.
        is_least: The unit may start with a part of its pods, and this is about the least part.
        is_rounded: The missing amount is no more than koord-scheduler loses by rounding half up.
        told_of: The original kind of limit, if `reason` is another word for it; see `kind`.
        via: The quota asked for, if what is left under the limit is not the same for all quotas
            below it (`tree_usage.taken_by`).
        basis: Set if runtimes decided, unless any change may change the answer.
        budget: Set if a budget decided: what it lacks. `limit`, `used` and `requested` are the same
            in base units times hours, rounded.
        window: Set if a window decided.
        guard: Set if the unit may evict others for what it lacks, and is kept from that for a time.
    """

    reason: Reason
    quota: str = ""
    quota_namespace: str = ""
    resource: str = ""
    limit: int = 0
    used: int = 0
    requested: int = 0
    other: str = ""
    detail: str = ""
    pods: tuple[str, ...] = ()
    is_least: bool = False
    is_rounded: bool = False
    told_of: Reason | None = None
    via: str = ""
    basis: RuntimeBasis | None = None
    budget: BudgetShortage | None = None
    window: ReservedWindow | None = None
    guard: EvictionGuard | None = None

    @property
    def shown(self) -> Refusal:
        """What users are told first: what keeps the unit from evicting others, if anything does."""
        guard = self.guard
        if guard is None:
            return self
        return Refusal(
            reason=guard.reason,
            quota=self.quota,
            resource=EVICTIONS if guard.per_hour else "",
            limit=guard.per_hour,
            used=guard.used,
            requested=guard.needed,
            other=guard.by,
            detail=guard.until,
        )

    @property
    def kind(self) -> Reason:
        """The kind of limit, whichever word users see for it."""
        return self.told_of or self.reason

    @property
    def missing(self) -> int:
        """How much is short, in base units."""
        return max(0, self.used + self.requested - self.limit)


class Grant(msgspec.Struct, frozen=True, gc=False):
    """One future entry of `status.admissions`.

    Attributes:
        name: The pod set, or the name of the one entry of a unit without pod sets.
        replicas: Pods that may run.
        amounts: What all of them together ask for (base units).
    """

    name: str
    replicas: int
    amounts: Amounts


class Dequeue(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The unit may start; its demand is already charged.

    The shell writes the phase `to` and answers with `Engine.on_written` or `on_write_failed`. With
    `checks`, `to` is Reserved until these admission checks are Ready. With `is_waited_for`, no
    other unit of its queue starts until its pods run. `unrequested` are the resources that its
    quota governs, if its pods request none of them.
    """

    unit: str
    uid: Uid
    resource_version: str
    queue: str
    quota: str
    grants: tuple[Grant, ...]
    to: Phase = Phase.DEQUEUED
    checks: tuple[str, ...] = ()
    is_waited_for: bool = False
    unrequested: tuple[str, ...] = ()
    wake: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash((self.uid, self.resource_version))


class Growth(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A running unit may run more pods; their demand is already charged.

    The shell writes `admissions`, the whole list, and answers with `Engine.on_queue_unit` or
    `on_growth_failed`.
    """

    unit: str
    uid: Uid
    resource_version: str
    admissions: tuple[Admission, ...]
    wake: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash((self.uid, self.resource_version))


class Refused(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The unit is refused, and with it all units of its class in this queue."""

    unit: str
    queue: str
    refusal: Refusal
    wake: tuple[str, ...] = ()


class Victim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A unit that is evicted to make room.

    Attributes:
        unit: `namespace/name`.
        uid: Its uid.
        resource_version: The version that the choice was based on.
        priority: Its priority.
        lost_seconds: How long its pods have run since their last checkpoint; 0 if they do not
            all run.
    """

    unit: str
    uid: Uid
    resource_version: str
    priority: int
    lost_seconds: int


class Preempt(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Units are to be evicted to make room for a refused one, which waits until they have left.

    The shell requests the evictions and calls `Engine.on_preempted` with the outcome of all these
    writes. Meanwhile, other units are kept from taking the room.

    Attributes:
        unit: The preemptor, `namespace/name`.
        uid: Its uid.
        queue: Its queue.
        quota: Its quota.
        priority: Its priority.
        reason: Why the victims are evicted: `PREEMPTED` or `RECLAIMED` of `queue_unit_phases`.
        victims: The units to evict, the cheapest first.
        refusal: Why it cannot start without that.
    """

    unit: str
    uid: Uid
    queue: str
    quota: str
    priority: int
    reason: str
    victims: tuple[Victim, ...]
    refusal: Refusal
    wake: tuple[str, ...] = ()


class Rest(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """There is nothing to decide in this queue now.

    Attributes:
        until: Seconds of the caller's `now` at which to ask again; None: only when woken.
        behind: The queue whose turn it is, if that is the reason.
        wake: Queues to ask in the meantime.
    """

    until: float | None = None
    behind: str = ""
    wake: tuple[str, ...] = ()


Decision = Dequeue | Refused | Preempt | Rest


class WriteFailure(StrEnum):
    """The outcome of a write that did not succeed."""

    CONFLICT = "conflict"
    """The object was changed in between: the unit is decided again with its fresh object."""
    GONE = "gone"
    """The unit no longer exists."""
    REJECTED = "rejected"
    """It was not written, through no fault of the unit: retried later, in the unit's place."""
    REFUSED = "refused"
    """The server refused it (forbidden, invalid): the unit stands aside, so that others start."""


class UndecidedError(Exception):
    """Something raised while a unit was decided, such as a plugin; its cause says what.

    The decision was taken back. The caller sets the unit aside, so that others are decided.

    Attributes:
        unit: `namespace/name`.
    """

    def __init__(self, unit: str) -> None:
        super().__init__(f"unit {unit} cannot be decided")
        self.unit = unit


class Notice(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An event for users on one of their objects.

    Attributes:
        kind: "QueueUnit", "Queue", "QuotaPolicy", "QueueReservation", "Pod", "ElasticQuota",
            "ElasticQuotaTree", "ResourceQuota" or "ConfigMap".
        key: `namespace/name` of that object.
        uid: Its uid.
        reason: CamelCase, from a fixed set.
        note: A sentence.
        warning: Whether the event is of type Warning.
    """

    kind: str
    key: str
    uid: Uid
    reason: str
    note: str
    warning: bool = True
