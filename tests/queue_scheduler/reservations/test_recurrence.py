"""On which days recurrence rules are, compared with dateutil, and which cannot be read."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from itertools import islice

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given
from hypothesis import strategies as st

from queue_scheduler.reservations.recurrence import RecurrenceError, read_recurrence

START = date(2026, 11, 30)  # a Monday


def days(text: str, start: date = START, *, first: date | None = None, most: int = 5) -> list[str]:
    first = first or start
    found = read_recurrence(text).dates(start, first, first + timedelta(days=400))
    return [each.isoformat() for each in islice((d for d in found if d >= first), most)]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("FREQ=DAILY", ["2026-11-30", "2026-12-01", "2026-12-02", "2026-12-03", "2026-12-04"]),
        ("FREQ=DAILY;INTERVAL=30;COUNT=2", ["2026-11-30", "2026-12-30"]),
        ("FREQ=WEEKLY;COUNT=2", ["2026-11-30", "2026-12-07"]),
        ("FREQ=WEEKLY;BYDAY=TH,MO;COUNT=3", ["2026-11-30", "2026-12-03", "2026-12-07"]),
        ("FREQ=WEEKLY;BYDAY=TH;UNTIL=20261210", ["2026-12-03", "2026-12-10"]),
        ("FREQ=MONTHLY;BYMONTHDAY=31;COUNT=2", ["2026-12-31", "2027-01-31"]),
        ("FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=2", ["2026-11-30", "2026-12-31"]),
        ("FREQ=MONTHLY;BYDAY=-1FR;COUNT=2", ["2026-12-25", "2027-01-29"]),
        ("FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1;COUNT=2", ["2026-11-30", "2026-12-29"]),
        ("FREQ=YEARLY;COUNT=2", ["2026-11-30", "2027-11-30"]),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", []),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", []),
        ("FREQ=YEARLY;BYDAY=1MO", ["2027-01-04", "2028-01-03"]),
    ],
)
def test_days(text: str, want: list[str]) -> None:
    until = read_recurrence(text).until
    last = None if until is None else until.at.date().isoformat()
    assert [each for each in days(text) if last is None or each <= last] == want


NUMBERS = st.sets(st.integers(-31, 31).filter(bool), min_size=1, max_size=3)
WEEKDAYS = st.sets(st.sampled_from(["MO", "TU", "WE", "TH", "FR", "SA", "SU"]), min_size=1)


@st.composite
def rules(draw: st.DrawFn) -> str:
    frequency = draw(st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]))
    parts = [f"FREQ={frequency}", f"INTERVAL={draw(st.integers(1, 5))}"]
    days = [""]
    if draw(st.booleans()):
        days = sorted(draw(WEEKDAYS))
        if frequency in {"MONTHLY", "YEARLY"} and draw(st.booleans()):
            days = [f"{draw(st.sampled_from([1, 2, -1, 4]))}{each}" for each in days]
        parts.append(f"BYDAY={','.join(days)}")
    if draw(st.booleans()):
        months = draw(st.sets(st.integers(1, 12), min_size=1))
        parts.append(f"BYMONTH={','.join(map(str, sorted(months)))}")
    if frequency != "WEEKLY" and draw(st.booleans()):
        parts.append(f"BYMONTHDAY={','.join(map(str, sorted(draw(NUMBERS))))}")
    if len(parts) > 2 and draw(st.booleans()):
        parts.append(f"BYSETPOS={draw(st.sampled_from([1, 2, -1]))}")
    if draw(st.booleans()):
        parts.append(f"COUNT={draw(st.integers(1, 40))}")
    if draw(st.booleans()):
        parts.append(f"WKST={draw(st.sampled_from(['MO', 'SU', 'WE']))}")
    return ";".join(parts)


@given(rules(), st.dates(date(1970, 1, 1), date(2027, 12, 31)))
def test_days_are_those_of_dateutil(text: str, start: date) -> None:
    first = max(start, START)
    last = first + timedelta(days=400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("datetime.MAXYEAR", last.year)  # it looks for a day until then
        found = [each.date() for each in rrulestr(text, dtstart=datetime.combine(start, time(12)))]
    got = read_recurrence(text).dates(start, first, last)
    assert [each for each in got if first <= each] == [d for d in found if first <= d <= last]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'' is no part of a rule"),
        ("every Thursday", "'every Thursday' is no part of a rule"),
        ("FREQ=DAILY;", "'' is no part of a rule"),
        ("INTERVAL=2", "FREQ: '' is none of DAILY, WEEKLY, MONTHLY, YEARLY"),
        ("FREQ=HOURLY", "FREQ: 'HOURLY' is none of"),
        ("FREQ=DAILY;FREQ=DAILY", "FREQ is there twice"),
        ("FREQ=DAILY;BYHOUR=3", "BYHOUR is not read: windows begin at the time of the start"),
        ("FREQ=YEARLY;BYWEEKNO=53", "BYWEEKNO is not read"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL: '0' is no number from 1 to 1000"),
        ("FREQ=DAILY;INTERVAL=1001", "INTERVAL: '1001' is no number"),
        ("FREQ=DAILY;INTERVAL=" + "9" * 400, "is no number from 1 to 1000"),
        ("FREQ=DAILY;COUNT=-1", "COUNT: '-1' is no number from 1 to 1000"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20270101", "set COUNT or UNTIL, not both"),
        ("FREQ=DAILY;UNTIL=20270230", "UNTIL: '20270230' is no time such as"),
        ("FREQ=DAILY;UNTIL=2027", "UNTIL: '2027' is no time such as"),
        ("FREQ=YEARLY;BYMONTH=13", "BYMONTH: '13' is no number from 1 to 12"),
        ("FREQ=YEARLY;BYMONTH=-1", "BYMONTH: '-1' is no number from 1 to 12"),
        ("FREQ=MONTHLY;BYMONTHDAY=32", "BYMONTHDAY: '32' is no number from -31 to -1, or 1 to 31"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY: '0' is no number"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY needs the frequency DAILY, MONTHLY or YEARLY"),
        ("FREQ=WEEKLY;BYDAY=XX", "BYDAY: 'XX' is none of MO, TU, WE, TH, FR, SA, SU"),
        ("FREQ=WEEKLY;BYDAY=1,2", "BYDAY: '1' is no day such as TH or -1FR"),
        ("FREQ=WEEKLY;BYDAY=1MO", "BYDAY: '1MO' needs the frequency MONTHLY or YEARLY"),
        ("FREQ=MONTHLY;BYDAY=6MO", "BYDAY: there is no '6MO'"),
        ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY: there is no '0MO'"),
        ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS needs BYDAY, BYMONTHDAY or BYMONTH"),
        ("FREQ=WEEKLY;WKST=1", "WKST: '1' is none of"),
    ],
)
def test_rules_that_cannot_be_read(text: str, why: str) -> None:
    with pytest.raises(RecurrenceError) as caught:
        read_recurrence(text)
    assert why in str(caught.value)
