"""When budgets are spent, as rows; the rows of others are counted."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from starlette.responses import JSONResponse

from queue_insight.debug_api import budget_forecasts
from queue_insight.debug_api.budget_forecasts import (
    EVERY,
    NOT_PLAYED,
    PATH,
    BudgetForecastView,
    EveryBudgetForecast,
)
from queue_insight.debug_api.engine_state import State
from queue_insight.debug_api.forecast_routes import Forecasts, ForecastScope
from queue_insight.forecast import paths
from queue_insight.forecast.all_units import Settings
from queue_scheduler.debug_api.additions import OFF
from queue_scheduler.engine.engine import Engine
from shared_api.question_errors import QuestionError
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.timestamps import rfc3339
from tests.queue_insight.debug_api.test_insight_link import answering, asking, detail_of
from tests.queue_insight.forecast.forecast_kit import ExactModel, renew
from tests.queue_insight.insight.budget_town import EVENING, HOUR, of_cores, story_of, town
from tests.queue_insight.insight.virtual_town import job
from tests.queue_scheduler.shell_kit import ShellKit

PLAYED = 4
"""Of these one is played until the horizon."""


@pytest.fixture(autouse=True)
def as_computed_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "DRIFT", 0.0)


class Clock(VirtualClock):
    """Stands at the evening's time."""

    def __init__(self) -> None:
        super().__init__()
        self.wall = EVENING.wall

    def now(self) -> Any:
        return self.wall


def forecasts_of(
    engine: Engine, least_runs: int = 0, played: int = PLAYED, clock: Clock | None = None
) -> Forecasts:
    return Forecasts(
        lambda: State(engine, EVENING),
        clock or Clock(),
        ExactModel(),
        Settings(paths=played, budgets=True),
        EVENING.wall,
        forecast_scope=ForecastScope(least_runs=least_runs),
    )


def rows(engine: Engine, **given: Any) -> list[BudgetForecastView]:
    forecasts = forecasts_of(engine, **given)
    renew(forecasts)
    return [each.row for each in forecasts.of_budgets("a").items]


def at(hours: float) -> str:
    return rfc3339(EVENING.wall + timedelta(hours=hours))


def busy(*budgets: Any) -> Engine:
    """Return a town in which four cores are used for a thousand seconds: 1.11 hours."""
    engine = town(*budgets)
    story_of(engine, (0, job("x", 4))).run(EVENING.now)
    return engine


def test_a_row_has_what_is_left_and_when_nothing_is() -> None:
    (row,) = rows(busy(of_cores(1, enforce="Warn")))
    times = {name: at(0.25) for name in ("spentP10", "spentP50", "spentP90")}
    assert row.model_dump(by_alias=True) == {
        "quota": "a",
        "policy": "budgets",
        "entry": 0,
        "resource": "cpu",
        "period": "Day",
        "timeZone": "UTC",
        "enforce": "Warn",
        "limit": "1",
        "spent": "0",
        "committed": "16",
        "left": "-15",
        "resetsAt": at(4),
        "outlook": "times",
        "noTimes": "",
        "spentSince": None,
        **times,
    }


@pytest.mark.parametrize(
    ("hours", "given", "want"),
    [
        pytest.param(9, {}, ("times", "", None), id="beyond the horizon"),
        pytest.param(0, {}, ("spent", "", None), id="spent"),
        pytest.param(
            1,
            {"least_runs": 2},
            ("notKnownYet", "not known yet: 0 of 2 runs", None),
            id="too few runs",
        ),
        pytest.param(1, {"played": 3}, ("notKnownYet", NOT_PLAYED, None), id="none was played"),
    ],
)
def test_why_no_time_is_told(
    hours: int, given: dict[str, int], want: tuple[str, str, str | None]
) -> None:
    (row,) = rows(busy(of_cores(hours, enforce="Warn")), **given)
    assert (row.outlook, row.no_times, row.spent_p50) == want
    assert row.spent_since == (at(0) if want[0] == "spent" else None)


