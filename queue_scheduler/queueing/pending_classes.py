"""The pending units of one queue, in classes: which come first, and which of them were refused.

Units are grouped in *classes*: equal quota, equal demand, equal answers from every filter. A class
has its units in order, and one refusal for all of them; a decision looks only at the first unit of
a class. A class is *awake*, or *asleep* with its refusal until a fact wakes it.

Per quota, the heads of the awake and of the asleep classes are kept, and over all quotas the units
that may be offered. All three are heaps whose stale entries (the head left, the class fell asleep)
are dropped when they reach the top. Every change is O(log n), whatever the number of classes.

Where a queue has a depth, all its units are kept in one order as well: whether a unit stands within
it is asked after every change, and asking each class would cost as much as there are classes. Where
it has bands, the order keys begin with the band, and the units are counted by it.

Assumptions: order keys are unique within the queue; a class key fixes the quota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush, merge
from itertools import islice

from queue_scheduler.decision import Refusal
from queue_scheduler.framework.queue_unit_info import ClassKey, OrderKey, QueueUnitInfo, UnitDemand
from queue_scheduler.queueing.class_queue import SLACK, ClassQueue, UnitClass
from queue_scheduler.queueing.pending_order import PendingOrder


class PendingClasses:
    """The classes of the pending units of one queue.

    Attributes:
        length: The number of pending units.
        first_band: The band of the first unit; 0 if there is none.
        reasons_version: Increases when the reason why a class is pending changes.
        numbered: The classes by their number, oldest first; for reading.
        by_quota: The classes of each quota; for reading.
        offers: What each quota offers, as (position, quota): a heap, whose first entry is current
            while nothing is in `changed`.
        changed: The quotas whose offer is to be looked up again, by `renew_offers`.
    """

    def __init__(self) -> None:
        self.length = 0
        self.first_band = 0
        self.reasons_version = 0
        self.numbered: dict[int, UnitClass] = {}
        self.by_quota: dict[str, ClassQueue] = {}
        self.offers: list[tuple[OrderKey, str]] = []
        self.changed: dict[str, None] = {}
        self._classes: dict[ClassKey, UnitClass] = {}
        # All units in one order, regardless of class; None while there is no depth.
        self._all: PendingOrder | None = None
        # `refused_in_order`, until a class among them changes. The list itself is never changed.
        self._refused: list[tuple[OrderKey, Refusal]] | None = None
        # How many units are in each band; empty while there are no bands.
        self._in_band: list[int] = []
        self._next_number = 0
        # Whether copies hold the same classes, heaps, and offers; then nothing in them is changed.
        self._is_shared = False

    def arrange(self, *, bands: int, has_depth: bool) -> None:
        """Take how the queue divides its units; the bands change only while there are none."""
        in_band = bands if bands > 1 else 0
        if in_band != len(self._in_band):
            assert not self.length, f"other bands under {self.length} units"
            self._in_band = [0] * in_band
        if has_depth is (self._all is None):
            self._all = self._merge_classes() if has_depth else None

    # --- changes ------------------------------------------------------------------------------

    def add(self, info: QueueUnitInfo) -> int | None:
        """Add a unit; return the number of its class if that was asleep and is woken by it.

        A class is asleep at the position of its first unit, so a unit before that must be asked.
        """
        if self._is_shared:
            self._stop_sharing()
        unit_class = self._classes.get(info.class_key) or self._new_class(info)
        unit_class.order.add(info.order_key)
        if self._all is not None:
            self._all.add(info.order_key)
        self._count(info.order_key, 1)
        head = unit_class.order.first()
        if head is unit_class.head:
            return None
        unit_class.head = head
        is_woken = unit_class.refusal is not None
        if is_woken:
            self._refused = None
        unit_class.refusal = None
        self._note(unit_class)
        return unit_class.number if is_woken else None

    def remove(self, info: QueueUnitInfo) -> int | None:
        """Remove a unit; return the number of its class if that is empty now."""
        if self._is_shared:
            self._stop_sharing()
        unit_class = self._classes[info.class_key]
        head = unit_class.order.remove(info.order_key)
        if self._all is not None:
            self._all.remove(info.order_key)
        self._count(info.order_key, -1)
        if head is unit_class.head:
            return None
        unit_class.head = head
        if unit_class.refusal is not None:
            self._refused = None
        # Before the class goes, and perhaps the last of its quota with it: the offer of the quota
        # is looked up again even then, or the unit that left would stay on top of the offers.
        self._note(unit_class)
        if head is not None:
            return None
        self._drop_class(unit_class)
        return unit_class.number

    def refuse(self, info: QueueUnitInfo, refusal: Refusal, at: int | None = None) -> int:
        """Put the unit's class to sleep; return the number of the class.

        Args:
            info: The unit that was refused.
            refusal: Why it may not start.
            at: When, in seconds since the epoch; None if unknown.
        """
        if self._is_shared:
            self._stop_sharing()
        unit_class = self._classes[info.class_key]
        self._refused = None
        unit_class.refusal = refusal
        unit_class.refused_at = at
        self._note(unit_class)
        if unit_class.last_reason is not refusal.reason:
            unit_class.last_reason = refusal.reason
            self.reasons_version += 1
        return unit_class.number

    def wake(self, number: int) -> bool:
        """Wake the class of that number; return False if it is gone or awake."""
        unit_class = self.numbered.get(number)
        if unit_class is None or unit_class.refusal is None:
            return False
        if self._is_shared:
            self._stop_sharing()
            # The class that was found stays with the copies.
            unit_class = self.numbered[number]
        self._refused = None
        unit_class.refusal = None
        self._note(unit_class)
        return True

    def renew_offers(self, offer_of: Callable[[str], OrderKey | None]) -> None:
        """Look up the offers of the changed quotas, and drop stale ones from the top.

        Args:
            offer_of: Returns the position of the unit that a quota offers, or None.
        """
        # Replaced, not cleared: copies may hold the same dict, and the same list.
        changed, self.changed = self.changed, {}
        if len(self.by_quota) == 1:
            # Most queues have units of one quota, and need no heap.
            (quota,) = self.by_quota
            key = offer_of(quota)
            self.offers = [(key, quota)] if key is not None else []
            return
        if self._is_shared:
            self.offers = self.offers[:]
        offers = self.offers
        if len(offers) > 2 * (len(self.by_quota) + len(changed)) + SLACK:
            offers.clear()
            changed = dict.fromkeys(self.by_quota)
        for quota in changed:
            key = offer_of(quota)
            if key is not None:
                heappush(offers, (key, quota))
        while offers and offer_of(offers[0][1]) != offers[0][0]:
            heappop(offers)

    # --- classes ------------------------------------------------------------------------------

    def __contains__(self, info: QueueUnitInfo) -> bool:
        """Return whether a unit is pending here, in its class and at its position."""
        unit_class = self._classes.get(info.class_key)
        return unit_class is not None and info.order_key in unit_class.order

    def class_of(self, info: QueueUnitInfo) -> UnitClass:
        """Return the class of a pending unit, for reading; a fork knows it by its number."""
        return self._classes[info.class_key]

    def head_of(self, number: int) -> OrderKey | None:
        """Return the place of the first unit of the class of that number, or None."""
        unit_class = self.numbered.get(number)
        return unit_class.head if unit_class is not None else None

    def share(self, key: ClassKey, demand: UnitDemand) -> tuple[ClassKey, UnitDemand]:
        """Return the equal objects that units of this class share, to save memory."""
        unit_class = self._classes.get(key)
        if unit_class is None:
            return key, demand
        return unit_class.key, unit_class.demand if unit_class.demand == demand else demand

    def refused_in_order(self) -> list[tuple[OrderKey, Refusal]]:
        """Return the first unit and the refusal of the classes that are asleep, in order.

        The list is not for changes.
        """
        if self._refused is None:
            classes = self.numbered.values()
            found = [(c.head, c.refusal) for c in classes if c.refusal and c.head is not None]
            self._refused = sorted(found, key=lambda pair: pair[0])
        return self._refused

    # --- positions ----------------------------------------------------------------------------

    def in_order(self, quota: str | None = None) -> Iterator[OrderKey]:
        """Iterate lazily over all positions in order, or those of one quota."""
        if quota is None:
            return iter(self._all) if self._all is not None else _merged(self.numbered)
        of_quota = self.by_quota.get(quota)
        return _merged(of_quota.classes if of_quota is not None else {})

    def at(self, position: int) -> OrderKey | None:
        """Return the position of the unit that so many others come before, or None."""
        if self._all is not None:
            return self._all.at(position)
        return next(islice(self.in_order(), position, None), None)

    def count_before(self, key: OrderKey) -> int:
        """Return how many units come before that position."""
        if self._all is not None:
            return self._all.count_before(key)
        return sum(
            unit_class.order.count_before(key)
            for unit_class in self.numbered.values()
            if (head := unit_class.head) is not None and head < key
        )

    # --- copies -------------------------------------------------------------------------------

    def copy(self) -> PendingClasses:
        """Return an independent copy that shares the classes until either of the two changes them.

        Whichever changes first takes classes of its own, so a fork of the engine pays for the
        queues that its question changes. Shared classes are never changed, so both may be used in
        two threads; the copy itself is made in the thread of the original.
        """
        if not self._is_shared:
            # Reading the heaps drops stale entries: a change, and two threads may read from now on.
            for of_quota in self.by_quota.values():
                of_quota.first()
            self._is_shared = True
        twin: PendingClasses = PendingClasses.__new__(PendingClasses)
        # Written out: an object whose `__dict__` was read has slower attributes from then on.
        twin.length, twin.first_band, twin._in_band = self.length, self.first_band, self._in_band
        twin.reasons_version, twin._next_number = self.reasons_version, self._next_number
        twin.numbered, twin.by_quota, twin._classes = self.numbered, self.by_quota, self._classes
        twin.offers, twin.changed = self.offers, self.changed
        twin._all, twin._refused, twin._is_shared = self._all, self._refused, True
        return twin

    def _stop_sharing(self) -> None:
        self._in_band = self._in_band[:]
        numbered = {number: found.copy() for number, found in self.numbered.items()}
        self.numbered = numbered
        self._classes = {found.key: found for found in numbered.values()}
        self.by_quota = {quota: held.copy(numbered) for quota, held in self.by_quota.items()}
        self._all = self._all.copy() if self._all is not None else None
        self.offers = self.offers[:]
        self.changed = self.changed.copy()
        self._is_shared = False

    def validate(self, story: str) -> None:
        """Recompute what is derived; raise AssertionError with the story if it differs."""
        keys = [key for c in self._classes.values() for key in c.order]
        assert self.length == len(keys), story
        assert self._all is None or list(self._all) == sorted(keys), f"{story}: wrong order"
        if self._in_band:
            bands = [key[0] for key in keys]
            assert self._in_band == [bands.count(n) for n in range(len(self._in_band))], story
            assert self.first_band == min(bands, default=0), story
        assert self.numbered == {c.number: c for c in self._classes.values()}, story
        known, self._refused = self._refused, None
        assert known in (None, self.refused_in_order()), f"{story}: {known}"
        assert set(self.by_quota) == {c.quota for c in self._classes.values()}, story
        for quota, of_quota in self.by_quota.items():
            of = f"{story} quota {quota}"
            classes = [c for c in self._classes.values() if c.quota == quota]
            assert {c.number: c for c in classes} == of_quota.classes, of
            assert all(c.order for c in classes), f"{of}: empty class kept"
            assert all(c.head == c.order.first() for c in classes), f"{of}: wrong head"
            awake = min((c.head or () for c in classes if not c.refusal), default=None)
            asleep = min((c.head or () for c in classes if c.refusal), default=None)
            assert of_quota.first_awake() == awake, f"{of}: first awake is {awake}"
            assert of_quota.first_asleep() == asleep, f"{of}: first asleep is {asleep}"

    # --- inside -------------------------------------------------------------------------------

    def _count(self, key: OrderKey, one: int) -> None:
        """Count a unit that was added (1) or removed (-1)."""
        self.length += one
        if self._in_band:
            self._in_band[key[0]] += one
            counts = enumerate(self._in_band)
            self.first_band = next((band for band, count in counts if count), 0)

    def _new_class(self, info: QueueUnitInfo) -> UnitClass:
        unit_class = UnitClass(self._next_number, info)
        self._next_number += 1
        self._classes[unit_class.key] = unit_class
        self.numbered[unit_class.number] = unit_class
        of_quota = self.by_quota.get(info.quota)
        if of_quota is None:
            of_quota = self.by_quota[info.quota] = ClassQueue()
        of_quota.classes[unit_class.number] = unit_class
        return unit_class

    def _drop_class(self, unit_class: UnitClass) -> None:
        del self._classes[unit_class.key]
        del self.numbered[unit_class.number]
        of_quota = self.by_quota[unit_class.quota]
        del of_quota.classes[unit_class.number]
        if not of_quota.classes:
            del self.by_quota[unit_class.quota]
        if not self.by_quota:
            # Another policy may follow, whose keys cannot be compared with these.
            self.offers.clear()
            self.changed.clear()

    def _note(self, unit_class: UnitClass) -> None:
        """Note that a class has another head, or was woken or put to sleep."""
        self.by_quota[unit_class.quota].note(unit_class)
        self.changed[unit_class.quota] = None

    def _merge_classes(self) -> PendingOrder:
        order = PendingOrder()
        for key in _merged(self.numbered):
            order.add(key)
        return order


def _merged(classes: dict[int, UnitClass]) -> Iterator[OrderKey]:
    return merge(*(unit_class.order for unit_class in classes.values()))
