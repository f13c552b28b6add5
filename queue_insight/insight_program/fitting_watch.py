"""Finds units that wait although nothing keeps them from starting: a stuck or mistaken scheduler.

Each round asks of a fork of the engine what a user would ask with `explain`, of one unit per class.
A state that nothing has changed in is not asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from queue_insight.debug_api.engine_state import State
from queue_insight.insight.fitting import fits_now, heads_of_classes
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from shared_api.objects.meta import Uid
from shared_api.process.clock import Clock
from shared_api.work_queue import log_failure

ROUND_SECONDS: Final = 15.0
"""Between two rounds: a unit that fits is admitted within a second, and users wait for minutes
before they complain."""

BUDGET_SECONDS: Final = 0.15
"""What a round may take, a hundredth of a core. What is left is looked at by the next rounds."""

ANNOUNCED_SECONDS: Final = 120.0
"""A unit that fits and is not admitted for so long is named in the log."""

log = structlog.get_logger("fitting_watch")


class _Fitting(NamedTuple):
    """A unit that fits, and since when, by the monotonic clock."""

    unit: str
    since: float


class FittingWatch:
    """Its `step` is called by one thread; the figures are read by any.

    Args:
        state: Returns a fork of the engine that decides; None: none decides, or it is not known
            what it was told.
        clock: The time.
        on_error: Counts exceptions about single units.
    """

    def __init__(
        self,
        state: Callable[[], State | None],
        clock: Clock,
        on_error: Callable[[], None] = lambda: None,
    ) -> None:
        self._state = state
        self._on_error = on_error
        self._clock = clock
        self._number = -1
        self._next = 0
        # Replaced as a whole, so that readers in other threads need no lock.
        self._fitting: dict[Uid, _Fitting] = {}
        self._logged: set[Uid] = set()

    def count(self) -> float:
        """Return how many units fitted when they were last looked at."""
        return float(len(self._fitting))

    def longest_seconds(self) -> float:
        """Return for how long the first of them has fitted; 0: there is none."""
        now = self._clock.monotonic()
        return max((now - each.since for each in self._fitting.values()), default=0.0)

    def step(self) -> float:
        """Look at the classes that a budget allows; return for how many seconds to rest."""
        state = self._state()
        if state is None:
            self._number, self._fitting = -1, {}
            return ROUND_SECONDS
        if state.number != self._number:
            self._look(state)
        self._log_stuck()
        return ROUND_SECONDS

    def _look(self, state: State) -> None:
        began = self._clock.monotonic()
        heads = list(heads_of_classes(state.engine))
        known = {record.uid for _, record in heads}
        fitting = {uid: each for uid, each in self._fitting.items() if uid in known}
        start = self._next if self._next < len(heads) else 0
        looked = 0
        for queue, record in (*heads[start:], *heads[:start]):
            if self._fits(state, queue, record):
                fitting.setdefault(record.uid, _Fitting(record.key, began))
            else:
                fitting.pop(record.uid, None)
            looked += 1
            if self._clock.monotonic() - began >= BUDGET_SECONDS:
                break
        is_complete = looked == len(heads)
        self._next = 0 if is_complete else (start + looked) % len(heads)
        self._number = state.number if is_complete else -1
        self._fitting = fitting

    def _fits(self, state: State, queue: SchedulingQueue, record: CachedUnit) -> bool:
        try:
            return fits_now(state.engine, queue, record, state.moment)
        except Exception as error:  # noqa: BLE001 - the other classes must still be looked at
            log_failure(record.key, error)
            self._on_error()
            return False

    def _log_stuck(self) -> None:
        """Log each unit once that has fitted for long."""
        late = self._clock.monotonic() - ANNOUNCED_SECONDS
        stuck = {uid: each.unit for uid, each in self._fitting.items() if each.since <= late}
        for uid in stuck.keys() - self._logged:
            log.warning("a unit waits, and nothing keeps it from starting", unit=stuck[uid])
        self._logged = set(stuck)
