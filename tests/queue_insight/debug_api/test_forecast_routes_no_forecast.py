"""Units of which no times are told: too few runs have ended, or they do not start as things are."""

from __future__ import annotations

from datetime import timedelta

import pytest

from queue_insight.debug_api.engine_state import State
from queue_insight.debug_api.explanations import Explanations
from queue_insight.debug_api.forecast_routes import (
    Forecasts,
    ForecastScope,
    Standing,
    Start,
    forecast_scope,
)
from queue_insight.forecast.all_units import Settings
from queue_insight.forecast.calibration import FEW
from queue_insight.insight.finished_run import FinishedRun
from queue_scheduler.decision import Moment, Reason, Refusal
from queue_scheduler.engine.unit_questions import refusal_of_unit
from shared_api.testing.virtual_clock import EPOCH, VirtualClock
from shared_api.timestamps import rfc3339
from tests.queue_insight.forecast.forecast_kit import ExactModel, renew, town_at
from tests.queue_scheduler.shell_kit import ShellKit

TOO_LARGE = Refusal(reason=Reason.EXCEEDS_QUOTA, quota="a", resource="cpu")
NO_QUOTA = Refusal(reason=Reason.NO_QUOTA)
FULL = Refusal(reason=Reason.OVER_QUOTA_MAX, quota="a", resource="cpu")


class Desk:
    """Forecasts of a town 300 seconds after its beginning; two runs of a kind are needed.

    Attributes:
        standings: Why units wait now, by key.
    """

    def __init__(self, least_runs: int = 2, jobs: int = 9) -> None:
        self.clock = VirtualClock()
        engine, moment = town_at(300.0, jobs=jobs)
        self.state = State(engine, moment)
        self.clock.advance(300.0)
        self.standings: dict[str, Standing] = {}
        self.forecasts = Forecasts(
            lambda: self.state,
            self.clock,
            ExactModel(),
            Settings(paths=2, seconds=9000.0),
            EPOCH,
            forecast_scope=ForecastScope(least_runs, self.standings.get, self._refusal),
        )

    def _refusal(self, key: str) -> Refusal | None:
        found = self.standings.get(key)
        return None if found is None else found.refusal

    def learn(self, count: int, ended_by: str = "finished") -> None:
        """Have runs end that are like those of the town."""
        now = self.state.moment.wall.timestamp()
        for number in range(count):
            run = FinishedRun(
                unit=f"ns/old-{number}",
                uid=f"old-{number}",
                queue="a",
                quota="a",
                charge={"cpu": 1000},
                created=now - 600.0,
                started=now - 500.0,
                ended=now - 400.0,
                ended_by=ended_by,
            )
            self.forecasts.learn(run)

    def answer(self, name: str = "j4") -> dict[str, object]:
        return self.forecasts.of_unit("ns", name).model_dump(by_alias=True)


@pytest.mark.parametrize(
    ("runs", "want"),
    [
        pytest.param(0, "not known yet: 0 of 2 runs", id="no run has ended"),
        pytest.param(1, "not known yet: 1 of 2 runs", id="one has"),
        pytest.param(2, "", id="as many as are needed"),
    ],
)
def test_times_are_told_from_so_many_runs_on(runs: int, want: str) -> None:
    desk = Desk()
    desk.learn(runs)
    renew(desk.forecasts)
    got = desk.answer()
    assert (got["noTimes"], got["similarRuns"], got["neededRuns"]) == (want, runs, 2)
    times = ("startP10", "startP50", "startP90", "endP50")
    alone = got["withoutArrivals"]
    assert isinstance(alone, dict)
    assert {got[each] is None for each in times} == {bool(want)}
    assert {alone[each] is None for each in times} == {bool(want)}
    assert got["outlook"] == ("notKnownYet" if want else "times")
    start = desk.forecasts.start_of("uid-j4", FULL)
    assert (start.p50 is None, start.none) == (bool(want), want)


def test_runs_that_were_cut_are_none_of_them() -> None:
    desk = Desk()
    desk.learn(9, ended_by="evicted")
    renew(desk.forecasts)
    assert desk.answer()["noTimes"] == "not known yet: 0 of 2 runs"


