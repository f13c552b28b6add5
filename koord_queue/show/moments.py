"""Reads the moments that people type: `2h`, `10:30`, `yesterday 22:30`, RFC 3339. Pure.

All of them are in the past: they are for `--at` and `--since`. A clock time without a date is the
last such time, so that `22:30` in the morning is that of yesterday.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from fractions import Fraction
from typing import Final

FORMS: Final = "2h, 3d, 10:30, yesterday 22:30, tuesday 22:30, 2026-11-24 22:30, or RFC 3339"
"""What can be read, for help texts and errors."""

LONGEST_TEXT: Final = 64
"""Longer texts are not parsed; the longest form has half of that."""

_SPAN: Final = re.compile(r"(?:(\d+(?:\.\d+)?)(s|m|h|d|w))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_CLOCK: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SHORTEST_DAY: Final = 3
"""Letters of a weekday's short form, as in `tue`."""
_WEEK: Final = 7


class MomentError(ValueError):
    """The text is not a moment in the past; the message is one line."""


def read_moment(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """Return the moment that a text means, in UTC.

    Args:
        text: One of the forms in `FORMS`; a span may end in "ago".
        now: The current time, with a time zone.
        zone: The time zone of clock times and dates without one; None: that of this machine.

    Raises:
        MomentError: It is not a moment, or one in the future.
    """
    words = text.lower().split() if len(text) <= LONGEST_TEXT else []
    moment = _read_span(words, now)
    if moment is None:
        moment = _read_day(words, now, zone)
    if moment is None:
        moment = _read_date(text.strip(), zone)
    if moment is None:
        shown = text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "..."
        raise MomentError(f"{shown!r} is not a moment such as {FORMS}")
    if moment > now:
        raise MomentError(f"{text!r} is in the future")
    return moment.astimezone(UTC)


def query_time(moment: datetime) -> str:
    """Return a moment as the parameters `at` and `since` of the APIs take it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _read_span(words: list[str], now: datetime) -> datetime | None:
    """Return the moment of `now`, or of a time span before now; None for other texts."""
    if words == ["now"]:
        return now
    span = words[0] if words and words[1:] in ([], ["ago"]) else ""
    if not _SPAN.fullmatch(span):
        return None
    seconds = sum(Fraction(amount) * _SECONDS[unit] for amount, unit in _PART.findall(span))
    try:
        return now - timedelta(seconds=float(seconds))
    except OverflowError as error:
        raise MomentError(f"{span!r} is before the year 1") from error


def _read_day(words: list[str], now: datetime, zone: tzinfo | None) -> datetime | None:
    """Return the moment of a clock time, a named day, or both; None for other texts.

    A day alone is its start.
    """
    today = now.astimezone(zone).date()
    at = _read_clock(words[-1]) if words else None
    named = words if at is None else words[:-1]
    days = _days_ago(named[0], today.weekday()) if len(named) == 1 else None
    if days is not None:
        return _local(datetime.combine(today - timedelta(days=days), at or time()), zone)
    if at is None or named:
        return None
    moment = _local(datetime.combine(today, at), zone)
    if moment <= now:
        return moment
    return _local(datetime.combine(today - timedelta(days=1), at), zone)


def _days_ago(word: str, weekday: int) -> int | None:
    """Return how many days ago a named day was; a weekday is the last one before today."""
    if word in {"today", "yesterday"}:
        return 0 if word == "today" else 1
    if len(word) < _SHORTEST_DAY:
        return None
    for number, day in enumerate(_DAYS):
        if day.startswith(word):
            return (weekday - number) % _WEEK or _WEEK
    return None


def _read_clock(word: str) -> time | None:
    found = _CLOCK.fullmatch(word)
    if found is None:
        return None
    try:
        hour, minute, second = (int(part) for part in found.groups(default="0"))
        return time(hour, minute, second)
    except ValueError:  # 25:00
        return None


def _read_date(text: str, zone: tzinfo | None) -> datetime | None:
    """Return the moment of an ISO 8601 date, with a time or not, with a zone or not."""
    if "-" not in text or len(text) > LONGEST_TEXT:  # fromisoformat also reads 20261124
        return None
    try:
        # A lower-case `t` and `z` are RFC 3339 as well.
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else _local(moment, zone)


def _local(moment: datetime, zone: tzinfo | None) -> datetime:
    """Return a moment without a time zone as one of the zone; None: of this machine."""
    if zone is not None:
        return moment.replace(tzinfo=zone)
    try:
        return moment.astimezone()
    except (OverflowError, ValueError) as error:
        raise MomentError(f"the year {moment.year} cannot be read") from error
