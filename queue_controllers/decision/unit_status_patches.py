"""The status patches of the controllers: moves, evictions, counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from queue_controllers.decision.actions import PatchUnitStatus
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_state import PodFacts
from queue_controllers.decision.job_view import Moment
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.evictions import (
    WAITED_FOR_SECONDS,
)
from shared_api.objects.meta import Condition, find_condition, is_condition_true
from shared_api.objects.queue_unit import MAX_POD_OWNERS, Admission, QueueUnit
from shared_api.queue_unit_phases import (
    PODS_PENDING,
    PODS_READY,
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

NOTHING_MORE: Final[Mapping[str, object]] = {}

OPERATOR_SILENT: Final = "OperatorSilent"
"""Condition: the job counts as stopped although its operator never said so."""


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
