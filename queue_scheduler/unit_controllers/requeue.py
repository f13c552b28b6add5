r"""Requeues units whose backoff after an eviction is over.

The eviction writes until when a unit waits (`status.requeueState.requeueAt`); its return is always
written here, so that only one program measures the time. Nothing is remembered outside the objects:
the first list of a new process has every unit in backoff, including those whose time is over.

    unit in backoff --> looked at --> too early: looked at again at `requeueAt`
                                 \-> patch --> written   the engine queues it
                                           \-> otherwise looked at again

No unit waits forever: one whose `requeueAt` is missing or cannot be read returns at once. An
inactive or invalid unit returns as well, and is on hold in phase Enqueued.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import structlog

from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.unit_reconciler import (
    Look,
    RequeueAfter,
    SendStatus,
    UnitAccess,
    UnitReconciler,
)
from shared_api.objects.meta import Timestamp
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import Phase, Writer, status_of_move
from shared_api.timestamps import parse_time, rfc3339

RETURNED: Final = "Enqueued because backoff timeout"
"""Upstream's message."""

LONGEST_REST_SECONDS: Final = 30.0
"""`requeueAt` is wall time, and rests are measured by the monotonic clock: after so long the wall
clock is read again, since it may have been set meanwhile."""

log = structlog.get_logger("backoff_returns")


class BackoffRequeue:
    """Requeues units in backoff when their time is over."""

    def __init__(self, access: UnitAccess, clock: Clock) -> None:
        self._shared = access.shared
        self._clock = clock
        self._looks = UnitReconciler(access, self._look_at, _find_in_backoff)

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Reconcile a unit that was added or changed; the engine must have it already."""
        if new is not None and new.status.phase == Phase.TIMEOUT_BACKOFF:
            self._looks.add(new.metadata.key)

    def step(self) -> float | None:
        """Reconcile one unit; return after how many seconds the next is due, None: until woken."""
        return self._looks.step()

    def _look_at(self, key: str) -> Look:
        record = self._shared.ask(Engine.record, key)
        if record is None or record.unit.status.phase != Phase.TIMEOUT_BACKOFF:
            return None
        now = self._clock.now()
        rest = _seconds_left(record.unit, now)
        if rest > 0:
            return RequeueAfter(min(rest, LONGEST_REST_SECONDS))
        return SendStatus(record.unit, build_return_status(record.unit, rfc3339(now)))


def _find_in_backoff(engine: Engine) -> list[str]:
    return [
        key
        for key, record in engine.units.records.items()
        if record.unit.status.phase == Phase.TIMEOUT_BACKOFF
    ]


def _seconds_left(unit: QueueUnit, now: datetime) -> float:
    """Return for how many seconds a unit in backoff has to wait; 0 or less: no longer."""
    state = unit.status.requeue_state
    if state is None or not state.requeue_at:
        return 0.0
    try:
        return (parse_time(state.requeue_at) - now).total_seconds()
    except (ValueError, OverflowError):
        log.warning("requeueAt cannot be read", unit=unit.metadata.key, value=state.requeue_at)
        return 0.0


def build_return_status(unit: QueueUnit, now: Timestamp) -> dict[str, Any]:
    """Return the status that requeues a unit, to be merged.

    The requeue state stays until pods run: the next backoff continues its count.
    """
    return status_of_move(unit, Phase.ENQUEUED, writer=Writer.SCHEDULER, now=now, message=RETURNED)
