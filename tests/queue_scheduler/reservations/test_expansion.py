"""When windows are: over the changes of clocks, far ago and far ahead, and what cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime
from time import process_time

import pytest

from queue_scheduler.reservations.expansion import MAX_WINDOWS, expand, expand_all
from queue_scheduler.reservations.schedules import Schedule, ScheduleKey

MOST_SECONDS = 0.05
BERLIN = "Europe/Berlin"


def second(text: str) -> int:
    """Return the second of a time in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


NOW = second("2026-11-30T09:00")


def schedule(
    start: str, rrule: str = "", *, duration: str = "2h", zone: str = BERLIN, now: int = NOW
) -> Schedule:
    """Return a schedule; none takes long."""
    key = ScheduleKey(start, duration, zone, rrule)
    begun = process_time()
    found = expand(key, now)
    assert process_time() - begun < MOST_SECONDS, f"{key} took too long"
    assert (found.key, found.at) == (key, now)
    return found


def starts(found: Schedule, *, most: int = 4) -> list[str]:
    """Return when the first windows begin, in UTC."""
    return [
        datetime.fromtimestamp(each.start, UTC).strftime("%Y-%m-%dT%H:%M")
        for each in found.windows[:most]
    ]


def test_weekly() -> None:
    """The local time stays over the changes of clocks."""
    found = schedule("2027-03-18T18:00", "FREQ=WEEKLY")
    assert found.goes_on
    assert starts(found) == [
        *("2027-03-18T17:00", "2027-03-25T17:00"),
        *("2027-04-01T16:00", "2027-04-08T16:00"),
    ]
    assert all(each.end - each.start == 7200 for each in found.windows)
    autumn = schedule("2027-10-27T18:00", "FREQ=WEEKLY;COUNT=2")
    assert starts(autumn) == ["2027-10-27T16:00", "2027-11-03T17:00"]
    assert not autumn.goes_on


@pytest.mark.parametrize(
    ("start", "rrule", "want"),
    [
        pytest.param("2027-03-28T02:30", "", ["2027-03-28T01:30"], id="a missing hour moves on"),
        pytest.param("2027-10-31T02:30", "", ["2027-10-31T00:30"], id="the first of a double one"),
        pytest.param(
            "2027-03-27T02:30",
            "FREQ=DAILY;COUNT=3",
            ["2027-03-27T01:30", "2027-03-28T01:30", "2027-03-29T00:30"],
            id="only on the day of the change",
        ),
    ],
)
def test_dst(start: str, rrule: str, want: list[str]) -> None:
    assert starts(schedule(start, rrule)) == want


@pytest.mark.parametrize(
    ("start", "want"),
    [
        ("2026-12-03T18:00", "2026-12-03T17:00"),
        ("2026-12-03T18:00:30", "2026-12-03T17:00"),
        ("2026-12-03T18:00Z", "2026-12-03T18:00"),
        ("2026-12-03T18:00:00-05:00", "2026-12-03T23:00"),
    ],
)
def test_the_start_is_in_the_time_zone_unless_it_has_an_offset(start: str, want: str) -> None:
    assert starts(schedule(start)) == [want]


def test_an_offset_says_only_when_the_first_window_begins() -> None:
    found = schedule("2027-03-25T17:00Z", "FREQ=WEEKLY;COUNT=2")
    assert starts(found) == ["2027-03-25T17:00", "2027-04-01T16:00"]


def test_a_window_is_known_until_it_is_over() -> None:
    begins = second("2026-12-03T17:00")
    for now, want in ((begins, 1), (begins + 7199, 1), (begins + 7200, 0)):
        assert len(schedule("2026-12-03T18:00", now=now).windows) == want


def test_windows_are_known_400_days_ahead() -> None:
    begins = second("2026-12-03T17:00")
    for now, want in ((begins - 400 * 86400 + 1, 1), (begins - 400 * 86400, 0)):
        assert len(schedule("2026-12-03T18:00", now=now).windows) == want


