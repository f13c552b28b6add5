"""The pending units of a queue with the policy Fair: the account with the least use first. Pure.

Order keys never change, so within its lane (an account; with `priority: First`, of one priority)
each unit stands where it stood. What changes is where the lanes stand: `set_ranks` takes that, when
an account is charged and each minute. Between two such changes the order is fixed. Ranks mostly
grow, and then nothing is sorted: the heaps are those of `growing_heap`. Where some became smaller,
the heaps are made anew, and the caller wakes the queue.

All classes are in groups of equal demands: what a quota refuses one account it refuses all of them,
so that one class of a group is asked, not one per user. A group that is asleep is asked anew if a
unit comes before all others in it, and not because an account falls behind another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice
from typing import Self

from queue_scheduler.decision import Refusal
from queue_scheduler.framework.queue_unit_info import (
    ClassKey,
    OrderKey,
    QueueUnitInfo,
    has_account,
)
from queue_scheduler.queueing.account_ranks import AccountRanks, Prefix
from queue_scheduler.queueing.class_queue import ClassGroup, ClassQueue, UnitClass
from queue_scheduler.queueing.fair_settings import Lane, Path
from queue_scheduler.queueing.growing_heap import GrowingHeap
from queue_scheduler.queueing.pending_classes import PendingClasses, refused_heads
from queue_scheduler.queueing.pending_order import PendingOrder


class FairGroup(ClassGroup):
    """The classes of one queue that differ by account alone.

    Attributes:
        ranks: Where accounts stand.
    """

    __slots__ = ("_followed", "_growing", "ranks")

    def __init__(self, number: int, key: ClassKey, of: UnitClass, ranks: AccountRanks) -> None:
        self._growing = GrowingHeap()
        # The first unit of each member that is not asleep on its own.
        self._followed: dict[int, OrderKey] = {}
        self.ranks = ranks
        super().__init__(number, key, of)

    @property
    def head(self) -> OrderKey | None:
        """The order key of the first unit in those of its classes that are not asleep alone."""
        found = self._growing.first(self._place_of)
        return None if found is None else self._followed[found[1]]

    @head.setter
    def head(self, _head: OrderKey | None) -> None:
        """Do nothing: the head follows from the members."""

    @property
    def place(self) -> OrderKey | None:
        """The place of the head."""
        found = self._growing.first(self._place_of)
        return None if found is None else found[0]

    @property
    def first(self) -> int | None:
        """The number of the class that has the head, or None."""
        found = self._growing.first(self._place_of)
        return None if found is None else found[1]

    def follow(self, member: UnitClass) -> bool:
        """Look up the head of a changed member; return whether it stands further ahead now."""
        number, before = member.number, self._followed.get(member.number)
        if member.head is None or member.own_refusal is not None:
            self._followed.pop(number, None)
            return False
        self._followed[number] = member.head
        self._growing.put(number, self.ranks.place(member.head))
        return before is None or member.head < before

    def reset(self) -> None:
        """Take ranks that may be smaller than before."""
        self._growing.reset(self._followed, self._place_of)

    def _place_of(self, number: int) -> OrderKey | None:
        key = self._followed.get(number)
        return None if key is None else self.ranks.place(key)

    def copy(self, numbered: dict[int, UnitClass]) -> FairGroup:
        """Return an independent copy over copied classes, which then are of it."""
        twin: FairGroup = FairGroup.__new__(FairGroup)
        twin.number, twin.key, twin.quota = self.number, self.key, self.quota
        twin.priority = self.priority
        twin.members = {number: numbered[number] for number in self.members}
        twin.own_refusal, twin.own_refused_at = self.own_refusal, self.own_refused_at
        twin.last_reason, twin.asked = self.last_reason, self.asked
        twin.ranks, twin._followed = self.ranks, self._followed.copy()
        twin._growing, twin._heads = self._growing.copy(), []
        for member in twin.members.values():
            member.group = twin
        return twin

    def validate(self, members: dict[int, UnitClass], story: str) -> None:
        """Raise AssertionError with the story unless it is the group of these classes."""
        assert members == self.members, story
        assert members, f"{story}: empty group kept"
        assert all(each.group is self for each in members.values()), story
        awake = (each for each in members.values() if each.own_refusal is None)
        places = [self.ranks.place(each.head) for each in awake if each.head is not None]
        assert self.place == min(places, default=None), f"{story}: wrong head"
        assert self.own_refusal is None or self.head is not None, f"{story}: sleeps for nobody"


class FairClassQueue(ClassQueue):
    """The classes of one quota in one queue, with the first awake and the first asleep place.

    Attributes:
        ranks: Where accounts stand.
    """

    __slots__ = ("_growing_asleep", "_growing_awake", "ranks")

    def __init__(self, ranks: AccountRanks) -> None:
        super().__init__()
        self.ranks = ranks
        self._growing_awake = GrowingHeap()
        self._growing_asleep = GrowingHeap()

    def note(self, entry: UnitClass | ClassGroup) -> None:
        """Note that a class or group has another head, or was woken or put to sleep.

        Not called for a class that is awake, or stands aside.
        """
        place = self._place(entry)
        if place is not None:
            heap = self._growing_awake if entry.own_refusal is None else self._growing_asleep
            heap.put(entry.number, place)

    def first_awake(self) -> OrderKey | None:
        """Return the place of the first unit that is not refused, or None."""
        found = self._growing_awake.first(self._awake_place)
        return None if found is None else found[0]

    def first_below(self, priority: int) -> OrderKey | None:
        """Return the place of the first unit that is not refused, if its priority is lower."""
        found = self._growing_awake.first(self._awake_place)
        is_below = found is not None and self.entries[found[1]].priority < priority
        return found[0] if found is not None and is_below else None

    def first_asleep(self) -> OrderKey | None:
        """Return the place of the first refused unit, or None."""
        found = self._growing_asleep.first(self._asleep_place)
        return None if found is None else found[0]

    def first(self) -> OrderKey | None:
        """Return the place of the first unit, refused or not, or None."""
        firsts = (self.first_awake(), self.first_asleep())
        return min((each for each in firsts if each is not None), default=None)

    def reset(self) -> None:
        """Take ranks that may be smaller than before."""
        self._growing_awake.reset(self.entries, self._awake_place)
        self._growing_asleep.reset(self.entries, self._asleep_place)

    def _place(self, entry: UnitClass | ClassGroup) -> OrderKey | None:
        if isinstance(entry, FairGroup):
            return entry.place
        return None if entry.head is None else self.ranks.place(entry.head)

    def _awake_place(self, number: int) -> OrderKey | None:
        entry = self.entries.get(number)
        is_awake = isinstance(entry, FairGroup) and entry.own_refusal is None
        return self._place(entry) if entry is not None and is_awake else None

    def _asleep_place(self, number: int) -> OrderKey | None:
        entry = self.entries.get(number)
        if entry is None or entry.own_refusal is None:
            return None
        if isinstance(entry, UnitClass) and entry.stands_aside:
            return None
        return self._place(entry)

    def copy(
        self, numbered: dict[int, UnitClass], groups: Mapping[int, ClassGroup]
    ) -> FairClassQueue:
        """Return an independent copy over copied classes and groups."""
        twin = FairClassQueue(self.ranks)
        twin.classes = {number: numbered[number] for number in self.classes}
        twin.entries = dict[int, UnitClass | ClassGroup](twin.classes)
        twin.entries |= {n: groups[n] for n in self.entries if n in groups}
        twin._growing_awake = self._growing_awake.copy()
        twin._growing_asleep = self._growing_asleep.copy()
        return twin


class FairClasses(PendingClasses):
    """The classes of the pending units of one queue, of which accounts are ordered by use.

    What it returns as the position of a unit is its place.
    """

    def __init__(self, next_number: int = 0, reasons_version: int = 0) -> None:
        """Start without units, with the first number of a class or group."""
        super().__init__(next_number, reasons_version)
        self._ranks = AccountRanks()
        self._lanes: dict[Lane, PendingOrder] = {}
        self._has_shrunk = False

    # --- accounts -----------------------------------------------------------------------------

    def place(self, key: OrderKey) -> OrderKey:
        """Return the present place of an order key."""
        return self._ranks.place(key)

    _place = place

    def accounts(self) -> Iterable[Path]:
        """Return the accounts that have pending units."""
        return dict.fromkeys(lane[1] for lane in self._lanes)

    def set_ranks(self, ranks: Mapping[Path, int], *, are_new: bool = False) -> None:
        """Take ranks of accounts.

        Args:
            ranks: The ranks, also of accounts without pending units.
            are_new: Whether they are of accounts whose first unit is about to be added.
        """
        of = self._ranks
        known = {path: of.rank_of(path) for path in ranks}
        news = {
            path: rank
            for path, rank in ranks.items()
            if known[path] != rank and (are_new or known[path] is not None)
        }
        if not news:
            return
        if self._is_shared:
            self._stop_sharing()
        self._refused = None
        self._ranks.put(news)
        self.changed = dict.fromkeys(self.by_quota)
        if all(rank >= (known[path] or 0) for path, rank in news.items()):
            return
        self._has_shrunk = True
        for group in self.groups.values():
            assert isinstance(group, FairGroup), "a group of another policy"
            group.reset()
        for of_quota in self.by_quota.values():
            assert isinstance(of_quota, FairClassQueue), "classes of another policy"
            of_quota.reset()
        self.offers = []

    def take_shrunk(self) -> bool:
        """Return, once, whether places became smaller: then the queue is to be asked anew."""
        has_shrunk, self._has_shrunk = self._has_shrunk, False
        return has_shrunk

    # --- changes ------------------------------------------------------------------------------

    def arrange(self, *, bands: int, has_depth: bool) -> None:
        """Take how the queue divides its units: it has no bands, and counts by lanes."""
        assert bands == 1, f"{bands} bands"

    def add(self, info: QueueUnitInfo) -> tuple[int, ...]:
        """Add a unit; return the numbers of its class and group if they are woken by it."""
        woken = super().add(info)
        key = info.order_key
        order = self._lanes.get(key[0])
        if order is None:
            order = self._lanes[key[0]] = PendingOrder()
        order.add(key)
        return woken

    def remove(self, info: QueueUnitInfo) -> tuple[int, ...]:
        """Remove a unit; return the numbers of its class if that is empty now, and its group's."""
        left = super().remove(info)
        key = info.order_key
        order = self._lanes[key[0]]
        if order.remove(key) is None:
            del self._lanes[key[0]]
            if len(self._ranks) > 2 * (len(self._lanes) + 1):
                self._ranks.keep(self._lanes)
        return left

    def _note(self, unit_class: UnitClass) -> tuple[int, ...]:
        group = unit_class.group
        assert isinstance(group, FairGroup), "a class without a group"
        self.changed[unit_class.quota] = None
        if unit_class.own_refusal is not None and not unit_class.stands_aside:
            self._note_entry(unit_class)
        came_ahead = group.follow(unit_class)
        woken: tuple[int, ...] = ()
        if group.own_refusal is not None:
            self._refused = None
            first = group.first
            # An account with a limit of its own was not compared with it when another was asked.
            is_limited = first != group.asked and (
                first is None or has_account(self.numbered[first].key)
            )
            if is_limited or (came_ahead and first == unit_class.number):
                group.own_refusal = None
                woken = (group.number,)
        self._note_entry(group)
        return woken

    def _new_class(self, info: QueueUnitInfo) -> UnitClass:
        unit_class = super()._new_class(info)
        if unit_class.group is None:
            self._join_group(unit_class, self.by_quota[info.quota])
        return unit_class

    def _new_class_queue(self) -> ClassQueue:
        return FairClassQueue(self._ranks)

    def _new_group(self, number: int, key: ClassKey, of: UnitClass) -> ClassGroup:
        return FairGroup(number, key, of, self._ranks)

    # --- positions ----------------------------------------------------------------------------

    def head_of(self, number: int) -> OrderKey | None:
        """Return the place of the first unit of the class or group of that number, or None."""
        group = self.groups.get(number)
        if group is not None:
            assert isinstance(group, FairGroup), "a group of another policy"
            return group.place
        entry = self.numbered.get(number)
        return None if entry is None or entry.head is None else self.place(entry.head)

    def refused_in_order(self) -> list[tuple[OrderKey, Refusal]]:
        """Return the first unit and the refusal of the classes and groups asleep, in order."""
        if self._refused is None:
            entries: list[UnitClass | ClassGroup] = [*self.numbered.values(), *self.groups.values()]
            found = ((self.place(key), refusal) for key, refusal in refused_heads(entries))
            self._refused = sorted(found, key=lambda pair: pair[0])
        return self._refused

    def in_order(self, quota: str | None = None) -> Iterator[OrderKey]:
        """Iterate lazily over the places of all units in order, or of those of one quota."""
        if quota is None:
            return self._merged(self._lanes.items())
        of_quota = self.by_quota.get(quota)
        return self._merged(_by_lane({} if of_quota is None else of_quota.classes))

    def at(self, position: int, *, tried: bool = False) -> OrderKey | None:
        """Return the place of the unit that so many others come before, or None."""
        aside = self.tried.aside if tried else {}
        if not aside:
            return next(islice(self.in_order(), position, None), None)
        others = {n: each for n, each in self.numbered.items() if n not in aside}
        return next(islice(self._merged(_by_lane(others)), position, None), None)

    def count_before(self, key: OrderKey, *, tried: bool = False) -> int:
        """Return how many units come before that place; `tried`: that do not stand aside."""
        count = sum(self._count(lane, order, key) for lane, order in self._lanes.items())
        if tried and self.tried.aside:
            aside = _by_lane(self.tried.aside)
            count -= sum(self._count(lane, order, key) for lane, order in aside)
        return count

    def count_in(self, unit_class: UnitClass, place: OrderKey) -> int:
        """Return how many units of a class come before a place."""
        head = unit_class.head
        return 0 if head is None else self._count(head[0], unit_class.order, place)

    def _count(self, lane: Lane, order: PendingOrder, place: OrderKey) -> int:
        prefix, of_place = self._ranks.prefix(lane), place[:2]
        if prefix != of_place:
            return len(order) if prefix < of_place else 0
        return order.count_before((lane, *place[2:]))

    def _merged(self, orders: Iterable[tuple[Lane, PendingOrder]]) -> Iterator[OrderKey]:
        """Yield the places of what is in several orders."""
        by_prefix: dict[Prefix, list[PendingOrder]] = {}
        for lane, order in orders:
            by_prefix.setdefault(self._ranks.prefix(lane), []).append(order)
        place = self._ranks.place
        for prefix in sorted(by_prefix):
            # Accounts of equal rank share their place, and their units are ordered by themselves.
            yield from merge(*(map(place, order) for order in by_prefix[prefix]))

    # --- copies -------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Return an independent copy that shares the classes until either of the two changes."""
        if not self._is_shared:
            # As in `PendingClasses`: reading moves entries of heaps.
            for group in self.groups.values():
                _ = group.head
        twin: Self = super().copy()
        twin._ranks, twin._lanes, twin._has_shrunk = self._ranks, self._lanes, self._has_shrunk
        return twin

    def _stop_sharing(self) -> None:
        super()._stop_sharing()
        self._ranks = self._ranks.copy()
        self._lanes = {lane: order.copy() for lane, order in self._lanes.items()}
        for group in self.groups.values():
            assert isinstance(group, FairGroup), "a group of another policy"
            group.ranks = self._ranks
        for of_quota in self.by_quota.values():
            assert isinstance(of_quota, FairClassQueue), "classes of another policy"
            of_quota.ranks = self._ranks

    def validate(self, story: str) -> None:
        """Recompute what is derived; raise AssertionError with the story if it differs."""
        super().validate(story)
        lanes: dict[Lane, list[OrderKey]] = {}
        for each in self.numbered.values():
            for key in each.order:
                lanes.setdefault(key[0], []).append(key)
        assert {lane: list(order) for lane, order in self._lanes.items()} == {
            lane: sorted(keys) for lane, keys in lanes.items()
        }, f"{story}: wrong lanes"
        places = list(self.in_order())
        assert places == sorted(places), f"{story}: wrong order"
        assert len(places) == self.length, f"{story}: {len(places)} places"
        for count, place in enumerate(places):
            assert self.count_before(place) == count, f"{story}: {place} is not at {count}"


def _by_lane(classes: Mapping[int, UnitClass]) -> list[tuple[Lane, PendingOrder]]:
    return [(each.head[0], each.order) for each in classes.values() if each.head is not None]