@pytest.mark.parametrize("refusal", [TOO_LARGE, NO_QUOTA], ids=lambda each: each.reason.value)
def test_a_unit_that_needs_somebody_does_not_start_as_things_are(refusal: Refusal) -> None:
    desk = Desk(least_runs=0)
    renew(desk.forecasts)
    desk.standings["ns/j4"] = Standing("a", refusal)
    got = desk.answer()
    assert got["outlook"] == "neverAsIs"
    assert str(got["noTimes"]).startswith("does not start as things are: ")
    assert str(got["noTimes"]).endswith(f"({refusal.reason.value})")
    assert (got["startP50"], got["queue"]) == (None, "a")
    assert desk.forecasts.start_of("uid-j4", refusal) == Start(none="not as things are")


def test_that_is_said_of_units_in_no_queue_and_before_the_first_forecast() -> None:
    desk = Desk()
    desk.standings["ns/lost"] = Standing("", NO_QUOTA)
    got = desk.answer("lost")
    assert (got["outlook"], got["queue"], got["similarRuns"]) == ("neverAsIs", "", 0)


def test_a_unit_that_is_corrected_has_times_before_the_next_forecast() -> None:
    desk = Desk(least_runs=0)
    renew(desk.forecasts)
    desk.standings["ns/j4"] = Standing("a", FULL)
    assert desk.answer()["outlook"] == "times"


def test_units_of_a_queue_say_it_as_well() -> None:
    desk = Desk()
    renew(desk.forecasts)
    desk.standings["ns/j5"] = Standing("a", TOO_LARGE)
    got = [each.outlook.value for each in desk.forecasts.of_queue("a", 0, 2).units]
    assert got == ["notKnownYet", "neverAsIs"]


def test_no_time_is_told_that_has_passed() -> None:
    """The unit was to start after 1000 seconds, and still waits after 1200."""
    desk = Desk(least_runs=0)
    renew(desk.forecasts)
    desk.clock.advance(900.0)
    now = rfc3339(EPOCH + timedelta(seconds=1200))
    got = desk.answer()
    assert (got["startP10"], got["startP50"], got["startP90"]) == (now, now, now)
    assert desk.forecasts.start_of("uid-j4", FULL).p50 == now


@pytest.mark.parametrize(("least_runs", "is_told"), [(0, True), (1, False)])
def test_coverage_is_of_what_was_told(*, least_runs: int, is_told: bool) -> None:
    """The p90 of all has passed at the next forecast."""
    desk = Desk(least_runs, jobs=9 + FEW)
    renew(desk.forecasts)
    desk.clock.advance(9000.0)
    moment = desk.state.moment
    later = moment.wall + timedelta(seconds=9000.0)
    desk.state = desk.state._replace(moment=Moment(moment.now + 9000.0, later))
    renew(desk.forecasts)
    assert (desk.forecasts.coverage_of_day() is not None) == is_told


def test_the_standing_of_a_unit_is_read_from_the_engine(kit: ShellKit) -> None:
    """A unit that has not been considered, and never starts, is known not to."""
    reported = forecast_scope(kit.shared, Explanations(kit.shared, kit.clock.now))
    kit.add_unit("runs", cpu=3)
    kit.dequeue()
    kit.add_unit("waits", cpu=2)
    kit.decide()
    kit.add_unit("huge", cpu=64)
    kit.add_unit("lost", "not-there")
    want = [
        ("default/waits", Standing("team", refusal_of_unit(kit.engine, "default/waits") or FULL)),
        ("default/runs", None),
        ("default/none", None),
    ]
    assert [(key, reported.standing(key)) for key, _ in want] == want
    huge, lost = reported.standing("default/huge"), reported.standing("default/lost")
    assert huge is not None
    assert lost is not None
    assert (huge.refusal.reason, lost.refusal.reason) == (Reason.EXCEEDS_QUOTA, Reason.NO_QUOTA)
    assert (huge.queue, lost.queue) == ("team", "")
    of_list = reported.refusal("default/lost")
    assert of_list is not None
    assert of_list.reason is Reason.NO_QUOTA
