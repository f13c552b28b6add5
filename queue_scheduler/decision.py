"""What the engine says, as frozen values that carry their numbers.

A refusal is data. The one place that makes text for a person of it is `insight.wording`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import Admission
from shared_api.queue_unit_phases import Phase
from shared_api.resource_list import Amounts

BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""For whoever does not say what time it is: nobody's protection is over, and none has run."""


class Moment(msgspec.Struct, frozen=True, gc=False):
    """When a decision is asked for: by the clock that does not jump, in seconds; by the wall's."""

    now: float
    wall: datetime

    @property
    def seconds(self) -> int | None:
        """Whole seconds since the epoch; None where nobody said what time it is."""
        return None if self.wall == BEGINNING else int(self.wall.timestamp())


class Reason(StrEnum):
    """Why a unit waits. The texts are the condition reasons that users see.

    The first group is about the unit's place, the second about amounts, the third about
    what the unit itself or its surroundings lack.
    """

    WAITING = "Pending"
    BEHIND_REFUSED_UNIT = "BehindRefusedUnit"
    BEHIND_HIGHER_BAND = "BehindHigherBand"
    BEYOND_MAX_DEPTH = "BeyondMaxDepth"
    WOULD_DELAY_HEAD = "WouldDelayHead"
    NO_MAX_EXECUTION_TIME = "NoMaximumExecutionTime"
    WAITING_FOR_PODS_RUNNING = "WaitingForPodsRunning"
    WAITING_FOR_NODES_OF_OTHERS = "WaitingForNodesOfOthers"
    WRITE_FAILED = "WriteFailed"
    STOPPED_QUEUE = "StoppedQueue"
    GROWS_AFTER_OTHERS = "GrowsAfterOthers"

    EXCEEDS_QUOTA = "ExceedsQuota"
    """It asks for more than a max or min as a whole, whatever is free: waiting does not help."""
    OVER_QUOTA_MAX = "OverQuotaMax"
    OVER_PARENT_MAX = "OverParentMax"
    OVER_RUNTIME = "OverRuntime"
    """koord-scheduler would not let all pods through: its runtime would be too small."""
    OVER_PARENT_RUNTIME = "OverParentRuntime"
    """The same at an ancestor (setting checkParent)."""
    OVER_MAX_JOBS = "OverMaxJobs"
    """A limit on jobs, which are of no resource."""
    OVER_MIN = "OverMin"
    NON_PREEMPTIBLE_OVER_MIN = "NonPreemptibleOverMin"
    HURTS_OTHERS = "HurtsOthers"
    """Another quota, covered until now, would lose part of what it was promised."""
    GUARANTEE_OF_OTHERS = "GuaranteeOfOthers"
    """It would borrow room that an owner, waiting within its min, needs."""
    ROOM_FOR_PREEMPTOR = "RoomForPreemptor"
    NO_CAPACITY = "NoCapacity"
    """The nodes together have too little (or none is known)."""
    BROKEN_CHAIN = "BrokenChain"
    """The quota or one of its ancestors cannot be used: cycle, missing parent, bad amounts."""
    UNKNOWN_QUOTA = "UnknownQuota"
    """No quota of that name."""
    REFUSED_BY_PLUGIN = "RefusedByPlugin"

    NO_QUOTA = "NoQuota"
    AMBIGUOUS_QUOTA = "AmbiguousQuota"
    QUOTA_NOT_IN_NAMESPACE = "QuotaNotInNamespace"
    QUOTA_NOT_IN_QUEUE = "QuotaNotInQueue"
    NO_QUEUE = "NoQueue"
    INVALID_DEMAND = "InvalidDemand"
    PODS_REFUSED = "PodsRefused"
    REQUESTS_MISSING = "RequestsMissing"
    INACTIVE = "Inactive"
    IN_BACKOFF = "InBackoff"
    BLOCKED_FOR_TEST = "BlockedForTest"
    ADMISSION_CHECK_INACTIVE = "AdmissionCheckInactive"


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


