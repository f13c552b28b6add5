"""The file of the record: it is opened, read, and moved aside where it is broken."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from queue_insight.record.record_limits import DEFAULT_BYTES, Limits
from queue_insight.record.record_store import RecordStore
from queue_insight.record.record_tables import BEFORE, SCHEMA, connect, store_error

_ENDS: Final = ("", "-wal", "-shm")
_ASIDE: Final = ".unreadable-"


def open_store(path: Path, now: float, limit_bytes: int = DEFAULT_BYTES) -> RecordStore:
    """Return the store for its writer, as a new file if there is none that can be used.

    Args:
        path: The file. One that is broken, or of another version, is moved aside beside it.
        now: The time, for the name of a file that is moved aside.
        limit_bytes: What the file, those beside it and those moved aside take together, as far as
            the volume has room for as much.

    Raises:
        StoreError: The file can be neither opened nor made.
    """
    try:
        if path.exists() and not _is_usable(path):
            _move_aside(path, now)
        total = min(limit_bytes, bytes_of(path) + free_bytes(path))
        limits = _make_room(path, Limits(total))
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        os.close(descriptor)
        return RecordStore(connect(path, limits), path, limits)
    except (sqlite3.Error, OSError) as error:
        raise store_error(error) from error


def read_store(path: Path) -> RecordStore:
    """Return the store for a reader; close it soon, since it holds back the file's log.

    Raises:
        StoreError: There is no such file.
    """
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        return RecordStore(connection, path, Limits(DEFAULT_BYTES))
    except (sqlite3.Error, OSError) as error:
        raise store_error(error) from error


def bytes_of(path: Path) -> int:
    """Return what the file, those beside it and those moved aside take.

    Raises:
        OSError: The folder cannot be read.
    """
    own = sum(each.stat().st_size for each in _own_files(path))
    return own + sum(each.stat().st_size for each in _aside(path))


def free_bytes(path: Path) -> int:
    """Return what is free on the volume of the file.

    Raises:
        OSError: The folder cannot be read.
    """
    found = os.statvfs(path.parent)
    return found.f_bavail * found.f_frsize


def _own_files(path: Path) -> Iterator[Path]:
    return (each for end in _ENDS if (each := path.with_name(path.name + end)).exists())


def _aside(path: Path) -> list[Path]:
    """Return the files that were moved aside, the oldest first."""
    return sorted(path.parent.glob(f"{path.name}{_ASIDE}*"), key=lambda each: each.stat().st_mtime)


def _make_room(path: Path, limits: Limits) -> Limits:
    """Delete files that were moved aside until they take no more than their share."""
    aside = [(each, each.stat().st_size) for each in _aside(path)]
    taken = sum(size for _, size in aside)
    for each, size in aside:
        if taken <= limits.all_aside:
            break
        each.unlink()
        taken -= size
    return Limits(limits.total, taken)


def _is_usable(path: Path) -> bool:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        sound = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError:
        return False
    finally:
        connection.close()
    return sound == "ok" and version in {0, *BEFORE, SCHEMA}


def _move_aside(path: Path, now: float) -> None:
    for end in _ENDS:
        part = path.with_name(path.name + end)
        if part.exists():
            part.rename(path.with_name(f"{path.name}{_ASIDE}{int(now)}{end}"))
