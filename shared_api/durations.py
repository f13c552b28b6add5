"""Durations: as Go writes them, in flags, files, annotations and tables; and in words. Pure."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

DURATION_PATTERN: Final = "([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+|0|"
"""What `parse_duration` accepts, for schemas; to be placed between ^( and )$."""

LONGEST_TEXT: Final = 64
"""Longer texts are not parsed. Go writes at most 30 characters; an annotation may have 256 KiB,
which would take minutes to search."""

LONGEST_DURATION: Final = Fraction(2**63 - 1, 10**9)
"""In seconds: the longest duration in Go, 292 years. A time that far ahead is a valid date."""

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")
_SECONDS: Final = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}


class DurationError(ValueError):
    """The text is not a duration; the message is one line."""


def parse_duration(text: str) -> Fraction:
    """Return the exact seconds of a Go duration such as "30s", "5m" or "1h30m"; "" and "0" are 0.

    Raises:
        DurationError: It is not a duration, or is longer than `LONGEST_DURATION`.
    """
    if text in {"", "0"}:
        return Fraction(0)
    parts = _PART.findall(text) if len(text) <= LONGEST_TEXT else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise _no_duration(text)
    return _within_reach(
        text, sum((Fraction(number) * _SECONDS[unit] for number, unit in parts), Fraction(0))
    )


def parse_seconds(value: str | int) -> float:
    """Return the seconds of a Go duration ("10m", "1h30m"), or of a whole number of seconds.

    Raises:
        DurationError: It is neither, is negative, or is longer than `LONGEST_DURATION`.
    """
    text = str(value)
    if text.isascii() and text.isdecimal() and len(text) <= LONGEST_TEXT:
        return float(_within_reach(text, Fraction(text)))
    return float(parse_duration(text))


def _within_reach(text: str, seconds: Fraction) -> Fraction:
    if seconds > LONGEST_DURATION:
        years = int(LONGEST_DURATION) // (365 * 24 * 3600)
        raise DurationError(f"{text!r} is longer than {years} years")
    return seconds


def _no_duration(text: str) -> DurationError:
    shown = text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "..."
    return DurationError(f"{shown!r} is not a duration such as 30s, 5m or 1h30m")


_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY


def human_duration(seconds: float) -> str:
    """Return a duration as kubectl prints it: at most two units, coarser for longer durations.

    Source: k8s.io/apimachinery/pkg/util/duration.HumanDuration.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    # Up to this many seconds | the two units | whether the smaller one is shown.
    for limit, large, small, letters, shows_small in (
        (2 * _MINUTE, 1, 1, "s", False),
        (10 * _MINUTE, _MINUTE, 1, "ms", True),
        (3 * _HOUR, _MINUTE, 1, "m", False),
        (8 * _HOUR, _HOUR, _MINUTE, "hm", True),
        (2 * _DAY, _HOUR, 1, "h", False),
        (8 * _DAY, _DAY, _HOUR, "dh", True),
        (2 * _YEAR, _DAY, 1, "d", False),
        (8 * _YEAR, _YEAR, _DAY, "yd", True),
    ):
        if whole < limit:
            rest = whole % large // small if shows_small else 0
            return f"{whole // large}{letters[0]}" + (f"{rest}{letters[1]}" if rest else "")
    return f"{whole // _YEAR}y"


def seconds_in_words(seconds: float) -> str:
    """Return a time without its sign, in its two largest units: `2 d 3 h`, `5 min`, `12 s`."""
    whole = round(abs(seconds))
    units = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    parts: list[tuple[int, str]] = []
    for size, name in units:
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append((count, name))
        if len(parts) == 2:  # noqa: PLR2004 - the two largest units
            break
    return " ".join(f"{count} {name}" for count, name in parts if count) or "0 s"
