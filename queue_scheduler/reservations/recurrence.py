"""Recurrence rules of RFC 5545: on which days windows begin. Outside the engine.

What is read: FREQ (DAILY or slower), INTERVAL, COUNT, UNTIL, BYMONTH, BYMONTHDAY, BYDAY, BYSETPOS
and WKST. All windows of a rule begin at one time of the day, so the other parts are refused.

Days are found period by period, from the first that matters: a rule that no day ever matches ends
after the periods that were asked for. `dateutil.rrule` looks for such a day until the year 9999, in
one step that cannot be interrupted; the tests compare the two.

Source: RFC 5545, 3.3.10. As in dateutil, the start is a day of the rule only if it matches.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

MAX_INTERVAL: Final = 1000
MAX_COUNT: Final = 1000
"""Days are counted from the start on, however long ago that was."""

_WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_PART: Final = re.compile(r"([A-Z]+)=([-+A-Z0-9,]+)")
_BY_DAY: Final = re.compile(r"([-+]?[0-9]{1,2})?([A-Z]{2})")
_UNTIL: Final = re.compile(r"([0-9]{8})(T[0-9]{6})?(Z)?")
_MAX_ENTRIES: Final = 366
_MONTHS: Final = 12
_WEEK: Final = 7


class RecurrenceError(ValueError):
    """A rule cannot be read; the message says why."""


class Frequency(StrEnum):
    """How often; the values are those that users write."""

    DAILY = "DAILY"
    WEEKLY = "WEEKLY"
    MONTHLY = "MONTHLY"
    YEARLY = "YEARLY"


class DayOf(NamedTuple):
    """A day of the week, from 0 (Monday); `nth` of the month or year, from its end if negative."""

    weekday: int
    nth: int | None = None


class Until(NamedTuple):
    """The last time at which a window may begin; `is_utc`: as UTC has it, else in local time."""

    at: datetime
    is_utc: bool


class Recurrence(msgspec.Struct, frozen=True, kw_only=True):
    """A rule.

    Attributes:
        frequency: The kind of its periods.
        interval: Every so many periods.
        count: On so many days in all; None: any number.
        until: The last time; None: there is none.
        months: Only in these, from 1; () for all.
        month_days: Only on these, from the end of the month if negative; () for all.
        days: Only on these days of the week; () for all.
        positions: Only the first, second and so on of each period, from its end if negative.
        week_start: The day on which weeks begin, from 0 (Monday).
    """

    frequency: Frequency
    interval: int = 1
    count: int | None = None
    until: Until | None = None
    months: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    days: tuple[DayOf, ...] = ()
    positions: tuple[int, ...] = ()
    week_start: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether it has no end."""
        return self.count is None and self.until is None

    def dates(self, start: date, first: date, last: date) -> Iterator[date]:
        """Yield the days of the rule, ascending.

        Args:
            start: The day of the start; none is before it.
            first: The first day that is asked for, roughly: days of its period may come before.
            last: The last one.
        """
        rule = self._with_defaults(start)
        counted = 0
        skipped = 0 if self.count is not None else rule.periods_before(start, first)
        for number in range(skipped, rule.periods_before(start, last) + 1):
            for day in rule.days_of(start, number):
                if day < start:
                    continue
                if counted == self.count or day > last:
                    return
                counted += 1
                yield day

    def _with_defaults(self, start: date) -> Recurrence:
        """Return the rule with what it takes from the start."""
        if self.month_days or self.days or self.frequency is Frequency.DAILY:
            return self
        if self.frequency is Frequency.WEEKLY:
            return msgspec.structs.replace(self, days=(DayOf(start.weekday()),))
        months = self.months
        if self.frequency is Frequency.YEARLY and not months:
            months = (start.month,)
        return msgspec.structs.replace(self, months=months, month_days=(start.day,))

    def periods_before(self, start: date, day: date) -> int:
        """Return how many periods of the rule begin between those of the start and of a day."""
        return max(0, self._count_between(start, day)) // self.interval

    def _count_between(self, start: date, day: date) -> int:
        match self.frequency:
            case Frequency.DAILY:
                return (day - start).days
            case Frequency.WEEKLY:
                return (self._week_of(day) - self._week_of(start)).days // _WEEK
            case Frequency.MONTHLY:
                return (day.year - start.year) * _MONTHS + day.month - start.month
            case Frequency.YEARLY:
                return day.year - start.year

    def days_of(self, start: date, number: int) -> list[date]:
        """Return the days of the period of that number, ascending; that of the start is 0."""
        begins, length = self._period(start, number * self.interval)
        found = [each for each in _days_from(begins, length) if self._matches(each)]
        if not self.positions:
            return found
        count = len(found)
        wanted = {at - 1 if at > 0 else count + at for at in self.positions}
        return [found[at] for at in sorted(wanted) if 0 <= at < count]

    def _period(self, start: date, after: int) -> tuple[date, int]:
        """Return the first day of a period, and how many days it has."""
        match self.frequency:
            case Frequency.DAILY:
                return start + timedelta(days=after), 1
            case Frequency.WEEKLY:
                return self._week_of(start) + timedelta(days=after * _WEEK), _WEEK
            case Frequency.MONTHLY:
                months = start.year * _MONTHS + start.month - 1 + after
                year, month = months // _MONTHS, months % _MONTHS + 1
                return date(year, month, 1), monthrange(year, month)[1]
            case Frequency.YEARLY:
                year = start.year + after
                return date(year, 1, 1), (date(year + 1, 1, 1) - date(year, 1, 1)).days

    def _week_of(self, day: date) -> date:
        return day - timedelta(days=(day.weekday() - self.week_start) % _WEEK)

    def _matches(self, day: date) -> bool:
        if self.months and day.month not in self.months:
            return False
        if self.month_days and day.day not in self.month_days:
            from_end = day.day - monthrange(day.year, day.month)[1] - 1
            if from_end not in self.month_days:
                return False
        return not self.days or any(self._is_on(each, day) for each in self.days)

    def _is_on(self, wanted: DayOf, day: date) -> bool:
        if day.weekday() != wanted.weekday:
            return False
        if wanted.nth is None:
            return True
        if self.frequency is Frequency.YEARLY and not self.months:
            at, days = day.timetuple().tm_yday, date(day.year, _MONTHS, 31).timetuple().tm_yday
        else:
            at, days = day.day, monthrange(day.year, day.month)[1]
        return wanted.nth in {(at - 1) // _WEEK + 1, -((days - at) // _WEEK + 1)}


def _days_from(first: date, length: int) -> Iterator[date]:
    ordinal = first.toordinal()
    return map(date.fromordinal, range(ordinal, ordinal + length))


# --- reading --------------------------------------------------------------------------------------


def read_recurrence(text: str) -> Recurrence:
    """Return the rule of a text such as FREQ=WEEKLY;BYDAY=TH.

    Raises:
        RecurrenceError: It cannot be read.
    """
    parts: dict[str, str] = {}
    for part in text.split(";"):
        found = _PART.fullmatch(part)
        if found is None:
            raise RecurrenceError(f"{part!r} is no part of a rule such as FREQ=WEEKLY;BYDAY=TH")
        name, value = found.groups()
        if name in parts:
            raise RecurrenceError(f"{name} is there twice")
        parts[name] = value
    frequency = _read_frequency(parts.pop("FREQ", ""))
    rule = Recurrence(
        frequency=frequency,
        interval=_read_number(parts, "INTERVAL", MAX_INTERVAL) or 1,
        count=_read_number(parts, "COUNT", MAX_COUNT),
        until=_read_until(parts.pop("UNTIL", None)),
        months=_read_numbers(parts, "BYMONTH", _MONTHS, may_be_negative=False),
        month_days=_read_numbers(parts, "BYMONTHDAY", 31),
        days=_read_days(parts.pop("BYDAY", None), frequency),
        positions=_read_numbers(parts, "BYSETPOS", _MAX_ENTRIES),
        week_start=_read_weekday(parts.pop("WKST", "MO"), "WKST"),
    )
    _check(rule, parts)
    return rule


def _check(rule: Recurrence, unread: dict[str, str]) -> None:
    if unread:
        raise RecurrenceError(f"{min(unread)} is not read: windows begin at the time of the start")
    if rule.count is not None and rule.until is not None:
        raise RecurrenceError("set COUNT or UNTIL, not both")
    if rule.month_days and rule.frequency is Frequency.WEEKLY:
        raise RecurrenceError("BYMONTHDAY needs the frequency DAILY, MONTHLY or YEARLY")
    if rule.positions and not (rule.days or rule.month_days or rule.months):
        raise RecurrenceError("BYSETPOS needs BYDAY, BYMONTHDAY or BYMONTH")


def _read_frequency(text: str) -> Frequency:
    try:
        return Frequency(text)
    except ValueError as error:
        known = ", ".join(Frequency)
        raise RecurrenceError(f"FREQ: {text!r} is none of {known}") from error


def _read_number(parts: dict[str, str], name: str, most: int) -> int | None:
    text = parts.pop(name, None)
    if text is None:
        return None
    number = int(text) if re.fullmatch("[0-9]{1,9}", text) else 0
    if not 1 <= number <= most:
        raise RecurrenceError(f"{name}: {text!r} is no number from 1 to {most}")
    return number


def _read_numbers(
    parts: dict[str, str], name: str, most: int, *, may_be_negative: bool = True
) -> tuple[int, ...]:
    text = parts.pop(name, None)
    if text is None:
        return ()
    numbers = set[int]()
    for each in text.split(","):
        number = int(each) if re.fullmatch("[-+]?[0-9]{1,3}", each) else 0
        if not 1 <= abs(number) <= most or (number < 0 and not may_be_negative):
            least = f"-{most} to -1, or 1" if may_be_negative else "1"
            raise RecurrenceError(f"{name}: {each!r} is no number from {least} to {most}")
        numbers.add(number)
    return tuple(sorted(numbers))


def _read_days(text: str | None, frequency: Frequency) -> tuple[DayOf, ...]:
    if text is None:
        return ()
    most = 5 if frequency is Frequency.MONTHLY else 53
    days: dict[DayOf, None] = {}
    for each in text.split(","):
        found = _BY_DAY.fullmatch(each)
        if found is None:
            raise RecurrenceError(f"BYDAY: {each!r} is no day such as TH or -1FR")
        ordinal, weekday = found.groups()
        nth = None if ordinal is None else int(ordinal)
        if nth is not None and frequency in {Frequency.DAILY, Frequency.WEEKLY}:
            raise RecurrenceError(f"BYDAY: {each!r} needs the frequency MONTHLY or YEARLY")
        if nth is not None and not 1 <= abs(nth) <= most:
            raise RecurrenceError(f"BYDAY: there is no {each!r}")
        days[DayOf(_read_weekday(weekday, "BYDAY"), nth)] = None
    return tuple(days)


def _read_weekday(text: str, place: str) -> int:
    if text not in _WEEKDAYS:
        raise RecurrenceError(f"{place}: {text!r} is none of {', '.join(_WEEKDAYS)}")
    return _WEEKDAYS.index(text)


def _read_until(text: str | None) -> Until | None:
    if text is None:
        return None
    found = _UNTIL.fullmatch(text)
    day, time, utc = found.groups() if found is not None else ("", "", "")
    try:
        # A whole day counts until its end.
        at = datetime.fromisoformat(f"{day}{time or 'T235959'}")
    except ValueError as error:
        raise RecurrenceError(f"UNTIL: {text!r} is no time such as 20271231T235959Z") from error
    return Until(at, is_utc=bool(utc))
