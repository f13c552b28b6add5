"""The tables of samples: a row a minute, folded into rows for longer times as these are over."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from queue_insight.record.record_tables import Statements, StoreError
from queue_insight.record.samples import (
    DAY,
    FIVE_MINUTES,
    HALF_HOURS,
    HOUR,
    MINUTES,
    NOTHING,
    WHOLE,
    Level,
    Sample,
    SampleBatch,
    begin_of,
    fold,
)

MAX_POINTS: Final = 400
"""Samples that are read at once, the newest: a week of half hours has 336."""


class Reach(NamedTuple):
    """How far back samples are read.

    Attributes:
        seconds: How far.
        levels: Those that are read, the longest first. What is not folded yet is read of the next.
    """

    seconds: int
    levels: tuple[Level, ...]


REACHES: Final = {
    "1h": Reach(HOUR, (MINUTES,)),
    "1d": Reach(DAY, (FIVE_MINUTES, MINUTES)),
    "7d": Reach(7 * DAY, (HALF_HOURS, FIVE_MINUTES, MINUTES)),
}


class TimedSample(NamedTuple):
    """A sample, when it begins in seconds since the epoch, and how many seconds it is for."""

    begin: int
    seconds: int
    sample: Sample


class SampleTables:
    """Writes and reads samples by one connection.

    All methods raise StoreError if the file cannot be read or written.
    """

    def __init__(self, statements: Statements) -> None:
        self._run = statements.run

    def add(self, batch: SampleBatch) -> None:
        """Keep the samples of a minute, in place of those that it has, and fold what is over."""
        self._run("DELETE FROM minutes WHERE wall = ?", batch.wall)
        # The whole first: the oldest rows are deleted first, and those without it mean nothing.
        self._insert(MINUTES, batch.wall, sorted(batch.samples.items()))
        self.fold(batch.wall)

    def fold(self, now: float) -> None:
        """Fold the times that are over and not folded yet.

        They are looked for, and not remembered: a program that has restarted folds what the one
        before it has begun. Call it before minutes are deleted.
        """
        for level, parts in ((FIVE_MINUTES, MINUTES), (HALF_HOURS, FIVE_MINUTES)):
            self._fold_until(begin_of(now, level), level, parts)

    def _insert(self, level: Level, wall: int, samples: Iterable[tuple[str, Sample]]) -> None:
        for of, sample in samples:
            data = msgspec.json.encode(sample)
            statement = f"INSERT INTO {level.table} (of, wall, data) VALUES (?, ?, ?)"  # noqa: S608 - ours
            self._run(statement, of, wall, data)

    def _fold_until(self, until: int, level: Level, parts: Level) -> None:
        # The present one is not over: a clock that was ahead for a while has left what is there.
        self._run(f"DELETE FROM {level.table} WHERE wall = ?", until)  # noqa: S608 - ours
        rows = f"SELECT wall FROM {parts.table} WHERE of = '' AND wall < ?"  # noqa: S608 - ours
        taken = self._run(rows, until)
        wanted = {begin_of(each, level) for (each,) in taken}
        if wanted:
            rows = f"SELECT wall FROM {level.table} WHERE of = '' AND wall BETWEEN ? AND ?"  # noqa: S608 - ours
            wanted -= {each for (each,) in self._run(rows, min(wanted), until)}
        for begin in sorted(wanted):
            self._fold_one(begin, level, parts)

    def _fold_one(self, begin: int, level: Level, parts: Level) -> None:
        rows = self._run(
            f"SELECT of, data FROM {parts.table} WHERE wall >= ? AND wall < ? ORDER BY of",  # noqa: S608 - ours
            *(begin, begin + level.seconds),
        )
        found = {
            of: [_decode(data) for _, data in each]
            for of, each in groupby(rows, key=lambda row: row[0])
        }
        count = len(found[WHOLE])
        self._insert(level, begin, ((of, fold(each, count)) for of, each in found.items()))

    def read(self, of: str, reach: Reach, now: float) -> list[TimedSample]:
        """Return the samples up to a time, in order; times without one were not recorded.

        Args:
            of: `WHOLE`, `of_queue` or `of_quota`.
            reach: How far back.
            now: The time.
        """
        found: list[TimedSample] = []
        begin = int(now) - reach.seconds
        for level in reach.levels:
            whole = self._read(WHOLE, level, begin, now)
            own = whole if of == WHOLE else self._read(of, level, begin, now)
            found += [
                TimedSample(at, level.seconds, _decode(own[at]) if at in own else NOTHING)
                for at in sorted(whole)
            ]
            if found:
                begin = found[-1].begin + found[-1].seconds
        return found[-MAX_POINTS:]

    def _read(self, of: str, level: Level, since: int, until: float) -> dict[int, bytes]:
        rows = self._run(
            f"SELECT wall, data FROM {level.table} WHERE of = ? AND wall >= ? AND wall <= ?",  # noqa: S608 - ours
            *(of, since, until),
        )
        return dict(rows)


def _decode(data: bytes) -> Sample:
    try:
        return msgspec.json.decode(data, type=Sample)
    except msgspec.DecodeError as error:
        raise StoreError(f"a sample that cannot be read: {error}") from error
