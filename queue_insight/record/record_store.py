"""The record on disk: calls, checkpoints, decisions, ended runs and samples, in one SQLite file.

One thread writes (`record_writer`); each reader opens a connection of its own, and sees the last
commit. Calls are numbered anew when the scheduler starts, and have a gap when they were lost, so
they are kept by *stretch*: one begins with a checkpoint, and has every call after it until its end.
Between two stretches is a gap.

See `record_limits` for what it takes, `record_file` for the file.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from queue_insight.insight.finished_run import FinishedRun
from queue_insight.record.call_codec import decode_call
from queue_insight.record.checkpoint import MAX_BYTES
from queue_insight.record.decision_log import LogEntry
from queue_insight.record.record_limits import Limits
from queue_insight.record.record_pruning import Pruning, Retention
from queue_insight.record.record_tables import Statements, StoreError, StoreFullError
from queue_insight.record.sample_tables import SampleTables
from queue_insight.record.use_tables import UseTables
from queue_insight.record.writer_version import describe_writer
from queue_scheduler.cycles.engine_call import EngineCall

COMPRESSION: Final = 1
"""zlib's fastest: calls shrink to a tenth, and more effort saves little more."""

MAX_UNPACKED: Final = MAX_BYTES
"""Bytes of a row before it was compressed: some kilobytes of it can become gigabytes."""

MAX_READ_BYTES: Final = 33_554_432
"""Compressed bytes of calls that are read at once: 20,000 usual ones have less than a tenth."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An engine at a moment.

    Attributes:
        stretch: The stretch that it belongs to.
        number: The last call before it.
        wall: When, in seconds since the epoch.
        data: What `checkpoint.freeze` has returned.
    """

    stretch: int
    number: int
    wall: float
    data: bytes


class EncodedCall(NamedTuple):
    """A call of an engine as it is kept.

    Attributes:
        number: Its number.
        wall: When, in seconds since the epoch.
        data: What `call_codec.encode_call` has returned.
    """

    number: int
    wall: float
    data: bytes


class Span(NamedTuple):
    """The time of a stretch, in seconds since the epoch.

    Attributes:
        began: When it began.
        until: Every call until then is there.
        following: When the next one began; None if there is none.
        writer: What `describe_writer` returned where it was written; "" in older versions.
    """

    began: float
    until: float
    following: float | None
    writer: str


