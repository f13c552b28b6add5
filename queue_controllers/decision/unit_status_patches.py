"""The status patches of the controllers: moves, evictions, counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from queue_controllers.decision.actions import PatchUnitStatus
from queue_controllers.decision.execution_time import seconds_to_bank
from queue_controllers.decision.job_annotations import says_true
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_state import PodFacts
from queue_controllers.decision.job_view import Moment
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.evictions import (
    BACKOFF_TIMEOUT,
    WAITED_FOR_SECONDS,
    backoffs_of,
    ends_in_backoff,
    eviction_reason,
    is_refused_by_checks,
    least_wait_seconds,
)
from shared_api.objects.meta import Condition, find_condition, is_condition_true
from shared_api.objects.queue_unit import MAX_POD_OWNERS, Admission, QueueUnit
from shared_api.queue_unit_phases import (
    ADMITTED,
    BACKOFF_LIMIT_REACHED,
    EVICTED,
    MAXIMUM_EXECUTION_TIME_EXCEEDED,
    POD_SET_UPDATES_CONFLICT,
    PODS_PENDING,
    PODS_READY,
    QUOTA_RESERVED,
    Phase,
    Writer,
    admission_body,
    condition_body,
    is_waited_for,
    phase_of,
    status_of_move,
    with_condition,
)
from shared_api.timestamps import MAX_CLOCK_SKEW, read_time
from shared_api.well_known_labels import (
    ACTIVE,
    DEACTIVATION_MARKS,
    LIMIT_REACHED,
    TIME_EXCEEDED,
    UPDATES_CONFLICT,
)

NOTHING_MORE: Final[Mapping[str, object]] = {}

OPERATOR_SILENT: Final = "OperatorSilent"
"""Condition: the job counts as stopped although its operator never said so."""

JOB_CHANGED: Final = "JobChanged"
PODS_REFUSED: Final = "PodsRefused"
"""Reasons of evictions, in addition to those of `shared_api.evictions`."""

DEACTIVATING: Final[Mapping[str, str]] = {
    MAXIMUM_EXECUTION_TIME_EXCEEDED: TIME_EXCEEDED,
    POD_SET_UPDATES_CONFLICT: UPDATES_CONFLICT,
}
"""Reasons of evictions after which a unit is inactive -> the mark on it that says so."""

MAX_JITTER: Final = 0.1
"""Share by which a backoff is longer or shorter at most, so that not all end together."""

CUT_OFF_SECONDS: Final = 2.0
"""How far apart two times in objects may be further for their truncated fractions."""


def last_past(times: Iterable[datetime | None], moment: Moment) -> datetime | None:
    """Return the last of the times in objects that is past; a future one was edited.

    Counted from a future time, nothing would be late, or requeued, until then.
    """
    latest = moment.wall + MAX_CLOCK_SKEW
    return max((each for each in times if each is not None and each <= latest), default=None)


def running_timeout(unit: QueueUnit, settings: JobSettings) -> float:
    """Return how many seconds a released job may take until its pods run; 0: for ever."""
    if settings.running_timeout_seconds:
        return settings.running_timeout_seconds
    return WAITED_FOR_SECONDS if is_waited_for(unit) else 0.0


def move_unit(
    unit: QueueUnit,
    to: Phase,
    moment: Moment,
    *,
    message: str,
    settled: tuple[str, ...] = (),
    noted: tuple[Condition, ...] = (),
    extra: Mapping[str, object] = NOTHING_MORE,
) -> PatchUnitStatus:
    """Return the write that moves a unit.

    `settled`: own conditions that were True and are over; they turn False in the same write.
    `noted`: own conditions that it sets. `extra`: further fields of the status.
    """
    conditions = unit.status.conditions
    for condition_type in settled:
        if is_condition_true(conditions, condition_type):
            over = Condition(type=condition_type, status="False", reason="Settled")
            conditions = with_condition(conditions, over, now=moment.stamp)
    for condition in noted:
        conditions = with_condition(conditions, condition, now=moment.stamp)
    changed = msgspec.structs.replace(
        unit, status=msgspec.structs.replace(unit.status, conditions=conditions)
    )
    status = status_of_move(
        changed, to, writer=Writer.CONTROLLERS, now=moment.stamp, message=message
    )
    return PatchUnitStatus(unit=unit, status={**status, **extra})


def evict_unit(unit: QueueUnit, reason: str, message: str, moment: Moment) -> PatchUnitStatus:
    """Return the write that announces an eviction: phase and admissions stay, it is charged."""
    asked = Condition(type=EVICTED, status="True", reason=reason, message=message)
    return set_condition(unit, asked, moment, message=message)


def set_condition(
    unit: QueueUnit, condition: Condition, moment: Moment, *, message: str = ""
) -> PatchUnitStatus:
    """Return the write that sets one condition; with `message` the unit's own message as well."""
    conditions = with_condition(unit.status.conditions, condition, now=moment.stamp)
    status: dict[str, Any] = {
        "conditions": [condition_body(each) for each in conditions],
        "lastUpdateTime": moment.stamp,
    }
    if message:
        status["message"] = message
    return PatchUnitStatus(unit=unit, status=status)


