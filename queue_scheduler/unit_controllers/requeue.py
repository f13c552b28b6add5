r"""Requeues units whose backoff after an eviction is over.

The eviction writes until when a unit waits (`status.requeueState.requeueAt`); its return is always
written here, so that only one program measures the time. Nothing is remembered outside the objects:
the first list of a new process has every unit in backoff, including those whose time is over.

    unit in backoff --> reconciled -> too early: reconciled again at `requeueAt`
                                 \-> patch --> written   the engine queues it
                                           \-> otherwise reconciled again

No unit waits forever: one whose `requeueAt` is missing or cannot be read returns at once. An
inactive or invalid unit returns as well, and is on hold in phase Enqueued.
"""

from __future__ import annotations

from typing import Final

import structlog

from queue_scheduler.engine.deadlines import backoff_ends_at, is_due
from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.unit_reconciler import (
    Result,
    SendStatus,
    UnitAccess,
    UnitReconciler,
    requeue_at,
)
from queue_scheduler.unit_writes.eviction_patches import build_return_status
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import Phase
from shared_api.timestamps import rfc3339

LONGEST_REST_SECONDS: Final = 30.0
"""`requeueAt` is wall time, and rests are measured by the monotonic clock: after so long the wall
clock is read again, since it may have been set meanwhile."""

log = structlog.get_logger("requeue")


class BackoffRequeue:
    """Requeues units in backoff when their time is over."""

    def __init__(self, access: UnitAccess, clock: Clock) -> None:
        self._shared = access.shared
        self._clock = clock
        self._reconciler = UnitReconciler(access, self._reconcile, _find_in_backoff)
        self.step = self._reconciler.step

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Reconcile a unit that was added or changed; the engine must have it already."""
        if new is not None and new.status.phase == Phase.TIMEOUT_BACKOFF:
            self._reconciler.add(new.metadata.key)

    def _reconcile(self, key: str) -> Result:
        record = self._shared.ask(Engine.record, key)
        if record is None or record.unit.status.phase != Phase.TIMEOUT_BACKOFF:
            return None
        now = self._clock.now()
        until = backoff_ends_at(record.unit)
        if until is None:
            _log_unreadable(record.unit)
        elif not is_due(until, now):
            return requeue_at(until, now, LONGEST_REST_SECONDS)
        return SendStatus(record.unit, build_return_status(record.unit, rfc3339(now)))


def _find_in_backoff(engine: Engine) -> list[str]:
    return [
        record.key for record in engine.units if record.unit.status.phase == Phase.TIMEOUT_BACKOFF
    ]


def _log_unreadable(unit: QueueUnit) -> None:
    state = unit.status.requeue_state
    if state is not None and state.requeue_at:
        log.warning("requeueAt cannot be read", unit=unit.metadata.key, value=state.requeue_at)