class RecordStore:
    """One connection to the file. Not thread-safe: one for each thread.

    All methods raise StoreError if the file cannot be read or written. Of what is written between
    two commits, all or nothing is kept.

    Attributes:
        statements: Runs statements on the connection.
        samples: The tables of samples.
        use: The tables of what accounts used.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, limits: Limits) -> None:
        self.statements = Statements(connection)
        self.samples = SampleTables(self.statements)
        self.use = UseTables(self.statements)
        self._run = self.statements.run
        self._log = path.with_name(f"{path.name}-wal")
        self._limits = limits
        self._pruning = Pruning(self.statements, limits)

    def close(self) -> None:
        """Close the connection; what is not committed is lost."""
        self.statements.close()

    # --- writing ------------------------------------------------------------------------------

    def begin_stretch(self, wall: float) -> int:
        """Begin a stretch; return its number. The caller writes its first checkpoint at once."""
        statement = "INSERT INTO stretches (began, until, writer) VALUES (?, ?, ?) RETURNING id"
        return int(self._run(statement, wall, wall, describe_writer())[0][0])

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint."""
        data, most = _pack(checkpoint.data), self._limits.checkpoint
        if len(data) > most:
            raise StoreFullError(
                f"a checkpoint has {len(data)} bytes, and there is room for {most}"
            )
        at = (checkpoint.stretch, checkpoint.number)
        self._run("DELETE FROM checkpoints WHERE stretch = ? AND number = ?", *at)
        self._run("INSERT INTO checkpoints VALUES (?, ?, ?, ?)", *at, checkpoint.wall, data)

    def add_calls(self, stretch: int, calls: Sequence[EncodedCall]) -> None:
        """Keep calls that follow each other."""
        data = _pack(b"\n".join([each.data for each in calls]))
        row = (stretch, calls[-1].number, calls[0].wall, data)
        self._run("INSERT INTO calls VALUES (?, ?, ?, ?)", *row)

    def add_decision(self, entry: LogEntry) -> None:
        """Keep a decision."""
        self._run(
            "INSERT INTO decisions (wall, unit, queue, reason, data) VALUES (?, ?, ?, ?, ?)",
            *(entry.wall, entry.unit, entry.queue, entry.reason, msgspec.json.encode(entry)),
        )

    def add_finished(self, run: FinishedRun) -> None:
        """Keep a run that has ended."""
        data = msgspec.json.encode(run)
        self._run("INSERT INTO finished (ended, data) VALUES (?, ?)", run.ended, data)

    def commit(self, stretch: int, until: float) -> None:
        """Commit what was written: readers see it, and it survives a crash.

        Args:
            stretch: The stretch that is written.
            until: It has every call until this time.
        """
        statement = "UPDATE stretches SET until = max(until, ?) WHERE id = ?"
        self._run(statement, until, stretch)
        self._run("COMMIT")
        self._check_log()
        self._run("BEGIN")

    def is_above_limits(self) -> bool:
        """Return whether something takes more than its share, and `prune` is to be called."""
        return self._pruning.is_due()

    def prune(self, now: float, retention: Retention) -> None:
        """Delete what is too old or too much, commit, and give back space."""
        self._pruning.prune(now, retention)

    def _check_log(self) -> None:
        """Check that the log of the file does not grow: while somebody reads, it does."""
        most = self._limits.log
        if self._log_bytes() > most:
            self._run("PRAGMA wal_checkpoint(TRUNCATE)")
            if self._log_bytes() > most:
                raise StoreFullError(
                    "another program reads the file for so long that its log grows"
                )

    def _log_bytes(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    # --- reading ------------------------------------------------------------------------------

    def checkpoint_before(self, wall: float) -> Checkpoint | None:
        """Return the last checkpoint at or before a time, or None."""
        rows = self._run(
            "SELECT stretch, number, wall, data FROM checkpoints WHERE wall <= ?"
            " ORDER BY stretch DESC, number DESC LIMIT 1",
            wall,
        )
        for stretch, number, at, data in rows:
            return Checkpoint(stretch=stretch, number=number, wall=at, data=_unpack(data))
        return None

    def calls_after(self, checkpoint: Checkpoint, until: float) -> Iterator[EngineCall]:
        """Return the calls from a checkpoint until a time, in order and without gaps.

        What is read of them is read now, and decoded one by one. If it has more than
        `MAX_READ_BYTES`, its rows are read one by one as well, each in a transaction of its own:
        one for all would hold back the file's log for as long as they are played.

        Raises:
            StoreError: Also while they are taken, if the next row was deleted meanwhile.
        """
        where = "FROM calls WHERE stretch = ? AND last > ? AND wall <= ?"
        values = (checkpoint.stretch, checkpoint.number, until)
        size = self._run(f"SELECT coalesce(sum(length(data)), 0) {where}", *values)[0][0]
        is_short = size <= MAX_READ_BYTES
        column = "data" if is_short else "last"
        rows = self._run(f"SELECT {column} {where} ORDER BY last", *values)
        stretch = checkpoint.stretch
        packed = (one if is_short else self._read_row(stretch, one) for (one,) in rows)
        calls = (_read_call(line) for data in packed for line in _unpack(data).split(b"\n"))
        return (each for each in calls if each.number > checkpoint.number and each.wall <= until)

    def _read_row(self, stretch: int, last: int) -> bytes:
        rows = self._run("SELECT data FROM calls WHERE stretch = ? AND last = ?", stretch, last)
        if not rows:
            raise StoreError("calls were deleted while they were read: the record begins later now")
        return bytes(rows[0][0])

    def span_of(self, stretch: int) -> Span:
        """Return the time of which a stretch has every call."""
        rows = self._run(
            "SELECT began, until, (SELECT min(began) FROM stretches WHERE id > s.id), writer"
            " FROM stretches AS s WHERE id = ?",
            stretch,
        )
        return Span(*rows[0])

    def first_wall(self) -> float | None:
        """Return the time of the oldest checkpoint; None if there is none."""
        found = self._run("SELECT min(wall) FROM checkpoints")[0][0]
        return None if found is None else float(found)

    def finished_since(self, wall: float, most: int = -1, unit: str = "") -> Iterator[FinishedRun]:
        """Yield the runs that have ended since a time, in order; the newest `most`, or all.

        Args:
            wall: The time, in seconds since the epoch.
            most: How many, the newest; -1: all.
            unit: Those of this unit alone (`namespace/name`); "": of any. There is no index for it:
                all rows are searched for the field, which no text within another one looks like,
                since its quotes are escaped.
        """
        field = b'"unit":' + (msgspec.json.encode(unit) if unit else b"")
        statement = (
            "SELECT data FROM finished WHERE ended >= ? AND instr(data, ?)"
            " ORDER BY ended DESC, id DESC LIMIT ?"
        )
        rows = self._run(statement, wall, field, most)
        return (msgspec.json.decode(data, type=FinishedRun) for (data,) in reversed(rows))

    def select_decisions(self, where: str, *values: object) -> list[tuple[int, LogEntry]]:
        """Return decisions, each with its id; `where`: the end of a SELECT, with ? for values."""
        rows = self._run(f"SELECT id, data FROM decisions {where}", *values)  # noqa: S608 - ours
        try:
            return [(number, msgspec.json.decode(data, type=LogEntry)) for number, data in rows]
        except msgspec.DecodeError as error:
            raise StoreError(f"a decision that cannot be read: {error}") from error


def _read_call(line: bytes) -> EngineCall:
    try:
        return decode_call(line)
    except msgspec.DecodeError as error:
        raise StoreError(f"a call that cannot be read: {error}") from error


def _pack(data: bytes) -> bytes:
    return zlib.compress(data, COMPRESSION)


def _unpack(data: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        found = unpacking.decompress(data, MAX_UNPACKED)
    except zlib.error as error:
        raise StoreError(str(error)) from error
    if not unpacking.eof:
        raise StoreError(f"a row that is cut short, or has more than {MAX_UNPACKED} bytes")
    return found
