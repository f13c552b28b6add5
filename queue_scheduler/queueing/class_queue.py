"""The classes of one queue, and the first awake and the first asleep unit of each quota. Pure.

`pending_classes` explains classes and groups. The heaps are lazy: an entry counts only while it is
the head of its class, and the class is still awake, or asleep, as the heap has it. A group stands
in them for those of its classes that are not asleep on their own.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from queue_scheduler.decision import Reason, Refusal, Trait, reasons_with
from queue_scheduler.framework.queue_unit_info import ClassKey, OrderKey, QueueUnitInfo
from queue_scheduler.queueing.pending_order import PendingOrder

SLACK = 64
"""A heap is rebuilt when it has this many entries more than twice the current ones: rebuilding then
costs a constant per push, and stale entries cannot pile up behind a head that stays."""

ASIDE: Final = reasons_with(Trait.STANDS_ASIDE)
"""Why a class is asleep that holds back no other."""


class UnitClass:
    """The pending units of one class, in order.

    Attributes:
        number: Identifies it in this queue; never reused.
        key: What all units of the class have in common.
        quota: The quota that they are charged to.
        demand: What each asks for.
        priority: Of all of them in a strict queue; in other queues, of the unit that came first.
        order: Their positions.
        head: The position of the first; None if there is none.
        group: The classes that differ from it by their account alone; None: it has no account.
        own_refusal: Why it is asleep, apart from its group; None if nothing else keeps it asleep.
        own_refused_at: When it was refused so, in seconds since the epoch; None if unknown.
        last_reason: The reason of its last refusal.
    """

    __slots__ = (
        *("demand", "group", "head", "key", "last_reason", "number", "order", "priority", "quota"),
        *("own_refusal", "own_refused_at"),
    )

    def __init__(self, number: int, info: QueueUnitInfo) -> None:
        self.number = number
        self.key = info.class_key
        self.quota = info.quota
        self.demand = info.demand
        self.priority = info.priority
        self.order = PendingOrder()
        self.head: OrderKey | None = None
        self.group: ClassGroup | None = None
        self.own_refusal: Refusal | None = None
        self.own_refused_at: int | None = None
        self.last_reason = Reason.WAITING

    @property
    def refusal(self) -> Refusal | None:
        """Why the class is asleep, be it with its group; None if it is awake."""
        if self.own_refusal is not None or self.group is None:
            return self.own_refusal
        return self.group.own_refusal

    @property
    def refused_at(self) -> int | None:
        """When it was refused, in seconds since the epoch; None if unknown."""
        if self.own_refusal is not None or self.group is None:
            return self.own_refused_at
        return self.group.own_refused_at

    @property
    def stands_aside(self) -> bool:
        """Whether it is asleep, and holds back no other."""
        return self.own_refusal is not None and self.own_refusal.reason in ASIDE

    def copy(self) -> UnitClass:
        """Return an independent copy, of no group yet."""
        twin = UnitClass.__new__(UnitClass)
        twin.number = self.number
        twin.key = self.key
        twin.quota = self.quota
        twin.demand = self.demand
        twin.priority = self.priority
        twin.order = self.order.copy()
        twin.head = self.head
        twin.group = None
        twin.own_refusal = self.own_refusal
        twin.own_refused_at = self.own_refused_at
        twin.last_reason = self.last_reason
        return twin


class ClassGroup:
    """The classes of one queue that differ by account alone: every filter says the same of them.

    Attributes:
        number: Identifies it in this queue, among its classes and groups; never reused.
        key: What the keys of its classes have in common.
        quota: The quota that they are charged to.
        priority: That of the classes (`UnitClass.priority`).
        members: Its classes by number.
        own_refusal: Why these are asleep; None if they are awake.
        own_refused_at: When that was found, in seconds since the epoch; None if unknown.
        last_reason: The reason of its last refusal.
        asked: The class that was asked for all when it last fell asleep; None if it never did.
    """

    __slots__ = (
        *("_head", "_heads", "asked", "key", "last_reason", "members", "number", "own_refusal"),
        *("own_refused_at", "priority", "quota"),
    )

    def __init__(self, number: int, key: ClassKey, of: UnitClass) -> None:
        self.number = number
        self.key = key
        self.quota = of.quota
        self.priority = of.priority
        self.members: dict[int, UnitClass] = {}
        self._head: OrderKey | None = None
        self.own_refusal: Refusal | None = None
        self.own_refused_at: int | None = None
        self.last_reason = Reason.WAITING
        self.asked: int | None = None
        self._heads: list[tuple[OrderKey, int]] = []

    def follow(self, member: UnitClass) -> bool:
        """Look up the head after a change of a member; return whether it is another."""
        heads, before = self._heads, self._head
        if member.head is not None and member.own_refusal is None:
            heappush(heads, (member.head, member.number))
            if len(heads) > 2 * len(self.members) + SLACK:
                self._rebuild()
                heads = self._heads
        while heads:
            head, number = heads[0]
            found = self.members.get(number)
            if found is not None and found.own_refusal is None and found.head == head:
                break
            heappop(heads)
        self._head = heads[0][0] if heads else None
        return self._head != before

    @property
    def head(self) -> OrderKey | None:
        """The first position in those of its classes that are not asleep on their own."""
        return self._head

    @property
    def stands_aside(self) -> bool:
        """Always False: only what concerns one class alone lets others pass."""
        return False

    @property
    def first(self) -> int | None:
        """The number of the class that has the head, or None."""
        return self._heads[0][1] if self._heads else None

    def copy(self, numbered: dict[int, UnitClass]) -> ClassGroup:
        """Return an independent copy over copied classes, which then are of it."""
        twin: ClassGroup = ClassGroup.__new__(ClassGroup)
        twin.number = self.number
        twin.key = self.key
        twin.quota = self.quota
        twin.priority = self.priority
        twin.members = {number: numbered[number] for number in self.members}
        twin._head = self._head
        twin.own_refusal = self.own_refusal
        twin.own_refused_at = self.own_refused_at
        twin.last_reason = self.last_reason
        twin.asked = self.asked
        twin._heads = self._heads[:]
        for member in twin.members.values():
            member.group = twin
        return twin

    def validate(self, members: dict[int, UnitClass], story: str) -> None:
        """Raise AssertionError with the story unless it is the group of these classes."""
        assert members == self.members, story
        assert members, f"{story}: empty group kept"
        assert all(each.group is self for each in members.values()), story
        heads = (each.head or () for each in members.values() if each.own_refusal is None)
        assert self.head == min(heads, default=None), f"{story}: wrong head"
        assert self.own_refusal is None or self.head is not None, f"{story}: sleeps for nobody"

    def _rebuild(self) -> None:
        self._heads = [
            (each.head, each.number)
            for each in self.members.values()
            if each.head is not None and each.own_refusal is None
        ]
        heapify(self._heads)


class ClassQueue:
    """The classes of one quota in one queue, with the first awake and the first asleep unit.

    Attributes:
        classes: The classes by number.
        entries: The same, and their groups: what the heaps hold.
    """

    __slots__ = ("_asleep", "_awake", "classes", "entries")

    def __init__(self) -> None:
        self.classes: dict[int, UnitClass] = {}
        self.entries: dict[int, UnitClass | ClassGroup] = {}
        self._awake: list[tuple[OrderKey, int]] = []
        self._asleep: list[tuple[OrderKey, int]] = []

    def note(self, entry: UnitClass | ClassGroup) -> None:
        """Note that a class or group has another head, or was woken or put to sleep.

        Not called for a class of a group that is awake, or stands aside.
        """
        head = entry.head
        if head is None or (entry.own_refusal is not None and not _holds_back(entry.own_refusal)):
            return
        heap = self._awake if entry.own_refusal is None else self._asleep
        heappush(heap, (head, entry.number))
        if len(heap) > 2 * len(self.classes) + SLACK:
            self._rebuild()

    def first_awake(self) -> OrderKey | None:
        """Return the position of the first unit that is not refused, or None."""
        heap = self._awake
        while heap:
            head, number = heap[0]
            found = self.entries.get(number)
            if found is not None and found.own_refusal is None and found.head == head:
                return head
            heappop(heap)
        return None

    def first_below(self, priority: int) -> OrderKey | None:
        """Return the position of the first unit that is not refused, if its priority is lower."""
        first = self.first_awake()
        is_below = first is not None and self.entries[self._awake[0][1]].priority < priority
        return first if is_below else None

    def first_asleep(self) -> OrderKey | None:
        """Return the position of the first refused unit, or None."""
        heap = self._asleep
        while heap:
            head, number = heap[0]
            found = self.entries.get(number)
            if found is not None and found.head == head and _holds_back(found.own_refusal):
                return head
            heappop(heap)
        return None

    def first(self) -> OrderKey | None:
        """Return the position of the first unit, refused or not, or None."""
        awake = self.first_awake()
        asleep = self.first_asleep() if self._asleep else None
        if awake is None or asleep is None:
            return awake if asleep is None else asleep
        return min(awake, asleep)

    def copy(self, numbered: dict[int, UnitClass], groups: dict[int, ClassGroup]) -> ClassQueue:
        """Return an independent copy over copied classes and groups."""
        twin = ClassQueue()
        twin.classes = {number: numbered[number] for number in self.classes}
        twin.entries = dict[int, UnitClass | ClassGroup](twin.classes)
        if groups:
            twin.entries |= {n: groups[n] for n in self.entries if n in groups}
        twin._awake = self._awake[:]
        twin._asleep = self._asleep[:]
        return twin

    def _rebuild(self) -> None:
        self._awake, self._asleep = [], []
        for entry in self.entries.values():
            if entry.head is None:
                continue
            if entry.own_refusal is None:
                if isinstance(entry, UnitClass) and entry.group is not None:
                    continue
            elif not _holds_back(entry.own_refusal):
                continue
            heap = self._awake if entry.own_refusal is None else self._asleep
            heap.append((entry.head, entry.number))
        heapify(self._awake)
        heapify(self._asleep)


def _holds_back(refusal: Refusal | None) -> bool:
    """Return whether what is asleep for this comes before others; None: it is awake."""
    return refusal is not None and refusal.reason not in ASIDE
