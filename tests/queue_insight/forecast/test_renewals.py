"""One forecast after the other: what is learned in between, and what became of each."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from queue_insight.forecast.all_units import Forecast, Settings, UnitForecast
from queue_insight.forecast.arrivals import DAY
from queue_insight.forecast.calibration import AT_ONCE, FEW
from queue_insight.forecast.quantiles import HOUR, Wait
from queue_insight.forecast.renewals import Renewals
from queue_insight.insight.finished_run import FinishedRun
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from shared_api.testing.virtual_clock import EPOCH
from tests.properties.engine_kit import build_queue
from tests.queue_insight.forecast.forecast_kit import RUN, ExactModel, town_at, uid_of
from tests.queue_insight.insight.virtual_town import Story, job, town_engine

NOW = EPOCH.timestamp()


def renewals(model: ExactModel, since: float = NOW) -> Renewals:
    return Renewals(model, Settings(paths=2), since)


def ask(found: Renewals, town: tuple[Engine, Moment], *, is_published: bool = True) -> Forecast:
    renewal = found.begin(town[0].fork(), town[1])
    while renewal.sampling.play_next(bool):
        pass
    return found.end(renewal, lambda _: is_published)


def test_what_runs_is_told_to_the_model() -> None:
    model = ExactModel()
    ask(renewals(model), town_at(300.0))
    assert [each.ran for each in model.running] == [300.0] * 4
    assert {each.traits.tenant for each in model.running} == {"a"}


def test_units_that_have_ended_arrive_again() -> None:
    """Large jobs of higher priority have come every ten minutes: they go first."""
    engine, moment = town_at(300.0, policy="Priority")
    model = ExactModel()
    found = renewals(model, NOW - 2 * DAY)
    before = ask(found, (engine, moment)).units[uid_of(engine, "j8")]
    for number in range(280, 0, -1):
        found.learn(_ended(NOW - 600.0 * number, f"old-{number}"))
    assert len(model.runs) == 280
    after = ask(found, (engine, moment)).units[uid_of(engine, "j8")]
    assert after.without_arrivals == before.without_arrivals
    assert after.raw.p50 > before.raw.p50


def _ended(created: float, uid: str) -> FinishedRun:
    return FinishedRun(
        unit=f"a/{uid}",
        uid=uid,
        queue="a",
        quota="a",
        priority=9,
        charge={"cpu": 4000},
        created=created,
        started=created,
        ended=created + RUN,
    )


def test_forecasts_that_come_true_are_counted() -> None:
    """In a long queue of one job at a time nearly each start is within the p90 that was told."""
    engine = town_engine(build_queue("a", "FIFO"), cpu=1)
    names = [f"j{number:02}" for number in range(40)]
    story = Story(engine, [(0.0, job(name)) for name in names], seconds=dict.fromkeys(names, RUN))
    found = renewals(ExactModel())
    for step in range(1, 30):
        at = step * RUN + 300.0
        story.run(at)
        ask(found, (engine, Moment(at, EPOCH + timedelta(seconds=at))))
    coverage = found.calibration.coverage(NOW + 29 * RUN + 300.0)
    assert coverage, f"the p90 of at least {FEW} has passed in one horizon"
    assert min(coverage.values()) > 0.9


def test_what_was_told_is_followed_up_and_not_what_the_paths_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, moment = town_at(300.0)
    found = renewals(ExactModel())
    for key in range(FEW):
        found.calibration.add(key, NOW, Wait(60.0, 600.0, 1200.0))
        found.calibration.come_true(key, 3000.0)
    noted = Noted(found.calibration.add)
    monkeypatch.setattr(found.calibration, "add", noted)
    units = ask(found, (engine, moment)).units
    assert noted.reported == [(unit.raw, unit.calibrated.start) for unit in noted.of(units)]
    assert all(raw.p90 < reported.p90 for raw, reported in noted.reported)


def test_forecasts_that_are_followed_up_are_spread_over_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of waits of up to six hours, some are taken each three hours, however often it is renewed."""
    engine, moment = town_at(300.0, jobs=120)
    found = Renewals(ExactModel(), Settings(paths=1, seconds=30_000.0), NOW)
    noted = Noted(found.calibration.add)
    monkeypatch.setattr(found.calibration, "add", noted)
    seen = []
    for minutes in (0, 1, 179, 181):
        seconds = 60.0 * minutes
        now = Moment(moment.now + seconds, moment.wall + timedelta(seconds=seconds))
        ask(found, (engine, now))
        seen.append(sum(HOUR <= raw.p50 < 6 * HOUR for raw, _ in noted.reported))
        noted.reported.clear()
    assert seen == [AT_ONCE, 0, 0, AT_ONCE]


class Noted:
    """Takes forecasts, and keeps those that are followed up."""

    def __init__(self, add: Callable[..., bool]) -> None:
        self.uids: list[str] = []
        self.reported: list[tuple[Wait, Wait]] = []
        self._add = add

    def __call__(self, key: Any, now: float, raw: Wait, reported: Wait | None = None) -> bool:
        is_followed = self._add(key, now, raw, reported)
        if is_followed:
            self.uids.append(key.uid)
            self.reported.append((raw, reported or raw))
        return is_followed

    def of(self, units: dict[str, UnitForecast]) -> list[UnitForecast]:
        return [units[uid] for uid in self.uids]


def test_a_unit_that_is_deleted_is_forgotten() -> None:
    engine, moment = town_at(300.0)
    found = renewals(ExactModel())
    ask(found, (engine, moment))
    for record in list(engine.units.records.values()):
        engine.on_queue_unit_gone(record.unit)
    later = Moment(moment.now + 60, moment.wall + timedelta(seconds=60))
    assert ask(found, (engine, later)).units == {}
    assert found.calibration.coverage(NOW + DAY) == {}
