"""Makes one forecast after the other, and learns in between from what became of them. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from queue_insight.forecast.all_units import Forecast, Sampling, Settings
from queue_insight.forecast.calibration import Calibration
from queue_insight.forecast.draws import uniform
from queue_insight.forecast.learned import Learned
from queue_insight.forecast.run_times import RunTimeModel, RunTimes
from queue_insight.forecast.traits import traits_of_record
from queue_insight.insight.finished_run import FinishedRun
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from shared_api.objects.meta import find_condition
from shared_api.queue_unit_phases import PODS_READY, QUOTA_RESERVED
from shared_api.timestamps import read_time


class _Followed(msgspec.Struct, frozen=True, gc=False):
    """A forecast that is followed up: of which unit, and from when, in seconds since the epoch."""

    uid: str
    name: str
    epoch: float


class Renewal(NamedTuple):
    """A forecast that is being made, and what it begins with."""

    engine: Engine
    moment: Moment
    sampling: Sampling
    beliefs: RunTimes


class Renewals:
    """Makes forecasts. Used by one thread.

    Args:
        model: Learns how long runs last.
        settings: How forecasts are made.
        since: From when on arrivals are known, in seconds since the epoch.

    Attributes:
        calibration: What became of earlier forecasts; for reading.
    """

    def __init__(self, model: RunTimeModel, settings: Settings, since: float) -> None:
        self.calibration = Calibration()
        self._learned = Learned(model, since)
        self._settings = settings
        self._followed: list[_Followed] = []

    def learn(self, run: FinishedRun) -> None:
        """Take a run that has ended. Runs come in the order of their ends."""
        self._learned.learn(run)

    @property
    def runs(self) -> int:
        """How many runs of any kind have ended by themselves."""
        return self._learned.count

    def runs_like(self, record: CachedUnit) -> int:
        """Return how many runs of the last days are of a unit's quota, user, kind and request."""
        return self._learned.alike(traits_of_record(record))

    def begin(self, engine: Engine, moment: Moment) -> Renewal:
        """Begin a new forecast; until it has ended no run may be learned.

        Args:
            engine: The state: a fork.
            moment: Its time.
        """
        self._settle(engine, moment.wall.timestamp())
        beliefs = self._learned.beliefs(engine, moment)
        history = self._learned.history(engine, moment)
        sampling = Sampling(engine, moment, beliefs, history, self._settings)
        return Renewal(engine, moment, sampling, beliefs)

    def end(self, renewal: Renewal, is_published: Callable[[CachedUnit], bool]) -> Forecast:
        """Return the forecast of the paths that were played.

        Args:
            renewal: What was begun.
            is_published: Returns whether users see the times of a unit (``no_forecast``).
        """
        found = renewal.sampling.summarize(self.calibration)
        self._follow(renewal, found, is_published)
        return found

    # --- what became of it --------------------------------------------------------------------

    def _follow(
        self, renewal: Renewal, found: Forecast, is_published: Callable[[CachedUnit], bool]
    ) -> None:
        epoch = renewal.moment.wall.timestamp()
        waiting = [record for record in renewal.engine.units if record.uid in found.units]
        waiting.sort(key=lambda record: uniform(self._settings.seed, int(epoch), record.uid))
        for record in waiting:
            unit = found.units[record.uid]
            each = _Followed(record.uid, record.key, epoch)
            published = unit.calibrated.start if is_published(record) else None
            if self.calibration.add(each, epoch, unit.raw, published):
                self._followed.append(each)

    def _settle(self, engine: Engine, epoch: float) -> None:
        """Report units that have started or were deleted since to the calibration."""
        ended = {run.uid: run for run in self._learned.ended}
        left = []
        for each in self._followed:
            record = engine.record(each.name)
            if record is not None and record.uid == each.uid and not _has_started(record):
                left.append(each)
                continue
            run = ended.get(each.uid)
            began = None if run is None else run.started
            if record is not None and record.uid == each.uid:
                began = _started_at(record)
            if began is None:
                self.calibration.forget(each)
            else:
                self.calibration.come_true(each, max(0.0, min(began, epoch) - each.epoch))
        self._followed = left


def _has_started(record: CachedUnit) -> bool:
    return record.state in {UnitState.ADMITTED, UnitState.ENDED}


def _started_at(record: CachedUnit) -> float | None:
    conditions = record.unit.status.conditions
    found = find_condition(conditions, PODS_READY) or find_condition(conditions, QUOTA_RESERVED)
    began = read_time(found.last_transition_time) if found is not None else None
    return None if began is None else began.timestamp()
