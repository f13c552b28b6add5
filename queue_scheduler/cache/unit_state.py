"""Where one unit stands with the scheduler, judged from the object alone.

`judge` is the only place that reads a unit's phase and conditions to say whether it waits,
is booked, has ended, or is held and why. The engine keeps one `CachedUnit` per unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from queue_scheduler.cache.admission_check_rules import needed_checks
from queue_scheduler.cache.unit_demand import admitted_occupancy
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.queue_unit_info import (
    NO_DEMAND,
    Occupancy,
    QueueUnitInfo,
    UnitDemand,
)
from queue_scheduler.queueing.scheduling_queue import AdmittedUnit
from shared_api.objects.meta import Uid, find_condition, is_condition_true
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import (
    ADOPTED,
    BACKOFF_LIMIT_REACHED,
    BOOKED_PHASES,
    EVICTED,
    FINAL_PHASES,
    MAKING_ROOM,
    QUOTA_RESERVED,
    SUSPEND_CONTESTED,
    Phase,
    is_adopted,
)
from shared_api.well_known_labels import (
    BLOCK_FOR_TEST,
    MAX_REFUSAL_CHARS,
    PODS_REFUSED,
    read_annotation,
)

_NONE_INACTIVE: Final[Mapping[str, str]] = {}


class UnitState(Enum):
    """Where a unit stands."""

    # Members are singletons; Enum's own hash is a call of Python code, on the hottest paths.
    __hash__ = object.__hash__

    ON_HOLD = "held"
    """Not in line: something is missing or forbids it."""
    WAITING = "waiting"
    """In line."""
    ASSUMED = "decided"
    """Booked; the write that says so is under way, of the version that is known."""
    CONFLICT = "stale"
    """Its write met a conflict, and the fresh object has not arrived yet; or it was refused, and
    the unit stands aside."""
    ADMITTED = "booked"
    """The object says that it occupies quota."""
    ENDED = "ended"
    """The job has ended."""
    DETACHED = "pulled out"
    """Its queue is being replaced; placed again before the engine answers."""


class CachedUnit(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What the engine keeps of a unit.

    Attributes:
        unit: The newest object seen.
        version: Its resourceVersion; older facts are ignored.
        standing: Where it stands.
        info: Set when it is mapped and its demand is valid.
        hold: Why it is held, where it is.
        waits_for: Facts that may place it differently (`Unmapped.waits_for`).
        granting: What the unit will have been granted by the write that is under way, of a booked
            one that grows, and of a decided one that starts with fewer pods than it asks for; None:
            neither.
        to: Of a decided unit, the phase that is being written.
    """

    unit: QueueUnit
    version: int
    state: UnitState
    info: QueueUnitInfo | None = None
    hold: Refusal | None = None
    waits_for: tuple[str, ...] = ()
    granting: Occupancy | None = None
    to: Phase | None = None

    @property
    def occupies(self) -> bool:
        """Whether it is charged what it was granted, not only for living pods."""
        return self.state is UnitState.ADMITTED or self.state is UnitState.ASSUMED

    @property
    def priority(self) -> int:
        """The priority that counts; of a unit that is mapped to no queue, what its object says."""
        return self.unit.spec.priority if self.info is None else self.info.priority

    @property
    def is_lowered(self) -> bool:
        """Whether its queue's ceiling lets it have less priority than its object says."""
        return self.priority < self.unit.spec.priority

    @property
    def uid(self) -> Uid:
        """Uid of the unit."""
        return self.unit.metadata.uid

    @property
    def key(self) -> str:
        """`namespace/name` of the unit."""
        return self.unit.metadata.key


def version_of(unit: QueueUnit) -> int:
    """Return the resourceVersion as a number; they come from one counter and can be compared."""
    text = unit.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() else 0


_BY_PHASE: Mapping[str, UnitState] = {
    **{phase.value: UnitState.ENDED for phase in FINAL_PHASES},
    **{phase.value: UnitState.ADMITTED for phase in BOOKED_PHASES},
}

_IN_FLIGHT_PHASES: Final = BOOKED_PHASES - {Phase.RUNNING}
"""Between the decision and running pods. Phases are texts, so a unit's own can be looked up."""


