"""The state of one unit in the scheduler, judged from its object alone.

Only `judge` reads a unit's phase and conditions to say whether it is pending, admitted, ended, or
on hold and why. The engine keeps one `CachedUnit` per unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Final

import msgspec

from queue_scheduler.cache.admission_check_rules import needed_checks
from queue_scheduler.cache.unit_demand import granted_by
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.extension_points import AdmissionRecord
from queue_scheduler.framework.queue_unit_info import NO_DEMAND, Granted, QueueUnitInfo, UnitDemand
from queue_scheduler.queueing.queue_rules import boosted_priority
from queue_scheduler.queueing.scheduling_queue import AdmittedUnit
from shared_api.objects.meta import Uid, find_condition, is_condition_true
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import Evictions, QueueUnit
from shared_api.queue_unit_phases import (
    ADOPTED,
    BACKOFF_LIMIT_REACHED,
    CHARGED_PHASES,
    EVICTED,
    FINAL_PHASES,
    MAKING_ROOM,
    QUOTA_RESERVED,
    SUSPEND_CONTESTED,
    Phase,
    is_adopted,
)
from shared_api.timestamps import read_time
from shared_api.well_known_labels import (
    BLOCK_FOR_TEST,
    CHECKPOINTED_AT,
    GATED_BY,
    MAX_REFUSAL_CHARS,
    PODS_REFUSED,
    PRIORITY_BOOST,
    read_annotation,
    split_gates,
)

_NONE_INACTIVE: Final[Mapping[str, str]] = {}


class UnitState(Enum):
    """The state of a unit; the values are those of the debug API."""

    # Members are singletons; Enum's own hash is a call of Python code, on the hottest paths.
    __hash__ = object.__hash__

    ON_HOLD = "held"
    """In no queue: something is missing, or forbids it to start."""
    WAITING = "waiting"
    """Pending in its queue, refused or not yet considered."""
    ASSUMED = "assumed"
    """Charged; the write of its admission is in flight, based on the version that is known."""
    CONFLICT = "conflict"
    """Its charge was taken back: its write met a conflict, and the fresh object is to come, or the
    server refused it, and the unit is retried later."""
    ADMITTED = "admitted"
    """The object says that it occupies quota."""
    ENDED = "ended"
    """The job has ended."""
    DETACHED = "detached"
    """Taken out of a queue that is being replaced; placed again before the engine answers."""


PENDING: Final = frozenset({UnitState.WAITING, UnitState.CONFLICT, UnitState.ON_HOLD})
"""The states of units that wait, in a queue or on hold."""


class CachedUnit(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What the engine keeps of a unit: its record.

    Attributes:
        unit: The newest object seen.
        version: Its resourceVersion; older facts are ignored.
        state: Its state.
        info: Its quota, queue and demand; None if it is mapped to no quota or queue. The demand is
            `NO_DEMAND` if the object's is invalid.
        hold: Why it is on hold; None if it is not.
        waits_for: Names of facts after whose change it is placed again (`Unmapped.waits_for`).
        granting: What the write that is in flight grants, where that is neither in the object nor
            the whole demand: an admitted unit grows, or an assumed one starts with fewer pods.
        to: The phase that is being written; only of an assumed unit.
        admitted_on: What it was admitted on, if this process has admitted it.
    """

    unit: QueueUnit
    version: int
    state: UnitState
    info: QueueUnitInfo | None = None
    hold: Refusal | None = None
    waits_for: tuple[str, ...] = ()
    granting: Granted | None = None
    to: Phase | None = None
    admitted_on: AdmissionRecord | None = None

    @property
    def occupies(self) -> bool:
        """Whether it is charged for what it was granted, and not only for its living pods."""
        return self.state is UnitState.ADMITTED or self.state is UnitState.ASSUMED

    @property
    def queue_name(self) -> str:
        """Its queue; if it is mapped to none, the one that its object names."""
        return self.unit.spec.queue if self.info is None else self.info.queue

    @property
    def priority(self) -> int:
        """The priority that its queue uses; if it is mapped to none, that of its object."""
        return self.unit.spec.priority if self.info is None else self.info.priority

    @property
    def victim_priority(self) -> int:
        """The priority by which it is chosen as a victim."""
        info = self.info
        return self.unit.spec.priority if info is None else info.priority + info.spare

    @property
    def is_lowered(self) -> bool:
        """Whether its queue's priority ceiling is below the priority that its object states."""
        if self.info is None:
            return False
        stated = self.unit.spec.priority
        if PRIORITY_BOOST in self.unit.metadata.annotations:
            stated = boosted_priority(self.unit)
        return self.info.priority < stated

    @property
    def uid(self) -> Uid:
        """Uid of the unit."""
        return self.unit.metadata.uid

    @property
    def key(self) -> str:
        """`namespace/name` of the unit."""
        return self.unit.metadata.key


