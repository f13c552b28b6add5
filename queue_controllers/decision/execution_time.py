"""How long the pods of a job have run, in all its runs, and how long they still may. Pure.

The clock is in the unit: it runs while the condition `PodsReady` is True, from its transition time,
and starts at what earlier runs have used (`status.accumulatedPastExecutionTimeSeconds`). The write
that frees an evicted unit stops the clock and adds the run, so a job that is evicted again and
again does not run for ever. When the time is used up the count restarts at zero: to activate the
job again grants it its whole time.

For a job that is suspended by others and resumed in the same admission the clock continues: its
unit stays Running all the while.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from shared_api.objects.meta import find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import PODS_READY
from shared_api.timestamps import read_time

MAX_SECONDS: Final = 2**31 - 1
"""Limit of the status field, an int32."""


def seconds_executed(unit: QueueUnit, now: datetime) -> float:
    """Return how many seconds the job's pods have run until now, earlier runs included."""
    banked = unit.status.accumulated_past_execution_time_seconds or 0
    ready = find_condition(unit.status.conditions, PODS_READY)
    if ready is None or ready.status != "True":
        return banked
    since = read_time(ready.last_transition_time)
    if since is None:
        return banked
    return banked + max((now - since).total_seconds(), 0.0)


def seconds_to_bank(unit: QueueUnit, now: datetime) -> int:
    """Return `accumulatedPastExecutionTimeSeconds` for a run that ends now."""
    return min(int(seconds_executed(unit, now)), MAX_SECONDS)


def seconds_left(unit: QueueUnit, now: datetime) -> float | None:
    """Return how many seconds the job may still run; 0 or less: none. None where no clock runs."""
    allowed = unit.spec.maximum_execution_time_seconds
    ready = find_condition(unit.status.conditions, PODS_READY)
    if allowed is None or ready is None or ready.status != "True":
        return None
    return allowed - seconds_executed(unit, now)
