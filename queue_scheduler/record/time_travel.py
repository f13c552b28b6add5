"""An engine as it was: the last checkpoint before a time, and the calls after it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from queue_scheduler.engine.engine import Engine
from queue_scheduler.record.checkpoint import thaw
from queue_scheduler.record.checkpoint_error import CheckpointError
from queue_scheduler.record.engine_call import play
from queue_scheduler.record.record_file import read_store
from queue_scheduler.record.record_store import RecordStore
from queue_scheduler.record.writer_version import describe_writer

MAX_KEPT: Final = 3
"""Engines that are kept, at some 100 MB each for 10,000 units."""


class TooEarlyError(LookupError):
    """The time is before the record or in a gap; the message says when it begins or goes on."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """An engine as it was.

    Attributes:
        engine: The engine; the caller may change it.
        number: The last call that it was told.
        complete_from: From when the record of this scheduler process has no gap.
    """

    engine: Engine
    number: int
    complete_from: float


def engine_at(store: RecordStore, wall: float) -> Restored:
    """Return the engine as it was at a time, in seconds since the epoch.

    Raises:
        TooEarlyError: The record begins later, or has a gap there.
        StoreError: The record cannot be read.
        CheckpointError: It was written by another version of this program.
    """
    checkpoint = store.checkpoint_before(wall)
    if checkpoint is None:
        raise TooEarlyError(_too_early(store.first_wall()))
    span = store.span_of(checkpoint.stretch)
    if span.following is not None and wall > span.until:
        raise TooEarlyError(_in_gap(span.until, span.following))
    if span.writer != describe_writer():
        raise CheckpointError(_other_version(span.writer))
    engine, number = thaw(checkpoint.data), checkpoint.number
    for call in store.calls_after(checkpoint, wall):
        play(engine, call)
        number = call.number
    return Restored(engine=engine, number=number, complete_from=span.began)


def _in_gap(ended: float, began: float) -> str:
    ends = [datetime.fromtimestamp(each, UTC).isoformat() for each in (ended, began)]
    return f"nothing was recorded after {ends[0]}; the record goes on at {ends[1]}"


def _other_version(writer: str) -> str:
    by = writer or "an older version"
    return f"it was recorded by {by}, which {describe_writer()} cannot restore"


def _too_early(first: float | None) -> str:
    if first is None:
        return "the record is empty"
    return f"the record begins at {datetime.fromtimestamp(first, UTC).isoformat()}"


class TimeTravel:
    """Engines of the past, of which the last ones asked for are kept. Any thread."""

    def __init__(self, path: Path, most: int = MAX_KEPT) -> None:
        """Read the record of a file; `most`: engines that are kept."""
        self._path = path
        self._most = most
        # Held while an engine is restored: two at once would take twice the memory.
        self._lock = threading.Lock()
        self._kept: OrderedDict[float, Restored] = OrderedDict()

    def at(self, wall: float) -> Restored:
        """Return a copy of the engine as it was at a time; it raises what `engine_at` does."""
        with self._lock:
            found = self._kept.get(wall)
            if found is None:
                found = self._restore(wall)
            self._kept[wall] = found
            self._kept.move_to_end(wall)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
            return msgspec.structs.replace(found, engine=found.engine.fork())

    def _restore(self, wall: float) -> Restored:
        with closing(read_store(self._path)) as store:
            return engine_at(store, wall)
