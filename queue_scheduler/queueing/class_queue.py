"""The classes of one queue, and the first awake and the first asleep unit of each quota. Pure.

`scheduling_queue` explains classes. The heaps are lazy: an entry counts only while it is the head
of its class, and the class is still awake, or asleep, as the heap has it.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.queue_unit_info import OrderKey, QueueUnitInfo
from queue_scheduler.queueing.pending_order import PendingOrder

SLACK = 64
"""A heap is rebuilt when it has this many entries more than twice the current ones: rebuilding then
costs a constant per push, and stale entries cannot pile up behind a head that stays."""


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
        refusal: Why the class is asleep; None if it is awake.
        refused_at: When it was refused, in seconds since the epoch; None if unknown.
        last_reason: The reason of its last refusal.
    """

    __slots__ = (
        *("demand", "head", "key", "last_reason", "number", "order", "priority", "quota"),
        *("refusal", "refused_at"),
    )

    def __init__(self, number: int, info: QueueUnitInfo) -> None:
        self.number = number
        self.key = info.class_key
        self.quota = info.quota
        self.demand = info.demand
        self.priority = info.priority
        self.order = PendingOrder()
        self.head: OrderKey | None = None
        self.refusal: Refusal | None = None
        self.refused_at: int | None = None
        self.last_reason = Reason.WAITING

    def copy(self) -> UnitClass:
        """Return an independent copy."""
        twin = UnitClass.__new__(UnitClass)
        twin.number = self.number
        twin.key = self.key
        twin.quota = self.quota
        twin.demand = self.demand
        twin.priority = self.priority
        twin.order = self.order.copy()
        twin.head = self.head
        twin.refusal = self.refusal
        twin.refused_at = self.refused_at
        twin.last_reason = self.last_reason
        return twin


class ClassQueue:
    """The classes of one quota in one queue, with the first awake and the first asleep unit."""

    __slots__ = ("_asleep", "_awake", "classes")

    def __init__(self) -> None:
        self.classes: dict[int, UnitClass] = {}
        self._awake: list[tuple[OrderKey, int]] = []
        self._asleep: list[tuple[OrderKey, int]] = []

    def note(self, unit_class: UnitClass) -> None:
        """Note that a class has another head, or was woken or put to sleep."""
        head = unit_class.head
        if head is None:
            return
        heap = self._awake if unit_class.refusal is None else self._asleep
        heappush(heap, (head, unit_class.number))
        if len(heap) > 2 * len(self.classes) + SLACK:
            self._rebuild()

    def first_awake(self) -> OrderKey | None:
        """Return the position of the first unit that is not refused, or None."""
        heap = self._awake
        while heap:
            head, number = heap[0]
            found = self.classes.get(number)
            if found is not None and found.refusal is None and found.head == head:
                return head
            heappop(heap)
        return None

    def first_below(self, priority: int) -> OrderKey | None:
        """Return the position of the first unit that is not refused, if its priority is lower."""
        first = self.first_awake()
        is_below = first is not None and self.classes[self._awake[0][1]].priority < priority
        return first if is_below else None

    def first_asleep(self) -> OrderKey | None:
        """Return the position of the first refused unit, or None."""
        heap = self._asleep
        while heap:
            head, number = heap[0]
            found = self.classes.get(number)
            if found is not None and found.refusal is not None and found.head == head:
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

    def copy(self, numbered: dict[int, UnitClass]) -> ClassQueue:
        """Return an independent copy over copied classes."""
        twin = ClassQueue()
        twin.classes = {number: numbered[number] for number in self.classes}
        twin._awake = self._awake[:]
        twin._asleep = self._asleep[:]
        return twin

    def _rebuild(self) -> None:
        self._awake, self._asleep = [], []
        for unit_class in self.classes.values():
            head = unit_class.head
            if head is not None:
                heap = self._awake if unit_class.refusal is None else self._asleep
                heap.append((head, unit_class.number))
        heapify(self._awake)
        heapify(self._asleep)
