"""Formats and parses times in API objects. Pure.

Kubernetes writes UTC with a `Z`. Users and other programs write arbitrary texts into annotations
and status fields, so there are two ways of reading: `parse_time` for fields that the server has
checked, `read_time` for all others. `read_past` reads the time since when something has been so.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from shared_api.objects.meta import Timestamp

MAX_CLOCK_SKEW: Final = timedelta(seconds=60)
"""How far the clock of a writer may be ahead."""
_OFFSET: Final = "+00:00"
"""The end of `isoformat` for a time in UTC."""


def rfc3339(moment: datetime) -> Timestamp:
    """Return the moment as Kubernetes writes a `metav1.Time`: UTC, whole seconds."""
    # Not strftime, which takes half as long again.
    return Timestamp(moment.astimezone(UTC).isoformat(timespec="seconds")[: -len(_OFFSET)] + "Z")


def rfc3339_micro(moment: datetime) -> Timestamp:
    """Return the moment as Kubernetes writes a `metav1.MicroTime`: UTC, six digits."""
    text = moment.astimezone(UTC).isoformat(timespec="microseconds")
    return Timestamp(text[: -len(_OFFSET)] + "Z")


def parse_time(text: str) -> datetime:
    """Return the time of an API server's timestamp, in UTC.

    Accepts `metav1.Time` and `metav1.MicroTime`, and any other RFC 3339 text with an offset.

    Raises:
        ValueError: The text is not a time, or has no time zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"no time zone in {text!r}")
    return moment.astimezone(UTC)


def read_time(text: str | None) -> datetime | None:
    """Return the time of a text, in UTC; None for None, "" and a text that is not a time.

    Without a time zone it is UTC, like the times that programs write.
    """
    try:
        moment = datetime.fromisoformat(text or "")
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):  # not a time, or outside of the years 1 to 9999
        return None


def read_seconds(text: str | None) -> float | None:
    """Return the time of a text, as `read_time`, in whole seconds since the epoch.

    With a fraction the last second of the year 9999 would be rounded up to the year after it, which
    no `datetime` can be made of.
    """
    moment = read_time(text)
    return None if moment is None else moment.replace(microsecond=0).timestamp()


def read_past(text: str | None, now: datetime) -> datetime | None:
    """Return the time of a text, as `read_time`; None also for a time in the future.

    A time in the future results from an edit: counted from it, nothing would be late until then.
    """
    moment = read_time(text)
    return None if moment is None or moment > now + MAX_CLOCK_SKEW else moment


def end_of_second(text: str | None) -> Timestamp | None:
    """Return the end of the second of a `metav1.Time`, which is truncated to whole seconds.

    None for None, "" and a text that is not a time.
    """
    moment = read_time(text)
    return None if moment is None else rfc3339_micro(moment.replace(microsecond=999_999))