def judge(unit: QueueUnit) -> UnitState | Refusal:
    """Say from the unit alone where it stands; a Refusal means held.

    Queue and quota are judged by `judge_place` and by the mapping plugins.
    """
    state = _BY_PHASE.get(unit.status.phase)
    if state is not None:
        return state
    # What is left is Enqueued, under whatever name, or in backoff.
    if unit.status.phase == Phase.TIMEOUT_BACKOFF:
        return Refusal(reason=Reason.IN_BACKOFF, detail=_return_time(unit))
    if unit.metadata.deletion_timestamp is not None:
        return Refusal(reason=Reason.INACTIVE, detail="the unit is being deleted")
    if unit.spec.active is False:
        return Refusal(reason=Reason.INACTIVE, detail=_why_inactive(unit))
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
    """Return until when a unit in backoff waits, as its object says; "" where it does not."""
    state = unit.status.requeue_state
    return (state.requeue_at or "") if state is not None else ""


def is_in_flight(record: CachedUnit) -> bool:
    """Return whether a unit is admitted, and its pods do not run yet.

    One that has to make room for others is under way no more, though it stays booked until it is
    stopped: whoever displaced it starts at once.
    """
    if record.state is UnitState.ADMITTED:
        is_starting = record.unit.status.phase in _IN_FLIGHT_PHASES
        return is_starting and not makes_room(record.unit)
    return record.state is UnitState.ASSUMED


def makes_room(unit: QueueUnit) -> bool:
    """Return whether the scheduler has asked for the unit's eviction, so that another can start."""
    evicted = find_condition(unit.status.conditions, EVICTED)
    return evicted is not None and evicted.status == "True" and evicted.reason in MAKING_ROOM


def is_preemptible(record: CachedUnit) -> bool:
    """Return whether the unit may be evicted so that another can start: no label forbids it."""
    return record.info is not None and not record.info.non_preemptible


def as_admitted(record: CachedUnit) -> AdmittedUnit:
    """Return what of an admitted unit its queue's next decision may depend on."""
    may_be_displaced = record.state is not UnitState.ASSUMED and is_preemptible(record)
    return AdmittedUnit(
        record.uid,
        is_in_flight(record),
        record.priority if may_be_displaced else None,
        asks_for_nodes(record),
        record.priority,
    )


def asks_for_nodes(record: CachedUnit) -> bool:
    """Return whether nodes are being looked for, or will be once the decision is written."""
    if record.state is UnitState.ASSUMED:
        return record.to is Phase.SCHED_READY
    return record.state is UnitState.ADMITTED and record.unit.status.phase == Phase.SCHED_READY


def counts_alike(before: CachedUnit, after: CachedUnit) -> bool:
    """Return whether an admitted unit counts for its queue as it did before."""
    is_same = is_in_flight(before) == is_in_flight(after)
    return is_same and asks_for_nodes(before) == asks_for_nodes(after)


def occupancy_of(record: CachedUnit, info: QueueUnitInfo) -> Occupancy:
    """Return what an occupying unit was granted, or will be by the write that is under way."""
    if record.granting is not None:
        return record.granting
    if record.state is UnitState.ASSUMED:
        return info.demand.occupancy
    return admitted_occupancy(record.unit, info.demand)


def is_same_claim(before: QueueUnit, after: QueueUnit) -> bool:
    """Return whether two versions of a waiting unit ask for the same, in the same place."""
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
    # In one pass: each version of each unit comes here.
    for condition in unit.status.conditions:
        if condition.type == ADOPTED:
            adopted = condition.status == "True"
        elif condition.type == SUSPEND_CONTESTED and condition.status == "True":
            contested = condition.last_transition_time or ""
    return adopted, contested


def is_disowned(unit: QueueUnit) -> bool:
    """Return whether an adopted unit says that its namespace may not name its quota."""
    reserved = find_condition(unit.status.conditions, QUOTA_RESERVED) if is_adopted(unit) else None
    if reserved is None:
        return False
    said = (reserved.status, reserved.reason)
    return said == ("False", Reason.QUOTA_NOT_IN_NAMESPACE)


def find_known_demand(unit: QueueUnit, before: CachedUnit | None) -> UnitDemand | None:
    """Return the demand that was read before, if the unit still asks for the same."""
    if before is None or before.info is None or before.info.demand is NO_DEMAND:
        return None
    return before.info.demand if before.unit.spec == unit.spec else None


def judge_place(
    unit: QueueUnit, queue: Queue | None, name: str, inactive: Mapping[str, str] = _NONE_INACTIVE
) -> Refusal | None:
    """Return whether the queue of that name is missing or asks for something that holds the unit.

    `inactive`: admission checks that cannot be carried out now, each with the reason.
    """
    if queue is None:
        return Refusal(reason=Reason.NO_QUEUE, other=name)
    for check in needed_checks(queue, unit) if inactive else ():
        if check in inactive:
            return Refusal(
                reason=Reason.ADMISSION_CHECK_INACTIVE, other=check, detail=inactive[check]
            )
    return None
