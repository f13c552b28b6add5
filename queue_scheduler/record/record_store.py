"""The record on disk: calls, checkpoints, decisions, and runs that have ended, in one SQLite file.

One thread writes (`record_writer`); each reader opens a connection of its own, and sees the last
commit. Calls are numbered anew when the scheduler starts, and have a gap when they were lost, so
they are kept by *stretch*: one begins with a checkpoint, and has every call after it until its end.
Between two stretches is a gap.

A file that cannot be read is moved aside, not deleted.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from queue_scheduler.insight.finished_run import FinishedRun
from queue_scheduler.record.call_codec import decode_call, encode_call
from queue_scheduler.record.decision_log import LogEntry
from queue_scheduler.record.engine_call import EngineCall

SCHEMA: Final = 2
"""The version of the tables. A file of another version is moved aside: what it has is a history
that no decision depends on."""

DAY: Final = 86_400.0
COMPRESSION: Final = 1
"""zlib's fastest: calls shrink to a tenth, and more effort saves little more."""

PAGES_FREED: Final = 2_000
"""Pages given back to the file system at once: 8 MB, some milliseconds."""

_TABLES: Final = """
CREATE TABLE stretches (
    id INTEGER PRIMARY KEY AUTOINCREMENT, began REAL NOT NULL, until REAL NOT NULL);
CREATE TABLE checkpoints (
    stretch INTEGER NOT NULL, number INTEGER NOT NULL, wall REAL NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (stretch, number));
CREATE INDEX checkpoints_by_wall ON checkpoints (wall);
CREATE TABLE calls (
    stretch INTEGER NOT NULL, last INTEGER NOT NULL, wall REAL NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (stretch, last));
CREATE TABLE decisions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, wall REAL NOT NULL, unit TEXT NOT NULL,
    queue TEXT NOT NULL, reason TEXT NOT NULL, data BLOB NOT NULL);
CREATE INDEX decisions_by_wall ON decisions (wall);
CREATE INDEX decisions_by_unit ON decisions (unit, id);
CREATE INDEX decisions_by_queue ON decisions (queue, id);
CREATE TABLE finished (id INTEGER PRIMARY KEY, ended REAL NOT NULL, data BLOB NOT NULL);
CREATE INDEX finished_by_end ON finished (ended);
"""


