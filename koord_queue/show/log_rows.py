"""Decisions as rows of a table. Pure."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Final

from koord_queue.answers.log import LogEntry
from shared_api.timestamps import read_time

COLUMNS: Final = ("TIME", "UNIT", "WHAT", "QUEUE", "REASON", "MESSAGE")
STYLES: Final = {"Admitted": "good", "Grew": "good", "Evicts": "warn"}
OTHERS: Final = "(another-namespace)"
"""In the place of a unit that the reader may not see."""

_WEEK: Final = 7


def cells_of(
    entry: LogEntry, now: datetime, *, is_terminal: bool, zone: tzinfo | None = None
) -> list[str]:
    """Return the cells of a decision.

    Args:
        entry: The decision.
        now: The present.
        is_terminal: Times are short for people there, and whole in a pipe.
        zone: The reader's; None: that of the machine.
    """
    moment = read_time(entry.time)
    if moment is None:
        when = entry.time
    elif is_terminal:
        when = _short(moment.astimezone(zone), now.astimezone(zone))
    else:
        when = moment.astimezone(zone).isoformat(timespec="seconds")
    unit = entry.unit or OTHERS
    return [when, unit, entry.kind, entry.queue, entry.reason, text_of(entry)]


def text_of(entry: LogEntry) -> str:
    """Return what was decided in words; "" where the kind says all."""
    if not entry.victims and not entry.others:
        return entry.message
    named = ", ".join(entry.victims)
    more = f"{entry.others} of other namespaces" if entry.others else ""
    evicted = " and ".join(filter(None, (named, more)))
    return f"evicts {evicted}" + (f": {entry.message}" if entry.message else "")


def _short(moment: datetime, now: datetime) -> str:
    days = (now.date() - moment.date()).days
    if days == 0:
        return moment.strftime("%H:%M:%S")
    if 0 < days < _WEEK:
        return moment.strftime("%a %H:%M:%S")
    return moment.strftime("%Y-%m-%d %H:%M:%S")
