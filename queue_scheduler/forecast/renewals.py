"""Makes one forecast after the other, and learns in between from what became of them. Pure.

What is learned comes from units that have ended (``finished_run``), and from those that the engine
still has: they count as arrivals, and those that run are censored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.forecast.all_units import Forecast, Settings, forecast
from queue_scheduler.forecast.arrivals import DAY, DAYS, ArrivalHistory, PastArrival
from queue_scheduler.forecast.calibration import Calibration
from queue_scheduler.forecast.draws import uniform
from queue_scheduler.forecast.paths import find_running
from queue_scheduler.forecast.run_times import RunTimeModel
from queue_scheduler.forecast.traits import unit_of_run
from queue_scheduler.insight.finished_run import FinishedRun
from shared_api.objects.meta import find_condition
from shared_api.queue_unit_phases import PODS_READY, QUOTA_RESERVED
from shared_api.timestamps import read_time

NOTED: Final = 20
"""Units of a forecast that are followed up to see whether it comes true: drawn anew each time, so
that all kinds of waits are among them."""


class _Followed(msgspec.Struct, frozen=True, gc=False):
    """A forecast that is followed up: of which unit, and from when, in seconds since the epoch."""

    uid: str
    name: str
    epoch: float


class Renewals:
    """Makes forecasts. Used by one thread.

    Args:
        model: Learns how long runs last.
        settings: How forecasts are made.
        since: From when on arrivals are known, in seconds since the epoch: since the record began,
            or this program.

    Attributes:
        calibration: What became of earlier forecasts; for reading.
    """

    def __init__(self, model: RunTimeModel, settings: Settings, since: float) -> None:
        self.calibration = Calibration()
        self._model = model
        self._settings = settings
        self._since = since
        self._ended: deque[FinishedRun] = deque()
        self._followed: list[_Followed] = []

    def learn(self, run: FinishedRun) -> None:
        """Take a run that has ended. Runs come in the order of their ends."""
        self._model.learn(run)
        self._ended.append(run)
        while self._ended and self._ended[0].ended < run.ended - (DAYS + 1) * DAY:
            self._ended.popleft()

    def renew(self, engine: Engine, moment: Moment, is_over: Callable[[], bool]) -> Forecast:
        """Return a new forecast.

        Args:
            engine: The state: a fork.
            moment: Its time.
            is_over: Returns whether the time for it is spent.
        """
        epoch = moment.wall.timestamp()
        self._settle(engine, epoch)
        past = sorted(self._arrivals(engine), key=lambda each: each.epoch)
        history = ArrivalHistory(past, max(self._since, epoch - (DAYS + 1) * DAY))
        beliefs = self._model.at(epoch, find_running(engine, moment))
        found = forecast(
            engine, moment, beliefs, history, self.calibration, self._settings, is_over
        )
        self._follow(engine, found, epoch)
        return found

    # --- what has arrived ---------------------------------------------------------------------

    def _arrivals(self, engine: Engine) -> Iterator[PastArrival]:
        seen: set[str] = set()
        for record in engine.units.records.values():
            created = read_time(record.unit.metadata.creation_timestamp)
            if created is not None and record.info is not None:
                seen.add(record.uid)
                yield PastArrival(created.timestamp(), record.unit)
        for run in self._ended:
            if run.uid not in seen:
                seen.add(run.uid)
                yield PastArrival(run.created, unit_of_run(run))

    # --- what became of it --------------------------------------------------------------------

    def _follow(self, engine: Engine, found: Forecast, epoch: float) -> None:
        waiting = [record for record in engine.units.records.values() if record.uid in found.units]
        waiting.sort(key=lambda record: uniform(self._settings.seed, int(epoch), record.uid))
        for record in waiting[:NOTED]:
            each = _Followed(record.uid, record.key, epoch)
            self._followed.append(each)
            self.calibration.add(each, epoch, found.units[record.uid].raw)

    def _settle(self, engine: Engine, epoch: float) -> None:
        """Tell the calibration which units have started since, and which are gone."""
        ended = {run.uid: run for run in self._ended}
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
