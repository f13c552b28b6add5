"""Times as texts in API objects: how they are written, and read. Pure.

Kubernetes writes UTC with a `Z`. People and other programs write what they like into annotations
and status fields, so reading has two ways: `parse_time` for what a server has checked, and
`read_time` for the rest. Since when something is so is read by `read_past`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from shared_api.objects.meta import Timestamp

MAX_CLOCK_SKEW: Final = timedelta(seconds=60)
"""By how many seconds the clock of a time's writer may be ahead."""


def rfc3339(moment: datetime) -> Timestamp:
    """Return the moment as Kubernetes writes a `metav1.Time`: UTC, whole seconds."""
    return Timestamp(moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def rfc3339_micro(moment: datetime) -> Timestamp:
    """Return the moment as Kubernetes writes a `metav1.MicroTime`: UTC, six digits."""
    return Timestamp(moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))


def parse_time(text: str) -> datetime:
    """Return the moment that an API server's timestamp names, in UTC.

    Takes `metav1.Time` and `metav1.MicroTime`, and any other RFC 3339 text with an offset.

    Raises:
        ValueError: The text is no time, or does not say which zone it is in.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"no time zone in {text!r}")
    return moment.astimezone(UTC)


def read_time(text: str | None) -> datetime | None:
    """Return the moment that a text names, in UTC; None for none, "" and what is no time.

    Without a zone it is UTC, like the times that programs write.
    """
    try:
        moment = datetime.fromisoformat(text or "")
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):  # no time, or one outside of the years 1 to 9999
        return None


def read_past(text: str | None, now: datetime) -> datetime | None:
    """Return the moment that a text names; None for what `read_time` cannot read, and the future.

    A time in the future is an edit: counted from it, nothing would be late until then.
    """
    moment = read_time(text)
    return None if moment is None or moment > now + MAX_CLOCK_SKEW else moment


def end_of_second(text: str | None) -> Timestamp | None:
    """Return the last moment that a `metav1.Time` may stand for, which is cut to whole seconds.

    None for none, "" and what is no time.
    """
    moment = read_time(text)
    return None if moment is None else rfc3339_micro(moment.replace(microsecond=999_999))
