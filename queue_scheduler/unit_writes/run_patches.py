"""What the job's side writes into a unit whose job runs, has ended, or was stopped.

In a cluster the controllers write this, from the state of the job and its pods. Where there are
neither, `insight.virtual_cluster` writes the part that the scheduler reads.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from queue_scheduler.unit_writes.eviction_patches import build_freed
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import (
    Phase,
    Writer,
    admission_body,
    is_managed_by_controllers,
    status_of_move,
)
from shared_api.timestamps import rfc3339


def build_running(unit: QueueUnit, now: datetime) -> dict[str, Any]:
    """Return the status of a released unit whose pods all run."""
    status = status_of_move(unit, Phase.RUNNING, writer=Writer.CONTROLLERS, now=rfc3339(now))
    status["admissions"] = [
        {**admission_body(each), "running": each.replicas} for each in unit.status.admissions
    ]
    return status


def build_nodes_reserved(unit: QueueUnit, now: datetime) -> dict[str, Any]:
    """Return the status of a unit that asked for nodes and has got them."""
    return status_of_move(unit, Phase.SCHED_SUCCEED, writer=Writer.RESERVATIONS, now=rfc3339(now))


def build_ended(unit: QueueUnit, to: Phase, now: datetime) -> dict[str, Any]:
    """Return the status of a unit whose job has ended; `to`: Succeed or Failed."""
    return status_of_move(unit, to, writer=Writer.CONTROLLERS, now=rfc3339(now))


def build_stopped(unit: QueueUnit, ran_seconds: float, now: datetime) -> dict[str, Any]:
    """Return the status of a unit whose eviction is carried out: its pods are gone.

    The time that its pods ran counts against its maximum execution time; a backoff has no jitter.

    Args:
        unit: The unit before.
        ran_seconds: How long its pods have run; 0: they did not.
        now: Wall time.
    """
    is_managed = is_managed_by_controllers(unit)
    writer = Writer.CONTROLLERS if is_managed else Writer.SCHEDULER
    status = build_freed(unit, now, None, writer=writer)
    if unit.spec.maximum_execution_time_seconds is not None and ran_seconds:
        before = unit.status.accumulated_past_execution_time_seconds or 0
        status["accumulatedPastExecutionTimeSeconds"] = before + int(ran_seconds)
    return status
