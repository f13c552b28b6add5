"""The calls of an engine that its record has not taken yet.

The thread that decides only appends references, under the engine's lock, and encodes nothing. While
nobody takes them, the log stops instead of growing: a record begins again with a new checkpoint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from queue_scheduler.cycles.engine_call import CALLS, EngineCall

MAX_WAITING: Final = 50_000
"""Calls that wait to be taken: some seconds at full speed. They keep objects that the engine has
replaced by newer ones, at some 1.5 kB each."""

MAX_WAITING_BYTES: Final = 268_435_456
"""What the calls that wait may keep, as estimated: a quarter of the GiB that the scheduler has. An
object may have a MB, most of it annotations; 50,000 usual ones have less."""

PAIR_BYTES: Final = 200
"""What a label or an annotation takes beside its value: two strings and a place in a map."""

_Entry = tuple[int, datetime, Callable[..., Any], tuple[Any, ...], Mapping[str, Any], int]


class CallLog:
    """Counts the calls of an engine, and keeps those after the last start until they are taken.

    `append` and `start` are called under the engine's lock (`SharedEngine`), `take` by the one
    thread that has started the log.

    Args:
        now: The wall time.
        most: How many calls may wait.
        most_bytes: How much they may keep.

    Attributes:
        last: The number of the last call, whether it was kept or not.
        is_on: Whether calls are kept: it was started, and was not overrun since.
        overruns: How often it has stopped because the calls were not taken.
    """

    def __init__(
        self,
        now: Callable[[], datetime],
        most: int = MAX_WAITING,
        most_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        self.last = 0
        self.is_on = False
        self.overruns = 0
        self._now = now
        self._most = most
        self._most_bytes = most_bytes
        # Of what was appended since the start, and what was taken of it: each is only counted up,
        # and by one thread.
        self._bytes_put = self._bytes_taken = 0
        self._waiting: deque[_Entry] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def append(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """Take a call that is about to be made."""
        self.last += 1
        if not self.is_on:
            return
        size = _bytes_kept(args)
        self._bytes_put += size
        is_full = len(self._waiting) >= self._most
        if is_full or self._bytes_put - self._bytes_taken > self._most_bytes:
            self.stop()
            self.overruns += 1
            return
        self._waiting.append((self.last, self._now(), function, args, kwargs, size))

    def start(self) -> None:
        """Keep all calls from the next one on, and forget those before."""
        self._waiting.clear()
        self._bytes_put = self._bytes_taken = 0  # nobody takes meanwhile: see above
        self.is_on = True

    def stop(self) -> None:
        """Keep no more calls, and forget those that wait."""
        self.is_on = False
        self._waiting.clear()

    def take(self, most: int = MAX_WAITING) -> list[EngineCall]:
        """Return, once, the calls in order, numbered without gaps; at most that many.

        While `is_on` is false it returns none, however many were made.
        """
        waiting = self._waiting
        try:
            taken = [waiting.popleft() for _ in range(min(most, len(waiting)))]
        except IndexError:
            return []  # It was stopped meanwhile: what was taken has a gap behind it.
        self._bytes_taken += sum([entry[-1] for entry in taken])
        return [_read(entry) for entry in taken]


def _bytes_kept(args: tuple[Any, ...]) -> int:
    """Return about how many bytes a call keeps beyond a usual one: of texts that a user writes.

    Encoding it would give the exact size, but costs ten times as much, under the engine's lock.
    """
    meta = getattr(args[0], "metadata", None) if args else None
    if meta is None:
        return 0
    notes = meta.annotations
    return sum(map(len, notes.values())) + PAIR_BYTES * (len(notes) + len(meta.labels))


def _read(entry: _Entry) -> EngineCall:
    number, wall, function, args, kwargs, _ = entry
    name = function.__name__
    assert CALLS.get(name) is function, f"{function} is no call that can be recorded"
    return EngineCall(number, wall.timestamp(), name, args, dict(kwargs))
