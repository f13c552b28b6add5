r"""Brings units back into line whose wait after an eviction is over.

Whoever evicts a unit writes until when it waits (`status.requeueState.requeueAt`); its return is
always written here, so that there is one alarm clock. The objects are all that is remembered: the
first list of a new process brings every unit that waits, those whose time has come included.

    unit in backoff --> looked at --> too early: looked at again at `requeueAt`
                                 \-> patch --> written   the engine puts it in line
                                           \-> otherwise looked at again

Nothing waits for ever: a unit whose `requeueAt` is missing or cannot be read returns at once. One
that is inactive or invalid returns as well, and waits in Enqueued for what it lacks.
"""

from __future__ import annotations

from typing import Any, Final

import structlog

from queue_scheduler.engine.deadlines import backoff_ends_at, is_due
from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.unit_reconciler import (
    Look,
    SendStatus,
    UnitAccess,
    UnitReconciler,
    look_again_at,
)
from shared_api.objects.meta import Timestamp
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import Phase, Writer, status_of_move
from shared_api.timestamps import rfc3339

RETURNED: Final = "Enqueued because backoff timeout"
"""Upstream's message."""

LONGEST_REST_SECONDS: Final = 30.0
"""`requeueAt` is wall time, and rests are measured by the clock that does not jump: after so long
the wall clock is asked again. Somebody may have set it right meanwhile."""

log = structlog.get_logger("backoff_returns")


class BackoffRequeue:
    """Looks at units in backoff when their time has come."""

    def __init__(self, access: UnitAccess, clock: Clock) -> None:
        self._shared = access.shared
        self._clock = clock
        self._looks = UnitReconciler(access, self._look_at, _find_in_backoff)

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Look at a unit that came or changed; the engine must have been told before."""
        if new is not None and new.status.phase == Phase.TIMEOUT_BACKOFF:
            self._looks.add(new.metadata.key)

    def step(self) -> float | None:
        """Look at one unit; return how long there is none to look at, None: until woken."""
        return self._looks.step()

    def _look_at(self, key: str) -> Look:
        record = self._shared.ask(Engine.record, key)
        if record is None or record.unit.status.phase != Phase.TIMEOUT_BACKOFF:
            return None
        now = self._clock.now()
        until = backoff_ends_at(record.unit)
        if until is None:
            _log_unreadable(record.unit)
        elif not is_due(until, now):
            return look_again_at(until, now, LONGEST_REST_SECONDS)
        return SendStatus(record.unit, build_return_status(record.unit, rfc3339(now)))


def _find_in_backoff(engine: Engine) -> list[str]:
    return [
        key
        for key, record in engine.units.records.items()
        if record.unit.status.phase == Phase.TIMEOUT_BACKOFF
    ]


def _log_unreadable(unit: QueueUnit) -> None:
    state = unit.status.requeue_state
    if state is not None and state.requeue_at:
        log.warning("requeueAt cannot be read", unit=unit.metadata.key, value=state.requeue_at)


def build_return_status(unit: QueueUnit, now: Timestamp) -> dict[str, Any]:
    """Return the status that puts a unit back in line, to be merged.

    The requeue state stays until pods run: the next backoff counts on from it.
    """
    return status_of_move(unit, Phase.ENQUEUED, writer=Writer.SCHEDULER, now=now, message=RETURNED)
