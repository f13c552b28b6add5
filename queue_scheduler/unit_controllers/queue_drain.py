"""Evicts the admitted units of queues that are drained (stop policy HoldAndDrain).

The request is the condition `Evicted=True`, reason QueueStopped, on every unit of the queue that
occupies quota, whatever its phase, including adopted units: a drained queue is to be empty. Phase
and admissions stay, so the unit is charged until the job side has stopped its job and released its
quota. The unit is then pending, and the stop holds it. Units whose job has ended get no request,
nor do those that are being evicted already.

The units are found every second while a queue is drained. Only failures are remembered: a unit
whose request the server refuses is tried less and less often, and after those that were never
tried, so that it does not delay the others. Requests are not withdrawn when the queue continues.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from typing import Any, Final

import msgspec
import structlog

from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.drained_queues import find_drained, find_to_ask
from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.unit_reconciler import FULL_REST_SECONDS, MAX_IN_FLIGHT
from queue_scheduler.unit_writes.eviction_patches import build_drain
from shared_api.backoff import Backoff
from shared_api.client.errors import Conflict, NotFound
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.writes import Dropped, Outcome, Rejected, WriteSink, Written, status_change
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.work_queue import log_failure

POLL_SECONDS: Final = 1.0
"""Between two searches for drained queues: users set that, so seconds do not matter."""

RETRIES: Final = Backoff(base_seconds=1.0, cap_seconds=300.0)
"""The pauses before an eviction is written again. A write that keeps failing needs an
administrator, and is in the log at the same pauses."""

log = structlog.get_logger("queue_drain")


class _Failed(msgspec.Struct, frozen=True):
    """Failed requests to one unit: how many in a row, and until when none is sent."""

    times: int
    not_before: float


class QueueDrain:
    """The step that evicts the units of drained queues.

    Args:
        shared: Has the units; gets what was written.
        writes: Takes the patches.
        note_written: Takes what the server answered.
        may_write: False while this process does not lead.
        on_error: Counts exceptions about single units.
    """

    def __init__(
        self,
        shared: SharedEngine,
        writes: WriteSink,
        note_written: Callable[[QueueUnit], object],
        may_write: Callable[[], bool],
        clock: Clock,
        on_error: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_error = on_error
        self._shared = shared
        self._writes = writes
        self._note_written = note_written
        self._may_write = may_write
        self._clock = clock
        # Added to by the step, taken from by writers.
        self._in_flight: set[str] = set()
        # Filled by writers, before a unit is no longer in flight; emptied by the step.
        self._failed: dict[Uid, _Failed] = {}

    def step(self) -> float:
        """Evict as many units as may be in flight; return how many seconds to rest."""
        if not self._may_write():
            return POLL_SECONDS
        queues = self._shared.ask(find_drained)
        # Only pointers are copied under the lock; they are read without it.
        records = self._shared.copy_records() if queues else ()
        to_ask = list(find_to_ask(records, queues))
        self._forget_others(to_ask)
        for record in self._first_due(to_ask):
            try:
                self._ask_back(record)
            except Exception as error:  # noqa: BLE001 - it costs this unit a pause, and no other
                log_failure(record.key, error)
                self._on_error()
                self._in_flight.discard(record.key)
                self._pause(record.uid)
        return FULL_REST_SECONDS if len(self._in_flight) >= MAX_IN_FLIGHT else POLL_SECONDS

    def _first_due(self, to_ask: list[CachedUnit]) -> list[CachedUnit]:
        """Return the units to evict now, if there is room; those that never failed first.

        Otherwise units that the server refuses would take all the room, and the rest would never be
        evicted.
        """
        now, in_flight = self._clock.monotonic(), self._in_flight
        room = max(0, MAX_IN_FLIGHT - len(in_flight))
        free = (each for each in to_ask if each.key not in in_flight)
        due = (each for each in free if self._not_before(each) <= now)
        return nsmallest(room, due, key=self._not_before)

    def _not_before(self, record: CachedUnit) -> float:
        failed = self._failed.get(record.uid)
        return 0.0 if failed is None else failed.not_before

    def _forget_others(self, to_ask: list[CachedUnit]) -> None:
        """Forget the failures of units that need no longer be evicted."""
        if self._failed:
            kept = {each.uid for each in to_ask}
            for uid in tuple(self._failed):
                if uid not in kept:
                    self._failed.pop(uid, None)

    def _ask_back(self, record: CachedUnit) -> None:
        unit, key = record.unit, record.key
        queue = record.info.queue if record.info is not None else ""
        status = build_drain(unit, queue, self._clock.now())
        write = status_change(QUEUE_UNITS, unit.metadata, status)
        self._in_flight.add(key)
        self._writes.submit(write, lambda outcome: self._on_outcome(record, outcome))

    def _on_outcome(self, record: CachedUnit, outcome: Outcome[Any]) -> None:
        """Take the outcome of a write; a unit that was not asked is tried again later."""
        try:
            self._settle(record, outcome)
        finally:
            self._in_flight.discard(record.key)

    def _settle(self, record: CachedUnit, outcome: Outcome[Any]) -> None:
        key = record.key
        match outcome:
            case Written(object=unit):
                self._note_written(unit)
                self._shared.apply(Engine.on_queue_unit, unit)
            case Rejected(error=error) if not isinstance(error, NotFound):
                # A conflict may be a change that the watch brings; a second in a row is a failure.
                if not isinstance(error, Conflict) or record.uid in self._failed:
                    why = str(error)
                    log.error("a unit of a drained queue cannot be asked", unit=key, error=why)
                self._pause(record.uid)
            case Dropped(retry_after_seconds=seconds):
                self._pause(record.uid, seconds)
            case _:
                self._pause(record.uid)  # the guard makes a second try harmless

    def _pause(self, uid: Uid, at_least_seconds: float = 0.0) -> None:
        before = self._failed.get(uid)
        times = 0 if before is None else before.times
        pause = max(RETRIES.seconds(times), at_least_seconds)
        self._failed[uid] = _Failed(times + 1, self._clock.monotonic() + pause)
