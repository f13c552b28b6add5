"""Plays what questions look ahead for, on the model of the forecasts: what-if, and new units.

The two sides of a comparison have the same luck: a unit runs equally long on both, even if an edit
moves it to another quota or changes its request, and the same units arrive.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from queue_insight.debug_api.engine_state import State
from queue_insight.debug_api.forecast_routes import NewUnitsView, view_new_units
from queue_insight.forecast.all_units import Settings, forecast
from queue_insight.forecast.arrivals import LEAST_SECONDS
from queue_insight.forecast.calibration import Calibration
from queue_insight.forecast.learned import Learned
from queue_insight.forecast.no_forecast import LEAST_RUNS, not_known_yet
from queue_insight.forecast.paths import DrawnRuns
from queue_insight.forecast.run_times import PRIOR_MEDIAN, RunTimeModel
from queue_insight.forecast.traits import Traits, traits_of_record
from queue_insight.insight.finished_run import FinishedRun
from queue_insight.insight.virtual_cluster import Arrival, RunSeconds
from queue_insight.what_if.edit import Edit
from queue_insight.what_if.horizon import Horizon, answer_horizon
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock

HOUR: Final = 3600.0
PATHS: Final = 20
"""Enough for a p10 and a p90 of differences that are not the least and the greatest."""

BUDGET_SECONDS: Final = 15.0
"""How long paths are played for one answer: half of the time that the scheduler waits for it."""

FORESEE_SECONDS: Final = 5.0
"""The same for units that are not submitted yet: a user waits for it."""

SHARE: Final = 0.5
"""Seconds per second, of all questions: nothing is decided in this process."""

PATIENCE_SECONDS: Final = 10.0
"""How long a question waits for those of others, which may take as long: with what it takes itself,
the scheduler still waits for it."""

MAX_UNREAD: Final = 1000
"""Runs that are kept without being learned: some hundredths of a second."""


class DrawnPaths:
    """A `PathSource`: drawn run times and arrivals.

    Args:
        state: The state that the paths begin with, without any edit; for reading.
        learned: What they are drawn from; it must learn nothing while they are played.
        horizon_seconds: For how long units arrive.
        seed: The same seed gives the same paths.
        count: How many.
    """

    def __init__(
        self, state: State, learned: Learned, horizon_seconds: float, seed: int, count: int = PATHS
    ) -> None:
        self._moment, self._seconds = state.moment, horizon_seconds
        self._seed, self._count = seed, count
        self._beliefs = learned.beliefs(state.engine, state.moment)
        self._history = learned.history(state.engine, state.moment)
        self._traits: dict[str, Traits] = {
            record.uid: traits_of_record(record)
            for record in state.engine.units
            if record.info is not None
        }
        self.basis = _describe_basis(learned, state.moment)

    def paths(self) -> Iterator[_DrawnPath]:
        """Return the paths."""
        return (_DrawnPath(self, number) for number in range(self._count))

    def draw_runs(self, engine: Engine, number: int, traits: dict[str, Traits]) -> RunSeconds:
        """Return how long runs last on one path; see `DrawnRuns`."""
        return DrawnRuns(engine, self._beliefs, self._seed, number, traits)

    def arrivals(self, number: int) -> Iterator[Arrival]:
        """Return what arrives on one path."""
        return self._history.sample(self._moment, self._seconds, self._seed, number)

    def known(self) -> dict[str, Traits]:
        """Return what units are without the edits, by uid: a copy."""
        return dict(self._traits)


class _DrawnPath:
    def __init__(self, source: DrawnPaths, number: int) -> None:
        self._source, self._number = source, number
        # Both sides share it: an edit of a unit's quota or request does not change its luck.
        self._traits = source.known()

    def runs_in(self, engine: Engine) -> RunSeconds:
        return self._source.draw_runs(engine, self._number, self._traits)

    def arrivals(self) -> Iterable[Arrival]:
        return self._source.arrivals(self._number)


def _describe_basis(learned: Learned, moment: Moment) -> str:
    runs = (
        f"run times like those of {learned.count} runs that have ended"
        if learned.count
        else f"no run has ended yet: run times are a guess, {PRIOR_MEDIAN / 60:.0f} minutes in"
        " the median"
    )
    known = learned.seconds_known(moment)
    arrivals = (
        f"arrivals like those of the last {_describe_span(known)}"
        if known >= LEAST_SECONDS
        else "no arrivals, as none are known yet"
    )
    return f"{runs}; {arrivals}"


def _describe_span(seconds: float) -> str:
    return f"{seconds / HOUR:.1f} hours" if seconds >= 2 * HOUR else f"{seconds / 60:.0f} minutes"


class Horizons:
    """Answers over a horizon. Thread-safe; one question is answered at a time.

    Args:
        model: Learns how long runs last; used here alone. It is not that of the forecasts, which
            is busy for a minute at a time.
        since: From when on arrivals are known.
        clock: The time.
        budget_seconds: For how long paths are played at most.
        least_runs: How many runs must have ended before anything is told.
    """

    def __init__(
        self,
        model: RunTimeModel,
        since: datetime,
        clock: Clock,
        budget_seconds: float = BUDGET_SECONDS,
        least_runs: int = LEAST_RUNS,
    ) -> None:
        self._clock = clock
        self._least_runs = least_runs
        self._budget = budget_seconds
        self._learned = Learned(model, since.timestamp())
        self._unread: deque[FinishedRun] = deque()
        self._turn = threading.Lock()  # guards what is learned
        self._is_ended = False

    def end(self) -> None:
        """End the current question without further paths."""
        self._is_ended = True

    def learn(self, run: FinishedRun) -> None:
        """Take a run that has ended, in the order of their ends."""
        self._unread.append(run)
        if len(self._unread) >= MAX_UNREAD and self._turn.acquire(blocking=False):
            try:
                self._read()
            finally:
                self._turn.release()

    def why_no_forecast(self) -> str:
        """Return why nothing is told over a time yet; "" if it is.

        A horizon is about all units, so the runs of all kinds count.
        """
        with self._turn:
            self._read()
            no_forecast = not_known_yet(self._learned.count, self._least_runs)
        return "" if no_forecast is None else no_forecast.text

    def answer(
        self, state: State, edits: Sequence[Edit], horizon_seconds: float, seed: int
    ) -> Horizon:
        """Return what edits change until a horizon; `state.engine` is used up.

        Raises:
            EditError: An edit is wrong, or cannot be tried.
        """
        with self._turn:
            self._read()
            source = DrawnPaths(state, self._learned, horizon_seconds, seed)
            ends = self._clock.monotonic() + self._budget
            return answer_horizon(
                state.engine,
                edits,
                state.moment,
                horizon_seconds,
                source,
                lambda: self._is_ended or self._clock.monotonic() >= ends,
            )

    def foresee(self, state: State, units: Sequence[QueueUnit]) -> NewUnitsView:
        """Return when units start that are submitted now, one after the other.

        Args:
            state: The state without them; its engine is used up.
            units: The units, as the API server would return them.
        """
        engine = state.engine
        with self._turn:
            self._read()
            beliefs = self._learned.beliefs(engine, state.moment)
            history = self._learned.history(engine, state.moment)
            for unit in units:
                engine.on_queue_unit(unit)
            uids = frozenset(unit.metadata.uid for unit in units)
            ends = self._clock.monotonic() + FORESEE_SECONDS
            found = forecast(
                engine,
                state.moment,
                beliefs,
                history,
                Calibration(),
                Settings(paths=PATHS, only=uids),
                lambda: self._is_ended or self._clock.monotonic() >= ends,
            )
            runs = dict(self._similar_runs(engine, units))
            return view_new_units(found, runs, self._least_runs)

    def _similar_runs(
        self, engine: Engine, units: Iterable[QueueUnit]
    ) -> Iterator[tuple[str, int]]:
        for unit in units:
            record = engine.record(unit.metadata.key)
            alike = 0 if record is None else self._learned.alike(traits_of_record(record))
            yield unit.metadata.uid, alike

    def _read(self) -> None:
        while self._unread:
            self._learned.learn(self._unread.popleft())
