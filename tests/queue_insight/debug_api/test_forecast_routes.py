"""The routes of forecasts: the last one is read, with its age; others' units are not named."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from fastapi import FastAPI

from queue_insight.debug_api.engine_state import State
from queue_insight.debug_api.forecast_routes import (
    LATER_SECONDS,
    LEAST_REST_SECONDS,
    QUIET_REST_SECONDS,
    REST_SHARE,
    Forecasts,
    ForecastScope,
    Pace,
    Start,
    add_forecast_routes,
)
from queue_insight.forecast import paths
from queue_insight.forecast.all_units import Settings
from queue_insight.insight.finished_run import FinishedRun
from queue_scheduler.debug_api.hiding import hide
from queue_scheduler.decision import Moment
from shared_api.question_errors import Code, QuestionError
from shared_api.testing.virtual_clock import EPOCH, VirtualClock
from shared_api.timestamps import rfc3339
from tests.queue_insight.forecast.forecast_kit import Exact, ExactModel, renew, town_at


class Desk:
    """Forecasts of a town 300 seconds after its beginning, and the clock at that time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(paths, "DRIFT", 0.0)
        self.clock = VirtualClock()
        self.engine, self.moment = town_at(300.0)
        self.state: State | None = State(self.engine, self.moment)
        self.clock.advance(300.0)
        self.model = ExactModel()
        self.forecasts = Forecasts(
            lambda: self.state,
            self.clock,
            self.model,
            Settings(paths=3, seconds=1000.0, seed=5),
            EPOCH,
            forecast_scope=ForecastScope(least_runs=0),
        )


class SlowModel(ExactModel):
    """A model that takes some seconds."""

    def __init__(self, clock: VirtualClock, seconds: float) -> None:
        super().__init__()
        self.clock, self.seconds = clock, seconds

    def at(self, epoch: float, running: Any) -> Exact:
        self.clock.advance(self.seconds)
        return super().at(epoch, running)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(monkeypatch)


def at(seconds: float) -> str:
    return rfc3339(EPOCH + timedelta(seconds=seconds))


def test_a_unit_is_told_when_it_starts(desk: Desk) -> None:
    rest = renew(desk.forecasts)
    assert rest >= LEAST_REST_SECONDS
    desk.clock.advance(40.0)
    got = desk.forecasts.of_unit("ns", "j4").model_dump(by_alias=True)
    times = {"startP10": at(1000), "startP50": at(1000), "startP90": at(1000), "endP50": at(2000)}
    assert got == {
        **times,
        "namespace": "ns",
        "name": "j4",
        "queue": "a",
        "withoutArrivals": times,
        "outlook": "times",
        "noTimes": "",
        "similarRuns": 0,
        "neededRuns": 0,
        "sample": 3,
        "seed": 5,
        "computedAt": at(300),
        "ageSeconds": 40.0,
    }
    assert desk.forecasts.age_seconds() == 40.0


def test_beyond_the_horizon_is_null(desk: Desk) -> None:
    renew(desk.forecasts)
    got = desk.forecasts.of_unit("ns", "j8")
    assert (got.start_p10, got.start_p90, got.end_p50) == (None, None, None)


def test_before_the_first_one_it_is_said_that_there_is_none(desk: Desk) -> None:
    desk.state = None
    assert renew(desk.forecasts) == LATER_SECONDS
    assert desk.forecasts.age_seconds() is None
    assert desk.forecasts.coverage() == {}
    with pytest.raises(QuestionError) as raised:
        desk.forecasts.of_unit("ns", "j4")
    assert raised.value.code is Code.UNAVAILABLE


def test_the_start_of_a_unit_is_found_by_its_uid(desk: Desk) -> None:
    assert desk.forecasts.start_of("uid-j4", None) == Start()
    renew(desk.forecasts)
    uids = [f"uid-{name}" for name in ("j4", "j8", "j0")]
    want = [Start(at(1000)), Start(), Start()]
    got = [desk.forecasts.start_of(uid, None) for uid in uids]
    assert got == want, "beyond the horizon, admitted"


def test_a_unit_that_does_not_wait_is_not_found(desk: Desk) -> None:
    renew(desk.forecasts)
    with pytest.raises(QuestionError) as raised:
        desk.forecasts.of_unit("ns", "j0")
    assert raised.value.code is Code.NOT_FOUND
    assert "did not wait in a queue at the last forecast" in raised.value.detail


def test_a_queue_is_told_in_its_order_and_by_pages(desk: Desk) -> None:
    renew(desk.forecasts)
    page = desk.forecasts.of_queue("a", 1, 2)
    assert [unit.name for unit in page.units] == ["j5", "j6"]
    assert (page.total, page.offset, page.limit, page.others) == (5, 1, 2, 0)
    assert desk.forecasts.of_queue("empty", 0, 9).units == []