@pytest.mark.parametrize(
    ("until", "want"),
    [("20261210T180000", 2), ("20261210T175959", 1), ("20261210", 2), ("20261209", 1)],
)
def test_until_is_in_local_time(until: str, want: int) -> None:
    found = schedule("2026-12-03T18:00", f"FREQ=WEEKLY;UNTIL={until}")
    assert len(found.windows) == want


def test_until_may_be_in_utc() -> None:
    for until, want in (("20261210T170000Z", 2), ("20261210T165959Z", 1)):
        found = schedule("2026-12-03T18:00", f"FREQ=WEEKLY;UNTIL={until}")
        assert len(found.windows) == want


def test_the_nearest_windows_of_many_are_known() -> None:
    found = schedule("1970-01-01T03:00", "FREQ=DAILY")
    assert len(found.windows) == MAX_WINDOWS
    assert starts(found, most=2) == ["2026-12-01T02:00", "2026-12-02T02:00"]
    assert found.goes_on


@pytest.mark.parametrize(
    ("start", "rrule", "want"),
    [
        pytest.param("1970-01-01T00:00", "", [], id="long over"),
        pytest.param(
            "1970-01-01T18:00",
            "FREQ=WEEKLY",
            [f"2026-12-{day:02}T17:00" for day in (3, 10, 17, 24)],
            id="since 1970",
        ),
        pytest.param("1970-01-01T00:00", "FREQ=DAILY;COUNT=1000", [], id="the last one is over"),
        pytest.param("2999-12-31T23:59", "FREQ=DAILY", [], id="far ahead"),
        pytest.param("1970-01-01T00:00", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", [], id="30 Feb"),
        pytest.param("1970-01-01T00:00", "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", [], id="daily"),
        pytest.param(
            "1970-01-01T00:00", "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30;COUNT=9", [], id="counted"
        ),
        pytest.param("1970-01-01T00:00", "FREQ=DAILY;BYMONTH=1;BYSETPOS=366", [], id="no 366th"),
        pytest.param("1970-01-01T00:00", "FREQ=DAILY;INTERVAL=1000;COUNT=9", [], id="rare"),
    ],
)
def test_bad_reservations_that_are_expanded(start: str, rrule: str, want: list[str]) -> None:
    found = schedule(start, rrule)
    assert (found.problem, starts(found)) == ("", want)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"start": ""}, "start: '' is no time such as 2026-12-03T18:00"),
        ({"start": "2026-12-03"}, "start: '2026-12-03' is no time such as"),
        ({"start": "x" * 100_000}, "start: 'xxxxxxxxxxxxxxxxxxxxxxxxx' is no time such as"),
        ({"start": "2027-02-30T18:00"}, "start: '2027-02-30T18:00' is no time: day "),
        ({"start": "1969-12-31T23:59"}, "start: '1969-12-31T23:59' is not between the years"),
        ({"start": "9999-12-31T23:59"}, "start: '9999-12-31T23:59' is not between the years"),
        ({"start": "2026-12-03T18:00+99:00"}, "start: '2026-12-03T18:00+99:00' is no time"),
        ({"duration": "-2h"}, "duration: "),
        ({"duration": "0s"}, "duration: '0s' is not more than 0 and at most 9600h"),
        ({"duration": "9601h"}, "duration: '9601h' is not more than 0 and at most 9600h"),
        ({"time_zone": "Europe/Nowhere"}, "timeZone: there is no time zone 'Europe/Nowhere'"),
        ({"time_zone": "../etc/passwd"}, "timeZone: there is no time zone"),
        ({"rrule": "FREQ=HOURLY"}, "rrule: FREQ: 'HOURLY' is none of DAILY"),
        ({"rrule": "FREQ=DAILY;" * 100}, "rrule: longer than 512 characters"),
    ],
)
def test_bad_reservations_that_cannot_be_read(changes: dict[str, str], problem: str) -> None:
    good = ScheduleKey("2026-12-03T18:00", "2h", BERLIN, "")
    found = expand(good._replace(**changes), NOW)
    assert found.problem.startswith(problem)
    assert not found.windows


def test_each_schedule_is_expanded_once() -> None:
    key = ScheduleKey("2026-12-03T18:00", "2h", BERLIN, "")
    assert [each.key for each in expand_all([key, key], NOW)] == [key]
