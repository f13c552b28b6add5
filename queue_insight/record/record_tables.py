"""The tables of the record, and running statements on them.

SQLite itself counts the bytes of each table, by triggers: to sum them up would read the whole file,
and who deletes rows by hand changes the count as well.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from queue_insight.record.record_limits import Limits
from queue_insight.record.samples import LEVELS

SCHEMA: Final = 8
"""The version of the tables. A file of another version is moved aside: what it has is a history
that no decision depends on."""
BEFORE: Final = (2, 3, 4, 5, 6, 7)
"""The versions that are extended to this one. Their engines are forgotten, since their checkpoints
have other names of states, classes and fields; decisions and runs stay."""

_WITH_SAMPLES: Final = 6
"""The first version that has samples."""

_WITH_USE: Final = 8
"""The first version that has what accounts used."""

HOURS_TABLE: Final = "use_hours"
DAYS_TABLE: Final = "use_days"

LOG_PAGES: Final = 1_000
"""Pages in the log of the file before SQLite copies them into the file: its own default."""

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

_SAMPLES: Final = """
CREATE TABLE {0} (
    id INTEGER PRIMARY KEY, of TEXT NOT NULL, wall INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX {0}_of ON {0} (of, wall);
CREATE INDEX {0}_by_wall ON {0} (wall);
"""
"""The table of one length of time."""

_USE: Final = """
CREATE TABLE {0} (id INTEGER PRIMARY KEY, names BLOB NOT NULL, data BLOB NOT NULL);
"""
"""The table of what accounts used, of one length of time. `id` counts these times since the epoch,
`names` are the namespaces in it."""
_USE_SPANS: Final = """
CREATE TABLE use_spans (
    id INTEGER PRIMARY KEY AUTOINCREMENT, began INTEGER NOT NULL, until INTEGER NOT NULL);
"""

_ROWS: Final = {
    "checkpoints": "64 + length({0}data)",
    "calls": "64 + length({0}data)",
    "decisions": "96 + length({0}data) + 2 * length({0}unit) + 2 * length({0}queue)"
    " + length({0}reason)",
    "finished": "48 + length({0}data)",
}
"""What a row takes, with its parts of the indexes."""
_SAMPLE_ROWS: Final = {level.table: "48 + length({0}data) + 2 * length({0}of)" for level in LEVELS}

_USE_ROWS: Final = dict.fromkeys(
    (HOURS_TABLE, DAYS_TABLE), "32 + length({0}names) + length({0}data)"
)

_FORGET: Final = "DELETE FROM calls;DELETE FROM checkpoints;DELETE FROM stretches;"
"""Deletes everything about engines, and keeps what was decided."""

_ADD: Final = "UPDATE sizes SET bytes = bytes"


def _extension() -> str:
    """Return the statements that extend version 2 to version 3."""
    statements = [
        "ALTER TABLE stretches ADD COLUMN writer TEXT NOT NULL DEFAULT ''",
        "CREATE TABLE sizes (of TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID",
    ]
    return ";".join(statements) + ";" + _count_bytes(_ROWS)


def _count_bytes(rows: Mapping[str, str]) -> str:
    """Return the statements from which on the bytes of tables are counted."""
    statements: list[str] = []
    for table, row in rows.items():
        all_rows, new, old = (row.format(each) for each in ("", "new.", "old."))
        where = f"WHERE of = '{table}'; END"
        statements += [
            f"INSERT INTO sizes SELECT '{table}', coalesce(sum({all_rows}), 0) FROM {table}",  # noqa: S608 - ours
            f"{_on(table, 'INSERT')} {_ADD} + ({new}) {where}",
            f"{_on(table, 'DELETE')} {_ADD} - ({old}) {where}",
        ]
    return ";".join(statements) + ";"


def _changes_since(version: int) -> str:
    """Return the statements that make the tables of an earlier version the present ones."""
    samples = "".join(_SAMPLES.format(level.table) for level in LEVELS)
    samples += _count_bytes(_SAMPLE_ROWS)
    use = "".join(_USE.format(table) for table in _USE_ROWS) + _USE_SPANS + _count_bytes(_USE_ROWS)
    if version == 0:
        return _TABLES + _extension() + samples + use
    earlier = "" if version >= 3 else _extension()  # noqa: PLR2004 - a version
    later = (samples if version < _WITH_SAMPLES else "") + (use if version < _WITH_USE else "")
    return earlier + _FORGET + later


def _on(table: str, change: str) -> str:
    return f"CREATE TRIGGER {table}_{change.lower()} AFTER {change} ON {table} BEGIN"


class StoreError(Exception):
    """The record cannot be read or written: the disk is full, or the file is broken."""


class StoreFullError(StoreError):
    """There is no room: on the volume, or within the limit of the record."""


def store_error(error: Exception) -> StoreError:
    """Return the error of the record for one of SQLite or of the system."""
    code = getattr(error, "sqlite_errorcode", None)
    is_full = code == sqlite3.SQLITE_FULL or getattr(error, "errno", None) == errno.ENOSPC
    return (StoreFullError if is_full else StoreError)(str(error))


class Statements:
    """Runs statements on one connection; not thread-safe.

    Raises:
        StoreError: A statement failed.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        try:
            return self._connection.execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise store_error(error) from error

    def number(self, statement: str) -> int:
        """Return the one number of a statement."""
        return int(self.run(statement)[0][0])

    def run_to_end(self, statement: str) -> None:
        """Run a statement whose steps have no rows: `run` would take only the first of them."""
        try:
            self._connection.executescript(statement)
        except (sqlite3.Error, OSError) as error:
            raise store_error(error) from error

    @contextmanager
    def at_one_time(self) -> Iterator[None]:
        """Read the same state of the file throughout the block: old rows are deleted meanwhile."""
        self.run("BEGIN")
        try:
            yield
        finally:
            self.run("COMMIT")

    def close(self) -> None:
        """Close the connection; what is not committed is lost."""
        self._connection.close()


def connect(path: Path, limits: Limits) -> sqlite3.Connection:
    """Return a connection for the one that writes, with a transaction that has begun.

    Raises:
        sqlite3.Error: The file cannot be written.
    """
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection, limits)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, limits: Limits) -> None:
    run = connection.execute
    run("PRAGMA auto_vacuum=INCREMENTAL")
    run("PRAGMA journal_mode=WAL")
    run("PRAGMA synchronous=NORMAL")
    page = run("PRAGMA page_size").fetchone()[0]
    run(f"PRAGMA wal_autocheckpoint={max(1, min(LOG_PAGES, limits.log // page // 4))}")
    run(f"PRAGMA journal_size_limit={limits.log}")
    version = run("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA:
        connection.executescript(
            f"BEGIN;{_changes_since(version)}PRAGMA user_version={SCHEMA};COMMIT;"
        )
    # Last: a file that is larger already could not be extended, and is pruned once it is open.
    run(f"PRAGMA max_page_count={max(1, limits.file // page)}")
    run("BEGIN")