def version_of(unit: QueueUnit) -> int:
    """Return the resourceVersion as a number, to compare versions; 0 if it is not one."""
    text = unit.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() else 0


_BY_PHASE: Mapping[str, UnitState] = {
    **{phase.value: UnitState.ENDED for phase in FINAL_PHASES},
    **{phase.value: UnitState.ADMITTED for phase in CHARGED_PHASES},
}

_IN_FLIGHT_PHASES: Final = CHARGED_PHASES - {Phase.RUNNING}
"""Between admission and running pods. Phases are strings, so `status.phase` can be looked up."""


def judge(unit: QueueUnit) -> UnitState | Refusal:
    """Return the state that follows from the object alone; a Refusal if that is on hold.

    Queue and quota are judged by `judge_place` and by the mapping plugins.
    """
    state = _BY_PHASE.get(unit.status.phase)
    if state is not None:
        return state
    # All other phases, unknown ones included, count as Enqueued, except backoff.
    if unit.status.phase == Phase.TIMEOUT_BACKOFF:
        return Refusal(reason=Reason.IN_BACKOFF, detail=_return_time(unit))
    if unit.metadata.deletion_timestamp is not None:
        return Refusal(reason=Reason.INACTIVE, detail="the unit is being deleted")
    if unit.spec.active is False:
        return Refusal(reason=Reason.INACTIVE, detail=_why_inactive(unit))
    if gates := split_gates(unit.metadata.annotations.get(GATED_BY, "")):
        return Refusal(reason=Reason.GATED_BY, detail=", ".join(gates)[:MAX_REFUSAL_CHARS])
    if why := unit.metadata.annotations.get(PODS_REFUSED):
        return Refusal(reason=Reason.PODS_REFUSED, detail=why[:MAX_REFUSAL_CHARS])
    if read_annotation(unit.metadata.annotations, BLOCK_FOR_TEST) == "true":
        return Refusal(reason=Reason.BLOCKED_FOR_TEST)
    return UnitState.WAITING


def _why_inactive(unit: QueueUnit) -> str:
    if is_condition_true(unit.status.conditions, BACKOFF_LIMIT_REACHED):
        return f"its backoff limit is reached, see the condition {BACKOFF_LIMIT_REACHED}"
    return "spec.active is false"


def _return_time(unit: QueueUnit) -> str:
    """Return when a unit's backoff ends (RFC 3339), by its object; "" if that has no time."""
    state = unit.status.requeue_state
    return (state.requeue_at or "") if state is not None else ""


def is_in_flight(record: CachedUnit) -> bool:
    """Return whether a unit is admitted or assumed, and its pods do not run yet.

    A unit that must make room for others is no longer in flight, though it is charged until it has
    stopped: the preemptor can start at once.
    """
    if record.state is UnitState.ADMITTED:
        is_starting = record.unit.status.phase in _IN_FLIGHT_PHASES
        return is_starting and not makes_room(record.unit)
    return record.state is UnitState.ASSUMED


def makes_room(unit: QueueUnit) -> bool:
    """Return whether the scheduler has asked for the unit's eviction, so that another can start."""
    evicted = find_condition(unit.status.conditions, EVICTED)
    return evicted is not None and evicted.status == "True" and evicted.reason in MAKING_ROOM


def evictions_of(unit: QueueUnit) -> Evictions:
    """Return how often a unit was evicted to make room, when last, and for a unit of which queue.

    A unit that another version of this program has asked to leave has only its condition, until it
    has left.
    """
    if unit.status.evictions is not None:
        return unit.status.evictions
    evicted = find_condition(unit.status.conditions, EVICTED)
    if evicted is None or not makes_room(unit):
        return _NEVER_EVICTED
    named = _FOR_QUEUE.search(evicted.message)
    queue = "" if named is None else named[1]
    return Evictions(count=1, last_time=evicted.last_transition_time, queue=queue)


_NEVER_EVICTED: Final = Evictions()
_FOR_QUEUE: Final = re.compile(r" \(priority -?[0-9]+, queue ([^\s,]+), quota ")
"""In the message of the condition; see `refusal_texts.eviction_message`."""


def is_preemptible(record: CachedUnit) -> bool:
    """Return whether the unit may be evicted so that another can start: no label forbids it."""
    return record.info is not None and not record.info.non_preemptible


