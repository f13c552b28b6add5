"""The pending units of one queue, in classes: which come first, and which of them were refused.

Units are grouped in *classes*: equal quota, equal demand, equal answers from every filter. A class
has its units in order, and one refusal for all of them; a decision looks only at the first unit of
a class. A class is *awake*, or *asleep* with its refusal until a fact wakes it.

Classes that differ by their account alone, since a limit of users or groups concerns them, are a
*group*: what a filter refuses one of them it refuses them all, so the group falls asleep as one, is
registered with the plugin under one number, and is woken as one. Each of its classes may be asleep
on its own in addition, for its account's limit or what else concerns it alone; the group stands at
the first of the others. It is asked anew when another class comes first in it: that class's account
was not asked about.

Some refusals concern the class alone (`STANDS_ASIDE`): a class that is asleep for one counts in no
band and no depth, and holds back no other.

Per quota, the heads of the awake and of the asleep classes are kept, and over all quotas the units
that may be offered. All three are heaps whose stale entries (the head left, the class fell asleep)
are dropped when they reach the top. Every change is O(log n), whatever the number of classes.

Where a queue has a depth, all its units are kept in one order as well: whether a unit stands within
it is asked after every change, and asking each class would cost as much as there are classes. Where
it has bands, the order keys begin with the band, and the units are counted by it.

Assumptions: order keys are unique within the queue; a class key fixes the quota.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush, merge
from itertools import islice
from typing import Self

from queue_scheduler.decision import Refusal
from queue_scheduler.framework.queue_unit_info import (
    ClassKey,
    OrderKey,
    QueueUnitInfo,
    UnitDemand,
    without_account,
)
from queue_scheduler.queueing.class_queue import SLACK, ClassGroup, ClassQueue, UnitClass
from queue_scheduler.queueing.pending_order import PendingOrder
from queue_scheduler.queueing.tried_units import TriedUnits


class PendingClasses:
    """The classes of the pending units of one queue.

    Attributes:
        length: The number of pending units.
        tried: The units that do not stand aside: their bands.
        reasons_version: Increases when the reason why a class is pending changes.
        numbered: The classes by their number, oldest first; for reading.
        groups: The groups by their number, oldest first; for reading.
        by_quota: The classes of each quota; for reading.
        offers: What each quota offers, as (position, quota): a heap, whose first entry is current
            while nothing is in `changed`.
        changed: The quotas whose offer is to be looked up again, by `renew_offers`.
        next_number: That of the next class or group.
    """

    def __init__(self, next_number: int = 0, reasons_version: int = 0) -> None:
        """Start without units, with the first number of a class or group."""
        self.length = 0
        self.tried = TriedUnits()
        self.reasons_version = reasons_version
        self.numbered: dict[int, UnitClass] = {}
        self.groups: dict[int, ClassGroup] = {}
        self.by_quota: dict[str, ClassQueue] = {}
        self.offers: list[tuple[OrderKey, str]] = []
        self.changed: dict[str, None] = {}
        self._classes: dict[ClassKey, UnitClass] = {}
        self._group_numbers: dict[ClassKey, int] = {}
        # All units in one order, regardless of class; None while there is no depth.
        self._all: PendingOrder | None = None
        # `refused_in_order`, until a class among them changes. The list itself is never changed.
        self._refused: list[tuple[OrderKey, Refusal]] | None = None
        self.next_number = next_number
        # Whether copies hold the same classes, heaps, and offers; then nothing in them is changed.
        self._is_shared = False

    def arrange(self, *, bands: int, has_depth: bool) -> None:
        """Take how the queue divides its units; the bands change only while there are none."""
        in_band = bands if bands > 1 else 0
        if in_band != self.tried.bands:
            assert not self.length, f"other bands under {self.length} units"
            self.tried.arrange(in_band)
        if has_depth is (self._all is None):
            self._all = self._merge_classes() if has_depth else None

    # --- changes ------------------------------------------------------------------------------

    def add(self, info: QueueUnitInfo) -> tuple[int, ...]:
        """Add a unit; return the numbers of its class and group if they are woken by it.

        A class is asleep at the position of its first unit, so a unit before that must be asked.
        """
        if self._is_shared:
            self._stop_sharing()
        unit_class = self._classes.get(info.class_key) or self._new_class(info)
        unit_class.order.add(info.order_key)
        if self._all is not None:
            self._all.add(info.order_key)
        self.length += 1
        self.tried.count(unit_class, info.order_key, 1)
        head = unit_class.order.first()
        if head is unit_class.head:
            return ()
        unit_class.head = head
        if unit_class.own_refusal is None:
            return self._note(unit_class)
        self._refused = None
        self.tried.refuse(unit_class, None)
        return (unit_class.number, *self._note(unit_class))

    def remove(self, info: QueueUnitInfo) -> tuple[int, ...]:
        """Remove a unit; return what no longer waits, by number.

        That is its class if that was asleep and is empty now, and its group if that is woken by it,
        or was asleep and is empty. What is awake is registered nowhere.
        """
        if self._is_shared:
            self._stop_sharing()
        unit_class = self._classes[info.class_key]
        head = unit_class.order.remove(info.order_key)
        if self._all is not None:
            self._all.remove(info.order_key)
        self.length -= 1
        self.tried.count(unit_class, info.order_key, -1)
        if head is unit_class.head:
            return ()
        unit_class.head = head
        if unit_class.refusal is not None:
            self._refused = None
        # Before the class goes, and perhaps the last of its quota with it: the offer of the quota
        # is looked up again even then, or the unit that left would stay on top of the offers.
        woken = self._note(unit_class)
        if head is not None:
            return woken
        self._drop_class(unit_class)
        return woken if unit_class.own_refusal is None else (unit_class.number, *woken)

    def refuse(
        self,
        info: QueueUnitInfo,
        refusal: Refusal,
        at: int | None = None,
        *,
        is_for_all: bool = False,
    ) -> int:
        """Put the unit's class to sleep; return the number of the class, or of its group.

        Args:
            info: The unit that was refused.
            refusal: Why it may not start.
            at: When, in seconds since the epoch; None if unknown.
            is_for_all: Whether units of other accounts are refused with it: the group falls asleep.
        """
        if self._is_shared:
            self._stop_sharing()
        unit_class = self._classes[info.class_key]
        self._refused = None
        entry: UnitClass | ClassGroup = unit_class
        group = unit_class.group
        if group is None:
            self.tried.refuse(unit_class, refusal)
            self._note_entry(unit_class)
        elif is_for_all:
            entry = group
            group.own_refusal, group.asked = refusal, unit_class.number
            self._note_entry(group)
        else:
            self.tried.refuse(unit_class, refusal)
            self._note(unit_class)
        entry.own_refused_at = at
        if entry.last_reason is not (refusal.guard or refusal).reason:
            entry.last_reason = (refusal.guard or refusal).reason
            self.reasons_version += 1
        return entry.number

    def wake(self, number: int) -> tuple[int, ...]:
        """Wake the class of that number, or the group; return what no longer waits, by number.

        That is () if it is gone or awake. A class that sleeps with its group wakes the group. One
        that comes after the first of a group that is asleep joins it.
        """
        entry: UnitClass | ClassGroup | None = self.numbered.get(number) or self.groups.get(number)
        if isinstance(entry, UnitClass) and entry.own_refusal is None:
            entry = entry.group
        if entry is None or entry.own_refusal is None:
            return ()
        if self._is_shared:
            self._stop_sharing()
            # What was found stays with the copies.
            entry = self.numbered.get(entry.number) or self.groups[entry.number]
        self._refused = None
        if isinstance(entry, ClassGroup) or entry.group is None:
            self.tried.refuse(entry, None)
            self._note_entry(entry)
            return (entry.number,)
        self.tried.refuse(entry, None)
        self.reasons_version += 1
        return (entry.number, *self._note(entry))

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
        """Return the place of the first unit of the class or group of that number, or None."""
        entry: UnitClass | ClassGroup | None = self.groups.get(number) if self.groups else None
        entry = entry or self.numbered.get(number)
        return entry.head if entry is not None else None

    def share(self, key: ClassKey, demand: UnitDemand) -> tuple[ClassKey, UnitDemand]:
        """Return the equal objects that units of this class share, to save memory."""
        unit_class = self._classes.get(key)
        if unit_class is None:
            return key, demand
        return unit_class.key, unit_class.demand if unit_class.demand == demand else demand

    def refused_in_order(self) -> list[tuple[OrderKey, Refusal]]:
        """Return the first unit and the refusal of the classes and groups asleep, in order.

        The first of the classes that are asleep with their group stands for the others. The list
        must not be changed.
        """
        if self._refused is None:
            entries: list[UnitClass | ClassGroup] = [*self.numbered.values(), *self.groups.values()]
            self._refused = sorted(refused_heads(entries), key=lambda pair: pair[0])
        return self._refused

    # --- positions ----------------------------------------------------------------------------

    def _place(self, key: OrderKey) -> OrderKey:
        """Return where an order key stands now."""
        return key

    def in_order(self, quota: str | None = None) -> Iterator[OrderKey]:
        """Iterate lazily over all positions in order, or those of one quota."""
        if quota is None:
            return iter(self._all) if self._all is not None else _merged(self.numbered)
        of_quota = self.by_quota.get(quota)
        return _merged(of_quota.classes if of_quota is not None else {})

    def at(self, position: int, *, tried: bool = False) -> OrderKey | None:
        """Return the position of the unit that so many others come before, or None.

        Args:
            position: How many come before it.
            tried: Whether units that stand aside are not counted.
        """
        aside = self.tried.aside
        if tried and aside:
            others = {n: each for n, each in self.numbered.items() if n not in aside}
            return next(islice(_merged(others), position, None), None)
        if self._all is not None:
            return self._all.at(position)
        return next(islice(self.in_order(), position, None), None)

    def count_before(self, key: OrderKey, *, tried: bool = False) -> int:
        """Return how many units come before that position; `tried`: that do not stand aside."""
        if tried and self.tried.aside:
            return self.count_before(key) - self.tried.count_aside_before(key)
        if self._all is not None:
            return self._all.count_before(key)
        return sum(
            unit_class.order.count_before(key)
            for unit_class in self.numbered.values()
            if (head := unit_class.head) is not None and head < key
        )

    # --- copies -------------------------------------------------------------------------------

    def copy(self) -> Self:
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
        twin: Self = type(self).__new__(type(self))
        # Written out: an object whose `__dict__` was read has slower attributes from then on.
        twin.length, twin.tried = self.length, self.tried
        twin.reasons_version, twin.next_number = self.reasons_version, self.next_number
        twin.numbered, twin.by_quota, twin._classes = self.numbered, self.by_quota, self._classes
        twin.groups, twin._group_numbers = self.groups, self._group_numbers
        twin.offers, twin.changed = self.offers, self.changed
        twin._all, twin._refused, twin._is_shared = self._all, self._refused, True
        return twin

    def _stop_sharing(self) -> None:
        numbered = {number: found.copy() for number, found in self.numbered.items()}
        self.numbered = numbered
        self._classes = {found.key: found for found in numbered.values()}
        groups = {number: found.copy(numbered) for number, found in self.groups.items()}
        self.groups = groups
        self._group_numbers = self._group_numbers.copy()
        self.tried = self.tried.copy(numbered)
        held = self.by_quota.items()
        self.by_quota = {quota: classes.copy(numbered, groups) for quota, classes in held}
        self._all = self._all.copy() if self._all is not None else None
        self.offers = self.offers[:]
        self.changed = self.changed.copy()
        self._is_shared = False

    def validate(self, story: str) -> None:
        """Recompute what is derived; raise AssertionError with the story if it differs."""
        keys = [key for c in self._classes.values() for key in c.order]
        assert self.length == len(keys), story
        assert self._all is None or list(self._all) == sorted(keys), f"{story}: wrong order"
        self.tried.validate(self.numbered, story)
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
            awake = min((self._place(c.head or ()) for c in classes if not c.refusal), default=None)
            holding = (c for c in classes if c.refusal and not c.stands_aside)
            asleep = min((self._place(c.head or ()) for c in holding), default=None)
            assert of_quota.first_awake() == awake, f"{of}: first awake is {awake}"
            assert of_quota.first_asleep() == asleep, f"{of}: first asleep is {asleep}"
        self._validate_groups(story)

    def _validate_groups(self, story: str) -> None:
        assert self._group_numbers == {g.key: n for n, g in self.groups.items()}, story
        keys = {c.number: without_account(c.key) for c in self._classes.values()}
        for number, group in self.groups.items():
            members = {n: self.numbered[n] for n, key in keys.items() if key == group.key}
            group.validate(members, f"{story} group {number}")
        grouped = {n for n, key in keys.items() if key is not None}
        assert grouped == {n for group in self.groups.values() for n in group.members}, story

    # --- inside -------------------------------------------------------------------------------

    def _new_class(self, info: QueueUnitInfo) -> UnitClass:
        unit_class = UnitClass(self.next_number, info)
        self.next_number += 1
        self._classes[unit_class.key] = unit_class
        self.numbered[unit_class.number] = unit_class
        of_quota = self.by_quota.get(info.quota)
        if of_quota is None:
            of_quota = self.by_quota[info.quota] = self._new_class_queue()
        of_quota.classes[unit_class.number] = of_quota.entries[unit_class.number] = unit_class
        if info.submitter is not None:
            self._join_group(unit_class, of_quota)
        return unit_class

    def _join_group(self, unit_class: UnitClass, of_quota: ClassQueue) -> None:
        key = without_account(unit_class.key)
        if key is None:
            return
        number = self._group_numbers.get(key)
        if number is None:
            number = self._group_numbers[key] = self.next_number
            self.next_number += 1
            group = self._new_group(number, key, unit_class)
            self.groups[number] = of_quota.entries[number] = group
        group = unit_class.group = self.groups[number]
        group.members[unit_class.number] = unit_class

    def _new_class_queue(self) -> ClassQueue:
        return ClassQueue()

    def _new_group(self, number: int, key: ClassKey, of: UnitClass) -> ClassGroup:
        return ClassGroup(number, key, of)

    def _drop_class(self, unit_class: UnitClass) -> None:
        self.tried.forget(unit_class)
        del self._classes[unit_class.key]
        del self.numbered[unit_class.number]
        of_quota = self.by_quota[unit_class.quota]
        del of_quota.classes[unit_class.number]
        del of_quota.entries[unit_class.number]
        group = unit_class.group
        if group is not None:
            del group.members[unit_class.number]
            if not group.members:
                del self.groups[group.number]
                del self._group_numbers[group.key]
                del of_quota.entries[group.number]
        if not of_quota.classes:
            del self.by_quota[unit_class.quota]
        if not self.by_quota:
            # Another policy may follow, whose keys cannot be compared with these.
            self.offers.clear()
            self.changed.clear()

    def _note(self, unit_class: UnitClass) -> tuple[int, ...]:
        """Note that a class has another head, or was woken or put to sleep.

        Returns the number of its group, if that is woken: another class comes first in it.
        """
        group = unit_class.group
        if group is None:
            self._note_entry(unit_class)
            return ()
        self.changed[unit_class.quota] = None
        if unit_class.own_refusal is not None and not unit_class.stands_aside:
            self._note_entry(unit_class)
        before = group.head
        if not group.follow(unit_class):
            return ()
        woken: tuple[int, ...] = ()
        if group.own_refusal is not None:
            self._refused = None
            is_later = group.head is not None and before is not None and before < group.head
            if not (is_later and group.first == group.asked):
                group.own_refusal = None
                woken = (group.number,)
        self._note_entry(group)
        return woken

    def _note_entry(self, entry: UnitClass | ClassGroup) -> None:
        self.by_quota[entry.quota].note(entry)
        self.changed[entry.quota] = None

    def _merge_classes(self) -> PendingOrder:
        order = PendingOrder()
        for key in _merged(self.numbered):
            order.add(key)
        return order


def refused_heads(
    entries: Iterable[UnitClass | ClassGroup],
) -> Iterator[tuple[OrderKey, Refusal]]:
    """Yield the order key of the first unit, and the refusal, of those that are asleep."""
    for entry in entries:
        if entry.own_refusal is not None and entry.head is not None:
            yield entry.head, entry.own_refusal


def _merged(classes: dict[int, UnitClass]) -> Iterator[OrderKey]:
    return merge(*(unit_class.order for unit_class in classes.values()))
