"""Forecasts in words: times of the clock, and what is beyond the horizon."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from koord_queue.answers.forecast import Forecast, QueueForecast, Times
from koord_queue.show.forecasts import (
    Wall,
    brief_start,
    forecast_lines,
    new_forecast_text,
    queue_rows,
    start_in_words,
    start_text,
)

NOW = datetime(2026, 11, 26, 13, 0, tzinfo=UTC)
WALL = Wall(NOW, UTC)
EARLY = Forecast(
    name="b",
    outlook="notKnownYet",
    no_times="not known yet: 1 of 5 runs",
    similar_runs=1,
    needed_runs=5,
)
NEVER = Forecast(
    name="c",
    outlook="neverAsIs",
    no_times="does not start as things are: there is no quota (NoQuota)",
)


def at(*minutes: int | None) -> Times:
    """Return times so many minutes from now: p10, p50, p90, end."""
    moments = [
        None if each is None else (NOW + timedelta(minutes=each)).strftime("%Y-%m-%dT%H:%M:%SZ")
        for each in minutes
    ]
    return Times(
        start_p10=moments[0], start_p50=moments[1], start_p90=moments[2], end_p50=moments[3]
    )


@pytest.mark.parametrize(
    ("times", "want"),
    [
        pytest.param(at(65, 80, 130, None),
            "starts between 14:05 and 15:10, in half of the futures by 14:20 (in 80m)",
            id="all known"),
        pytest.param(at(5, 5, 5, None), "starts at about 13:05 (in 5m)", id="certain"),
        pytest.param(at(65, 1500, 3000, None),
            "starts between 14:05 and Sat 15:00, in half of the futures by Fri 14:00 (in 25h)",
            id="other days"),
        pytest.param(at(65, 80, None, None),
            "starts after 14:05, in half of the futures by 14:20 (in 80m);"
            " in one of ten futures more than a week away", id="the latest is beyond"),
        pytest.param(at(65, None, None, None),
            "starts more than a week away, more likely than not, and not before 14:05",
            id="the median is beyond"),
        pytest.param(at(None, None, None, None),
            "starts more than a week away, more likely than not", id="all is beyond"),
        pytest.param(at(-2, 20, 130, None),
            "starts by 15:10, in half of the futures by 13:20 (in 20m)", id="the earliest is past"),
        pytest.param(at(0, 20, None, None),
            "starts now or later, in half of the futures by 13:20 (in 20m)",
            id="the earliest is now, the latest beyond"),
        pytest.param(at(-9, -2, 130, None),
            "may start at any moment; in one of ten futures after 15:10",
            id="the median is past"),
        pytest.param(at(0, 0, None, None),
            "may start at any moment; in one of ten futures more than a week away",
            id="the median is now, the latest beyond"),
        pytest.param(at(0, 0, 0, None),
            "may start at any moment; it is later than forecast", id="all is past"),
    ],
)  # fmt: skip
def test_when_a_unit_starts(times: Times, want: str) -> None:
    assert start_in_words(times, WALL) == want


def test_times_are_in_the_zone_of_the_reader() -> None:
    wall = Wall(NOW, timezone(timedelta(hours=9)))
    assert start_in_words(at(5, 5, 5, None), wall) == "starts at about 22:05 (in 5m)"


def test_a_forecast_says_what_it_is_based_on() -> None:
    alone = at(1, 1, 1, None)
    forecast = Forecast(
        name="a", start_p10=at(5, 5, 5, 60).start_p10, start_p50=at(5, 5, 5, 60).start_p50,
        start_p90=at(5, 5, 5, 60).start_p90, end_p50=at(5, 5, 5, 60).end_p50,
        without_arrivals=alone, similar_runs=1, sample=40, computed_at="2026-11-26T12:59:20Z",
    )  # fmt: skip
    alone_too = "If nothing else were submitted, it starts at about 13:01 (in 60s)"
    assert [line.text for line in forecast_lines(forecast, WALL)] == [
        "a starts at about 13:05 (in 5m).",
        "It ends at about 14:00.",
        f"{alone_too}; it ends more than a week away.",
        "Based on 40 futures played 40s ago, and 1 run like it in the last eight days.",
        "One of ten starts earlier than the first time, one of ten later.",
    ]


def test_the_rows_of_a_queue() -> None:
    unit = Forecast(namespace="x", name="a", start_p10=at(5, 5, 5, 60).start_p10)
    early, never = (msgspec.structs.replace(each, namespace="x") for each in (EARLY, NEVER))
    assert queue_rows(QueueForecast(units=(unit, early, never)), WALL) == [
        ("x", "a", "5m", ">7d", ">7d", ">7d"),
        ("x", "b", "-", "not known yet: 1 of 5 runs", "-", "-"),
        ("x", "c", "-", "not as things are", "-", "-"),
    ]


def test_before_enough_runs_have_ended_no_time_is_told() -> None:
    kind = "5 runs of its quota, user, kind and request"
    assert [line.text for line in forecast_lines(EARLY, WALL)] == [
        "When b starts is not known yet: 1 of 5 runs.",
        f"Times are shown once {kind} have ended within eight days.",
    ]
    assert new_forecast_text(EARLY, WALL) == "When it starts is not known yet: 1 of 5 runs."
    assert start_text(EARLY, WALL) == "when it starts is not known yet: 1 of 5 runs"
    assert brief_start(EARLY, WALL) == "start not known yet: 1 of 5 runs"


def test_what_does_not_start_as_things_are_says_why() -> None:
    said = "does not start as things are: there is no quota (NoQuota)"
    assert [line.text for line in forecast_lines(NEVER, WALL)] == [f"c {said}."]
    assert new_forecast_text(NEVER, WALL) == f"It {said}."
    assert start_text(NEVER, WALL) == f"it {said}"
    assert brief_start(NEVER, WALL) == "does not start as things are"


@pytest.mark.parametrize(
    ("minutes", "want"),
    [(20, "may start 13:20"), (0, "may start at any moment"), (None, "")],
)
def test_the_start_in_brief(minutes: int | None, want: str) -> None:
    found = Forecast(name="a", start_p50=at(0, minutes, None, None).start_p50)
    assert brief_start(found, WALL) == want
