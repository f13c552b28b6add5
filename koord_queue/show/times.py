"""Times for people: how long ago, how long until, and the clock of the wall."""

from __future__ import annotations

from datetime import datetime, tzinfo

from shared_api.durations import human_duration
from shared_api.timestamps import read_time

UNKNOWN = "<unknown>"
"""What kubectl prints for a missing value."""


def ago(text: str | None, now: datetime) -> str:
    """Return how long ago a time was, as kubectl prints an age; `<unknown>` without one."""
    moment = read_time(text)
    return UNKNOWN if moment is None else human_duration((now - moment).total_seconds())


def until(text: str | None, now: datetime) -> str:
    """Return how long it is until a time; one that has passed is now; `<unknown>` without one."""
    moment = read_time(text)
    return UNKNOWN if moment is None else human_duration(max(0.0, (moment - now).total_seconds()))


def clock_time(moment: datetime, now: datetime, zone: tzinfo | None = None) -> str:
    """Return a time on the wall's clock: `14:05`; on another day `Fri 14:05`, or with its date.

    Args:
        moment: The time, with a zone.
        now: The present.
        zone: The reader's; None: that of the machine.
    """
    local, today = moment.astimezone(zone), now.astimezone(zone)
    days = (local.date() - today.date()).days
    if days == 0:
        return local.strftime("%H:%M")
    if abs(days) < 7:  # noqa: PLR2004 - a weekday is clear within a week
        return local.strftime("%a %H:%M")
    return local.strftime("%Y-%m-%d %H:%M")
