"""An engine as it was: the last checkpoint before a time, and the calls after it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from queue_insight.record.checkpoint import thaw
from queue_insight.record.checkpoint_error import CheckpointError
from queue_insight.record.record_file import read_store
from queue_insight.record.record_store import RecordStore
from queue_insight.record.writer_version import describe_writer
from queue_scheduler.cycles.engine_call import play
from queue_scheduler.engine.engine import Engine
from shared_api.process.freed_memory import give_back

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
    with store.statements.at_one_time():
        checkpoint = store.checkpoint_before(wall)
        if checkpoint is None:
            raise TooEarlyError(_too_early(store.first_wall()))
        span = store.span_of(checkpoint.stretch)
        calls = store.calls_after(checkpoint, wall)
    if span.following is not None and wall > span.until:
        raise TooEarlyError(_in_gap(span.until, span.following))
    if span.writer != describe_writer():
        raise CheckpointError(_other_version(span.writer))
    engine, number = thaw(checkpoint.data), checkpoint.number
    for call in calls:
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
    """Engines of the past, of which the last ones asked for are kept; callable from any thread.

    What is kept is returned at once, also while another engine is restored.

    Args:
        path: The file of the record.
        most: How many engines are kept.
    """

    def __init__(self, path: Path, most: int = MAX_KEPT) -> None:
        self._path = path
        self._most = most
        # Held while an engine is restored: two at once would take twice the memory.
        self._turn = threading.Lock()
        self._lock = threading.Lock()  # guards what follows
        self._kept: OrderedDict[float, Restored] = OrderedDict()
        # Those that a thread restores, or waits to restore: further callers wait for that thread.
        self._begun: dict[float, Future[Restored]] = {}

    def at(self, wall: float) -> Restored:
        """Return a copy of the engine as it was at a time; it raises what `engine_at` does.

        It is restored once for all who ask for the same time.
        """
        with self._lock:
            if wall in self._kept:
                self._kept.move_to_end(wall)
                return _copy(self._kept[wall])
            is_first = wall not in self._begun
            promise = self._begun.setdefault(wall, Future())
        if is_first:
            self._restore(wall, promise)
        found = promise.result()
        with self._lock:  # others may copy it at the same time
            return _copy(found)

    def _restore(self, wall: float, promise: Future[Restored]) -> None:
        """Restore an engine, or find out why that cannot be, for all who wait for it."""
        try:
            with self._turn:
                restored = self._read(wall)
        except BaseException as error:  # noqa: BLE001 - raised in all threads that wait, this one too
            with self._lock:
                del self._begun[wall]
            promise.set_exception(error)
            return
        with self._lock:
            del self._begun[wall]
            self._kept[wall] = restored
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        promise.set_result(restored)

    def _read(self, wall: float) -> Restored:
        try:
            with closing(read_store(self._path)) as store:
                return engine_at(store, wall)
        finally:
            give_back()  # an engine that is kept no more, and what was read of the file


def _copy(found: Restored) -> Restored:
    return msgspec.structs.replace(found, engine=found.engine.fork())
