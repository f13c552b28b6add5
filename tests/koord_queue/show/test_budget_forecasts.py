"""When budgets are spent, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from koord_queue.answers.budget_forecasts import BudgetForecast, BudgetForecastPage
from koord_queue.show.budget_forecasts import budget_lines, spent_in_words
from koord_queue.show.forecasts import Wall

NOW = datetime(2026, 11, 26, 13, 0, tzinfo=UTC)
WALL = Wall(NOW, UTC)
WEEK = 7 * 86_400.0


def at(minutes: int | None) -> str | None:
    moment = None if minutes is None else NOW + timedelta(minutes=minutes)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def times(*minutes: int | None) -> BudgetForecast:
    first, middle, last = map(at, minutes)
    return BudgetForecast(outlook="times", spent_p10=first, spent_p50=middle, spent_p90=last)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(times(60, 60, 60), "It is spent at about 14:00 (in 60m)", id="certain"),
        pytest.param(
            times(60, 120, 1500),
            "It is spent between 14:00 and Fri 14:00, in half of the futures by 15:00 (in 120m)",
            id="all known",
        ),
        pytest.param(
            times(60, 120, None),
            "It is spent after 14:00, in half of the futures by 15:00 (in 120m);"
            " in one of ten futures not within the next 7d",
            id="the latest is beyond",
        ),
        pytest.param(
            times(60, None, None),
            "It is not spent within the next 7d, more likely than not;"
            " in one of ten futures by 14:00",
            id="the median is beyond",
        ),
        pytest.param(times(None, None, None), "It is not spent within the next 7d", id="never"),
        pytest.param(
            times(0, 0, 60),
            "It may be spent at any moment; in one of ten futures after 14:00",
            id="later than forecast",
        ),
        pytest.param(
            BudgetForecast(outlook="spent", spent_since=at(-60)),
            "Nothing has been left since 12:00",
            id="spent",
        ),
        pytest.param(
            BudgetForecast(outlook="notKnownYet", no_times="not known yet: 1 of 5 runs"),
            "When it is spent is not known yet: 1 of 5 runs",
            id="too early",
        ),
    ],
)
def test_when_it_is_spent(given: BudgetForecast, want: str) -> None:
    assert spent_in_words(given, WEEK, WALL) == want


def row(**fields: Any) -> BudgetForecast:
    known = {"quota": "vision", "policy": "p", "resource": "cpu", "period": "Month"}
    figures = {"limit": "100", "spent": "90", "committed": "8", "left": "2", "enforce": "Hold"}
    return BudgetForecast(**{**known, **figures, "outlook": "times", **fields})


def test_each_budget_is_named_with_what_is_left_and_what_follows() -> None:
    page = BudgetForecastPage(
        items=(row(resets_at=at(660)), row(resource="amount", period="None", entry=1)),
        others=1,
        horizon_seconds=WEEK,
        sample=10,
        computed_at=at(-1) or "",
    )
    assert [each.text for each in budget_lines(page, WALL)] == [
        "100 hours of cpu each month in quota vision (QuotaPolicy p, budgets 0, Hold):",
        "  90 spent, 8 committed to what runs, 2 left.",
        "  It is not spent within the next 7d. It begins anew at Fri 00:00.",
        "100 in all in quota vision (QuotaPolicy p, budgets 1, Hold):",
        "  90 spent, 8 committed to what runs, 2 left.",
        "  It is not spent within the next 7d.",
        "1 budget more that you may not read.",
        "Based on 10 futures played 60s ago.",
    ]
