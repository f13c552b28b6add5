"""The status writes that ask for an eviction, carry it out, or requeue the unit afterwards."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from queue_scheduler.cache.admitted_units import runs_whole
from queue_scheduler.cache.unit_state import CachedUnit, evictions_of
from queue_scheduler.engine.deadlines import requeue_at
from shared_api.evictions import (
    DEACTIVATED,
    SCHEDULING_FAILED,
    backoffs_of,
    ends_in_backoff,
    eviction_reason,
)
from shared_api.objects.meta import Condition, Timestamp, find_condition
from shared_api.objects.queue_unit import Admission, QueueUnit, QueueUnitStatus, RequeueState
from shared_api.queue_unit_phases import (
    ADMITTED,
    EVICTED,
    Phase,
    Writer,
    admission_body,
    condition_body,
    status_of_move,
    with_condition,
)
from shared_api.timestamps import rfc3339

QUEUE_STOPPED: Final = "QueueStopped"
"""Reason of the eviction of a unit whose queue is drained."""

TOLD_INACTIVE: Final = "Evicted because the queue unit is deactivated"

RETURNED: Final = "Enqueued because backoff timeout"
"""Upstream's message."""


def build_request(unit: QueueUnit, reason: str, message: str, now: datetime) -> dict[str, Any]:
    """Return the status that asks for the eviction of an admitted unit, to be merged.

    Phase and admissions stay: the unit is charged until its job has been stopped.
    """
    conditions = with_eviction(unit, reason, message, now)
    return {
        "conditions": [condition_body(each) for each in conditions],
        "message": message,
        "lastUpdateTime": rfc3339(now),
    }


def build_deactivation(unit: QueueUnit, now: datetime) -> dict[str, Any]:
    """Return the status that asks for the eviction of a unit that was made inactive."""
    return build_request(unit, DEACTIVATED, TOLD_INACTIVE, now)


def build_drain(unit: QueueUnit, queue: str, now: datetime) -> dict[str, Any]:
    """Return the status that asks for the eviction of a unit of a drained queue."""
    return build_request(unit, QUEUE_STOPPED, f"queue {queue} is stopped and drained", now)


def build_removal(record: CachedUnit, now: datetime) -> dict[str, Any]:
    """Return the status that asks for the eviction of a unit that is inactive, else drained."""
    if record.unit.spec.active is False:
        return build_deactivation(record.unit, now)
    return build_drain(record.unit, record.queue_name, now)


def with_eviction(
    unit: QueueUnit, reason: str, message: str, now: datetime
) -> tuple[Condition, ...]:
    """Return the unit's conditions, with `Evicted` True."""
    asked = Condition(type=EVICTED, status="True", reason=reason, message=message)
    return with_condition(unit.status.conditions, asked, now=rfc3339(now))


def build_put_back(
    unit: QueueUnit,
    message: str,
    now: datetime,
    rng: random.Random | None,
    *,
    writer: Writer = Writer.SCHEDULER,
) -> dict[str, Any]:
    """Return the status of a unit that gives its quota back and waits in backoff, to be merged.

    It waits longer each time, and at least as long as the checks that refuse it ask for.
    """
    until = requeue_at(unit, now, rng)
    status = status_of_move(
        unit,
        Phase.TIMEOUT_BACKOFF,
        writer=writer,
        now=rfc3339(now),
        message=message,
    )
    status["requeueState"] = {"count": backoffs_of(unit) + 1, "requeueAt": rfc3339(until)}
    return status


def build_withdrawal(unit: QueueUnit, queue: str, now: datetime) -> dict[str, Any]:
    """Return the status of an admitted unit that is pending again in a stopped queue, to be merged.

    Raises:
        IllegalMoveError: The unit has started.
    """
    message = f"Enqueued: queue {queue} is stopped"
    return status_of_move(
        unit, Phase.ENQUEUED, writer=Writer.SCHEDULER, now=rfc3339(now), message=message
    )


def build_eviction_status(
    unit: QueueUnit, reason: str, message: str, queue: str, now: datetime
) -> dict[str, Any]:
    """Return the status that asks for a victim's eviction, to be merged.

    Args:
        unit: The victim.
        reason: `PREEMPTED` or `RECLAIMED`.
        message: Why, for users.
        queue: The queue of the unit that it is evicted for.
        now: The time.

    The list of admissions is repeated whole, since a merge patch replaces lists. A unit of which
    not all pods run is to give back the replicas that do not run (upstream's numbers); one whose
    pods all run, all of them.
    """
    runs = runs_whole(unit)
    count = evictions_of(unit).count + 1
    return {
        **build_request(unit, reason, message, now),
        "evictions": {"count": count, "lastTime": rfc3339(now), "queue": queue},
        "admissions": [_reclaim_request(each, runs=runs) for each in unit.status.admissions],
    }


def _reclaim_request(admission: Admission, *, runs: bool) -> dict[str, Any]:
    wanted = admission.replicas if runs else max(0, admission.replicas - admission.running)
    return {**admission_body(admission), "reclaimState": {"replicas": wanted}}


def build_freed(
    unit: QueueUnit,
    now: datetime,
    rng: random.Random | None,
    *,
    writer: Writer = Writer.SCHEDULER,
) -> dict[str, Any]:
    """Return the status of a unit whose eviction is carried out, to be merged."""
    if ends_in_backoff(unit):
        evicted = find_condition(unit.status.conditions, EVICTED)
        message = evicted.message if evicted is not None and evicted.message else "Backoff"
        return build_put_back(unit, message, now, rng, writer=writer)
    message = f"Enqueued after eviction: {eviction_reason(unit)}"
    return status_of_move(unit, Phase.ENQUEUED, writer=writer, now=rfc3339(now), message=message)


def build_return_status(unit: QueueUnit, now: Timestamp) -> dict[str, Any]:
    """Return the status that requeues a unit, to be merged.

    The requeue state stays until pods run: the next backoff continues its count.
    """
    return status_of_move(unit, Phase.ENQUEUED, writer=Writer.SCHEDULER, now=now, message=RETURNED)


def build_backoff_status(
    unit: QueueUnit, why: str, now: datetime, rng: random.Random | None
) -> dict[str, Any]:
    """Return the status that puts a unit without nodes into backoff, to be merged."""
    conditions = with_eviction(unit, SCHEDULING_FAILED, why, now)
    unit = replace(unit, status=replace(unit.status, conditions=conditions))
    return build_put_back(unit, why, now, rng)


# --- by what a write is found again whose answer was lost; others may have written since --------


def admission_of(status: QueueUnitStatus) -> Condition | None:
    """Return the condition that an admission leaves until the unit loses its quota, or None."""
    return find_condition(status.conditions, ADMITTED)


def eviction_of(status: QueueUnitStatus) -> Condition | None:
    """Return the condition that an eviction leaves until it is over, or None."""
    return find_condition(status.conditions, EVICTED)


def backoff_of(status: QueueUnitStatus) -> RequeueState | None:
    """Return the requeue state, which stays until the unit's pods run; each has its own end."""
    return status.requeue_state
