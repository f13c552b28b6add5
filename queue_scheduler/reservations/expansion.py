"""When the windows of a schedule are, from the time zone database and the time. Outside the engine.

Windows keep their local time over the changes of clocks. A time that clocks skip moves on by as
much as they do; of one that comes twice the first counts (RFC 5545, 3.3.5). The duration is exact:
a window over such a change ends at another local time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import islice
from typing import Final

from queue_scheduler.reservations.recurrence import Recurrence, RecurrenceError, read_recurrence
from queue_scheduler.reservations.schedules import Schedule, ScheduleKey, Window
from queue_scheduler.tenants.periods import UnknownTimeZoneError, read_time_zone
from shared_api.durations import DurationError, parse_duration
from shared_api.objects.queue_reservation import RRULE_LENGTH, START_LENGTH

HORIZON_SECONDS: Final = 400 * 86400
"""How far ahead windows begin that are known: more than a year, since units run for long."""
MAX_WINDOWS: Final = 64
"""The nearest ones: of a daily rule, those of two months."""

_YEARS: Final = range(1970, 3000)
_START: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|[-+][0-9]{2}:[0-9]{2})?"
)
_DAY: Final = timedelta(days=1)


class ScheduleError(ValueError):
    """A schedule cannot be read; the message begins with the field."""


def expand_all(keys: Iterable[ScheduleKey], second: int) -> tuple[Schedule, ...]:
    """Return the schedules of these keys as of a second since the epoch, each once."""
    return tuple(expand(key, second) for key in dict.fromkeys(keys))


def expand(key: ScheduleKey, second: int) -> Schedule:
    """Return when the windows of a schedule are, as of a second since the epoch.

    It takes some milliseconds at most. What cannot be read has no window, and says why.
    """
    try:
        zone = _read_zone(key.time_zone)
        start = _read_start(key.start, zone)
        seconds = _read_duration(key.duration)
        rule = _read_rule(key.rrule)
    except ScheduleError as error:
        return Schedule(**key._asdict(), at=second, problem=str(error))
    starts = _starts(rule, start, zone, range(second - seconds, second + HORIZON_SECONDS))
    windows = tuple(Window(each, each + seconds) for each in islice(starts, MAX_WINDOWS))
    goes_on = rule is not None and rule.goes_on
    return Schedule(**key._asdict(), at=second, windows=windows, goes_on=goes_on)


def _starts(rule: Recurrence | None, start: datetime, zone: tzinfo, span: range) -> Iterator[int]:
    """Yield when windows begin that begin after the first second of a span, and within it."""
    for day in _dates(rule, start, _day_of(span.start, zone), _day_of(span.stop, zone)):
        local = datetime.combine(day, start.time())
        begins = int(local.replace(tzinfo=zone).timestamp())
        if rule is not None and rule.until is not None:
            until = rule.until.at
            is_over = (
                begins > until.replace(tzinfo=UTC).timestamp()
                if rule.until.is_utc
                else (local > until)
            )
            if is_over:
                return
        if begins > span.start and begins in span:
            yield begins


def _dates(rule: Recurrence | None, start: datetime, first: date, last: date) -> Iterator[date]:
    if rule is None:
        return iter((start.date(),))
    # A time that is skipped moves on, into the next day at most.
    return rule.dates(start.date(), first - _DAY, last)


def _day_of(second: int, zone: tzinfo) -> date:
    return datetime.fromtimestamp(second, zone).date()


def _read_zone(name: str) -> tzinfo:
    try:
        return read_time_zone(name)
    except UnknownTimeZoneError as error:
        raise ScheduleError(f"timeZone: {error}") from error


def _read_start(text: str, zone: tzinfo) -> datetime:
    """Return the local time of the start, without its time zone."""
    if len(text) > START_LENGTH or not _START.fullmatch(text):
        raise ScheduleError(f"start: {text[:START_LENGTH]!r} is no time such as 2026-12-03T18:00")
    try:
        at = datetime.fromisoformat(text)
        if at.year in _YEARS:
            return at if at.tzinfo is None else at.astimezone(zone).replace(tzinfo=None, fold=0)
    except ValueError as error:
        raise ScheduleError(f"start: {text!r} is no time: {error}") from error
    raise ScheduleError(f"start: {text!r} is not between the years 1970 and 2999")


def _read_duration(text: str) -> int:
    try:
        exact = parse_duration(text)
    except DurationError as error:
        raise ScheduleError(f"duration: {error}") from error
    seconds = -(-exact.numerator // exact.denominator)
    if not 0 < seconds <= HORIZON_SECONDS:
        raise ScheduleError(f"duration: {text!r} is not more than 0 and at most 9600h")
    return seconds


def _read_rule(text: str) -> Recurrence | None:
    if len(text) > RRULE_LENGTH:
        raise ScheduleError(f"rrule: longer than {RRULE_LENGTH} characters")
    try:
        return read_recurrence(text) if text else None
    except RecurrenceError as error:
        raise ScheduleError(f"rrule: {error}") from error
