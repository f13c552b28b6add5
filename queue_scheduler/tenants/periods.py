"""When periods begin and end: days, weeks, months in a time zone, and hours. Outside the engine.

A day of a time zone may have 23 or 25 hours. So these functions read the time zone database, and
the engine is only told the edges, in seconds since the epoch: it reads no file.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

from queue_scheduler.tenants.calendars import Calendar, CalendarKey
from shared_api.objects.quota_policy import Budget

HOUR: Final = 3600

ROLLING_HOURS: Final = 30 * 24
"""`Rolling 30d`: it moves by the hour."""


class Period(StrEnum):
    """A kind of period; the values are those that users write."""

    DAY = "Day"
    WEEK = "Week"
    """From Monday on."""
    MONTH = "Month"
    ROLLING_30D = "Rolling 30d"
    """The last 720 whole hours, and the present one."""
    NONE = "None"
    """It never ends."""

    @property
    def is_of_calendar(self) -> bool:
        """Whether it begins at the edges of a calendar."""
        return self in _AHEAD


_AHEAD: Final = {Period.DAY: 400, Period.WEEK: 60, Period.MONTH: 14}
"""How many periods ahead a calendar has: more than a year, since units run for long."""


class Span(NamedTuple):
    """A period, in seconds since the epoch: from `start` until before `end`; None: without end."""

    start: int
    end: int | None

    @property
    def hours(self) -> float:
        """Its length in hours; infinite if it has no end."""
        return float("inf") if self.end is None else (self.end - self.start) / HOUR


class UnknownTimeZoneError(ValueError):
    """There is no such time zone."""


def read_time_zone(name: str) -> tzinfo:
    """Return a time zone of the IANA database by its name, such as Europe/Berlin.

    Raises:
        UnknownTimeZoneError: There is none.
    """
    if name == "UTC":
        return UTC
    import zoneinfo  # noqa: PLC0415 - 0.7 MB that only other time zones need

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        # A name with `..`, and one of a folder, raise the others.
        raise UnknownTimeZoneError(f"there is no time zone {name!r}") from error


def find_period(period: Period, zone: tzinfo, second: int) -> Span:
    """Return the period that a second is in."""
    match period:
        case Period.NONE:
            return Span(0, None)
        case Period.ROLLING_30D:
            hour = second - second % HOUR
            return Span(hour - ROLLING_HOURS * HOUR, hour + HOUR)
        case _:
            first = _first_day(period, datetime.fromtimestamp(second, zone))
            return Span(_midnight(first, zone), _midnight(_next(period, first), zone))


def find_edges(period: Period, zone: tzinfo, second: int, *, before: int, after: int) -> list[int]:
    """Return the edges around a second, ascending.

    Args:
        period: The kind; of `NONE` there are no edges, of `ROLLING_30D` every hour is one.
        zone: The time zone.
        second: The second.
        before: How many periods before the present one are wanted too.
        after: How many after it.
    """
    if period is Period.NONE:
        return []
    if period is Period.ROLLING_30D:
        hour = second - second % HOUR
        return [hour + number * HOUR for number in range(-before, after + 2)]
    first = _first_day(period, datetime.fromtimestamp(second, zone))
    days = [first]
    for _ in range(before):
        days.insert(0, _first_day(period, days[0] - timedelta(days=1)))
    for _ in range(after + 1):
        days.append(_next(period, days[-1]))
    edges = [_midnight(day, zone) for day in days]
    assert all(a < b for a, b in pairwise(edges)), edges
    return edges


def find_calendars(budgets: Iterable[Budget], second: int) -> tuple[Calendar, ...]:
    """Return the calendars that budgets name, around a second.

    One of a time zone that does not exist has no edges.
    """
    keys = {CalendarKey(each.period, each.time_zone): None for each in budgets}
    known = (key for key in keys if key.period in _AHEAD)
    return tuple(Calendar(*key, _find_edges(key, second)) for key in known)


def _find_edges(key: CalendarKey, second: int) -> tuple[int, ...]:
    try:
        zone = read_time_zone(key.time_zone)
    except UnknownTimeZoneError:
        return ()
    period = Period(key.period)
    return tuple(find_edges(period, zone, second, before=1, after=_AHEAD[period]))


def _first_day(period: Period, day: datetime) -> datetime:
    """Return the first day of a period, at midnight and without its time zone."""
    day = day.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None, fold=0)
    if period is Period.WEEK:
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if period is Period.MONTH else day


def _next(period: Period, first: datetime) -> datetime:
    """Return the first day of the next period."""
    if period is Period.MONTH:
        return (first + timedelta(days=32)).replace(day=1)
    return first + timedelta(days=7 if period is Period.WEEK else 1)


def _midnight(day: datetime, zone: tzinfo) -> int:
    """Return when a day begins; where midnight is skipped or comes twice, with its first second."""
    return int(day.replace(tzinfo=zone).timestamp())