def complete_eviction(
    unit: QueueUnit, settings: JobSettings, moment: Moment, *, jitter: float, silent: bool
) -> PatchUnitStatus:
    """Return the write that ends an eviction: the unit is no longer charged.

    It is pending again at once, or after a backoff, or inactive: the eviction's reason decides.
    """
    # That it was resumed against the queue stays true until it runs when admitted: it is its place
    # in the queue.
    settled = () if silent else (OPERATOR_SILENT,)
    extra, noted = _execution_time_status(unit, moment), _why_inactive(unit)
    if noted:
        to, message = Phase.ENQUEUED, noted[0].message
        if eviction_ends_in_backoff(unit):
            extra["requeueState"] = {"count": backoffs_of(unit) + 1, "requeueAt": None}
    elif eviction_ends_in_backoff(unit):
        to, message = Phase.TIMEOUT_BACKOFF, _eviction_of(unit).message or "Backoff"
        extra |= _backoff_status(unit, settings, moment, jitter)
    else:
        to, message = Phase.ENQUEUED, f"Enqueued after eviction: {_eviction_of(unit).reason}"
    return move_unit(unit, to, moment, message=message, settled=settled, noted=noted, extra=extra)


def _why_inactive(unit: QueueUnit) -> tuple[Condition, ...]:
    """Return the condition of a unit that is freed and that the controllers have deactivated."""
    reason = _eviction_of(unit).reason
    if reason in DEACTIVATING:
        return (deactivated_condition(unit, reason),)
    if eviction_ends_in_backoff(unit) and LIMIT_REACHED in unit.metadata.annotations:
        return (limit_condition(unit, backoffs_of(unit) + 1),)
    return ()


def _backoff_status(
    unit: QueueUnit, settings: JobSettings, moment: Moment, jitter: float
) -> dict[str, object]:
    """Return the part of a status that says until when a unit backs off."""
    count = backoffs_of(unit) + 1
    seconds = settings.backoff.seconds(max(count - 1, 0)) * (1 + jitter)
    seconds = max(seconds, float(least_wait_seconds(unit)))
    return {"requeueState": {"count": count, "requeueAt": moment.after(seconds).stamp}}


def _execution_time_status(unit: QueueUnit, moment: Moment) -> dict[str, object]:
    """Return the part of a status that keeps how long the job has run until now.

    If its time is used up, it restarts at zero, should the job be activated again.
    """
    banked = unit.status.accumulated_past_execution_time_seconds
    seconds: int | None = seconds_to_bank(unit, moment.wall)
    if eviction_reason(unit) == MAXIMUM_EXECUTION_TIME_EXCEEDED:
        seconds = None
    if (seconds or None) == banked:
        return {}
    return {"accumulatedPastExecutionTimeSeconds": seconds}


def _eviction_of(unit: QueueUnit) -> Condition:
    """Return the eviction in progress, or the last one; without a reason if there is none."""
    none = Condition(type=EVICTED, status="False")
    return find_condition(unit.status.conditions, EVICTED) or none


def eviction_ends_in_backoff(unit: QueueUnit) -> bool:
    """Return whether the eviction in progress ends in a backoff."""
    return ends_in_backoff(unit) and phase_of(unit) is not Phase.RESERVED


def limit_condition(unit: QueueUnit, count: int) -> Condition:
    """Return the condition that says why a unit at its backoff limit is inactive."""
    times = "once" if count == 1 else f"{count} times"
    message = (
        f"Deactivated at its backoff limit: put back {times}, since its pods did not run in"
        " time, others kept suspending it, or its admission checks did not let it."
        f" To have it tried again, {how_to_activate(unit)}"
    )
    return Condition(
        type=BACKOFF_LIMIT_REACHED, status="True", reason=BACKOFF_LIMIT_REACHED, message=message
    )


def deactivated_condition(unit: QueueUnit, reason: str) -> Condition:
    """Return the condition that says why a unit is inactive that was evicted for this reason."""
    if reason == MAXIMUM_EXECUTION_TIME_EXCEEDED:
        why, again = "its pods have run for as long as they may", "run again for as long"
    else:
        asked = _eviction_of(unit)
        said = asked.message if asked.status == "True" else ""
        why, again = said or "admission checks contradict each other", "tried again"
    message = f"Deactivated: {why}. To have it {again}, {how_to_activate(unit)}"
    return Condition(type=reason, status="True", reason=reason, message=message)


def how_to_activate(unit: QueueUnit) -> str:
    """Return what to do to have an inactive unit wait in the queue again."""
    marks = (unit.metadata.annotations.get(each, "") for each in DEACTIVATION_MARKS)
    first = '"false", then ' if any(says_true(each) for each in marks) else ""
    return f'annotate the job {ACTIVE}: {first}"true"'


