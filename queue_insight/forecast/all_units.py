"""When do the units start that wait? One set of paths answers for all of them at once. Pure.

Each path is played twice: with arrivals, and without. Both have the same luck, so that the
difference is what arrivals cost, and nothing else.

A path ends when the units have started, which may be soon; when budgets are spent is only known at
the horizon. So every `BUDGET_STEP`-th path goes on until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Final, TypeVar

import msgspec

from queue_insight.forecast.arrivals import ArrivalHistory
from queue_insight.forecast.calibration import Adjustment, Calibration
from queue_insight.forecast.paths import DrawnRuns, Extent, Path, play, waiting_uids
from queue_insight.forecast.quantiles import MIDDLE, Wait, quantile, summarize
from queue_insight.forecast.run_times import RunTimes
from queue_insight.insight.trials import SpentError
from queue_insight.insight.virtual_cluster import Arrival
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.budgets_in_chains import BudgetKey

KeyT = TypeVar("KeyT")

WEEK: Final = 7 * 86_400.0
PATHS: Final = 40
"""A p90 of 40 paths lies between the 85th and the 95th percentile in two of three cases."""
BUDGET_STEP: Final = 4
"""The last of so many paths goes on until the horizon: units come first, whose paths are short."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a forecast is made.

    Attributes:
        seed: Seed of all random numbers.
        paths: How many paths are played, unless the time is over before.
        seconds: The horizon.
        only: The uids of the units that are of interest, or None for all that wait.
        budgets: Whether to see when budgets are spent.
    """

    seed: int = 0
    paths: int = PATHS
    seconds: float = WEEK
    only: frozenset[str] | None = None
    budgets: bool = False


class Times(msgspec.Struct, frozen=True, gc=False):
    """When a unit starts, and when it has ended, in seconds from the forecast; `inf`: beyond."""

    start: Wait
    end_p50: float


class UnitForecast(msgspec.Struct, frozen=True, gc=False):
    """The forecast of one unit.

    Attributes:
        calibrated: With arrivals, as users are told.
        raw: What the paths with arrivals say.
        without_arrivals: If nothing arrived any more.
    """

    calibrated: Times
    raw: Wait
    without_arrivals: Times


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """One forecast.

    Attributes:
        moment: The time of the state.
        seed: Seed of all random numbers.
        sample: How many paths were played; fewer than asked for if the time was over.
        units: All units that wait, by uid.
        seconds: The horizon.
        budgets: In how many seconds nothing is left of a budget for the first time; of all that
            are in force, if any path was played until the horizon.
        budget_sample: How many were.
    """

    moment: Moment
    seed: int
    sample: int
    units: dict[str, UnitForecast]
    seconds: float = WEEK
    budgets: dict[BudgetKey, Wait] = {}
    budget_sample: int = 0


class Sampling:
    """Plays the paths of one forecast, one after the other. Used by one thread.

    Args:
        engine: The state; it is forked for each path, and not changed.
        moment: The time of the state.
        beliefs: How long runs last.
        history: What arrives.
        settings: How many paths, and how long.
    """

    def __init__(
        self,
        engine: Engine,
        moment: Moment,
        beliefs: RunTimes,
        history: ArrivalHistory,
        settings: Settings,
    ) -> None:
        self._engine, self._moment = engine, moment
        self._beliefs, self._history = beliefs, history
        self._settings = settings
        only = settings.only
        self._watched = waiting_uids(engine) if only is None else waiting_uids(engine) & only
        accounts = engine.usage.budgets.accounts if settings.budgets else ()
        self._budgets = [key for key, _ in accounts]
        self._busy: list[Path] = []
        self._quiet: list[Path] = []

    @property
    def lacks_path(self) -> bool:
        """Whether units wait, or there are budgets, and no path has been played yet."""
        return bool(self._watched or self._budgets) and not self._busy

    def play_next(self, is_over: Callable[[], bool]) -> bool:
        """Play the next path, with arrivals and without; return whether there is another.

        Args:
            is_over: Returns whether the time is spent; the path that is played then is dropped.
        """
        number, settings = len(self._busy), self._settings
        if not (self._watched or self._budgets) or number >= settings.paths:
            return False
        arrivals = self._history.sample(self._moment, settings.seconds, settings.seed, number)
        goes_on = bool(self._budgets) and number % BUDGET_STEP == BUDGET_STEP - 1
        try:
            quiet = self._play(number, (), Extent(settings.seconds), is_over)
            busy = self._play(number, arrivals, Extent(settings.seconds, goes_on), is_over)
        except SpentError:
            return False
        self._busy.append(busy)
        self._quiet.append(quiet)
        return len(self._busy) < settings.paths

    def _play(
        self,
        number: int,
        arrivals: Iterable[Arrival],
        extent: Extent,
        is_over: Callable[[], bool],
    ) -> Path:
        fork = self._engine.fork()
        return play(
            fork,
            self._moment,
            DrawnRuns(fork, self._beliefs, self._settings.seed, number),
            arrivals,
            watched=self._watched,
            extent=extent,
            is_over=is_over,
        )

    def summarize(self, calibration: Calibration) -> Forecast:
        """Return the forecast of the paths that have been played.

        Args:
            calibration: What became of earlier forecasts, by seconds since the epoch; for reading.
        """
        moment, busy, quiet = self._moment, self._busy, self._quiet
        adjustment = calibration.at(moment.wall.timestamp())
        uids = self._watched if busy else ()
        spent = [path.spent for path in busy if path.spent is not None]
        return Forecast(
            moment=moment,
            seed=self._settings.seed,
            sample=len(busy),
            units={uid: _forecast_unit(uid, busy, quiet, moment, adjustment) for uid in uids},
            seconds=self._settings.seconds,
            budgets={key: waits_of(key, spent, moment) for key in self._budgets if spent},
            budget_sample=len(spent),
        )


def forecast(
    engine: Engine,
    moment: Moment,
    beliefs: RunTimes,
    history: ArrivalHistory,
    calibration: Calibration,
    settings: Settings,
    is_over: Callable[[], bool],
) -> Forecast:
    """Return when waiting units start; see `Sampling` for the arguments."""
    sampling = Sampling(engine, moment, beliefs, history, settings)
    while sampling.play_next(is_over):
        pass
    return sampling.summarize(calibration)


def _forecast_unit(
    uid: str,
    busy: Sequence[Path],
    quiet: Sequence[Path],
    moment: Moment,
    adjustment: Adjustment,
) -> UnitForecast:
    raw = waits_of(uid, [path.starts for path in busy], moment)
    calibrated = adjustment.adjust(raw)
    end = _middle_of(uid, [path.ends for path in busy], moment)
    # The calibrated start may be later than the end that the paths saw.
    ran = end - raw.p50 if raw.p50 < inf else inf
    without = Times(
        waits_of(uid, [path.starts for path in quiet], moment),
        _middle_of(uid, [path.ends for path in quiet], moment),
    )
    return UnitForecast(Times(calibrated, max(end, calibrated.p50 + ran)), raw, without)


def waits_of(key: KeyT, paths: Sequence[Mapping[KeyT, float]], moment: Moment) -> Wait:
    """Return in how many seconds something happens, from when it does on each path."""
    return summarize([times.get(key, inf) - moment.now for times in paths])


def _middle_of(uid: str, paths: Sequence[Mapping[str, float]], moment: Moment) -> float:
    ordered = sorted(times.get(uid, inf) - moment.now for times in paths)
    return quantile(ordered, MIDDLE)
