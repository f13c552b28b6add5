"""Deletes the oldest rows of the record: those that are too old, and those that are too many.

In small steps, with a commit after each: the log of the file has each page that changes until
SQLite copies it into the file, and it has a limit as well.
"""

from __future__ import annotations

from typing import Final

import msgspec

from queue_insight.record.record_limits import Limits, with_room
from queue_insight.record.record_tables import DAYS_TABLE, HOURS_TABLE, Statements
from queue_insight.record.samples import LEVELS

HOUR: Final = 3_600
DAY: Final = 86_400.0

ROWS_AT_ONCE: Final = 500
"""Rows deleted between two commits: below a megabyte of pages."""
PAGES_FREED: Final = 2_000
"""Pages given back to the file system between two commits: 8 MB, some milliseconds."""

USE_SECONDS: Final = 400 * DAY
"""How long sums of use are kept: a year, and the month in which it is reported."""

MAX_SPANS: Final = 10_000
"""Times between two gaps of these sums that are kept, the newest: a restart an hour."""

_KEPT: Final[dict[str, float]] = {
    **{level.table: level.kept_seconds for level in LEVELS},
    # Last: of what takes too much, the days of use are deleted after all else.
    **dict.fromkeys((HOURS_TABLE, DAYS_TABLE), USE_SECONDS),
}
_BY_ID: Final = ("decisions", "finished", *_KEPT)
_WHEN: Final = {"finished": "ended", HOURS_TABLE: f"{HOUR} * id", DAYS_TABLE: f"{DAY:.0f} * id"}


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long the record is kept, as far as its limit allows.

    Attributes:
        decisions_seconds: Decisions and ended runs.
        calls_seconds: Calls and checkpoints, for questions about the past.
    """

    decisions_seconds: float = 30 * DAY
    calls_seconds: float = DAY


class Pruning:
    """Deletes rows by one connection, which has begun a transaction."""

    def __init__(self, statements: Statements, limits: Limits) -> None:
        self._run = statements.run
        self._number = statements.number
        self._run_to_end = statements.run_to_end
        self._limits = limits

    def is_due(self) -> bool:
        """Return whether something takes more than its limit."""
        tables = [*_BY_ID, "calls"]
        is_above = any(self._size_of(each) > self._limits.of_table(each) for each in tables)
        return is_above or self._bytes_in_use() > self._limits.pages

    def prune(self, now: float, retention: Retention) -> None:
        """Delete what is too old or too much, commit, and give back space."""
        for table in _BY_ID:
            self._drop_before(table, now - _KEPT.get(table, retention.decisions_seconds))
        while self._drop_checkpoint_before(now - retention.calls_seconds):
            self._commit()
        for table in _BY_ID:
            self._shrink(table)
        self._shrink_calls()
        self._shrink_pages()
        self._run(
            "DELETE FROM use_spans WHERE until < ? OR id <= (SELECT max(id) FROM use_spans) - ?",
            *(now - USE_SECONDS, MAX_SPANS),
        )
        self._run(
            "DELETE FROM stretches WHERE id < coalesce("
            "(SELECT min(stretch) FROM checkpoints), (SELECT max(id) FROM stretches))"
        )
        self._run("COMMIT")
        self._give_back_space()
        self._run("BEGIN")

    def _drop_before(self, table: str, wall: float) -> None:
        rows = f"SELECT id FROM {table} WHERE {_WHEN.get(table, 'wall')} < ? LIMIT {ROWS_AT_ONCE}"  # noqa: S608 - ours
        while self._run(f"DELETE FROM {table} WHERE id IN ({rows}) RETURNING 1", wall):  # noqa: S608 - ours
            self._commit()

    def _shrink(self, table: str) -> None:
        most = self._limits.of_table(table)
        if self._size_of(table) <= most:
            return
        while (excess := self._size_of(table) - with_room(most)) > 0:
            if not self._drop_oldest(table, excess):
                return

    def _drop_oldest(self, table: str, excess: int) -> int:
        """Delete about as many of the oldest rows as have so many bytes; return how many."""
        span = self._number(f"SELECT coalesce(max(id) - min(id) + 1, 0) FROM {table}")  # noqa: S608 - ours
        if not span:
            return 0
        rows = min(ROWS_AT_ONCE, span * excess // max(self._size_of(table), 1) + 1)
        oldest = f"SELECT id FROM {table} ORDER BY id LIMIT ?"  # noqa: S608 - ours
        gone = self._run(f"DELETE FROM {table} WHERE id IN ({oldest}) RETURNING 1", rows)  # noqa: S608 - ours
        self._commit()
        return len(gone)

    def _shrink_calls(self) -> None:
        most = self._limits.of_table("calls")
        if self._size_of("calls") <= most:
            return
        while self._size_of("calls") > with_room(most) and self._drop_checkpoint(least=2):
            self._commit()

    def _shrink_pages(self) -> None:
        if self._bytes_in_use() <= self._limits.pages:
            return
        while (excess := self._bytes_in_use() - with_room(self._limits.pages)) > 0:
            if self._drop_checkpoint(least=2):
                self._commit()
            elif not any(self._drop_oldest(each, excess) for each in _BY_ID):
                return

    def _drop_checkpoint_before(self, wall: float) -> bool:
        first = self._run("SELECT wall FROM checkpoints ORDER BY stretch, number LIMIT 1")
        return bool(first) and first[0][0] < wall and self._drop_checkpoint(least=1)

    def _drop_checkpoint(self, *, least: int) -> bool:
        """Delete the first checkpoint, and the calls until the next, if there are so many."""
        found = self._run(
            "SELECT stretch, number FROM checkpoints ORDER BY stretch, number LIMIT 2"
        )
        if len(found) < least:
            return False
        self._run("DELETE FROM checkpoints WHERE stretch = ? AND number = ?", *found[0])
        if len(found) == 1:
            self._run("DELETE FROM calls")
        else:
            self._run("DELETE FROM calls WHERE (stretch, last) <= (?, ?)", *found[1])
        return True

    def _give_back_space(self) -> None:
        """Shrink the file by one step, or to its limit."""
        while self._number("PRAGMA freelist_count"):
            self._run_to_end(f"PRAGMA incremental_vacuum({PAGES_FREED})")
            if self._number("PRAGMA page_count") * self._page_bytes() <= self._limits.file:
                return

    def _size_of(self, table: str) -> int:
        of = "of IN ('calls', 'checkpoints')" if table == "calls" else f"of = '{table}'"
        return self._number(f"SELECT sum(bytes) FROM sizes WHERE {of}")  # noqa: S608 - ours

    def _bytes_in_use(self) -> int:
        pages = self._number("PRAGMA page_count") - self._number("PRAGMA freelist_count")
        return pages * self._page_bytes()

    def _page_bytes(self) -> int:
        return self._number("PRAGMA page_size")

    def _commit(self) -> None:
        self._run("COMMIT")
        self._run("BEGIN")
