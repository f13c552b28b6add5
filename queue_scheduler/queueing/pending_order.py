"""Sorted keys of pending units, cheap to change and to copy.

A list of short sorted lists. Inserting or removing moves at most one short list's worth of
pointers, so it stays at some microseconds with 100,000 keys, where one long list would move
hundreds of kilobytes.

A copy shares the lists with the original; whichever of the two changes first takes lists of its
own. So a fork of the engine costs the same for long and short queues, and pays for the few that its
question changes. A shared list is never changed, so original and copy may be used in two threads.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from itertools import chain

from queue_scheduler.framework.queue_unit_info import OrderKey

CHUNK = 512
"""A chunk is split at twice this length: both halves of a move stay in the cache."""


class PendingOrder:
    """A sorted set of order keys."""

    __slots__ = ("_chunks", "_is_shared", "_length", "_maxima")

    def __init__(self) -> None:
        self._chunks: list[list[OrderKey]] = []
        self._maxima: list[OrderKey] = []
        self._length = 0
        self._is_shared = False

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[OrderKey]:
        return chain.from_iterable(self._chunks)

    def __contains__(self, key: OrderKey) -> bool:
        index = bisect_left(self._maxima, key)
        if index == len(self._chunks):
            return False
        chunk = self._chunks[index]
        return chunk[bisect_left(chunk, key)] == key

    def add(self, key: OrderKey) -> None:
        """Insert a key that is not there yet."""
        if self._is_shared:
            self._stop_sharing()
        self._length += 1
        if not self._chunks:
            self._chunks.append([key])
            self._maxima.append(key)
            return
        index = min(bisect_left(self._maxima, key), len(self._chunks) - 1)
        chunk = self._chunks[index]
        insort(chunk, key)
        if len(chunk) >= 2 * CHUNK:
            self._chunks[index : index + 1] = [chunk[:CHUNK], chunk[CHUNK:]]
            self._maxima[index : index + 1] = [chunk[CHUNK - 1], chunk[-1]]
        else:
            self._maxima[index] = chunk[-1]

    def remove(self, key: OrderKey) -> OrderKey | None:
        """Take a key out; return the smallest of the others, or None.

        Raises:
            KeyError: The key is not there.
        """
        if self._is_shared:
            self._stop_sharing()
        chunks = self._chunks
        index = position = 0
        if not chunks or chunks[0][0] != key:  # most units leave from the head of their class
            index = bisect_left(self._maxima, key)
            if index == len(chunks):
                raise KeyError(key)
            position = bisect_left(chunks[index], key)
        chunk = chunks[index]
        if chunk[position] != key:
            raise KeyError(key)
        del chunk[position]
        self._length -= 1
        if chunk:
            self._maxima[index] = chunk[-1]
        else:
            del chunks[index]
            del self._maxima[index]
        return chunks[0][0] if chunks else None

    def first(self) -> OrderKey | None:
        """Return the smallest key, or None."""
        return self._chunks[0][0] if self._chunks else None

    def count_before(self, key: OrderKey) -> int:
        """Return how many keys are smaller."""
        index = bisect_left(self._maxima, key)
        ahead = sum(map(len, self._chunks[:index]))
        return ahead + (bisect_left(self._chunks[index], key) if index < len(self._chunks) else 0)

    def at(self, position: int) -> OrderKey | None:
        """Return the key that so many others come before, or None."""
        for chunk in self._chunks:
            if position < len(chunk):
                return chunk[position]
            position -= len(chunk)
        return None

    def copy(self) -> PendingOrder:
        """Return an independent copy that shares keys and, until either changes, lists."""
        twin: PendingOrder = PendingOrder.__new__(PendingOrder)
        twin._chunks, twin._maxima, twin._length = self._chunks, self._maxima, self._length
        twin._is_shared = self._is_shared = True
        return twin

    def _stop_sharing(self) -> None:
        self._chunks = [chunk[:] for chunk in self._chunks]
        self._maxima = self._maxima[:]
        self._is_shared = False
