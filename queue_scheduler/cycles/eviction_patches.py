"""How the scheduler asks a unit's place back, and puts one back: when, and the status writes."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

from shared_api.evictions import BACKOFF, backoffs_of, least_wait_seconds
from shared_api.objects.meta import Condition, find_condition
from shared_api.objects.queue_unit import QueueUnit, QueueUnitStatus, RequeueState
from shared_api.queue_unit_phases import (
    ADMITTED,
    EVICTED,
    QUOTA_RESERVED,
    Phase,
    Writer,
    condition_body,
    status_of_move,
    with_condition,
)
from shared_api.timestamps import read_past, rfc3339


def granted_at(unit: QueueUnit, now: datetime) -> datetime:
    """Return since when a unit has its quota; of what is past, what says so best."""
    reserved = find_condition(unit.status.conditions, QUOTA_RESERVED)
    since = reserved.last_transition_time if reserved is not None else None
    for text in (unit.status.last_allocate_time, since, unit.metadata.creation_timestamp):
        moment = read_past(text, now)
        if moment is not None:
            return moment
    return now


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
    before = backoffs_of(unit)
    seconds = max(BACKOFF.seconds(before, rng), float(least_wait_seconds(unit)))
    status = status_of_move(
        unit,
        Phase.TIMEOUT_BACKOFF,
        writer=Writer.SCHEDULER,
        now=rfc3339(now),
        message=message,
    )
    until = rfc3339(now + timedelta(seconds=seconds))
    status["requeueState"] = {"count": before + 1, "requeueAt": until}
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
