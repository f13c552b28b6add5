"""The status writes by which the scheduler evicts a unit, or requeues it."""

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
    """Return the status that asks for the eviction of an admitted unit, to be merged.

    Phase and admissions stay: the unit is charged until its job has been stopped.
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
    """Return the unit's conditions, with `Evicted` True."""
    asked = Condition(type=EVICTED, status="True", reason=reason, message=message)
    return with_condition(unit.status.conditions, asked, now=rfc3339(now))


def build_put_back(
    unit: QueueUnit, message: str, now: datetime, rng: random.Random
) -> dict[str, Any]:
    """Return the status of a unit that gives its quota back and waits in backoff, to be merged.

    It waits longer each time, and at least as long as the checks that refuse it ask for.
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
    """Return the status of an admitted unit that is pending again in a stopped queue, to be merged.

    Raises:
        IllegalMoveError: The unit has started.
    """
    message = f"Enqueued: queue {queue} is stopped"
    return status_of_move(
        unit, Phase.ENQUEUED, writer=Writer.SCHEDULER, now=rfc3339(now), message=message
    )


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
