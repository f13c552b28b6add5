"""A heap of places that may grow while they are in it. Pure.

A place is looked at only when it comes to the top: an entry with a smaller place than the present
one never comes up too late, and is put where it belongs then. So what has moved costs nothing
until it would be first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, heapreplace

from queue_scheduler.framework.queue_unit_info import OrderKey
from queue_scheduler.queueing.class_queue import SLACK

PlaceOf = Callable[[int], OrderKey | None]
"""Returns the present place of a number; None: it is not to be in the heap."""


class GrowingHeap:
    """Numbers, each with a place that never gets smaller unless it is put again."""

    __slots__ = ("_entries", "_known")

    def __init__(self) -> None:
        self._entries: list[tuple[OrderKey, int]] = []
        # The place of the entry that counts, by number. It is not larger than the present one.
        self._known: dict[int, OrderKey] = {}

    def put(self, number: int, place: OrderKey) -> None:
        """Add a number, or note that its place may be smaller than before."""
        known = self._known.get(number)
        if known is not None and known <= place:
            return
        self._known[number] = place
        heappush(self._entries, (place, number))
        if len(self._entries) > 2 * len(self._known) + SLACK:
            self._rebuild()

    def first(self, place_of: PlaceOf) -> tuple[OrderKey, int] | None:
        """Return the smallest place with its number, or None."""
        entries, known = self._entries, self._known
        while entries:
            place, number = entries[0]
            if known.get(number) != place:
                heappop(entries)
                continue
            now = place_of(number)
            if now is None:
                heappop(entries)
                del known[number]
            elif now == place:
                return entries[0]
            else:
                known[number] = now
                heapreplace(entries, (now, number))
        return None

    def reset(self, numbers: Iterable[int], place_of: PlaceOf) -> None:
        """Start anew with these numbers, since places may have become smaller."""
        places = ((number, place_of(number)) for number in numbers)
        self._known = {number: place for number, place in places if place is not None}
        self._rebuild()

    def copy(self) -> GrowingHeap:
        """Return an independent copy."""
        twin = GrowingHeap()
        twin._entries, twin._known = self._entries[:], self._known.copy()
        return twin

    def _rebuild(self) -> None:
        self._entries = [(place, number) for number, place in self._known.items()]
        heapify(self._entries)