def test_a_time_that_has_passed_is_now() -> None:
    clock = Clock()
    forecasts = forecasts_of(busy(of_cores(1, enforce="Warn")), clock=clock)
    renew(forecasts)
    clock.wall += timedelta(hours=1)
    (each,) = forecasts.of_budgets().items
    assert each.row.spent_p50 == at(1)


def test_only_budgets_of_the_quota_that_is_named() -> None:
    forecasts = forecasts_of(busy(of_cores(1), of_cores(2, period="Month")))
    with pytest.raises(QuestionError, match="no forecast yet"):
        forecasts.of_budgets()
    renew(forecasts)
    assert [each.row.entry for each in forecasts.of_budgets("a").items] == [0, 1]
    assert forecasts.of_budgets("b").items == []


def test_a_budget_is_a_sum_over_the_namespaces_whose_units_were_charged() -> None:
    engine = town(of_cores(100))
    other = job("y")
    other = replace(other, metadata=replace(other.metadata, namespace="other"))
    story_of(engine, (0, job("x")), (0, other)).run(EVENING.now + HOUR)
    forecasts = forecasts_of(engine)
    renew(forecasts)
    (each,) = forecasts.of_budgets().items
    assert each.namespaces == [["ns", "other"]]


# --- the route ------------------------------------------------------------------------------------

ROW = {
    "policy": "p", "entry": 0, "resource": "cpu", "period": "Day", "timeZone": "UTC",
    "enforce": "Hold", "limit": "1", "spent": "0", "committed": "0", "left": "1", "resetsAt": None,
    "outlook": "times", "noTimes": "", "spentSince": None, "spentP10": None, "spentP50": None,
    "spentP90": None,
}  # fmt: skip
HEAD = {"horizonSeconds": 9.0, "sample": 1, "computedAt": at(0), "ageSeconds": 0.0}


def budget_of(quota: str, *namespaces: list[str]) -> dict[str, Any]:
    return {"namespaces": [*namespaces], "row": {**ROW, "quota": quota}}


SHOWN = [
    budget_of("own", ["mine"]),
    budget_of("unused"),
    budget_of("many", ["mine", "b", "c", "d"]),
]
HIDDEN = [
    budget_of("theirs", ["b"]),
    budget_of("shared", ["mine", "b", "c"]),
    budget_of("above", ["b", "c", "d"], ["e"]),
]


def test_sums_over_one_or_two_hidden_namespaces_are_counted_alone(
    kit: ShellKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def handle(request: Any) -> JSONResponse:
        asked.append(f"{request.url.path}?{request.url.query}")
        return JSONResponse({**HEAD, "items": [*HIDDEN, *SHOWN]})

    monkeypatch.setattr(budget_forecasts, "may_read_for", lambda *_: lambda name: name == "mine")
    with answering(tmp_path, handle), asking(kit, tmp_path) as client:
        got = client.get(PATH, params={"quota": "root/a&b", "limit": 2}).json()
        rest = client.get(PATH, params={"offset": 2}).json()
    assert [each["quota"] for each in got["items"]] == ["own", "unused"]
    assert [each["quota"] for each in rest["items"]] == ["many"]
    page = {"total": 3, "offset": 0, "limit": 2, "others": 3}
    assert {**got, "items": []} == {**page, **HEAD, "items": []}
    assert asked == [f"{EVERY}?quota=root%2Fa%26b", f"{EVERY}?quota="]
    assert "namespaces" not in got["items"][0]


def test_without_the_insight_program_there_is_no_forecast(kit: ShellKit) -> None:
    with asking(kit, None) as client:
        assert detail_of(client.get(PATH)) == (503, OFF)


def test_the_form_is_the_same_on_both_sides() -> None:
    forecasts = forecasts_of(busy(of_cores(1)))
    renew(forecasts)
    found = forecasts.of_budgets()
    assert EveryBudgetForecast.model_validate_json(found.model_dump_json(by_alias=True)) == found
