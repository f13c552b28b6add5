"""The tables of what accounts used: a row for each hour, and one for each day of UTC.

An hour is written in parts, about one a minute, each added to the row of its hour; a day is made of
its hours when it is over. `use_spans` has the times that were counted: a part that begins before
the end of the last one is refused, so two processes that write the same file count nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from queue_insight.record.record_tables import DAYS_TABLE, HOURS_TABLE, Statements, StoreError
from queue_insight.record.samples import DAY, HOUR
from queue_insight.record.use_sums import (
    UseBlock,
    UsePart,
    decode_block,
    encode_block,
    join_hour,
    join_hours,
)

_SECONDS: Final = {HOURS_TABLE: HOUR, DAYS_TABLE: DAY}
FRESH_SECONDS: Final = 300
"""What was used in the last minutes is not written yet; that is no gap."""


class UseReach(NamedTuple):
    """The time that is read, in seconds since the epoch.

    Attributes:
        start: A full hour; of a time whose hours were dropped, the beginning of a day.
        end: The same; it may be in the future.
        complete_from: Since when nothing is missing; None: nothing is there.
        missing_seconds: How much of the time was not counted.
    """

    start: int
    end: int
    complete_from: int | None
    missing_seconds: int


class TimedBlock(NamedTuple):
    """The sums of an hour or a day, when it begins, and how many seconds it is long."""

    begin: int
    seconds: int
    block: UseBlock


class UseTables:
    """Writes and reads sums by one connection.

    All methods raise StoreError if the file cannot be read or written.
    """

    def __init__(self, statements: Statements) -> None:
        self._run = statements.run

    # --- writing ------------------------------------------------------------------------------

    def add(self, part: UsePart) -> bool:
        """Add a part to its hour, and make days of those that are over.

        Returns:
            Whether it was added: not if a part of its time was counted already.
        """
        self._forget_future(part.until)
        last = self._run("SELECT max(until) FROM use_spans")[0][0]
        if last is not None and part.since < last:
            return False
        hour = part.since // HOUR
        assert part.until <= (hour + 1) * HOUR, f"{part.since} to {part.until} is not in an hour"
        known = self._block(HOURS_TABLE, hour)
        block = join_hour([part.block] if known is None else [known, part.block])
        self._put(HOURS_TABLE, hour, block)
        if last == part.since:
            self._run("UPDATE use_spans SET until = ? WHERE until = ?", part.until, last)
        else:
            self._run("INSERT INTO use_spans (began, until) VALUES (?, ?)", *part[:2])
        self.fold(part.since)
        return True

    def _forget_future(self, now: int) -> None:
        """Forget times that have not come yet: a clock was ahead, and nothing could be added."""
        if self._run("SELECT 1 FROM use_spans WHERE until > ? LIMIT 1", now + DAY):
            self._run("DELETE FROM use_spans WHERE began > ?", now)
            self._run("UPDATE use_spans SET until = ? WHERE until > ?", now, now)
            self._run("DELETE FROM use_hours WHERE id > ?", now // HOUR)
            self._run("DELETE FROM use_days WHERE id >= ?", now // DAY)

    def fold(self, now: int) -> None:
        """Make the days that are over and not there yet of their hours.

        They are looked for, and not remembered: a program that has restarted makes what the one
        before it has begun.
        """
        today = now // DAY
        last = self._run("SELECT max(id) FROM use_days WHERE id < ?", today)[0][0]
        since = 0 if last is None else last + 1
        rows = self._run(
            "SELECT id FROM use_hours WHERE id >= ? AND id < ?", *_hours_of(since, today)
        )
        for day in sorted({hour * HOUR // DAY for (hour,) in rows}):
            hours = range(*_hours_of(day, day + 1))
            blocks = [block for each in hours if (block := self._block(HOURS_TABLE, each))]
            self._put(DAYS_TABLE, day, join_hours(blocks))

    def _put(self, table: str, number: int, block: UseBlock) -> None:
        names = msgspec.json.encode(sorted({row.key.namespace for row in block.rows}))
        # Not updated: only rows that come and go are counted.
        self._run(f"DELETE FROM {table} WHERE id = ?", number)  # noqa: S608 - ours
        statement = f"INSERT INTO {table} VALUES (?, ?, ?)"  # noqa: S608 - ours
        self._run(statement, number, names, encode_block(block))

    # --- reading ------------------------------------------------------------------------------

    def reach(self, start: int, end: int, now: int) -> UseReach:
        """Return the time that is read if one is asked for.

        Args:
            start: In seconds since the epoch; rounded down to an hour.
            end: Rounded up.
            now: What is after it is not missing.
        """
        start, end = start // HOUR * HOUR, -(-end // HOUR) * HOUR
        first = self._run("SELECT min(id) FROM use_hours")[0][0]
        until = now if first is None else first * HOUR
        last = self._run("SELECT max(id) FROM use_days WHERE id < ?", -(-until // DAY))[0][0]
        if last is not None:  # hours of that day, or all of it, are there as a day alone
            if start < min(until, (last + 1) * DAY):
                start = start // DAY * DAY
            if end < min(until, (last + 1) * DAY):
                end = -(-end // DAY) * DAY
        spans = self._run("SELECT began, until FROM use_spans ORDER BY id")
        is_fresh = bool(spans) and 0 <= now - spans[-1][1] <= FRESH_SECONDS
        until = min(end, spans[-1][1] if is_fresh else now)
        counted = sum(max(0, min(ended, until) - max(began, start)) for began, ended in spans)
        missing = max(0, until - start - counted)
        return UseReach(start, end, spans[-1][0] if spans else None, missing)

    def namespaces(self, reach: UseReach) -> list[str]:
        """Return the namespaces whose use is in a time, by name."""
        found: set[str] = set()
        for table, number in self._plan(reach):
            rows = self._run(f"SELECT names FROM {table} WHERE id = ?", number)  # noqa: S608 - ours
            for (names,) in rows:
                found.update(_decode_names(names))
        return sorted(found)

    def read(self, reach: UseReach) -> Iterator[TimedBlock]:
        """Yield the sums of a time in order, each of a day where there is one, else of an hour."""
        for table, number in self._plan(reach):
            seconds = _SECONDS[table]
            block = self._block(table, number)
            if block is not None:  # else it was dropped meanwhile
                yield TimedBlock(number * seconds, seconds, block)

    def _plan(self, reach: UseReach) -> list[tuple[str, int]]:
        """Return the rows to read, in the order of their times."""
        whole = (-(-reach.start // DAY), reach.end // DAY)
        rows = self._run("SELECT id FROM use_days WHERE id >= ? AND id < ?", *whole)
        days = {day for (day,) in rows}
        some = (reach.start // HOUR, reach.end // HOUR)
        rows = self._run("SELECT id FROM use_hours WHERE id >= ? AND id < ?", *some)
        found = [(DAYS_TABLE, day) for day in days]
        found += [(HOURS_TABLE, hour) for (hour,) in rows if hour * HOUR // DAY not in days]
        return sorted(found, key=lambda each: each[1] * _SECONDS[each[0]])

    def _block(self, table: str, number: int) -> UseBlock | None:
        rows = self._run(f"SELECT data FROM {table} WHERE id = ?", number)  # noqa: S608 - ours
        return decode_block(rows[0][0]) if rows else None


def _decode_names(data: bytes) -> list[str]:
    try:
        return msgspec.json.decode(data, type=list[str])
    except msgspec.DecodeError as error:
        raise StoreError(f"names of namespaces that cannot be read: {error}") from error


def _hours_of(first_day: int, end_day: int) -> tuple[int, int]:
    """Return the numbers of the hours of some days: the first, and that after the last."""
    return first_day * DAY // HOUR, end_day * DAY // HOUR
