from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import pytest

from koord_queue.show.moments import MomentError, query_time, read_moment

BERLIN: Final = ZoneInfo("Europe/Berlin")
NOW: Final = datetime(2026, 11, 26, 9, 15, 30, tzinfo=UTC)
"""A Thursday; 10:15:30 in Berlin."""


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("now", "2026-11-26T09:15:30Z", id="now"),
        pytest.param("2h", "2026-11-26T07:15:30Z", id="hours before now"),
        pytest.param("1h30m", "2026-11-26T07:45:30Z", id="hours and minutes before now"),
        pytest.param("1.5d", "2026-11-24T21:15:30Z", id="days before now, with a fraction"),
        pytest.param("1w ago", "2026-11-19T09:15:30Z", id="a week ago"),
        pytest.param("10:10", "2026-11-26T09:10:00Z", id="a clock time of today, in the zone"),
        pytest.param("10:10:05", "2026-11-26T09:10:05Z", id="a clock time with seconds"),
        pytest.param("22:30", "2026-11-25T21:30:00Z", id="a clock time that today has yet to come"),
        pytest.param("today", "2026-11-25T23:00:00Z", id="the start of today, in the zone"),
        pytest.param("yesterday 22:30", "2026-11-25T21:30:00Z", id="yesterday at a time"),
        pytest.param("yesterday", "2026-11-24T23:00:00Z", id="the start of yesterday"),
        pytest.param("Tue 22:30", "2026-11-24T21:30:00Z", id="the last Tuesday"),
        pytest.param("thursday 8:00", "2026-11-19T07:00:00Z", id="today's weekday is a week ago"),
        pytest.param("2026-11-24 22:30", "2026-11-24T21:30:00Z", id="a date and time in the zone"),
        pytest.param("2026-07-01T12:00", "2026-07-01T10:00:00Z", id="a date in summer time"),
        pytest.param("2026-11-24", "2026-11-23T23:00:00Z", id="a date is its start"),
        pytest.param("2026-11-24T22:30:00Z", "2026-11-24T22:30:00Z", id="RFC 3339 in UTC"),
        pytest.param("2026-11-24t22:30:00z", "2026-11-24T22:30:00Z", id="RFC 3339 in lower case"),
        pytest.param("2026-11-24T22:30:00+05:30", "2026-11-24T17:00:00Z", id="with an offset"),
        pytest.param(
            "2026-11-24T22:30:00.25Z", "2026-11-24T22:30:00.250000Z", id="with a fraction"
        ),
    ],
)
def test_what_people_type_is_a_moment(text: str, want: str) -> None:
    assert query_time(read_moment(text, NOW, BERLIN)) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", "is not a moment", id="nothing"),
        pytest.param("2", "is not a moment", id="a number without a unit"),
        pytest.param("-2h", "is not a moment", id="a negative span"),
        pytest.param("2h 3h", "is not a moment", id="two spans"),
        pytest.param("25:00", "is not a moment", id="no hour of a day"),
        pytest.param("tu 10:00", "is not a moment", id="a weekday cut too short"),
        pytest.param("20261124", "is not a moment", id="a date without dashes"),
        pytest.param("2026-13-01", "is not a moment", id="no month"),
        pytest.param("9" * 500 + "h", "is not a moment", id="a text that is too long"),
        pytest.param("9" * 40 + "w", "is before the year 1", id="a span longer than the calendar"),
        pytest.param("2026-11-27", "is in the future", id="tomorrow"),
        pytest.param("today 22:30", "is in the future", id="a time that today has yet to come"),
    ],
)
def test_what_is_no_moment_in_the_past_is_refused(text: str, want: str) -> None:
    with pytest.raises(MomentError, match=want):
        read_moment(text, NOW, BERLIN)


def test_without_a_zone_a_clock_time_is_that_of_the_machine() -> None:
    now = datetime(2026, 11, 26, 9, 15, 30).astimezone()
    assert now - read_moment("9:00", now) == timedelta(minutes=15, seconds=30)
    # An offset differs from that of today at another time of the year.
    assert read_moment("2026-07-01 12:00", now) == datetime(2026, 7, 1, 12).astimezone()


def test_a_year_that_no_zone_knows_is_refused() -> None:
    with pytest.raises(MomentError):
        read_moment("0001-01-01", NOW)
