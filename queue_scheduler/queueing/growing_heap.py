"""Heaps of places that may grow while they are in it. Pure.

A place is looked at only when it comes to the top: an entry with a smaller place than the present
one never comes up too late, and is put where it belongs then. So what has moved costs nothing
until it would be first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, heapreplace
from itertools import islice
from typing import Final, Generic, TypeAlias, TypeVar

from queue_scheduler.framework.queue_unit_info import OrderKey
from queue_scheduler.queueing.account_ranks import AccountRanks
from queue_scheduler.queueing.class_queue import SLACK
from queue_scheduler.queueing.fair_settings import Lane

NameT = TypeVar("NameT")

WALK: Final = 64
"""Accounts of a queue that are looked at before a heap is, at some 0.1 us each."""


class GrowingHeap(Generic[NameT]):
    """Names, each with a place that gets smaller only by `put` and `reset`.

    No two names have equal places.
    """

    __slots__ = ("_entries", "_placed")

    def __init__(self) -> None:
        self._entries: list[tuple[OrderKey, NameT]] = []
        # The place of the entry that counts, which is not larger than the present one.
        self._placed: dict[NameT, OrderKey] = {}

    def put(self, name: NameT, place: OrderKey) -> None:
        """Add a name, or note that its place may be smaller than before."""
        placed = self._placed.get(name)
        if placed is not None and placed <= place:
            return
        self._placed[name] = place
        heappush(self._entries, (place, name))
        if len(self._entries) > 2 * len(self._placed) + SLACK:
            self._rebuild()

    def first(self, place_of: Callable[[NameT], OrderKey | None]) -> tuple[OrderKey, NameT] | None:
        """Return the smallest place with its name, or None.

        Args:
            place_of: Returns the present place of a name; None: it is not to be in the heap.
        """
        entries, placed = self._entries, self._placed
        while entries:
            place, name = entries[0]
            if placed.get(name) is not place:
                heappop(entries)
                continue
            now = place_of(name)
            if now is None:
                heappop(entries)
                del placed[name]
            elif now == place:
                return entries[0]
            else:
                placed[name] = now
                heapreplace(entries, (now, name))
        return None

    def reset(self, names: Iterable[NameT], place_of: Callable[[NameT], OrderKey | None]) -> None:
        """Start anew with these names, since places may have become smaller."""
        places = ((name, place_of(name)) for name in names)
        self._placed = {name: place for name, place in places if place is not None}
        self._rebuild()

    def take_over(self, other: GrowingHeap[NameT]) -> None:
        """Become an independent copy of another heap."""
        self._entries, self._placed = other._entries[:], other._placed.copy()

    def _rebuild(self) -> None:
        self._entries = [(place, name) for name, place in self._placed.items()]
        heapify(self._entries)


_LaneEntry: TypeAlias = tuple[OrderKey, Lane, OrderKey]
"""A place, its lane, and the order key that is there."""


class LaneHeap:
    """The lanes that have units in one place, each with the order key of its first unit there.

    It is asked most often. What came first still does, until its account is charged or it leaves,
    or another comes before it: others only fall back. Then mostly one of the first accounts of the
    queue has units there; only otherwise, or where accounts are level, is the heap looked at: each
    start lets an account fall back in the heaps of all demands that it has units of.

    Attributes:
        keys: The order keys.
    """

    __slots__ = ("_entries", "_known", "_placed", "_version", "keys")

    def __init__(self) -> None:
        self.keys: dict[Lane, OrderKey] = {}
        # What came first, and the version of the ranks at which it did.
        self._known: _LaneEntry | None = None
        self._version = 0
        # No two places are equal, so that the rest of an entry is not compared.
        self._entries: list[_LaneEntry] = []
        # The entry that counts, whose place is not larger than the present one.
        self._placed: dict[Lane, _LaneEntry] = {}

    def put(self, lane: Lane, key: OrderKey, ranks: AccountRanks) -> None:
        """Add a lane, or note that another unit is its first."""
        self.keys[lane] = key
        place, placed = ranks.place(key), self._placed.get(lane)
        known = self._known
        if known is not None and (lane == known[1] or place < known[0]):
            self._known = None
        if placed is not None and placed[0] <= place:
            return
        entry = self._placed[lane] = (place, lane, key)
        heappush(self._entries, entry)
        if len(self._entries) > 2 * len(self._placed) + SLACK:
            self._rebuild()

    def drop(self, lane: Lane) -> None:
        """Take a lane out, if it is in it."""
        self.keys.pop(lane, None)
        if self._known is not None and lane == self._known[1]:
            self._known = None

    def first(self, ranks: AccountRanks) -> _LaneEntry | None:
        """Return the smallest place with its lane and order key, or None."""
        known, version = self._known, ranks.version
        if known is not None and self._version == version:
            return known
        if known is None or ranks.of_lanes.get(known[1]) is not known[0][0]:
            if not self.keys:
                return None
            known = self._known = self._walk(ranks) or self._first_of_heap(ranks)
        self._version = version
        return known

    def _walk(self, ranks: AccountRanks) -> _LaneEntry | None:
        """Return the same if one of the first accounts has units here, and no other is level."""
        keys, order, of_lanes = self.keys, ranks.in_order, ranks.of_lanes
        here = filter(keys.__contains__, islice(order, WALK))
        lane = next(here, None)
        if lane is None:
            return None
        standing, key, after = of_lanes[lane], keys[lane], next(here, None)
        if after is None and len(order) > WALK:
            after = order[WALK]  # one that is level may be behind it
        if after is not None and of_lanes[after] == standing:
            return None
        return (standing, *key[1:]), lane, key

    def _first_of_heap(self, ranks: AccountRanks) -> _LaneEntry:
        entries, placed, keys, of_lanes = self._entries, self._placed, self.keys, ranks.of_lanes
        while True:
            entry = entries[0]
            place, lane, placed_key = entry
            key = keys.get(lane)
            if key is None or placed[lane] is not entry:
                heappop(entries)
                if key is None:
                    placed.pop(lane, None)
                continue
            standing = of_lanes.get(lane) or ranks.standing(lane)
            if standing is place[0] and key is placed_key:
                return entry
            placed[lane] = ((standing, *key[1:]), lane, key)
            heapreplace(entries, placed[lane])

    def reset(self, ranks: AccountRanks) -> None:
        """Start anew, since places may have become smaller."""
        self._known = None
        self._placed = {lane: (ranks.place(key), lane, key) for lane, key in self.keys.items()}
        self._rebuild()

    def copy(self) -> LaneHeap:
        """Return an independent copy."""
        twin = LaneHeap()
        twin.keys, twin._placed = self.keys.copy(), self._placed.copy()
        twin._entries = self._entries[:]
        twin._known, twin._version = self._known, self._version
        return twin

    def _rebuild(self) -> None:
        self._placed = {lane: entry for lane, entry in self._placed.items() if lane in self.keys}
        self._entries = list(self._placed.values())
        heapify(self._entries)
