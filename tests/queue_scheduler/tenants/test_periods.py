"""Periods in time zones whose days have 23 and 25 hours."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from math import inf

import pytest

from queue_scheduler.tenants.periods import (
    HOUR,
    Period,
    UnknownTimeZoneError,
    find_edges,
    find_period,
    read_time_zone,
)

BERLIN = read_time_zone("Europe/Berlin")


def second(text: str) -> int:
    """Return the second of a time in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("period", "at", "hours"),
    [
        pytest.param(Period.MONTH, "2026-03-15T12:00", 743, id="March"),
        pytest.param(Period.MONTH, "2026-10-15T12:00", 745, id="October"),
        pytest.param(Period.MONTH, "2026-02-15T12:00", 672, id="February"),
        pytest.param(Period.DAY, "2026-03-29T12:00", 23, id="29 March"),
        pytest.param(Period.DAY, "2026-10-25T12:00", 25, id="25 October"),
        pytest.param(Period.DAY, "2026-11-29T12:00", 24, id="a day"),
        pytest.param(Period.WEEK, "2026-03-29T12:00", 167, id="the week to 29 March"),
        pytest.param(Period.WEEK, "2026-03-30T12:00", 168, id="the week after it"),
        pytest.param(Period.ROLLING_30D, "2026-03-29T12:00", 721, id="30 days and this hour"),
        pytest.param(Period.NONE, "2026-03-29T12:00", inf, id="for ever"),
    ],
)
def test_periods_in_berlin(period: Period, at: str, hours: float) -> None:
    assert find_period(period, BERLIN, second(at)).hours == hours


@pytest.mark.parametrize(
    ("at", "start", "end"),
    [
        pytest.param("2026-11-30T22:59:59", "2026-10-31T23:00", "2026-11-30T23:00", id="before"),
        pytest.param("2026-11-30T23:00", "2026-11-30T23:00", "2026-12-31T23:00", id="at midnight"),
        pytest.param("2026-12-31T23:00", "2026-12-31T23:00", "2027-01-31T23:00", id="new year"),
    ],
)
def test_months_begin_at_local_midnight(at: str, start: str, end: str) -> None:
    assert find_period(Period.MONTH, BERLIN, second(at)) == (second(start), second(end))


def test_weeks_begin_on_mondays() -> None:
    span = find_period(Period.WEEK, UTC, second("2026-11-29T23:59"))  # a Sunday
    assert span == (second("2026-11-23T00:00"), second("2026-11-30T00:00"))


def test_rolling_moves_by_the_hour() -> None:
    first, later = (
        find_period(Period.ROLLING_30D, UTC, second(at))
        for at in ("2026-11-29T10:59:59", "2026-11-29T11:00")
    )
    assert (later.start - first.start, first.end) == (HOUR, second("2026-11-29T11:00"))


@pytest.mark.parametrize("period", [Period.DAY, Period.WEEK, Period.MONTH])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "Africa/Cairo", "America/Santiago", "UTC"])
def test_edges_are_the_ends_of_periods(period: Period, zone: str) -> None:
    """In Cairo and Santiago clocks change at midnight."""
    where = read_time_zone(zone)
    at = second("2026-04-15T12:00")
    edges = find_edges(period, where, at, before=30, after=30)
    assert len(edges) == 62
    assert edges[30] <= at < edges[31]
    for start, end in pairwise(edges):
        for inside in (start, (start + end) // 2, end - 1):
            assert find_period(period, where, inside) == (start, end)


def test_edges_of_rolling_are_hours_and_of_none_there_are_none() -> None:
    at = second("2026-04-15T12:30")
    hours = find_edges(Period.ROLLING_30D, UTC, at, before=1, after=1)
    assert hours == [second(f"2026-04-15T{hour}:00") for hour in (11, 12, 13, 14)]
    assert find_edges(Period.NONE, UTC, at, before=1, after=1) == []


@pytest.mark.parametrize(
    "name", ["Europe/Nowhere", "", "../../etc/passwd", "/etc/localtime", "Europe"]
)
def test_a_time_zone_that_does_not_exist_is_an_error(name: str) -> None:
    with pytest.raises(UnknownTimeZoneError):
        read_time_zone(name)
