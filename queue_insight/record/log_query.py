"""Reads the log of decisions, a page at a time, newest first."""

from __future__ import annotations

from typing import Final

import msgspec

from queue_insight.record.decision_log import LogEntry
from queue_insight.record.record_store import RecordStore

MAX_PAGE: Final = 500
"""Entries of a page: some 200 kB."""


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for; "" and None: any.

    Attributes:
        unit: `namespace/name`.
        queue: Name of a queue.
        reason: A reason of refusals or evictions.
        since: Seconds since the epoch, inclusive.
        until: The same.
        cursor: `LogPage.cursor` of the page before; None: the newest entries.
        limit: Entries of a page; at most `MAX_PAGE`.
    """

    unit: str = ""
    queue: str = ""
    reason: str = ""
    since: float | None = None
    until: float | None = None
    cursor: int | None = None
    limit: int = 100


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page.

    Attributes:
        entries: The newest first.
        cursor: Where the next page begins; None if there is none.
    """

    entries: tuple[LogEntry, ...]
    cursor: int | None


def read_log(store: RecordStore, query: LogQuery) -> LogPage:
    """Return a page of the log.

    Raises:
        StoreError: The record cannot be read.
    """
    parts = {
        "unit = ?": query.unit or None,
        "queue = ?": query.queue or None,
        "reason = ?": query.reason or None,
        "wall >= ?": query.since,
        "wall <= ?": query.until,
        "id < ?": query.cursor,
    }
    given = {part: value for part, value in parts.items() if value is not None}
    where = f"WHERE {' AND '.join(given)}" if given else ""
    limit = max(1, min(query.limit, MAX_PAGE))
    found = store.select_decisions(f"{where} ORDER BY id DESC LIMIT ?", *given.values(), limit + 1)
    page = found[:limit]
    return LogPage(
        entries=tuple(entry for _, entry in page),
        cursor=page[-1][0] if len(found) > limit else None,
    )
