r"""Brings units back into line whose wait after an eviction is over.

Whoever evicts a unit writes until when it waits (`status.requeueState.requeueAt`); its return is
always written here, so that there is one alarm clock. The objects are all that is remembered: the
first list of a new process brings every unit that waits, those whose time has come included.

    unit in backoff --> looked at --> too early: looked at again at `requeueAt`
                                 \-> patch --> written   the engine puts it in line
                                           \-> otherwise looked at again

Nothing waits for ever: a unit whose `requeueAt` is missing or can not be read returns at once. One
that is inactive or invalid returns as well, and waits in Enqueued for what it lacks.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import structlog

from queue_scheduler.dequeue_cycle import WriteSink
from queue_scheduler.engine import Engine
from queue_scheduler.shared_engine import SharedEngine
from shared_api.client.errors import Conflict, NotFound
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.writes import Outcome, Rejected, Write, Written
from shared_api.objects.meta import Timestamp
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock, parse_time, rfc3339
from shared_api.queue_unit_phases import Phase, Writer, status_of_move
from shared_api.work_queue import WorkQueue

RETURNED: Final = "Enqueued because backoff timeout"
"""Upstream's message."""

LONGEST_REST_SECONDS: Final = 30.0
"""`requeueAt` is wall time, and rests are measured by the clock that does not jump: after so long
the wall clock is asked again. Somebody may have set it right meanwhile."""

MAX_UNDER_WAY: Final = 50
"""Returns that are handed over and not written: a quarter of what the dispatcher takes, so that a
thousand that end at once, as after a jump of the clock, leave room for decisions."""

FULL_REST_SECONDS: Final = 0.25

log = structlog.get_logger("backoff_returns")


class BackoffReturns:
    """Looks at units in backoff when their time has come.

    Args:
        shared: Asked for the newest object of a unit; told of what was written.
        writes: Takes the patches.
        note_written: Takes what the server answered.
        may_write: False while this process does not lead; whoever makes it True wakes the step.
        due: Keys of units to look at.
    """

    def __init__(
        self,
        shared: SharedEngine,
        writes: WriteSink,
        note_written: Callable[[QueueUnit], object],
        may_write: Callable[[], bool],
        clock: Clock,
        due: WorkQueue[str],
    ) -> None:
        self._shared = shared
        self._writes = writes
        self._note_written = note_written
        self._may_write = may_write
        self._clock = clock
        self._due = due
        # Added to by the step, taken from by writers.
        self._under_way: set[str] = set()
        self._has_begun = False

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Look at a unit that came or changed; the engine must have been told before.

        A follower keeps no keys, which would grow with every unit there ever was: who begins to
        lead asks the engine.
        """
        if new is not None and new.status.phase == Phase.TIMEOUT_BACKOFF and self._may_write():
            self._due.add(new.metadata.key)

    def step(self) -> float | None:
        """Look at one unit; return how long there is none to look at, None: until woken."""
        if not self._may_write():
            return None
        if not self._has_begun:
            self._has_begun = True
            for known in self._shared.ask(_find_in_backoff):
                self._due.add(known)
        if len(self._under_way) >= MAX_UNDER_WAY:
            return FULL_REST_SECONDS
        key = self._due.try_get()
        if key is None:
            return self._due.seconds_until_ready()
        self._look_at(key)
        return 0.0

    def _look_at(self, key: str) -> None:
        record = self._shared.ask(Engine.record, key)
        if record is None or record.unit.status.phase != Phase.TIMEOUT_BACKOFF:
            self._due.forget(key)
            self._due.done(key)
            return
        now = self._clock.now()
        rest = _seconds_left(record.unit, now)
        if rest > 0:
            self._due.add_after(key, min(rest, LONGEST_REST_SECONDS))
            self._due.done(key)
            return
        meta = record.unit.metadata
        write = Write(
            resource_type=QUEUE_UNITS,
            namespace=meta.namespace,
            name=meta.name,
            body=build_return_patch(record.unit, rfc3339(now)),
            subresource="status",
        )
        self._under_way.add(key)
        self._writes.submit(write, lambda outcome: self._on_outcome(key, outcome))

    def _on_outcome(self, key: str, outcome: Outcome[Any]) -> None:
        """Take the server's answer; until here nobody looked at the unit a second time.

        Whatever was not written is looked at again, by the object that is known then: the guard
        makes a second try of a write whose answer was lost harmless.
        """
        self._under_way.discard(key)
        match outcome:
            case Written(object=unit):
                self._note_written(unit)
                self._shared.tell(Engine.on_queue_unit, unit)
                self._due.forget(key)
            case Rejected(error=error) if not isinstance(error, Conflict | NotFound):
                log.error("the server refuses a unit's return", unit=key, error=str(error))
                self._due.add_rate_limited(key)
            case _:
                self._due.add_rate_limited(key)
        self._due.done(key)


def _find_in_backoff(engine: Engine) -> list[str]:
    return [
        key
        for key, record in engine.units.records.items()
        if record.unit.status.phase == Phase.TIMEOUT_BACKOFF
    ]


def _seconds_left(unit: QueueUnit, now: datetime) -> float:
    """Return how long a unit in backoff has to wait yet; 0 or less: no longer."""
    state = unit.status.requeue_state
    if state is None or not state.requeue_at:
        return 0.0
    try:
        return (parse_time(state.requeue_at) - now).total_seconds()
    except (ValueError, OverflowError):
        log.warning("requeueAt can not be read", unit=unit.metadata.key, value=state.requeue_at)
        return 0.0


def build_return_patch(unit: QueueUnit, now: Timestamp) -> dict[str, Any]:
    """Return the merge patch that puts a unit back in line; guarded by the version it was read at.

    The requeue state stays until pods run: the next backoff counts on from it.
    """
    return {
        "metadata": {"resourceVersion": unit.metadata.resource_version},
        "status": status_of_move(
            unit, Phase.ENQUEUED, writer=Writer.SCHEDULER, now=now, message=RETURNED
        ),
    }