def checkpoint_of(unit: QueueUnit) -> datetime | None:
    """Return when the unit's job last saved its work, as it says; None if it does not."""
    return read_time(read_annotation(unit.metadata.annotations, CHECKPOINTED_AT))


def admitted_unit(record: CachedUnit) -> AdmittedUnit:
    """Return the part of an admitted unit that the next decision of its queue may depend on."""
    may_be_displaced = record.state is not UnitState.ASSUMED and is_preemptible(record)
    return AdmittedUnit(
        record.uid,
        is_in_flight(record),
        record.victim_priority if may_be_displaced else None,
        asks_for_nodes(record),
        record.priority,
    )


def asks_for_nodes(record: CachedUnit) -> bool:
    """Return whether nodes are requested for the unit, or will be once the decision is written."""
    if record.state is UnitState.ASSUMED:
        return record.to is Phase.SCHED_READY
    return record.state is UnitState.ADMITTED and record.unit.status.phase == Phase.SCHED_READY


def counts_as_before(before: CachedUnit, after: CachedUnit) -> bool:
    """Return whether a new version of an admitted unit changes nothing for its queue."""
    is_same = is_in_flight(before) == is_in_flight(after)
    return is_same and asks_for_nodes(before) == asks_for_nodes(after)


def granted_to(record: CachedUnit, info: QueueUnitInfo) -> Granted:
    """Return what an occupying unit was granted, or will be by the write that is in flight."""
    if record.granting is not None:
        return record.granting
    if record.state is UnitState.ASSUMED:
        return info.demand.granted
    return granted_by(record.unit, info.demand)


def known_admission(before: CachedUnit | None, unit: QueueUnit) -> AdmissionRecord | None:
    """Return what an admitted unit was admitted on, if its new object is about that admission.

    Versions may be missed in which it was freed, and admitted by another process. The time of the
    admission is also written when its checks are ready.
    """
    if before is None or before.admitted_on is None or before.state is UnitState.ASSUMED:
        return None if before is None else before.admitted_on
    old = before.unit.status
    is_same = old.last_allocate_time == unit.status.last_allocate_time
    return before.admitted_on if is_same or old.phase == Phase.RESERVED else None


def is_same_claim(before: QueueUnit, after: QueueUnit) -> bool:
    """Return whether two versions of a pending unit ask for the same, at the same position."""
    old, new = before.metadata, after.metadata
    return (
        before.spec == after.spec
        and old.labels == new.labels
        and old.annotations == new.annotations
        and before.status.job_creation_timestamp == after.status.job_creation_timestamp
        and _claim_conditions(before) == _claim_conditions(after)
    )


def _claim_conditions(unit: QueueUnit) -> tuple[bool, str]:
    """Return `is_adopted`, which not every quota allows, and `contested_since`, which moves it."""
    adopted, contested = False, ""
    # One pass: this runs for each version of each unit.
    for condition in unit.status.conditions:
        if condition.type == ADOPTED:
            adopted = condition.status == "True"
        elif condition.type == SUSPEND_CONTESTED and condition.status == "True":
            contested = condition.last_transition_time or ""
    return adopted, contested


def is_disowned(unit: QueueUnit) -> bool:
    """Return whether an adopted unit's condition says that its namespace may not name its quota."""
    reserved = find_condition(unit.status.conditions, QUOTA_RESERVED) if is_adopted(unit) else None
    if reserved is None:
        return False
    stated = (reserved.status, reserved.reason)
    return stated == ("False", Reason.QUOTA_NOT_IN_NAMESPACE)


def find_known_demand(unit: QueueUnit, before: CachedUnit | None) -> UnitDemand | None:
    """Return the demand of a unit's earlier record if its spec is unchanged; else None."""
    if before is None or before.info is None or before.info.demand == NO_DEMAND:
        return None
    return before.info.demand if before.unit.spec == unit.spec else None


def judge_place(
    unit: QueueUnit, queue: Queue | None, name: str, inactive: Mapping[str, str] = _NONE_INACTIVE
) -> Refusal | None:
    """Return why the unit is on hold because of its queue; None if it is not.

    Args:
        unit: The unit.
        queue: Its queue; None if there is none, so the unit is on hold.
        name: The name of its queue.
        inactive: The inactive admission checks, each with the reason. A unit that needs one of them
            is on hold.
    """
    if queue is None:
        return Refusal(reason=Reason.NO_QUEUE, other=name)
    for check in needed_checks(queue, unit) if inactive else ():
        if check in inactive:
            return Refusal(
                reason=Reason.ADMISSION_CHECK_INACTIVE, other=check, detail=inactive[check]
            )
    return None
