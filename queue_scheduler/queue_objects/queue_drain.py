"""Asks back what has started of a queue that is drained (stop policy HoldAndDrain).

The request is the condition `Evicted=True`, reason QueueStopped, on every unit of the queue that
occupies quota, whatever its phase, adopted ones too: a queue that is to be empty is emptied. Phase
and admissions stay, so the unit stays booked until the job side has stopped its job and frees it;
it then waits in line, where the stop holds it. A unit whose job has ended is not asked, nor one
that is being evicted already, whoever asked.

Who is to be asked is read off the units, every second while some queue is drained. Remembered is
only whom the server refused, and until when: a unit that cannot be asked is tried ever more
seldom, after those that were never tried, and so keeps nobody from being asked. What was asked is
not taken back when the queue goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import Any, Final

import msgspec
import structlog

from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.cycles.dequeue_cycle import WriteSink
from queue_scheduler.cycles.eviction_patches import build_request
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.queue_options import StopPolicy
from queue_scheduler.unit_controllers.unit_reconciler import FULL_REST_SECONDS, MAX_UNDER_WAY
from shared_api.backoff import Backoff
from shared_api.client.errors import Conflict, NotFound
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.writes import Dropped, Outcome, Rejected, Written, status_change
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import is_being_evicted

QUEUE_STOPPED: Final = "QueueStopped"
"""Reason of the eviction."""

LOOK_SECONDS: Final = 1.0
"""Between two looks whether a queue is drained: it is asked for by people."""

RETRIES: Final = Backoff(base_seconds=1.0, cap_seconds=300.0)
"""Before a unit is asked again whose request was not written; what keeps failing is for people to
mend, who find it in the log at the same pauses."""

log = structlog.get_logger("queue_drains")


class _Failed(msgspec.Struct, frozen=True):
    """Requests to one unit that were not written: how many in a row, until when none is sent."""

    times: int
    not_before: float


class QueueDrain:
    """The step that looks for units to ask back.

    Args:
        shared: Asked for units; told of what was written.
        writes: Takes the patches.
        note_written: Takes what the server answered.
        may_write: False while this process does not lead.
    """

    def __init__(
        self,
        shared: SharedEngine,
        writes: WriteSink,
        note_written: Callable[[QueueUnit], object],
        may_write: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._shared = shared
        self._writes = writes
        self._note_written = note_written
        self._may_write = may_write
        self._clock = clock
        # Added to by the step, taken from by writers.
        self._under_way: set[str] = set()
        # Put into by writers, before a unit is no longer under way; taken from by the step.
        self._failed: dict[Uid, _Failed] = {}

    def step(self) -> float:
        """Ask back what there is room for; return how long to rest."""
        if not self._may_write():
            return LOOK_SECONDS
        queues = self._shared.ask(_find_drained)
        # Pointers alone are copied under the lock; they are gone through without it.
        records = self._shared.ask(_copy_records) if queues else ()
        to_ask = list(find_to_ask(records, queues))
        self._forget_others(to_ask)
        for record in self._first_due(to_ask):
            self._ask_back(record)
        return FULL_REST_SECONDS if len(self._under_way) >= MAX_UNDER_WAY else LOOK_SECONDS

    def _first_due(self, to_ask: list[CachedUnit]) -> list[CachedUnit]:
        """Return those who may be asked at this time, if there is room; who never failed is first.

        Otherwise those that the server refuses would take all the room, and the rest never be
        asked.
        """
        now, under_way = self._clock.monotonic(), self._under_way
        room = max(0, MAX_UNDER_WAY - len(under_way))
        free = (each for each in to_ask if each.key not in under_way)
        due = (each for each in free if self._not_before(each) <= now)
        return nsmallest(room, due, key=self._not_before)

    def _not_before(self, record: CachedUnit) -> float:
        failed = self._failed.get(record.uid)
        return 0.0 if failed is None else failed.not_before

    def _forget_others(self, to_ask: list[CachedUnit]) -> None:
        """Forget the failures of units that are not to be asked any more."""
        if self._failed:
            kept = {each.uid for each in to_ask}
            for uid in tuple(self._failed):
                if uid not in kept:
                    self._failed.pop(uid, None)

    def _ask_back(self, record: CachedUnit) -> None:
        unit, key = record.unit, record.key
        queue = record.info.queue if record.info is not None else ""
        message = f"queue {queue} is stopped and drained"
        status = build_request(unit, QUEUE_STOPPED, message, self._clock.now())
        write = status_change(QUEUE_UNITS, unit.metadata, status)
        self._under_way.add(key)
        self._writes.submit(write, lambda outcome: self._on_outcome(record, outcome))

    def _on_outcome(self, record: CachedUnit, outcome: Outcome[Any]) -> None:
        """Take the server's answer; whoever is not asked by then is looked at again, later."""
        try:
            self._settle(record, outcome)
        finally:
            self._under_way.discard(record.key)

    def _settle(self, record: CachedUnit, outcome: Outcome[Any]) -> None:
        key = record.key
        match outcome:
            case Written(object=unit):
                self._note_written(unit)
                self._shared.tell(Engine.on_queue_unit, unit)
            case Rejected(error=error) if not isinstance(error, NotFound):
                # A conflict may be news that the watch brings; a second in a row is none.
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


def find_to_ask(records: Iterable[CachedUnit], queues: frozenset[str]) -> Iterable[CachedUnit]:
    """Iterate over the units that occupy quota through one of these queues and are not asked."""
    for record in records:
        if (
            record.state is UnitState.ADMITTED
            and record.info is not None
            and record.info.queue in queues
            and not is_being_evicted(record.unit)
        ):
            yield record


def _find_drained(engine: Engine) -> frozenset[str]:
    return frozenset(
        line.name
        for line in engine.queues
        if line.options.stop is StopPolicy.HOLD_AND_DRAIN and engine.units.admitted_count(line.name)
    )


def _copy_records(engine: Engine) -> tuple[CachedUnit, ...]:
    return tuple(engine.units.records.values())