def move_backoff_end(
    unit: QueueUnit, settings: JobSettings, moment: Moment, jitter: float
) -> PatchUnitStatus | None:
    """Return the write that moves the end of a backoff to where the settings have it, None: it is.

    `requeueAt` stands for a wait of `backoff`, give or take the jitter, since the unit lost its
    quota. A unit that was requeued by others for another reason may have another wait.
    """
    state, since = unit.status.requeue_state, _backs_off_since(unit, moment)
    until = None if state is None else read_time(state.requeue_at)
    if state is None or since is None or until is None:
        return None
    wanted = settings.backoff.seconds(max(state.count - 1, 0))
    if abs((until - since).total_seconds() - wanted) <= MAX_JITTER * wanted + CUT_OFF_SECONDS:
        return None
    begun = Moment(monotonic=0.0, wall=since)
    requeue = {"count": state.count, "requeueAt": begun.after(wanted * (1 + jitter)).stamp}
    return PatchUnitStatus(unit=unit, status={"requeueState": requeue})


def _backs_off_since(unit: QueueUnit, moment: Moment) -> datetime | None:
    """Return since when a unit backs off; None if it does not, or if that is unknown."""
    conditions = unit.status.conditions
    evicted = find_condition(conditions, EVICTED)
    if phase_of(unit) is not Phase.TIMEOUT_BACKOFF or evicted is None:
        return None
    if evicted.reason != BACKOFF_TIMEOUT or is_refused_by_checks(unit):
        return None
    lost = (find_condition(conditions, each) for each in (QUOTA_RESERVED, ADMITTED))
    moments = (read_time(each.last_transition_time) for each in lost if each is not None)
    return last_past(moments, moment)


def was_released_already(job: JobFacts, unit: QueueUnit) -> bool:
    """Return whether the job has been released since this admission: then others suspended it."""
    if phase_of(unit) is Phase.RUNNING:
        return True
    admitted_at = read_time(unit.status.last_allocate_time)
    released_at = job.released_at
    return admitted_at is not None and released_at is not None and released_at > admitted_at


def count_into_status(unit: QueueUnit, pods: PodFacts) -> dict[str, Any]:
    """Return the part of a status that has the current pods, {} when the unit says so already.

    The list of admissions is the scheduler's except for the counts, so all of it is carried over: a
    merge patch replaces whole lists, and the guard makes sure that this is the newest.
    """
    admissions = unit.status.admissions
    counts = _counts_of(unit, pods)
    if all(map(_has_counts, admissions, counts)):
        return {}
    return {
        "admissions": [admission_body(each) for each in map(_with_counts, admissions, counts)],
        "podState": {"running": pods.running, "pending": pods.pending},
    }


def pods_ready_into_status(unit: QueueUnit, moment: Moment) -> dict[str, Any]:
    """Return the part of a status that says that pods run, of a unit adopted before any ran."""
    ready = find_condition(unit.status.conditions, PODS_READY)
    if ready is None or ready.status == "True" or ready.reason != PODS_PENDING:
        return {}
    runs = Condition(
        type=PODS_READY, status="True", reason="PodsRunning", message="Pods of the job run"
    )
    conditions = with_condition(unit.status.conditions, runs, now=moment.stamp)
    return {"conditions": [condition_body(each) for each in conditions]}


def children_into_status(unit: QueueUnit, pods: PodFacts) -> dict[str, Any]:
    """Return the part of a status that lists controllers of the job's pods, {} if unchanged.

    Without it the scheduler takes pods without the mark of the unit for foreign pods.
    """
    children = pods.children[:MAX_POD_OWNERS]
    return {} if set(unit.status.pod_owners).issuperset(children) else {"podOwners": [*children]}


class _Counts(msgspec.Struct, frozen=True):
    """The pods of one set."""

    running: int
    pending: int
    failed: int


def _counts_of(unit: QueueUnit, pods: PodFacts) -> list[_Counts]:
    """Return the pods of each admission. If there is only one, it has them all."""
    names = [each.name for each in unit.status.admissions]
    if len(names) == 1:
        return [_Counts(pods.running, pods.pending, pods.failed)]
    return [
        _Counts(
            pods.running_of_sets.get(name, 0),
            pods.pending_of_sets.get(name, 0),
            pods.failed_of_sets.get(name, 0),
        )
        for name in names
    ]


def _has_counts(admission: Admission, counts: _Counts) -> bool:
    said = (admission.running, admission.pending or 0, admission.failed or 0)
    return said == (counts.running, counts.pending, counts.failed)


def _with_counts(admission: Admission, counts: _Counts) -> Admission:
    return msgspec.structs.replace(
        admission,
        running=counts.running,
        pending=counts.pending or None,
        failed=counts.failed or None,
    )
