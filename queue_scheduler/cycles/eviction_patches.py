"""The status writes that ask a unit's place back, and that put one back."""

from __future__ import annotations

import random
from datetime import datetime
from typing import Any

from queue_scheduler.engine.deadlines import requeue_at
from shared_api.evictions import backoffs_of
from shared_api.objects.meta import Condition, find_condition
from shared_api.objects.queue_unit import QueueUnit, QueueUnitStatus, RequeueState
from shared_api.queue_unit_phases import (
    ADMITTED,
    EVICTED,
    Phase,
    Writer,
    condition_body,
    status_of_move,
    with_condition,
)
from shared_api.timestamps import rfc3339


def build_request(unit: QueueUnit, reason: str, message: str, now: datetime) -> dict[str, Any]:
    """Return the status that asks a booked unit's place back, to be merged.

    Phase and admissions stay: it is booked until whoever has the job's side has stopped the job.
    """
    conditions = with_eviction(unit, reason, message, now)
    return {
        "conditions": [condition_body(each) for each in conditions],
        "message": message,
        "lastUpdateTime": rfc3339(now),
    }


def with_eviction(
    unit: QueueUnit, reason: str, message: str, now: datetime
) -> tuple[Condition, ...]:
    """Return the unit's conditions with one that says that its place is asked back."""
    asked = Condition(type=EVICTED, status="True", reason=reason, message=message)
    return with_condition(unit.status.conditions, asked, now=rfc3339(now))


def build_put_back(
    unit: QueueUnit, message: str, now: datetime, rng: random.Random
) -> dict[str, Any]:
    """Return the status of a unit that is free and waits before it is tried again, to be merged.

    It waits longer each time, and at least as long as the checks that refuse it want.
    """
    until = requeue_at(unit, now, rng)
    status = status_of_move(
        unit,
        Phase.TIMEOUT_BACKOFF,
        writer=Writer.SCHEDULER,
        now=rfc3339(now),
        message=message,
    )
    status["requeueState"] = {"count": backoffs_of(unit) + 1, "requeueAt": rfc3339(until)}
    return status


def build_withdrawal(unit: QueueUnit, queue: str, now: datetime) -> dict[str, Any]:
    """Return the status of a booked unit that is in line again, in a stopped queue, to be merged.

    Raises:
        IllegalMoveError: It has started.
    """
    message = f"Enqueued: queue {queue} is stopped"
    return status_of_move(
        unit, Phase.ENQUEUED, writer=Writer.SCHEDULER, now=rfc3339(now), message=message
    )


# --- by what a write is found again whose answer was lost; others may have written since --------


def admission_of(status: QueueUnitStatus) -> Condition | None:
    """Return what an admission leaves in a unit until it loses its place."""
    return find_condition(status.conditions, ADMITTED)


def eviction_of(status: QueueUnitStatus) -> Condition | None:
    """Return what a request for its place leaves in a unit until it has left."""
    return find_condition(status.conditions, EVICTED)


def backoff_of(status: QueueUnitStatus) -> RequeueState | None:
    """Return what a put-back leaves in a unit until its pods run; the end of a pause is unique."""
    return status.requeue_state