class StoreError(Exception):
    """The record cannot be read or written: the disk is full, or the file is broken."""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long the record is kept.

    Attributes:
        decisions_seconds: Decisions and ended runs.
        calls_seconds: Calls and checkpoints, for questions about the past.
        calls_bytes: The most that calls and checkpoints take; the oldest go first.
    """

    decisions_seconds: float = 30 * DAY
    calls_seconds: float = DAY
    calls_bytes: int = 1 << 30


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


class Span(NamedTuple):
    """The time of a stretch, in seconds since the epoch; `following`: when the next one began."""

    began: float
    until: float
    following: float | None


class RecordStore:
    """One connection to the file. Not thread-safe: one for each thread.

    All methods raise StoreError if the file cannot be read or written. Of what is written between
    two commits, all or nothing is kept.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def close(self) -> None:
        """Close the connection; what is not committed is lost."""
        self._connection.close()

    # --- writing ------------------------------------------------------------------------------

    def begin_stretch(self, wall: float) -> int:
        """Begin a stretch; return its number. The caller writes its first checkpoint at once."""
        statement = "INSERT INTO stretches (began, until) VALUES (?, ?) RETURNING id"
        return int(self._run(statement, wall, wall)[0][0])

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint."""
        row = (checkpoint.stretch, checkpoint.number, checkpoint.wall, _pack(checkpoint.data))
        self._run("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?)", *row)

    def add_calls(self, stretch: int, calls: Sequence[EngineCall]) -> None:
        """Keep calls that follow each other."""
        data = _pack(b"\n".join(map(encode_call, calls)))
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
        """Let readers see what was written; after a crash it is still there.

        Args:
            stretch: The stretch that is written.
            until: It has every call until this time.
        """
        statement = "UPDATE stretches SET until = max(until, ?) WHERE id = ?"
        self._run(statement, until, stretch)
        self._run("COMMIT")
        self._run("BEGIN")

    def roll_back(self) -> None:
        """Forget what was written since the last commit."""
        if self._connection.in_transaction:
            self._run("ROLLBACK")
        self._run("BEGIN")

    def prune(self, now: float, retention: Retention) -> None:
        """Delete what is older than it is kept, commit, and give back the space."""
        self._run("DELETE FROM decisions WHERE wall < ?", now - retention.decisions_seconds)
        self._run("DELETE FROM finished WHERE ended < ?", now - retention.decisions_seconds)
        self._drop_calls(now - retention.calls_seconds)
        while (oldest := self._excess(retention.calls_bytes)) is not None:
            self._drop_calls(oldest)
        self._run("COMMIT")
        self._give_back_space()
        self._run("BEGIN")

    def _give_back_space(self) -> None:
        # `execute` would take one step of it, which frees one page: it has rows without columns.
        try:
            self._connection.executescript(f"PRAGMA incremental_vacuum({PAGES_FREED})")
        except (sqlite3.Error, OSError) as error:
            raise StoreError(str(error)) from error

    def _drop_calls(self, before: float) -> None:
        """Delete the checkpoints before a time, and the calls that none is left for."""
        self._run("DELETE FROM checkpoints WHERE wall < ?", before)
        self._run(
            "DELETE FROM calls WHERE NOT EXISTS (SELECT 1 FROM checkpoints AS c"
            " WHERE c.stretch = calls.stretch AND c.number < calls.last)"
        )

    def _excess(self, most: int) -> float | None:
        """Return before when checkpoints must go, so that one goes; None: none must, or can."""
        size = "(SELECT coalesce(sum(length(data)), 0) FROM {})"
        sizes = f"SELECT {size.format('calls')} + {size.format('checkpoints')}"
        if int(self._run(sizes)[0][0]) <= most:
            return None
        rows = self._run(
            "SELECT min(wall) FROM checkpoints WHERE wall > (SELECT min(wall) FROM checkpoints)"
        )
        return rows[0][0]  # type: ignore[no-any-return] # a column of SQLite

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
        """Yield the calls from a checkpoint until a time, in order and without gaps."""
        rows = self._run(
            "SELECT data FROM calls WHERE stretch = ? AND last > ? AND wall <= ? ORDER BY last",
            *(checkpoint.stretch, checkpoint.number, until),
        )
        for (data,) in rows:
            for line in _unpack(data).split(b"\n"):
                call = decode_call(line)
                if call.number > checkpoint.number and call.wall <= until:
                    yield call

    def span_of(self, stretch: int) -> Span:
        """Return the time of which a stretch has every call."""
        rows = self._run(
            "SELECT began, until, (SELECT min(began) FROM stretches WHERE id > s.id)"
            " FROM stretches AS s WHERE id = ?",
            stretch,
        )
        return Span(*rows[0])

    def first_wall(self) -> float | None:
        """Return the time of the oldest checkpoint; None: there is none."""
        found = self._run("SELECT min(wall) FROM checkpoints")[0][0]
        return None if found is None else float(found)

    def finished_since(self, wall: float, most: int = -1) -> Iterator[FinishedRun]:
        """Yield the runs that have ended since a time, in order; the newest `most`, or all."""
        statement = (
            "SELECT data FROM finished WHERE ended >= ? ORDER BY ended DESC, id DESC LIMIT ?"
        )
        rows = self._run(statement, wall, most)
        return (msgspec.json.decode(data, type=FinishedRun) for (data,) in reversed(rows))

    def select_decisions(self, where: str, *values: object) -> list[tuple[int, LogEntry]]:
        """Return decisions, each with its id; `where`: the end of a SELECT, with ? for values."""
        rows = self._run(f"SELECT id, data FROM decisions {where}", *values)  # noqa: S608 - ours
        return [(number, msgspec.json.decode(data, type=LogEntry)) for number, data in rows]

    def _run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise StoreError(str(error)) from error


def open_store(path: Path, now: float) -> RecordStore:
    """Return the store for its writer, as a new file if there is none that can be used.

    Args:
        path: The file. One that is broken, or of another version, is moved aside beside it.
        now: The time, for the name of a file that is moved aside.

    Raises:
        StoreError: The file can be neither opened nor made.
    """
    try:
        if path.exists() and not _is_usable(path):
            _move_aside(path, now)
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        os.close(descriptor)
        return RecordStore(_connect(path))
    except (sqlite3.Error, OSError) as error:
        raise StoreError(str(error)) from error


def read_store(path: Path) -> RecordStore:
    """Return the store for a reader; close it soon, since it holds back the file's log.

    Raises:
        StoreError: There is no such file.
    """
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        return RecordStore(sqlite3.connect(uri, uri=True, isolation_level=None))
    except (sqlite3.Error, OSError) as error:
        raise StoreError(str(error)) from error


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    run = connection.execute
    run("PRAGMA auto_vacuum=INCREMENTAL")
    run("PRAGMA journal_mode=WAL")
    run("PRAGMA synchronous=NORMAL")
    if run("PRAGMA user_version").fetchone()[0] == 0:
        connection.executescript(f"BEGIN;{_TABLES}PRAGMA user_version={SCHEMA};COMMIT;")
    run("BEGIN")
    return connection


def _is_usable(path: Path) -> bool:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        sound = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()
    return sound == "ok" and version in {0, SCHEMA}


def _move_aside(path: Path, now: float) -> None:
    for end in ("", "-wal", "-shm"):
        part = path.with_name(path.name + end)
        if part.exists():
            part.rename(path.with_name(f"{path.name}.unreadable-{int(now)}{end}"))


def _pack(data: bytes) -> bytes:
    return zlib.compress(data, COMPRESSION)


def _unpack(data: bytes) -> bytes:
    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise StoreError(str(error)) from error
