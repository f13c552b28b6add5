r"""One queue's line: which unit comes next, and what the refused ones hold back.

Units wait in *classes*: equal quota, equal demand, equal answers from every filter. A class
has its units in order, and one refusal for all of them; a decision looks at the first unit of
a class only. A class is awake, or asleep with its refusal, until a fact wakes it.

*Held back*, in policies that block, is not a state but a comparison: the first awake unit of a
quota may not be offered while an asleep unit of the same quota stands before it. So the line
keeps, per quota, the heads of its awake and of its asleep classes, and over the quotas the
units that may be offered. All three are heaps whose entries are never removed when they go
stale (the head left, the class fell asleep) but dropped when they surface. Every operation is
O(log n), whatever the number of classes.

Assumptions: order keys are unique within the queue; a class key fixes the quota.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, merge
from itertools import islice

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.queue_unit_info import (
    ClassKey,
    OrderKey,
    QueueUnitInfo,
    UnitDemand,
)
from queue_scheduler.queueing.pending_order import PendingOrder
from queue_scheduler.queueing.queue_policies import HoldsBack, QueuePolicy
from shared_api.objects.meta import Uid
from shared_api.objects.queue import Queue

SLACK = 64
"""A heap is rebuilt when it has this many entries more than twice the living ones: rebuilding
then costs a constant per push, and what is stale can not pile up below a head that stays."""


class UnitClass:
    """The waiting units of one class, in order.

    Attributes:
        number: Its name in this queue; never used again.
        key: What makes a unit one of this class.
        quota: What they are charged to.
        demand: What each asks for.
        order: Their places.
        head: The first of them; None while there is none.
        refusal: Why the class sleeps; None: it is awake.
        last_reason: Why it was refused last.
    """

    __slots__ = ("demand", "head", "key", "last_reason", "number", "order", "quota", "refusal")

    def __init__(self, number: int, info: QueueUnitInfo) -> None:
        self.number = number
        self.key = info.class_key
        self.quota = info.quota
        self.demand = info.demand
        self.order = PendingOrder()
        self.head: OrderKey | None = None
        self.refusal: Refusal | None = None
        self.last_reason = Reason.WAITING

    def copy(self) -> UnitClass:
        """Return an independent copy."""
        twin = UnitClass.__new__(UnitClass)
        twin.number = self.number
        twin.key = self.key
        twin.quota = self.quota
        twin.demand = self.demand
        twin.order = self.order.copy()
        twin.head = self.head
        twin.refusal = self.refusal
        twin.last_reason = self.last_reason
        return twin


class QuotaLine:
    """The classes of one quota in one queue; knows its first awake and first asleep unit."""

    __slots__ = ("_asleep", "_awake", "classes")

    def __init__(self) -> None:
        self.classes: dict[int, UnitClass] = {}
        self._awake: list[tuple[OrderKey, int]] = []
        self._asleep: list[tuple[OrderKey, int]] = []

    def note(self, unit_class: UnitClass) -> None:
        """The head of a class, or its sleep, changed."""
        head = unit_class.head
        if head is None:
            return
        heap = self._awake if unit_class.refusal is None else self._asleep
        heappush(heap, (head, unit_class.number))
        if len(heap) > 2 * len(self.classes) + SLACK:
            self._rebuild()

    def first_awake(self) -> OrderKey | None:
        """Return the place of the first unit that is not refused, or None."""
        heap = self._awake
        while heap:
            head, number = heap[0]
            found = self.classes.get(number)
            if found is not None and found.refusal is None and found.head == head:
                return head
            heappop(heap)
        return None

    def first_asleep(self) -> OrderKey | None:
        """Return the place of the first refused unit, or None."""
        heap = self._asleep
        while heap:
            head, number = heap[0]
            found = self.classes.get(number)
            if found is not None and found.refusal is not None and found.head == head:
                return head
            heappop(heap)
        return None

    def first(self) -> OrderKey | None:
        """Return the place of the first unit, refused or not, or None."""
        awake = self.first_awake()
        asleep = self.first_asleep() if self._asleep else None
        if awake is None or asleep is None:
            return awake if asleep is None else asleep
        return min(awake, asleep)

    def copy(self, numbered: dict[int, UnitClass]) -> QuotaLine:
        """Return an independent copy over copied classes."""
        twin = QuotaLine()
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


class SchedulingQueue:
    """The line of one Queue object.

    Attributes:
        name: Name of the queue; it is its identity.
        queue: The object as last seen.
        policy: How it orders and blocks; changed only while nobody waits.
        max_depth: Only this many positions are considered; None: all.
        waits_for_pods: Whether one unit at a time may be between Dequeued and Running.
        in_flight: Uids of the units that are, where `waits_for_pods`.
        not_before: The worker is backing off until then, in its clock's seconds.
        reasons_version: Goes up when the reason why some class waits changes.
        generation: Another one after a change of the policy: then places are of another kind.
        turn: When it was last served, counted in decisions of the engine; fair turns go by it.
        length: How many units wait.
    """

    def __init__(self, queue: Queue, policy: QueuePolicy) -> None:
        self.name = queue.metadata.name
        self.queue = queue
        self.policy = policy
        self.max_depth: int | None = None
        self.waits_for_pods = False
        self.in_flight: set[Uid] = set()
        self.not_before = 0.0
        self.generation = 0
        self.turn = 0
        self.length = 0
        self.reasons_version = 0
        self._classes: dict[ClassKey, UnitClass] = {}
        self._numbered: dict[int, UnitClass] = {}
        self._by_quota: dict[str, QuotaLine] = {}
        self._offers: list[tuple[OrderKey, str]] = []
        # Quotas whose offer is not looked up yet; while there is none, the first offer is valid.
        self._changed: dict[str, None] = {}
        self._next_number = 0

    # --- who waits ----------------------------------------------------------------------------

    def add(self, info: QueueUnitInfo) -> int | None:
        """Put a unit in line; return the number of its class if that slept and wakes by it.

        A class sleeps in the place of its first unit. One that comes before it has to be asked.
        """
        unit_class = self._classes.get(info.class_key) or self._new_class(info)
        unit_class.order.add(info.order_key)
        self.length += 1
        head = unit_class.order.first()
        if head is unit_class.head:
            return None
        unit_class.head = head
        is_woken = unit_class.refusal is not None
        unit_class.refusal = None
        self._note(unit_class)
        return unit_class.number if is_woken else None

    def remove(self, info: QueueUnitInfo) -> int | None:
        """Take a unit out; return the number of its class if that is empty now."""
        unit_class = self._classes[info.class_key]
        head = unit_class.order.remove(info.order_key)
        self.length -= 1
        if head is unit_class.head:
            return None
        unit_class.head = head
        self._note(unit_class)
        if head is not None:
            return None
        self._drop_class(unit_class)
        return unit_class.number

    def share(self, key: ClassKey, demand: UnitDemand) -> tuple[ClassKey, UnitDemand]:
        """Return the equal values that units of this class have already, to save memory."""
        unit_class = self._classes.get(key)
        if unit_class is None:
            return key, demand
        return unit_class.key, unit_class.demand if unit_class.demand == demand else demand

    def class_number(self, info: QueueUnitInfo) -> int:
        """Return the number of a waiting unit's class: a name for it that survives a fork."""
        return self._classes[info.class_key].number

    def head_of(self, number: int) -> OrderKey | None:
        """Return the place of the first unit of the class of that number, or None."""
        unit_class = self._numbered.get(number)
        return unit_class.head if unit_class is not None else None

    def is_asleep(self, number: int) -> bool:
        """Say whether the class of that number exists and is refused."""
        unit_class = self._numbered.get(number)
        return unit_class is not None and unit_class.refusal is not None

    # --- who is next --------------------------------------------------------------------------

    def next_key(self) -> OrderKey | None:
        """Return the place of the unit to decide next, or None."""
        if self.waits_for_pods and self.in_flight:
            return None
        if self._changed:
            self._renew_offers()
        if not self._offers:
            return None
        key = self._offers[0][0]
        if self.max_depth is not None and self._is_beyond(key, self.max_depth):
            return None
        return key

    def refuse(self, info: QueueUnitInfo, refusal: Refusal) -> int:
        """Put the unit's class to sleep; return the class's number."""
        unit_class = self._classes[info.class_key]
        unit_class.refusal = refusal
        self._note(unit_class)
        if unit_class.last_reason is not refusal.reason:
            unit_class.last_reason = refusal.reason
            self.reasons_version += 1
        return unit_class.number

    def wake(self, number: int) -> bool:
        """Wake the class of that number; False where it is gone or awake."""
        unit_class = self._numbered.get(number)
        if unit_class is None or unit_class.refusal is None:
            return False
        unit_class.refusal = None
        self._note(unit_class)
        return True

    def wake_all(self) -> list[int]:
        """Wake every class; return the numbers of those that slept."""
        return [number for number in sorted(self._numbered) if self.wake(number)]

    # --- questions ----------------------------------------------------------------------------

    def refusal_of(self, info: QueueUnitInfo) -> Refusal:
        """Return why a waiting unit waits."""
        unit_class = self._classes[info.class_key]
        if unit_class.refusal is not None:
            return unit_class.refusal
        if self.waits_for_pods and self.in_flight:
            return Refusal(reason=Reason.WAITING_FOR_PODS_RUNNING, quota=info.quota)
        barrier = self._barrier(info.quota)
        if barrier is not None and barrier < info.order_key:
            ahead = f"{barrier[-2]}/{barrier[-1]}"
            return Refusal(reason=Reason.BEHIND_REFUSED_UNIT, quota=info.quota, other=ahead)
        if self.max_depth is not None and self._is_beyond(info.order_key, self.max_depth):
            return Refusal(reason=Reason.BEYOND_MAX_DEPTH, limit=self.max_depth, other=self.name)
        return Refusal(reason=Reason.WAITING, quota=info.quota)

    def count_by_reason(self) -> dict[Reason, int]:
        """Return how many units wait for which reason; the reasons are those of `refusal_of`.

        Costs the classes, not the units; where units stand beyond `max_depth`, that as well.
        """
        counts: dict[Reason, int] = {}
        beyond = None
        if self.max_depth is not None and self.length > self.max_depth:
            beyond = next(islice(self.in_order(), self.max_depth, None))
        for unit_class in self._classes.values():
            for reason, count in self._reasons_of(unit_class, beyond):
                if count:
                    counts[reason] = counts.get(reason, 0) + count
        return counts

    def in_order(self, quota: str | None = None) -> Iterator[OrderKey]:
        """Iterate lazily over all places in line, or those of one quota."""
        classes = self._numbered if quota is None else self._classes_of(quota)
        return merge(*(unit_class.order for unit_class in classes.values()))

    def count_before(self, key: OrderKey) -> int:
        """Return how many units stand before that place."""
        return sum(unit_class.order.count_before(key) for unit_class in self._classes.values())

    def last_refusals(self) -> Iterator[tuple[OrderKey, Refusal]]:
        """Iterate over the first unit and the refusal of every class that is asleep."""
        for unit_class in self._classes.values():
            head = unit_class.head
            if unit_class.refusal is not None and head is not None:
                yield head, unit_class.refusal

    def quotas(self) -> Iterator[str]:
        """Iterate over the quotas that units in line are charged to."""
        return iter(self._by_quota)

    def first_of(self, quota: str) -> OrderKey | None:
        """Return the place of the quota's first unit, or None."""
        of_quota = self._by_quota.get(quota)
        return of_quota.first() if of_quota is not None else None

    def copy(self) -> SchedulingQueue:
        """Return an independent copy; costs the classes and one pointer per unit."""
        twin = SchedulingQueue(self.queue, self.policy)
        twin.max_depth = self.max_depth
        twin.waits_for_pods = self.waits_for_pods
        twin.in_flight = set(self.in_flight)
        twin.not_before = self.not_before
        twin.generation = self.generation
        twin.turn = self.turn
        twin.length = self.length
        twin.reasons_version = self.reasons_version
        twin._next_number = self._next_number
        twin._numbered = {number: found.copy() for number, found in self._numbered.items()}
        twin._classes = {found.key: found for found in twin._numbered.values()}
        twin._by_quota = {
            quota: of_quota.copy(twin._numbered) for quota, of_quota in self._by_quota.items()
        }
        twin._offers = self._offers[:]
        twin._changed = dict(self._changed)
        return twin

    def validate(self) -> None:
        """Recompute what is derived; raise AssertionError with the story if it differs."""
        assert self.length == sum(len(c.order) for c in self._classes.values()), self.name
        assert sorted(self._numbered) == sorted(c.number for c in self._classes.values())
        places: list[OrderKey] = []
        for quota, of_quota in self._by_quota.items():
            story = f"queue {self.name} quota {quota}"
            classes = [c for c in self._classes.values() if c.quota == quota]
            assert {c.number: c for c in classes} == of_quota.classes, story
            assert all(c.order for c in classes), f"{story}: empty class kept"
            assert all(c.head == c.order.first() for c in classes), f"{story}: wrong head"
            awake = min((c.head or () for c in classes if not c.refusal), default=None)
            asleep = min((c.head or () for c in classes if c.refusal), default=None)
            assert of_quota.first_awake() == awake, f"{story}: first awake is {awake}"
            assert of_quota.first_asleep() == asleep, f"{story}: first asleep is {asleep}"
            blocked = self._blocks and asleep is not None and awake is not None and asleep < awake
            if awake is not None and not blocked:
                places.append(awake)
        stopped = bool(self.waits_for_pods and self.in_flight)
        first = None if stopped else min(places, default=None)
        if first is not None and self.max_depth is not None:
            first = first if self.count_before(first) < self.max_depth else None
        assert self.next_key() == first, f"queue {self.name}: {first} should be next"

    # --- inside -------------------------------------------------------------------------------

    @property
    def _blocks(self) -> bool:
        return self.policy.holds_back is HoldsBack.SAME_QUOTA

    def _classes_of(self, quota: str) -> dict[int, UnitClass]:
        of_quota = self._by_quota.get(quota)
        return of_quota.classes if of_quota is not None else {}

    def _new_class(self, info: QueueUnitInfo) -> UnitClass:
        unit_class = UnitClass(self._next_number, info)
        self._next_number += 1
        self._classes[unit_class.key] = unit_class
        self._numbered[unit_class.number] = unit_class
        of_quota = self._by_quota.get(info.quota)
        if of_quota is None:
            of_quota = self._by_quota[info.quota] = QuotaLine()
        of_quota.classes[unit_class.number] = unit_class
        return unit_class

    def _drop_class(self, unit_class: UnitClass) -> None:
        del self._classes[unit_class.key]
        del self._numbered[unit_class.number]
        of_quota = self._by_quota[unit_class.quota]
        del of_quota.classes[unit_class.number]
        if not of_quota.classes:
            del self._by_quota[unit_class.quota]
        if not self._by_quota:
            # Another policy may follow, whose keys can not be compared with these.
            self._offers.clear()
            self._changed.clear()

    def _note(self, unit_class: UnitClass) -> None:
        """The head of a class, or its sleep, changed: what its quota offers follows."""
        self._by_quota[unit_class.quota].note(unit_class)
        self._changed[unit_class.quota] = None

    def _renew_offers(self) -> None:
        """Look up what the changed quotas offer, and drop what is stale from the top."""
        offers = self._offers
        if len(self._by_quota) == 1:
            # A queue of one quota, as most are, has no need of a heap.
            (quota,) = self._by_quota
            key = self._offer_of(quota)
            self._offers = [(key, quota)] if key is not None else []
            self._changed.clear()
            return
        many = len(self._by_quota) + len(self._changed)
        if len(offers) > 2 * many + SLACK:
            offers.clear()
            self._changed = dict.fromkeys(self._by_quota)
        for quota in self._changed:
            key = self._offer_of(quota)
            if key is not None:
                heappush(offers, (key, quota))
        self._changed.clear()
        while offers and self._offer_of(offers[0][1]) != offers[0][0]:
            heappop(offers)

    def _offer_of(self, quota: str) -> OrderKey | None:
        """Return the place of the unit that a quota may offer: not refused, not held back."""
        of_quota = self._by_quota.get(quota)
        if of_quota is None:
            return None
        key = of_quota.first_awake()
        if key is None or self.policy.holds_back is HoldsBack.NOBODY:
            return key
        barrier = of_quota.first_asleep()
        return None if barrier is not None and barrier < key else key

    def _reasons_of(
        self, unit_class: UnitClass, beyond: OrderKey | None
    ) -> Iterator[tuple[Reason, int]]:
        """Iterate over why units of a class wait; `beyond`: the first place beyond the depth."""
        count = len(unit_class.order)
        if unit_class.refusal is not None:
            yield unit_class.refusal.reason, count
            return
        if self.waits_for_pods and self.in_flight:
            yield Reason.WAITING_FOR_PODS_RUNNING, count
            return
        barrier = self._barrier(unit_class.quota)
        free = count if barrier is None else unit_class.order.count_before(barrier)
        near = free if beyond is None else min(free, unit_class.order.count_before(beyond))
        yield Reason.BEHIND_REFUSED_UNIT, count - free
        yield Reason.BEYOND_MAX_DEPTH, free - near
        yield Reason.WAITING, near

    def _barrier(self, quota: str) -> OrderKey | None:
        """Return the place of the first refused unit of the quota, where refusals block."""
        of_quota = self._by_quota.get(quota)
        return of_quota.first_asleep() if of_quota is not None and self._blocks else None

    def _is_beyond(self, key: OrderKey, depth: int) -> bool:
        """Say whether at least `depth` units stand before that place."""
        before = 0
        for unit_class in self._classes.values():
            before += unit_class.order.count_before(key)
            if before >= depth:
                return True
        return depth == 0
