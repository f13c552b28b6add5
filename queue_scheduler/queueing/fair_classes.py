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
    lane_of,
)
from queue_scheduler.queueing.account_ranks import AccountRanks, Standing
from queue_scheduler.queueing.class_queue import SLACK, ClassGroup, ClassQueue, UnitClass
from queue_scheduler.queueing.fair_settings import Lane, Path
from queue_scheduler.queueing.growing_heap import GrowingHeap, LaneHeap
from queue_scheduler.queueing.pending_classes import PendingClasses, refused_heads
from queue_scheduler.queueing.pending_order import PendingOrder


class FairGroup(ClassGroup):
    """The classes of one queue that differ by account alone.

    Attributes:
        ranks: Where accounts stand.
        firsts: The first unit of each lane in those of its classes that are not asleep alone.
    """

    __slots__ = ("_in_lanes", "firsts", "ranks")

    def __init__(self, number: int, key: ClassKey, of: UnitClass, ranks: AccountRanks) -> None:
        self.firsts = LaneHeap()
        # By lane: the first unit of each member that is not asleep on its own, by its number.
        self._in_lanes: dict[Lane, dict[int, OrderKey]] = {}
        self.ranks = ranks
        super().__init__(number, key, of)

    @property
    def head(self) -> OrderKey | None:
        """The order key of the first unit in those of its classes that are not asleep alone."""
        found = self.firsts.first(self.ranks)
        return None if found is None else self.firsts.keys[found[1]]

    @property
    def place(self) -> OrderKey | None:
        """The place of the head."""
        found = self.firsts.first(self.ranks)
        return None if found is None else found[0]

    @property
    def first(self) -> int | None:
        """The number of the class that has the head, or None."""
        found = self.firsts.first(self.ranks)
        if found is None:
            return None
        members = self._in_lanes[found[1]]
        return min(members, key=lambda number: members[number])

    def follow(self, member: UnitClass) -> bool:
        """Look up the head of a changed member; return whether it stands further ahead now."""
        lane = lane_of(member.key)
        members = self._in_lanes.setdefault(lane, {})
        before = members.pop(member.number, None)
        if member.head is not None and member.own_refusal is None:
            members[member.number] = member.head
        if not members:
            del self._in_lanes[lane]
            self.firsts.drop(lane)
            return False
        self.firsts.put(lane, min(members.values()), self.ranks)
        now = members.get(member.number)
        return now is not None and (before is None or now < before)

    def reset(self) -> None:
        """Take ranks that may be smaller than before."""
        self.firsts.reset(self.ranks)

    def copy(self, numbered: dict[int, UnitClass]) -> FairGroup:
        """Return an independent copy over copied classes, which then are of it."""
        twin: FairGroup = FairGroup.__new__(FairGroup)
        twin.number, twin.key, twin.quota = self.number, self.key, self.quota
        twin._head = None
        twin.priority = self.priority
        twin.members = {number: numbered[number] for number in self.members}
        twin.own_refusal, twin.own_refused_at = self.own_refusal, self.own_refused_at
        twin.last_reason, twin.asked = self.last_reason, self.asked
        twin.ranks, twin.firsts, twin._heads = self.ranks, self.firsts.copy(), []
        twin._in_lanes = {lane: members.copy() for lane, members in self._in_lanes.items()}
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
        lanes: The units, refused or not, lane by lane.
    """

    __slots__ = ("_aside", "_asleep_first", "_awake_first", "_firsts", "lanes", "ranks")

    def __init__(self, ranks: AccountRanks) -> None:
        super().__init__()
        self.ranks = ranks
        self.lanes: dict[Lane, PendingOrder] = {}
        self._firsts = LaneHeap()
        self._awake_first = GrowingHeap[int]()
        self._asleep_first = GrowingHeap[int]()
        # The classes that stand aside. While there are none, nobody asks for the first asleep, and
        # its heap is not kept.
        self._aside: dict[int, None] = {}

    def add(self, key: OrderKey) -> bool:
        """Add a unit to its lane; return whether the lane is new."""
        lane = key[0]
        order = self.lanes.get(lane)
        is_new = order is None
        if order is None:
            order = self.lanes[lane] = PendingOrder()
        order.add(key)
        if order.first() is key:
            self._firsts.put(lane, key, self.ranks)
        return is_new

    def remove(self, key: OrderKey) -> bool:
        """Remove a unit from its lane; return whether the lane is gone."""
        lane = key[0]
        first = self.lanes[lane].remove(key)
        if first is not None:
            self._firsts.put(lane, first, self.ranks)
            return False
        del self.lanes[lane]
        self._firsts.drop(lane)
        return True

    def note(self, entry: UnitClass | ClassGroup) -> None:
        """Note that a class or group has another head, or was woken or put to sleep.

        Not called for a class that is awake, or stands aside.
        """
        is_awake = entry.own_refusal is None
        if not (is_awake or self._aside):
            return
        place = self._place(entry)
        if place is not None:
            heap = self._awake_first if is_awake else self._asleep_first
            heap.put(entry.number, place)

    def note_aside(self, unit_class: UnitClass) -> None:
        """Note whether a class stands aside; one without units does not."""
        if not unit_class.stands_aside or unit_class.head is None:
            self._aside.pop(unit_class.number, None)
            return
        is_first = not self._aside
        self._aside[unit_class.number] = None
        if is_first:
            self._asleep_first.reset(self.entries, self._asleep_place)

    def first_awake(self) -> OrderKey | None:
        """Return the place of the first unit that is not refused, or None."""
        found = self._awake_first.first(self._awake_place)
        return None if found is None else found[0]

    def first_below(self, priority: int) -> OrderKey | None:
        """Return the place of the first unit that is not refused, if its priority is lower."""
        found = self._awake_first.first(self._awake_place)
        is_below = found is not None and self.entries[found[1]].priority < priority
        return found[0] if found is not None and is_below else None

    def first_asleep(self) -> OrderKey | None:
        """Return the place of the first refused unit, or None."""
        if self._aside:
            found = self._asleep_first.first(self._asleep_place)
            return None if found is None else found[0]
        places = map(self._asleep_place, self.entries)
        return min((each for each in places if each is not None), default=None)

    def first(self) -> OrderKey | None:
        """Return the place of the first unit, refused or not, or None."""
        if not self._aside:
            first = self._firsts.first(self.ranks)
            return None if first is None else first[0]
        firsts = (self.first_awake(), self.first_asleep())
        return min((each for each in firsts if each is not None), default=None)

    def reset(self) -> None:
        """Take ranks that may be smaller than before."""
        self._firsts.reset(self.ranks)
        self._awake_first.reset(self.entries, self._awake_place)
        self._asleep_first.reset(self.entries, self._asleep_place)

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
        if entry is None or entry.own_refusal is None or number in self._aside:
            return None
        return self._place(entry)

    def validate_aside(self, story: str) -> None:
        """Raise AssertionError with the story if others stand aside than it says."""
        aside = {number for number, each in self.classes.items() if each.stands_aside}
        assert set(self._aside) == aside, f"{story}: {sorted(aside)} stand aside"

    def copy(
        self, numbered: dict[int, UnitClass], groups: Mapping[int, ClassGroup]
    ) -> FairClassQueue:
        """Return an independent copy over copied classes and groups."""
        twin = FairClassQueue(self.ranks)
        twin.classes = {number: numbered[number] for number in self.classes}
        twin.entries = dict[int, UnitClass | ClassGroup](twin.classes)
        twin.entries |= {n: groups[n] for n in self.entries if n in groups}
        twin.lanes = {lane: order.copy() for lane, order in self.lanes.items()}
        twin._firsts, twin._aside = self._firsts.copy(), self._aside.copy()
        twin._awake_first.take_over(self._awake_first)
        twin._asleep_first.take_over(self._asleep_first)
        return twin


class FairClasses(PendingClasses):
    """The classes of the pending units of one queue, of which accounts are ordered by use.

    What it returns as the position of a unit is its place.

    Attributes:
        ranks: Where accounts stand; for reading.
        lanes: The lanes that have units, each with the number of quotas that these are of; for
            reading.
    """

    def __init__(self, next_number: int = 0, reasons_version: int = 0) -> None:
        """Start without units, with the first number of a class or group."""
        super().__init__(next_number, reasons_version)
        self.ranks = AccountRanks()
        self.lanes: dict[Lane, int] = {}
        self._has_shrunk = False

    # --- accounts -----------------------------------------------------------------------------

    def place(self, key: OrderKey) -> OrderKey:
        """Return the present place of an order key."""
        return self.ranks.place(key)

    _place = place

    def set_ranks(self, ranks: Mapping[Path, int], *, are_new: bool = False) -> None:
        """Take ranks of accounts.

        Args:
            ranks: The ranks, also of accounts without pending units.
            are_new: Whether they are of accounts whose first unit is about to be added.
        """
        news: dict[Path, int] = {}
        has_shrunk = False
        for path, rank in ranks.items():
            known = self.ranks.rank_of(path)
            if known != rank and (are_new or known is not None):
                news[path] = rank
                has_shrunk |= rank < (known or 0)
        if not news:
            return
        if self._is_shared:
            self._stop_sharing()
        self._refused = None
        self.ranks.put(news)
        self.changed = dict.fromkeys(self.by_quota)
        if not has_shrunk:
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
        if self._is_shared:
            self._stop_sharing()
        lane = info.order_key[0]
        if lane not in self.lanes:
            self.lanes[lane] = 0
            self.ranks.open(lane)  # first: it is looked up there which account comes first
        woken = super().add(info)
        if self._of_quota(info.quota).add(info.order_key):
            self.lanes[lane] += 1
        return woken

    def remove(self, info: QueueUnitInfo) -> tuple[int, ...]:
        """Remove a unit; return what no longer waits, by number."""
        if self._is_shared:
            self._stop_sharing()
        lane = info.order_key[0]
        if self._of_quota(info.quota).remove(info.order_key):
            self.lanes[lane] -= 1
        left = super().remove(info)
        if not self.lanes[lane]:
            del self.lanes[lane]
            self.ranks.close(lane)
        if len(self.ranks) > 2 * len(self.lanes) + SLACK:
            self.ranks.keep(self.lanes)
        return left

    def _of_quota(self, quota: str) -> FairClassQueue:
        of_quota = self.by_quota[quota]
        assert isinstance(of_quota, FairClassQueue), "classes of another policy"
        return of_quota

    def _note(self, unit_class: UnitClass) -> tuple[int, ...]:
        group = unit_class.group
        assert isinstance(group, FairGroup), "a class without a group"
        self.changed[unit_class.quota] = None
        self._of_quota(unit_class.quota).note_aside(unit_class)
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
        return FairClassQueue(self.ranks)

    def _new_group(self, number: int, key: ClassKey, of: UnitClass) -> ClassGroup:
        return FairGroup(number, key, of, self.ranks)

    # --- positions ----------------------------------------------------------------------------

    def head_of(self, number: int) -> OrderKey | None:
        """Return the place of the first unit of the class or group of that number, or None."""
        group = self.groups.get(number)
        if isinstance(group, FairGroup):
            found = group.firsts.first(self.ranks)
            return None if found is None else found[0]
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
        return self._merged(self._orders(self.by_quota if quota is None else (quota,)))

    def orders(self) -> Iterator[tuple[Lane, PendingOrder]]:
        """Iterate over the units of each lane, quota by quota; for reading."""
        return self._orders(self.by_quota)

    def _orders(self, quotas: Iterable[str]) -> Iterator[tuple[Lane, PendingOrder]]:
        """Yield the lanes of some quotas."""
        for quota in quotas:
            if quota in self.by_quota:
                yield from self._of_quota(quota).lanes.items()

    def at(self, position: int, *, tried: bool = False) -> OrderKey | None:
        """Return the place of the unit that so many others come before, or None."""
        aside = self.tried.aside if tried else {}
        if not aside:
            return next(islice(self.in_order(), position, None), None)
        others = {n: each for n, each in self.numbered.items() if n not in aside}
        return next(islice(self._merged(_by_lane(others)), position, None), None)

    def count_before(self, key: OrderKey, *, tried: bool = False) -> int:
        """Return how many units come before that place; `tried`: that do not stand aside."""
        orders = self.orders()
        count = sum(self._count(lane, order, key) for lane, order in orders)
        if tried and self.tried.aside:
            aside = _by_lane(self.tried.aside)
            count -= sum(self._count(lane, order, key) for lane, order in aside)
        return count

    def count_in(self, unit_class: UnitClass, place: OrderKey) -> int:
        """Return how many units of a class come before a place."""
        head = unit_class.head
        return 0 if head is None else self._count(head[0], unit_class.order, place)

    def _count(self, lane: Lane, order: PendingOrder, place: OrderKey) -> int:
        standing = self.ranks.standing(lane)
        if standing != place[0]:
            return len(order) if standing < place[0] else 0
        return order.count_before((lane, *place[1:]))

    def _merged(self, orders: Iterable[tuple[Lane, PendingOrder]]) -> Iterator[OrderKey]:
        """Yield the places of what is in several orders."""
        equal: dict[Standing, list[PendingOrder]] = {}
        for lane, order in orders:
            equal.setdefault(self.ranks.standing(lane), []).append(order)
        place = self.ranks.place
        for standing in sorted(equal):
            # Several quotas, or accounts of equal rank, whose units are ordered by themselves.
            yield from merge(*(map(place, order) for order in equal[standing]))

    # --- copies -------------------------------------------------------------------------------

    def copy(self) -> Self:
        """Return an independent copy that shares the classes until either of the two changes."""
        if not self._is_shared:
            # As in `PendingClasses`: reading moves entries of heaps.
            for group in self.groups.values():
                _ = group.head
        twin: Self = super().copy()
        twin.ranks, twin.lanes, twin._has_shrunk = self.ranks, self.lanes, self._has_shrunk
        return twin

    def _stop_sharing(self) -> None:
        super()._stop_sharing()
        self.ranks = self.ranks.copy()
        self.lanes = self.lanes.copy()
        for group in self.groups.values():
            assert isinstance(group, FairGroup), "a group of another policy"
            group.ranks = self.ranks
        for of_quota in self.by_quota.values():
            assert isinstance(of_quota, FairClassQueue), "classes of another policy"
            of_quota.ranks = self.ranks

    def validate(self, story: str) -> None:
        """Recompute what is derived; raise AssertionError with the story if it differs."""
        super().validate(story)
        counts: dict[Lane, int] = {}
        for quota, of_quota in self.by_quota.items():
            lanes: dict[Lane, list[OrderKey]] = {}
            for each in of_quota.classes.values():
                for key in each.order:
                    lanes.setdefault(key[0], []).append(key)
            got = {lane: list(order) for lane, order in self._of_quota(quota).lanes.items()}
            want = {lane: sorted(keys) for lane, keys in lanes.items()}
            assert got == want, f"{story}: quota {quota} has other lanes"
            self._of_quota(quota).validate_aside(f"{story} quota {quota}")
            counts |= {lane: counts.get(lane, 0) + 1 for lane in lanes}
            classes = [each for each in of_quota.classes.values() if not each.stands_aside]
            places = [self.place(each.head) for each in classes if each.head is not None]
            assert of_quota.first() == min(places, default=None), f"{story}: first of {quota}"
        assert self.lanes == counts, f"{story}: lanes are {counts}"
        order = sorted(counts, key=lambda lane: (self.ranks.standing(lane), lane))
        assert self.ranks.in_order == order, f"{story}: accounts are in order {order}"
        places = list(self.in_order())
        assert places == sorted(places), f"{story}: wrong order"
        assert len(places) == self.length, f"{story}: {len(places)} places"
        for count, place in enumerate(places):
            assert self.count_before(place) == count, f"{story}: {place} is not at {count}"


def _by_lane(classes: Mapping[int, UnitClass]) -> list[tuple[Lane, PendingOrder]]:
    return [(each.head[0], each.order) for each in classes.values() if each.head is not None]