class Refusal(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Why a unit did not start, with the numbers of the first limit that was found too small.

    The last three attributes are for whoever wakes the unit: the plugin that refuses is given its
    refusal back when the unit waits. Nobody else reads them.

    Attributes:
        reason: What kind of limit, in the word that users see.
        quota: The quota whose limit it is; "" where no quota is concerned. The root's name for the
            total of the nodes.
        quota_namespace: The namespace of its object, where others of its name exist, which do not
            count.
        resource: The resource that is short.
        limit: The limit, in base units (cpu in milli, everything else in units).
        used: What is booked against it already.
        requested: What the unit would add.
        other: The quota that would be hurt or whose guarantee would be, the unit ahead, the queue
            or plugin concerned.
        detail: Words for what numbers do not say; stable while the reason is.
        is_least: The unit may start with fewer pods than all, and this is about the fewest.
        is_rounded: What is missing is no more than koord-scheduler's rounding half up loses.
        told_of: What kind of limit, where `reason` is another word for it; see `kind`.
        via: The quota asked for, where what is left under the limit is not the same for all who
            come from below (`tree_usage.taken_by`).
        grounds: Where runtimes decided, unless anything may change the answer.
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
    is_least: bool = False
    is_rounded: bool = False
    told_of: Reason | None = None
    via: str = ""
    grounds: Grounds | None = None

    @property
    def kind(self) -> Reason:
        """What kind of limit, in whatever word users are told of it."""
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
    """The unit may start; its demand is booked already.

    The shell writes the phase `to` and answers with `Engine.on_written` or `on_write_failed`. With
    `checks`, `to` is Reserved until these admission checks are Ready. With `is_waited_for`, nobody
    else of its queue starts until its pods run. `unrequested` are the resources that its quota
    governs, where its pods request none of them.
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
    """A unit that runs may run more pods; their demand is booked already.

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
    """The unit, and with it all units of its class in this queue, waits."""

    unit: str
    queue: str
    refusal: Refusal
    wake: tuple[str, ...] = ()


class Victim(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A unit that has to make room.

    Attributes:
        unit: `namespace/name`.
        uid: Its uid.
        resource_version: The version that the choice was made on.
        priority: Its priority.
        lost_seconds: For how long its pods have run; 0 where they do not all run.
    """

    unit: str
    uid: Uid
    resource_version: str
    priority: int
    lost_seconds: int


class Preempt(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Units have to make room for one that was refused, which waits until they have.

    The shell asks for their eviction, and answers with `Engine.on_preempted` when it knows what
    became of all these writes. Others are kept from the room meanwhile.

    Attributes:
        unit: Who needs the room, `namespace/name`.
        uid: Its uid.
        queue: Its queue.
        quota: Its quota.
        priority: Its priority.
        reason: Why the victims are evicted: `PREEMPTED` or `RECLAIMED` of `queue_unit_phases`.
        victims: Whom to evict, the cheapest first.
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
        until: Time (the `now` of the caller's clock) at which to ask again; None: when woken.
        behind: The queue whose turn it is, where that is why.
        wake: Queues to ask in the meantime.
    """

    until: float | None = None
    behind: str = ""
    wake: tuple[str, ...] = ()


Decision = Dequeue | Refused | Preempt | Rest


class WriteFailure(StrEnum):
    """What became of a write that did not succeed."""

    CONFLICT = "conflict"
    """Somebody else wrote first: the unit is decided again with its fresh object."""
    GONE = "gone"
    """The unit does not exist any more."""
    REJECTED = "rejected"
    """It was not written, through no fault of the unit: tried again later, in its place."""
    REFUSED = "refused"
    """The server refused it (forbidden, invalid): the unit stands aside, so that others start."""


class Notice(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Something a user should read as an event on one of their objects.

    Attributes:
        kind: "QueueUnit", "Queue", "ElasticQuota", "ElasticQuotaTree" or "ResourceQuota".
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
