"""One set of paths tells when all waiting units start."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from math import inf
from typing import Any

import pytest

from queue_insight.forecast import arrivals
from queue_insight.forecast import paths as paths_module
from queue_insight.forecast.all_units import BUDGET_STEP, WEEK, Forecast, Settings, forecast
from queue_insight.forecast.arrivals import DAY, ArrivalHistory, PastArrival
from queue_insight.forecast.calibration import Calibration
from queue_insight.forecast.quantiles import Wait
from queue_insight.forecast.traits import Traits
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from tests.properties.engine_kit import declaring
from tests.queue_insight.forecast.forecast_kit import RUN, Exact, town_at, uid_of
from tests.queue_insight.insight.budget_town import EVENING, of_cores, story_of, town
from tests.queue_insight.insight.virtual_town import Story, job

NOTHING = ArrivalHistory([], 0.0)


def ask(
    town: tuple[Engine, Moment],
    beliefs: Exact,
    history: ArrivalHistory = NOTHING,
    is_over: Callable[[], bool] = bool,
    paths: int = 5,
    seconds: float = WEEK,
) -> Forecast:
    given = Settings(paths=paths, seconds=seconds)
    return forecast(*town, beliefs, history, Calibration(), given, is_over)


@pytest.fixture(autouse=True)
def as_computed_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths_module, "DRIFT", 0.0)
    monkeypatch.setattr(arrivals, "_campaign_seconds", lambda _piece, _luck: 0.0)


def test_the_engine_decides_who_starts_when() -> None:
    """Four cores: the first four have 700 seconds left, then four start, then the last."""
    town = town_at(300.0)
    found = ask(town, Exact())
    got = {name: found.units[uid_of(town[0], name)].calibrated for name in ("j4", "j7", "j8")}
    assert {name: times.start.p50 for name, times in got.items()} == {
        "j4": 700.0,
        "j7": 700.0,
        "j8": 1700.0,
    }
    assert got["j8"].end_p50 == 1700.0 + RUN
    assert len(found.units) == 5
    assert found.sample == 5


def test_runs_that_go_on_are_asked_for_with_what_they_have_run() -> None:
    beliefs = Exact()
    ask(town_at(300.0), beliefs, paths=1)
    assert sorted({ran for _, ran in beliefs.asked}) == [0.0, 300.0]
    assert {traits.tenant for traits, _ in beliefs.asked} == {"a"}


def test_beyond_the_horizon_there_is_no_time() -> None:
    town = town_at(300.0)
    found = ask(town, Exact(), seconds=1000.0)
    assert found.units[uid_of(town[0], "j4")].calibrated.start.p90 == 700.0
    last = found.units[uid_of(town[0], "j8")].calibrated
    assert last.start == Wait(inf, inf, inf)
    assert last.end_p50 == inf


def test_quantiles_are_of_the_paths() -> None:
    town = town_at(300.0)
    wait = ask(town, Exact(spread=1.0), paths=40).units[uid_of(town[0], "j4")].calibrated.start
    assert 700.0 < wait.p10 < wait.p50 < wait.p90 < 1700.0


def test_arrivals_of_higher_priority_push_back_and_are_told_apart() -> None:
    engine, moment = town_at(300.0, policy="Priority")
    epoch = moment.wall.timestamp()
    past = [PastArrival(epoch - DAY + 10.0 * n, job(f"p{n}", priority=9)) for n in range(1, 9)]
    history = ArrivalHistory(past, epoch - 1.5 * DAY)
    unit = ask((engine, moment), Exact(), history).units[uid_of(engine, "j8")]
    assert unit.without_arrivals.start.p50 == 1700.0
    assert unit.calibrated.start.p50 == 3700.0, "eight that arrive go first"


def test_the_state_is_not_changed() -> None:
    town = town_at(300.0)
    before = {key: record.state for key, record in town[0].units.records.items()}
    ask(town, Exact())
    assert {key: record.state for key, record in town[0].units.records.items()} == before


def test_when_the_time_is_spent_fewer_paths_are_played() -> None:
    looks, again = count(), count()
    town = town_at(300.0)
    assert ask(town, Exact(), is_over=lambda: next(looks) < 0, paths=30).sample == 30
    half = next(looks) // 2
    found = ask(town, Exact(), is_over=lambda: next(again) >= half, paths=30)
    assert (found.sample, len(found.units)) == (15, 5), "the next was dropped"
    none_left = ask(town, Exact(), is_over=lambda: True, paths=30)
    assert (none_left.sample, none_left.units) == (0, {})


def test_the_time_is_looked_at_while_thousands_arrive_at_once() -> None:
    """All within the virtual time of one slice."""
    engine, moment = town_at(300.0)
    epoch, looks = moment.wall.timestamp(), count()
    past = [PastArrival(epoch - DAY + 0.1 * n, job(f"p{n}")) for n in range(1, 2001)]
    history = ArrivalHistory(past, epoch - 1.5 * DAY)
    found = ask((engine, moment), Exact(), history, is_over=lambda: next(looks) >= 50)
    assert (found.sample, next(looks)) == (0, 51), "it ends at the look that says so"


def test_a_path_ends_soon_after_all_have_started() -> None:
    """The last four start after 10 seconds; what arrives would start after 1,010."""
    engine, moment = town_at(990.0, jobs=8)
    epoch = moment.wall.timestamp()
    past = [PastArrival(epoch - DAY + 10.0 * n, job(f"p{n}")) for n in range(1, 200)]
    beliefs = Exact()
    found = ask((engine, moment), beliefs, ArrivalHistory(past, epoch - 1.5 * DAY), paths=1)
    assert found.units[uid_of(engine, "j7")].calibrated.end_p50 == 10.0 + RUN
    assert len(beliefs.asked) == 2 * 8, "with arrivals and without, and of none that arrives"


def test_nothing_waits() -> None:
    found = ask(town_at(300.0, jobs=3), Exact())
    assert (found.units, found.sample) == ({}, 0)


# --- budgets --------------------------------------------------------------------------------------


def budgets_of(spread: float = 0.0, **given: Any) -> Forecast:
    """Return the forecast of a town in which one job uses four of ten core hours a day."""
    engine = town(of_cores(3, enforce="Warn"), of_cores(100, enforce="Warn"))
    story_of(engine, (0, job("x", 4))).run(EVENING.now)
    settings = Settings(**{"paths": 40, "budgets": True, **given})
    beliefs = Hours(spread)
    return forecast(engine, EVENING, beliefs, NOTHING, Calibration(), settings, bool)


class Hours(Exact):
    """Beliefs that each run lasts an hour, or with `spread` up to twice as long."""

    def seconds(self, traits: Traits, ran: float, luck: float) -> float:
        return super().seconds(traits, ran, luck) * 3.6


def test_when_a_budget_is_spent_is_told_though_nothing_waits() -> None:
    found = budgets_of()
    least, most = found.budgets.values()
    assert found.units == {}
    assert (least, most) == (Wait(2700.0, 2700.0, 2700.0), Wait(inf, inf, inf))
    assert (found.sample, found.budget_sample, found.seconds) == (40, 40 // BUDGET_STEP, WEEK)


def test_a_budget_that_is_spent_on_some_futures_has_quantiles() -> None:
    """Half of the runs end before the hours are used."""
    engine = town(of_cores(6, enforce="Warn"))
    story_of(engine, (0, job("x", 4))).run(EVENING.now)
    settings = Settings(paths=160, budgets=True)
    found = forecast(engine, EVENING, Hours(1.0), NOTHING, Calibration(), settings, bool)
    (wait,) = found.budgets.values()
    assert (wait.p10, wait.p90) == (5400.0, inf)


def test_budgets_are_seen_only_where_that_is_asked_for() -> None:
    found = budgets_of(budgets=False)
    assert (found.budgets, found.sample) == ({}, 0)


def test_units_keep_their_times_when_no_time_is_left_for_budgets() -> None:
    """Of the fourth path the units have started; until the horizon it is not played."""
    engine = town(of_cores(3, enforce="Warn"), cpu=4)
    jobs = [(0, job("x", 4)), (0, job("y", 4))]
    story_of(engine, *jobs).run(EVENING.now)
    looks = count()
    late = 0

    def is_over() -> bool:
        nonlocal late
        late = next(looks)
        return False

    settings = Settings(paths=BUDGET_STEP, budgets=True)
    forecast(engine, EVENING, Hours(), NOTHING, Calibration(), settings, is_over)
    assert late > 0
    again = count()
    found = forecast(
        engine, EVENING, Hours(), NOTHING, Calibration(), settings, lambda: next(again) >= late
    )
    assert (found.sample, found.budget_sample, found.budgets) == (BUDGET_STEP, 0, {})
    assert found.units[uid_of(engine, "y")].raw.p50 == 3600.0


def test_what_a_spent_budget_refuses_is_forecast_to_start_at_the_reset() -> None:
    """Four hours before midnight, x has used the hours of the day, and y waits for the next."""
    before = Moment(EVENING.now - 7200.0, EVENING.wall - timedelta(hours=2))
    engine = town(of_cores(10), moment=before)
    first, second = declaring(job("x", 4), 7200), declaring(job("y", 4), 7200)
    story = Story(engine, [(before.now, first)], seconds={"x": 7200.0}, moment=before)
    story.run(EVENING.now)
    engine.on_queue_unit(second)
    found = forecast(engine, EVENING, Hours(), NOTHING, Calibration(), Settings(paths=5), bool)
    wait = found.units[uid_of(engine, "y")].calibrated
    assert (wait.start.p10, wait.start.p90, wait.end_p50) == (4 * 3600.0, 4 * 3600.0, 5 * 3600.0)
