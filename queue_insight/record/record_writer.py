"""Writes the record on a thread of its own; what cannot be written stops it, and nothing else.

The thread that plays calls hands them over, with what the engine has answered, and goes on. Once a
second, everything that came is committed. While the disk is full or the file is broken, nothing is
kept; after a pause the record begins again, with a new checkpoint.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from queue_insight.insight.finished_run import FinishedRun
from queue_insight.record.call_codec import encode_call
from queue_insight.record.checkpoint import freeze
from queue_insight.record.checkpoint_error import CheckpointError
from queue_insight.record.decision_log import LogEntry
from queue_insight.record.record_file import bytes_of, free_bytes, open_store, read_store
from queue_insight.record.record_limits import DEFAULT_BYTES
from queue_insight.record.record_pruning import Retention
from queue_insight.record.record_store import Checkpoint, EncodedCall, RecordStore
from queue_insight.record.record_tables import StoreError, StoreFullError
from queue_insight.record.samples import SampleBatch
from queue_insight.record.use_sums import UsePart
from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.engine.engine import Engine

COMMIT_SECONDS: Final = 1.0
"""What a crash loses at most."""

CHECKPOINT_CALLS: Final = 20_000
"""Calls between two checkpoints, at most: they are played again in about a second."""

CHECKPOINT_SECONDS: Final = 600.0
"""Time between two checkpoints, at most: some 700 kB each with 10,000 units, 100 MB a day."""

ITEMS_AT_ONCE: Final = 500
"""Calls, decisions and runs between two commits: the log of the file has them until then."""

PRUNE_SECONDS: Final = 60.0
RETRY_SECONDS: Final = 30.0
MAX_WAITING: Final = 100_000
"""Calls and entries that wait to be written; above that, the disk is too slow."""
MAX_WAITING_BYTES: Final = 134_217_728
"""Bytes of calls that wait to be written: as many as 100,000 usual ones have. An object may have a
MB, most of it annotations."""
ROW_BYTES: Final = 8_388_608
"""Bytes of calls from which on a row gets no more: it is read as a whole. 500 usual ones have less
than a MB."""


class _Taken(msgspec.Struct, frozen=True):
    """The engine after a call; `begins`: calls before it are missing."""

    number: int
    wall: float
    engine: Engine
    begins: bool


_Item: TypeAlias = _Taken | EncodedCall | LogEntry | FinishedRun | SampleBatch | UsePart


class RecordWriter:
    """Takes calls from one thread, and writes them on another.

    The caller begins with `begin`, then calls `add` for each call. When `needs_checkpoint`, it
    calls `checkpoint` with a fork.

    Args:
        path: The file.
        now: The wall time.
        retention: How long the record is kept.
        limit_bytes: What all files of the record take at most.

    Attributes:
        problem: Why nothing is recorded now; "" if it is recorded.
        failures: How often recording has stopped.
        written_at: When it was last committed, in seconds since the epoch; 0: never.
        complete_from: Everything since then was taken, in seconds since the epoch; 0: nothing was.
        parts_refused: How many parts of use were not kept, since their time was counted already.
    """

    def __init__(
        self,
        path: Path,
        now: Callable[[], datetime],
        retention: Retention | None = None,
        limit_bytes: int = DEFAULT_BYTES,
    ) -> None:
        self.problem = ""
        self.failures = 0
        self.written_at = 0.0
        self.complete_from = 0.0
        self.parts_refused = 0
        self._path = path
        self._now = now
        self._retention = retention or Retention()
        self._limit_bytes = limit_bytes
        self._waiting: deque[_Item] = deque()
        # Of the calls that were put into the deque and taken off it: each is only counted up, and
        # by one thread.
        self._bytes_put = self._bytes_taken = 0
        self._store: RecordStore | None = None
        self._stretch = 0
        self._prune_at = self._retry_at = 0.0
        # Guards what a failure changes together: problem, complete_from, _is_begun, and that what
        # waits goes on from what is written. Items are taken off the deque without it.
        self._lock = threading.Lock()
        self._is_begun = False
        """Whether calls continue what is kept."""
        self._since = (0, 0.0)

    # --- the thread that plays ----------------------------------------------------------------

    def needs_checkpoint(self, number: int) -> bool:
        """Return whether `checkpoint` is to be called with a fork after this call."""
        if self._takes_nothing():
            return False  # a fork that waits takes memory, for as long as the disk is too slow
        calls, at = self._since
        late = self._time() - at >= CHECKPOINT_SECONDS
        return not self._is_begun or number - calls >= CHECKPOINT_CALLS or late

    def begin(self, number: int, engine: Engine) -> None:
        """Begin a stretch with a fork: calls before it may be missing."""
        with self._lock:
            self._put(number, engine, begins=True)

    def checkpoint(self, number: int, engine: Engine) -> None:
        """Take a fork after a call; the first one after a problem begins a stretch."""
        with self._lock:
            self._put(number, engine, begins=not self._is_begun)

    def _put(self, number: int, engine: Engine, *, begins: bool) -> None:
        if self._takes_nothing():
            return  # it has come up since the fork was asked for
        self._since = (number, self._time())
        if begins:
            self._is_begun = True
            self.complete_from = self._since[1]
        self._waiting.append(_Taken(*self._since, engine, begins))

    def add(self, item: EngineCall | LogEntry | FinishedRun) -> None:
        """Take a call, a decision or a run that has ended; dropped while there is a problem."""
        if self._takes_nothing():
            # Calls after a gap are useless without a checkpoint.
            with self._lock:
                self._is_begun = False
        if not self._is_begun:
            return
        kept: _Item
        if isinstance(item, EngineCall):
            # Now, and not when it is written: only so it is known what it takes until then.
            kept, size = EncodedCall(item.number, item.wall, data := encode_call(item)), len(data)
        else:
            kept, size = item, 0
        with self._lock:
            if self._is_begun:  # else writing has failed meanwhile
                self._bytes_put += size
                self._waiting.append(kept)

    def add_samples(self, batch: SampleBatch) -> None:
        """Take the samples of a minute, from any thread; dropped while there is a problem."""
        self._add_sums(batch)

    def add_use(self, part: UsePart) -> None:
        """Take what accounts used in a part of an hour; else as `add_samples`."""
        self._add_sums(part)

    def _add_sums(self, sums: SampleBatch | UsePart) -> None:
        with self._lock:
            if self._is_begun:
                self._waiting.append(sums)

    def _takes_nothing(self) -> bool:
        bytes_waiting = self._bytes_put - self._bytes_taken
        is_full = len(self._waiting) >= MAX_WAITING or bytes_waiting >= MAX_WAITING_BYTES
        return bool(self.problem) or is_full

    # --- the thread that writes ---------------------------------------------------------------

    def step(self, until: float = 0.0) -> float:
        """Write and commit what has come; return how many seconds to rest.

        Args:
            until: Every call until this time was added before, in seconds since the epoch.
        """
        now = self._time()
        if now < self._retry_at:
            return self._retry_at - now
        try:
            # Not if calls were dropped: they may have been made before that time.
            self._write(now, until if self._is_begun else 0.0)
        except (StoreError, CheckpointError) as error:
            self._fail(self._explain(error), now)
            return RETRY_SECONDS
        self.problem = ""
        return COMMIT_SECONDS

    def close(self) -> None:
        """Write what has come, and close the file."""
        self.step()
        if self._store is not None:
            self._store.close()
            self._store = None

    def _write(self, now: float, until: float) -> None:
        store = self._open(now)
        waiting = len(self._waiting)
        while waiting > 0:
            some = min(waiting, ITEMS_AT_ONCE)
            self._write_items(store, some)
            waiting -= some
            store.commit(self._stretch, 0.0)
            if store.is_above_limits():
                store.prune(now, self._retention)
        store.commit(self._stretch, until)
        self.written_at = now
        if now >= self._prune_at:
            self._prune_at = now + PRUNE_SECONDS
            store.prune(now, self._retention)
            self._check_readable()

    def _open(self, now: float) -> RecordStore:
        if self._store is None:
            self._store = open_store(self._path, now, self._limit_bytes)
            self._store.samples.fold(now)
            # It may be full, or its limit be less than before.
            self._store.prune(now, self._retention)
        return self._store

    def _write_items(self, store: RecordStore, count: int) -> None:
        calls, size = list[EncodedCall](), 0
        for _ in range(count):
            item = self._waiting.popleft()
            if isinstance(item, EncodedCall):
                calls.append(item)
                self._bytes_taken += len(item.data)
                size += len(item.data)
                if size >= ROW_BYTES:
                    self._add_calls(store, calls)
                    size = 0
                continue
            if isinstance(item, _Taken):
                self._add_calls(store, calls)
                self._add_checkpoint(store, item)
            elif isinstance(item, LogEntry):
                store.add_decision(item)
            elif isinstance(item, SampleBatch):
                store.samples.add(item)
            elif isinstance(item, UsePart):
                self.parts_refused += not store.use.add(item)
            else:
                store.add_finished(item)
        self._add_calls(store, calls)

    def _check_readable(self) -> None:
        """Read the file as others do: the open connection may not notice that it is broken."""
        with closing(read_store(self._path)) as store:
            store.first_wall()

    def _add_calls(self, store: RecordStore, calls: list[EncodedCall]) -> None:
        if calls:
            store.add_calls(self._stretch, calls)
            calls.clear()

    def _add_checkpoint(self, store: RecordStore, taken: _Taken) -> None:
        if taken.begins:
            self._stretch = store.begin_stretch(taken.wall)
        store.add_checkpoint(
            Checkpoint(
                stretch=self._stretch,
                number=taken.number,
                wall=taken.wall,
                data=freeze(taken.engine),
            )
        )

    def _explain(self, error: Exception) -> str:
        """Return why nothing is recorded; of a full disk how full it is."""
        if not isinstance(error, StoreFullError) or not self._path.parent.is_dir():
            return str(error)
        taken, free = bytes_of(self._path), free_bytes(self._path)
        limit = self._limit_bytes
        return (
            f"there is no room for the record: {error}; it takes {_mebibytes(taken)} of at most"
            f" {_mebibytes(limit)} (--record-limit), and {_mebibytes(free)} of its volume are free"
        )

    def _fail(self, problem: str, now: float) -> None:
        with self._lock:
            self.problem = problem
            self._is_begun = False
            self.complete_from = 0.0
            self._waiting.clear()
            self._bytes_taken = self._bytes_put
        self.failures += 1
        self._retry_at = now + RETRY_SECONDS
        if self._store is not None:
            self._store.close()
            self._store = None

    def _time(self) -> float:
        return self._now().timestamp()


def _mebibytes(count: int) -> str:
    return f"{count / 1_048_576:.1f} MiB"