def test_units_of_others_are_counted_and_not_named(desk: Desk) -> None:
    renew(desk.forecasts)
    page = desk.forecasts.of_queue("a", 0, 9)
    got = hide(page, lambda namespace: namespace != "ns")
    assert (got.units, got.others, got.total) == ([], 5, 5)
    assert hide(page, lambda namespace: namespace == "ns") == page


def test_a_renewal_ends_with_its_budget(desk: Desk) -> None:
    settings = Settings(paths=3)
    slow = Forecasts(
        lambda: desk.state, desk.clock, desk.model, settings, EPOCH, pace=Pace(budget_seconds=0.0)
    )
    renew(slow)
    assert slow.of_unit("ns", "j4").sample == 1, "the first path has a time of its own"


def test_without_a_path_in_its_time_the_last_forecast_stays(desk: Desk) -> None:
    pace = Pace(budget_seconds=0.0, first_path_seconds=100.0)
    model = SlowModel(desk.clock, 0.0)
    slow = Forecasts(lambda: desk.state, desk.clock, model, Settings(), EPOCH, pace=pace)
    renew(slow)
    model.seconds, desk.state = 150.0, State(desk.engine, desk.moment, number=7)
    assert renew(slow) == REST_SHARE * 150.0
    assert (slow.of_unit("ns", "j4").sample, slow.age_seconds()) == (1, 150.0)


def test_a_first_path_ends_with_the_program(desk: Desk) -> None:
    desk.forecasts.end()
    renew(desk.forecasts)
    assert desk.forecasts.age_seconds() is None


def test_a_state_in_which_nothing_has_changed_is_looked_at_less_often(desk: Desk) -> None:
    reported = []
    state = State(desk.engine, desk.moment, number=7)
    for seconds, number in ((0.0, 7), (100.0, 7), (1.0, 8), (100.0, 8), (QUIET_REST_SECONDS, 8)):
        desk.clock.advance(seconds)
        now = Moment(desk.clock.monotonic(), desk.clock.now())
        desk.state = state._replace(number=number, moment=now)
        assert renew(desk.forecasts) >= LEAST_REST_SECONDS
        reported.append(desk.forecasts.age_seconds() == 0.0)
    assert reported == [True, False, True, False, True]


def test_runs_of_the_same_kind_are_counted(desk: Desk) -> None:
    """Two have the request of the unit, whatever they declare, and one a larger one."""
    for number, (cores, declared) in enumerate(((1000, None), (1000, 900.0), (2000, None))):
        desk.forecasts.learn(finished_run(desk, number, cores, declared))
    renew(desk.forecasts)
    assert desk.forecasts.of_unit("ns", "j4").similar_runs == 2


def finished_run(desk: Desk, number: int, milli: int, declared: float | None) -> FinishedRun:
    """Return a run like those of the town, of these thousandths of a core."""
    now = desk.moment.wall.timestamp()
    return FinishedRun(
        unit=f"ns/old-{number}",
        uid=f"old-{number}",
        queue="a",
        quota="a",
        charge={"cpu": milli},
        created=now - 600.0,
        started=now - 500.0,
        ended=now - 400.0,
        declared_seconds=declared,
    )


def test_it_rests_for_longer_than_it_took(desk: Desk) -> None:
    model = SlowModel(desk.clock, 50.0)
    slow = Forecasts(lambda: desk.state, desk.clock, model, Settings(paths=3), EPOCH)
    assert renew(slow) == REST_SHARE * 50.0


@pytest.mark.parametrize(
    ("calls_per_second", "want"), [(0, 0.0), (100, 1.0), (1000, REST_SHARE)], ids=str
)
def test_it_rests_between_paths_while_the_scheduler_decides(
    desk: Desk, calls_per_second: int, want: float
) -> None:
    clock = desk.clock

    class SlowBeliefs(Exact):
        def seconds(self, traits: Any, ran: float, luck: float) -> float:
            clock.advance(1.0)
            return super().seconds(traits, ran, luck)

    class BusyModel(ExactModel):
        def at(self, epoch: float, running: Any) -> Exact:
            return SlowBeliefs()

    busy = Forecasts(
        lambda: desk.state,
        clock,
        BusyModel(),
        Settings(paths=3, seconds=1000.0),
        EPOCH,
        pace=Pace(calls=lambda: int(calls_per_second * clock.monotonic())),
    )
    for path in range(2):
        began = clock.monotonic()
        rest = busy.step()
        worked = clock.monotonic() - began
        assert (worked > 0, rest / worked) == (True, want), path
    assert busy.step() >= LEAST_REST_SECONDS
    assert busy.of_unit("ns", "j4").sample == 3


def test_the_paths_of_the_routes(desk: Desk) -> None:
    app = FastAPI()
    add_forecast_routes(app, desk.forecasts, lambda _: None)
    found = {getattr(route, "path", "") for route in app.routes}
    assert {
        "/debug/queueunits/{namespace}/{name}/forecast",
        "/debug/queues/{name}/forecast",
    } <= found
