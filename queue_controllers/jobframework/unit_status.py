"""The status patches of the controllers: moves, evictions, counts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from queue_controllers.jobframework.actions import PatchUnitStatus
from queue_controllers.jobframework.generic_job import parse_moment
from queue_controllers.jobframework.job_annotations import says_true
from queue_controllers.jobframework.job_machine import PodFacts
from queue_controllers.jobframework.job_settings import JobSettings
from queue_controllers.jobframework.job_view import Moment
from shared_api.objects.meta import Condition, find_condition, is_condition_true
from shared_api.objects.queue_unit import Admission, QueueUnit
from shared_api.queue_unit_phases import (
    ADMITTED,
    BACKOFF_LIMIT_REACHED,
    EVICTED,
    QUOTA_RESERVED,
    Phase,
    Writer,
    condition_body,
    is_waited_for,
    phase_of,
    status_of_move,
    with_condition,
)
from shared_api.well_known_labels import ACTIVE, LIMIT_REACHED

NOTHING_MORE: Final[Mapping[str, object]] = {}

OPERATOR_SILENT: Final = "OperatorSilent"
"""Condition: the job counts as stopped although its operator never said so."""

SUSPEND_CONTESTED: Final = "SuspendContested"
"""Condition: somebody keeps turning the job's switch off; the queue has stopped fighting."""

DEACTIVATED: Final = "Deactivated"
BACKOFF_TIMEOUT: Final = "BackoffTimeout"
JOB_CHANGED: Final = "JobChanged"
"""Reasons of evictions; the first two are upstream's."""

MAX_JITTER: Final = 0.1
"""Share by which a backoff is longer or shorter at most, so that not all end together."""

CUT_OFF_SECONDS: Final = 2.0
"""By so much two times in an object may lie apart further, whose fractions were cut off."""

WAITED_FOR_SECONDS: Final = 600.0
"""The time to run in where none is set and others of the queue wait for the pods: a job without
pods must not hold up the line for ever."""


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
    `noted`: own conditions that it sets.
    `extra`: further fields of the status.
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
    """Return the write that announces an eviction: phase and admissions stay, it is booked."""
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


def free_unit(
    unit: QueueUnit, settings: JobSettings, moment: Moment, *, jitter: float, silent: bool
) -> PatchUnitStatus:
    """Return the write that ends an eviction: the unit waits again, and is booked no more."""
    evicted = find_condition(unit.status.conditions, EVICTED)
    reason = evicted.reason if evicted is not None else ""
    settled = (SUSPEND_CONTESTED,) if silent else (SUSPEND_CONTESTED, OPERATOR_SILENT)
    if not is_put_back_when_freed(unit):
        message = f"Enqueued after eviction: {reason}"
        return move_unit(unit, Phase.ENQUEUED, moment, message=message, settled=settled)
    count = backoffs_of(unit) + 1
    if LIMIT_REACHED in unit.metadata.annotations:
        limit = limit_condition(unit, count)
        return move_unit(
            unit,
            Phase.ENQUEUED,
            moment,
            message=limit.message,
            settled=settled,
            noted=(limit,),
            extra={"requeueState": {"count": count, "requeueAt": None}},
        )
    seconds = settings.backoff.seconds(max(count - 1, 0)) * (1 + jitter)
    message = evicted.message if evicted is not None and evicted.message else "Backoff"
    requeue = {"count": count, "requeueAt": moment.after(seconds).stamp}
    return move_unit(
        unit,
        Phase.TIMEOUT_BACKOFF,
        moment,
        message=message,
        settled=settled,
        extra={"requeueState": requeue},
    )


def backoffs_of(unit: QueueUnit) -> int:
    """Return how often a unit was put back since its pods last ran."""
    state = unit.status.requeue_state
    return 0 if state is None else state.count


def is_put_back_when_freed(unit: QueueUnit) -> bool:
    """Say whether the eviction that is under way ends in a backoff."""
    evicted = find_condition(unit.status.conditions, EVICTED)
    is_late = evicted is not None and evicted.reason == BACKOFF_TIMEOUT
    return is_late and phase_of(unit) is not Phase.RESERVED


def limit_condition(unit: QueueUnit, count: int) -> Condition:
    """Return the condition that says why a unit at its backoff limit is inactive."""
    times = "once" if count == 1 else f"{count} times"
    message = (
        f"Deactivated at its backoff limit: put back {times}, since its pods did not run in time."
        f" To have it tried again, {how_to_activate(unit)}"
    )
    return Condition(
        type=BACKOFF_LIMIT_REACHED, status="True", reason=BACKOFF_LIMIT_REACHED, message=message
    )


def how_to_activate(unit: QueueUnit) -> str:
    """Return what to do to have an inactive unit wait in the queue again."""
    said = unit.metadata.annotations.get(LIMIT_REACHED, "")
    first = '"false", then ' if says_true(said) else ""
    return f'annotate the job {ACTIVE}: {first}"true"'


def move_return(unit: QueueUnit, settings: JobSettings, jitter: float) -> PatchUnitStatus | None:
    """Return the write that moves the end of a backoff to where the settings have it, None: it is.

    `requeueAt` stands for a wait of `backoff`, give or take the jitter, since the unit lost its
    quota. For whoever has put it back for another reason, another wait may be right.
    """
    state, since = unit.status.requeue_state, _backs_off_since(unit)
    until = None if state is None else parse_moment(state.requeue_at or "")
    if state is None or since is None or until is None:
        return None
    wanted = settings.backoff.seconds(max(state.count - 1, 0))
    if abs((until - since).total_seconds() - wanted) <= MAX_JITTER * wanted + CUT_OFF_SECONDS:
        return None
    begun = Moment(monotonic=0.0, wall=since)
    requeue = {"count": state.count, "requeueAt": begun.after(wanted * (1 + jitter)).stamp}
    return PatchUnitStatus(unit=unit, status={"requeueState": requeue})


def _backs_off_since(unit: QueueUnit) -> datetime | None:
    """Return when a unit lost its quota to back off; None where it does not, or nobody knows."""
    conditions = unit.status.conditions
    evicted = find_condition(conditions, EVICTED)
    if phase_of(unit) is not Phase.TIMEOUT_BACKOFF or evicted is None:
        return None
    if evicted.reason != BACKOFF_TIMEOUT:
        return None
    lost = (find_condition(conditions, each) for each in (QUOTA_RESERVED, ADMITTED))
    moments = (parse_moment(each.last_transition_time or "") for each in lost if each is not None)
    return max((each for each in moments if each is not None), default=None)


def counted_admissions(unit: QueueUnit, pods: PodFacts) -> list[dict[str, Any]] | None:
    """Return the admissions with the pods that run now, None when they say so already.

    The list is the scheduler's but for `running`, so all of it is carried over: a merge patch
    replaces lists whole, and the guard makes sure that this is the newest.
    """
    admissions = unit.status.admissions
    only = len(admissions) == 1
    running = [
        pods.running if only else pods.running_of_sets.get(each.name, 0) for each in admissions
    ]
    if all(each.running == count for each, count in zip(admissions, running, strict=True)):
        return None
    return [_admission_body(each, count) for each, count in zip(admissions, running, strict=True)]


def _admission_body(admission: Admission, running: int) -> dict[str, Any]:
    """Return an admission as JSON values; the schema requires zeros to be written."""
    body: dict[str, Any] = msgspec.to_builtins(admission)
    return {**body, "name": admission.name, "replicas": admission.replicas, "running": running}
