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
from operator import itemgetter
from typing import Final

from queue_scheduler.framework.queue_unit_info import OrderKey

CHUNK = 512
"""A chunk is split at twice this length: both halves of a move stay in the cache."""

_LAST: Final = itemgetter(-1)


class PendingOrder:
    """A sorted set of order keys."""

    __slots__ = ("_chunks", "_is_shared", "_length")

    def __init__(self) -> None:
        self._chunks: list[list[OrderKey]] = []
        self._length = 0
        self._is_shared = False

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[OrderKey]:
        return chain.from_iterable(self._chunks)

    def __contains__(self, key: OrderKey) -> bool:
        if not self._chunks:
            return False
        chunk = self._chunks[self._chunk_of(key)]
        position = bisect_left(chunk, key)
        return position < len(chunk) and chunk[position] == key

    def add(self, key: OrderKey) -> None:
        """Insert a key that is not there yet."""
        if self._is_shared:
            self._stop_sharing()
        self._length += 1
        if not self._chunks:
            self._chunks.append([key])
            return
        index = self._chunk_of(key)
        chunk = self._chunks[index]
        insort(chunk, key)
        if len(chunk) >= 2 * CHUNK:
            self._chunks[index : index + 1] = [chunk[:CHUNK], chunk[CHUNK:]]

    def remove(self, key: OrderKey) -> OrderKey | None:
        """Take a key out; return the smallest of the others, or None.

        Raises:
            KeyError: The key is not there.
        """
        if self._is_shared:
            self._stop_sharing()
        chunks = self._chunks
        if not chunks:
            raise KeyError(key)
        index = position = 0
        if chunks[0][0] != key:  # most units leave from the head of their class
            index = self._chunk_of(key)
            position = bisect_left(chunks[index], key)
        chunk = chunks[index]
        if position == len(chunk) or chunk[position] != key:
            raise KeyError(key)
        del chunk[position]
        self._length -= 1
        if not chunk:
            del chunks[index]
        return chunks[0][0] if chunks else None

    def first(self) -> OrderKey | None:
        """Return the smallest key, or None."""
        return self._chunks[0][0] if self._chunks else None

    def count_before(self, key: OrderKey) -> int:
        """Return how many keys are smaller."""
        if not self._chunks:
            return 0
        index = self._chunk_of(key)
        return sum(map(len, self._chunks[:index])) + bisect_left(self._chunks[index], key)

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
        twin._chunks, twin._length = self._chunks, self._length
        twin._is_shared = self._is_shared = True
        return twin

    def _stop_sharing(self) -> None:
        self._chunks = [chunk[:] for chunk in self._chunks]
        self._is_shared = False

    def _chunk_of(self, key: OrderKey) -> int:
        """Return the number of the chunk that has a key, or would have it; there must be one."""
        chunks = self._chunks
        if len(chunks) == 1:
            return 0
        return min(bisect_left(chunks, key, key=_LAST), len(chunks) - 1)
