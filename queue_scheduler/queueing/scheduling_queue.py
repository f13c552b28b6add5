r"""The pending units of one queue: which is next, and which the refused ones hold back.

Units are grouped in *classes*: equal quota, equal demand, equal answers from every filter. A class
has its units in order, and one refusal for all of them; a decision looks only at the first unit of
a class. A class is *awake*, or *asleep* with its refusal until a fact wakes it.

*Held back*, in policies that block, is not a state but a comparison: the first awake unit of a
quota is not offered while an asleep unit of the same quota stands before it; in strict queues, also
not while its priority is below that of a unit whose nodes are requested. So the queue keeps, per
quota, the heads of its awake and of its asleep classes, and over all quotas the units that may be
offered. All three are heaps whose stale entries (the head left, the class fell asleep) are dropped
when they reach the top. Every operation is O(log n), whatever the number of classes, except that
every quota is looked at when the highest priority of the units with requested nodes changes.

Where a queue has a depth, it also keeps all its units in one order: whether a unit stands within it
is asked after every change, and asking each class would cost as much as there are classes.

Policies may divide the queue into *bands*. The order keys then begin with the band, and the queue
counts its units by band: units of a later band than that of the first unit are not offered.

Assumptions: order keys are unique within the queue; a class key fixes the quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush, merge
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.queue_unit_info import (
    ClassKey,
    OrderKey,
    QueueUnitInfo,
    UnitDemand,
    unit_key,
)
from queue_scheduler.queueing.class_queue import SLACK, ClassQueue, UnitClass
from queue_scheduler.queueing.pending_order import PendingOrder
from queue_scheduler.queueing.queue_options import BACKFILL_DEPTH, DEFAULT_OPTIONS, QueueOptions
from queue_scheduler.queueing.queue_policies import (
    BLOCK,
    PRIORITY,
    HoldsBack,
    QueuePolicy,
    bands_of,
    is_banded,
)
from queue_scheduler.queueing.strict_mode import NodeRequests
from shared_api.objects.meta import Uid
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit


class AdmittedUnit(NamedTuple):
    """The part of an admitted unit that the next decision of its queue may depend on.

    A queue that waits for pods rests while one of its units is in flight: admitted, its pods not
    running. A strict queue offers no unit of lower priority than one whose nodes are requested.
    Both follow from the unit's object, so they are the same after a restart.

    Attributes:
        uid: Its uid.
        is_in_flight: Whether it is in flight.
        displaced_above: The priority above which others may displace it; None: none may.
        asks_for_nodes: Whether its nodes are requested.
        priority: Its priority.
    """

    uid: Uid
    is_in_flight: bool
    displaced_above: int | None
    asks_for_nodes: bool
    priority: int


class SchedulingQueue:
    """The pending units of one Queue object, and its options.

    Attributes:
        name: Name of the queue; it is its identity.
        api_object: The Queue object as last seen.
        is_backfilling: Whether `backfill` decides which units pass a refused one; never under
            policies with bands.
        lets_evict: Whether its units may evict others of it, by priority.
        counts_admitted: Whether its next decision depends on admitted units (`in_flight`).
        depth: How many positions are considered; None: all.
        in_flight: The units that are admitted and do not run yet, if the queue waits for pods, each
            with the priority above which others may displace it; None: none may.
        requests: The units whose nodes are requested, if the queue is strict.
        reasons_version: Increases when the reason why a class is pending changes.
        length: The number of pending units.
        first_band: The band of the first unit; 0 if there is none.
    """

    def __init__(self, queue: Queue, policy: QueuePolicy) -> None:
        self.name = queue.metadata.name
        self.api_object = queue
        self.in_flight: dict[Uid, int | None] = {}
        self.requests = NodeRequests()
        self.length = 0
        self.reasons_version = 0
        self._classes: dict[ClassKey, UnitClass] = {}
        self._numbered: dict[int, UnitClass] = {}
        self._by_quota: dict[str, ClassQueue] = {}
        # All units in one order, regardless of class; None while there is no depth.
        self._all: PendingOrder | None = None
        # `refused_in_order`, until a class among them changes. The list itself is never changed.
        self._refused: list[tuple[OrderKey, Refusal]] | None = None
        self._offers: list[tuple[OrderKey, str]] = []
        # Quotas whose offer is to be looked up again; if there is none, the first offer is valid.
        self._changed: dict[str, None] = {}
        # `requests.highest` when the offers were looked up: units below it were left out.
        self._asked: int | None = None
        self._next_number = 0
        # Whether copies hold the same classes, heaps, and offers; then nothing in them is changed.
        self._is_shared = False
        self._options = DEFAULT_OPTIONS
        self._set_policy(policy)

    @property
    def policy(self) -> QueuePolicy:
        """How it orders and blocks; changed only while no unit is pending."""
        return self._policy

    def renew(self, queue: Queue, policy: QueuePolicy) -> None:
        """Take a newer object of the queue; for another policy it must have no pending units."""
        assert self._policy is policy or not self.length, (
            f"queue {self.name}: policy under {self.length}"
        )
        self.api_object = queue
        if self._policy is not policy:
            self._set_policy(policy)

    def _set_policy(self, policy: QueuePolicy) -> None:
        self._policy = policy
        self._banded = policy if is_banded(policy) else None
        self._bands = bands_of(policy)
        self._in_band = [0] * len(self._bands)
        self.first_band = 0
        self._derive()

    @property
    def options(self) -> QueueOptions:
        """The further settings of the queue."""
        return self._options

    @options.setter
    def options(self, options: QueueOptions) -> None:
        if options.is_stopped != self._options.is_stopped:
            self.reasons_version += 1
        self._options = options
        self._derive()

    def _derive(self) -> None:
        """Derive from policy and options what every decision reads several times."""
        options = self._options
        self._is_stopped = options.is_stopped
        self.counts_admitted = options.waits_for_pods or options.is_strict
        self.is_backfilling = options.backfill and self._banded is None
        self._blocks = HoldsBack.SAME_QUOTA in self._bands and not self.is_backfilling
        self._blocks_in_part = self._blocks and HoldsBack.NOBODY in self._bands
        self.lets_evict = options.preempts and (self._policy is PRIORITY or self._policy is BLOCK)
        self.depth = options.max_depth
        self._max_priority = options.max_priority
        if self.is_backfilling:
            self.depth = BACKFILL_DEPTH if self.depth is None else min(self.depth, BACKFILL_DEPTH)
        if (self.depth is None) is not (self._all is None):
            self._all = None if self.depth is None else self._merge_classes()
        self._is_limited = self._is_stopped or self._banded is not None or self.depth is not None

    def bounded(self, unit: QueueUnit) -> QueueUnit:
        """Return a unit with its priority limited to the queue's ceiling."""
        most = self._max_priority
        if most is None or unit.spec.priority <= most:
            return unit
        return replace(unit, spec=replace(unit.spec, priority=most))

    def place(self, unit: QueueUnit, sorted_by_plugin: OrderKey | None) -> OrderKey:
        """Return the position of a `bounded` unit: its order key, after its band if it has one."""
        key = sorted_by_plugin or self.policy.order_key(unit)
        if self._banded is None:
            return key
        band = self._banded.band(unit, self.api_object, self.options)
        return (min(max(band, 0), len(self._bands) - 1), *key)

    def holds_back(self, key: OrderKey) -> HoldsBack:
        """Return what a unit at that position does, while it is refused, to those behind it.

        In a queue that backfills this is NOBODY: `backfill` decides instead.
        """
        return HoldsBack.NOBODY if self.is_backfilling else self._bands[self.band_of(key)]

    def band_of(self, key: OrderKey) -> int:
        """Return the band of a position."""
        return key[0] if self._banded is not None else 0

    def would_keep_from_turn(
        self, place: OrderKey, quota: str, info: QueueUnitInfo, besides: int = 0
    ) -> bool:
        """Return whether another unit, pending and refused, would keep this one from being asked.

        Args:
            place: The position that the other would have.
            quota: The quota of the other.
            info: The pending unit.
            besides: How many further units would be placed before it.
        """
        if place > info.order_key:
            return False
        if self.band_of(place) < self.band_of(info.order_key):
            return True
        if quota == info.quota and self.holds_back(place) is HoldsBack.SAME_QUOTA:
            return True
        if self.depth is None:
            return False
        return self.count_before(info.order_key) + besides + 1 >= self.depth

    @property
    def asks_past_refused(self) -> bool:
        """Whether a refused unit never keeps another from being asked, whatever their positions."""
        return self.depth is None and len(self._bands) == 1 and not self._blocks

    # --- pending units ------------------------------------------------------------------------

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
        if unit_class.refusal is not None:
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
        self._note(unit_class)
        if head is not None:
            return None
        self._drop_class(unit_class)
        return unit_class.number

    def has(self, info: QueueUnitInfo) -> bool:
        """Return whether a unit is pending here, in its class and at its position."""
        unit_class = self._classes.get(info.class_key)
        return unit_class is not None and info.order_key in unit_class.order

    def share(self, key: ClassKey, demand: UnitDemand) -> tuple[ClassKey, UnitDemand]:
        """Return the equal objects that units of this class share, to save memory."""
        unit_class = self._classes.get(key)
        if unit_class is None:
            return key, demand
        return unit_class.key, unit_class.demand if unit_class.demand == demand else demand

    def class_number(self, info: QueueUnitInfo) -> int:
        """Return the number of a pending unit's class, by which a fork knows it as well."""
        return self._classes[info.class_key].number

    def head_of(self, number: int) -> OrderKey | None:
        """Return the place of the first unit of the class of that number, or None."""
        unit_class = self._numbered.get(number)
        return unit_class.head if unit_class is not None else None

    def asleep_as(self, number: int) -> tuple[OrderKey, ClassKey, Refusal] | None:
        """Return the place, the key and the refusal of a class; None: it is gone or awake."""
        unit_class = self._numbered.get(number)
        if unit_class is None or unit_class.head is None or unit_class.refusal is None:
            return None
        return unit_class.head, unit_class.key, unit_class.refusal

    # --- admitted units -----------------------------------------------------------------------

    def count_admitted(self, unit: AdmittedUnit) -> bool:
        """Count an admitted unit; return whether that may change the next decision."""
        counts = False
        if self._is_shared:
            self._stop_sharing()
        if unit.is_in_flight and self._options.waits_for_pods:
            self.in_flight[unit.uid] = unit.displaced_above
            counts = True
        if unit.asks_for_nodes and self._options.is_strict:
            self.requests.add(unit.uid, unit.priority)
            counts = True
        return counts

    def uncount_admitted(self, uid: Uid) -> bool:
        """Undo `count_admitted`."""
        if self._is_shared:
            self._stop_sharing()
        was_in_flight = uid in self.in_flight
        self.in_flight.pop(uid, None)
        return self.requests.discard(uid) or was_in_flight

    def recount_admitted(self, units: Iterable[AdmittedUnit]) -> None:
        """Replace what is counted by these units, by the present options."""
        if self._is_shared:
            self._stop_sharing()
        self.in_flight, self.requests = {}, NodeRequests()
        for unit in units:
            self.count_admitted(unit)

    def validate_admitted(self, units: Iterable[AdmittedUnit]) -> None:
        """Raise AssertionError with the story if others are counted than these."""
        twin = SchedulingQueue(self.api_object, self.policy)
        twin.options = self.options
        twin.recount_admitted(units)
        assert self.in_flight == twin.in_flight, f"queue {self.name}: in flight {twin.in_flight}"
        asked, want = self.requests.as_dict(), twin.requests.as_dict()
        assert asked == want, f"queue {self.name}: nodes asked for {asked}, should be {want}"
        highest = max(want.values(), default=None)
        assert self.requests.highest == highest, f"queue {self.name}: {self.requests.highest}"

    # --- the next unit ------------------------------------------------------------------------

    def next_key(self) -> OrderKey | None:
        """Return the place of the unit to decide next, or None."""
        if self._asked != self.requests.highest:
            self._asked, self._changed = self.requests.highest, dict.fromkeys(self._by_quota)
        if self._changed:
            if self._is_shared:
                self._stop_sharing()
            self._renew_offers()
        if not self._offers:
            return None
        key = self._offers[0][0]
        return key if not (self._is_limited or self.in_flight) or self._may_be_next(key) else None

    def _may_be_next(self, key: OrderKey) -> bool:
        if self._is_stopped or self.band_of(key) > self.first_band:
            return False
        if self.in_flight and not (self.may_overtake and self._overtakes(key)):
            return False
        return self.depth is None or not self._is_beyond(key, self.depth)

    @property
    def may_overtake(self) -> bool:
        """Whether a unit may be decided while others are in flight, since it may displace them."""
        return self.lets_evict and None not in self.in_flight.values()

    def _overtakes(self, key: OrderKey) -> bool:
        """Return whether a position has a higher priority than all units in flight."""
        in_flight = self.in_flight.values()
        return isinstance(key[0], int) and all(key < (-(each or 0),) for each in in_flight)

    def refuse(self, info: QueueUnitInfo, refusal: Refusal, at: int | None = None) -> int:
        """Put the unit's class to sleep; return the number of the class.

        Args:
            info: The unit that was refused.
            refusal: Why it may not start.
            at: When, in seconds since the epoch; None: unknown.
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
        unit_class = self._numbered.get(number)
        if unit_class is None or unit_class.refusal is None:
            return False
        if self._is_shared:
            self._stop_sharing()
            unit_class = self._numbered[number]
        if unit_class.refusal is not None:
            self._refused = None
        unit_class.refusal = None
        self._note(unit_class)
        return True

    def wake_all(self) -> list[int]:
        """Wake every class; return the numbers of those that slept."""
        return [number for number in sorted(self._numbered) if self.wake(number)]

    # --- questions ----------------------------------------------------------------------------

    def refusal_of(self, info: QueueUnitInfo) -> Refusal:
        """Return why a unit is pending."""
        unit_class = self._classes[info.class_key]
        if self._is_stopped:
            return Refusal(reason=Reason.STOPPED_QUEUE, quota=info.quota, other=self.name)
        if unit_class.refusal is not None:
            return unit_class.refusal
        waiting = Refusal(reason=Reason.WAITING, quota=info.quota)
        return next(self.refusals_by_order(info), waiting)

    def refusals_by_order(self, info: QueueUnitInfo) -> Iterator[Refusal]:
        """Yield why a pending unit is not asked now, whether or not it would fit.

        The queue must not be stopped.
        """
        quota = info.quota
        if self.in_flight:
            yield Refusal(reason=Reason.WAITING_FOR_PODS_RUNNING, quota=quota)
        if self.requests.hold_back(self._classes[info.class_key].priority):
            yield Refusal(reason=Reason.WAITING_FOR_NODES_OF_OTHERS, quota=quota)
        if self.band_of(info.order_key) > self.first_band:
            head = min(filter(None, map(self.first_of, self._by_quota)))
            yield Refusal(reason=Reason.BEHIND_HIGHER_BAND, quota=quota, other=unit_key(head))
        barrier = self._barrier(quota)
        if barrier is not None and barrier < info.order_key:
            ahead = unit_key(barrier)
            yield Refusal(reason=Reason.BEHIND_REFUSED_UNIT, quota=quota, other=ahead)
        if self.depth is not None and self._is_beyond(info.order_key, self.depth):
            yield Refusal(reason=Reason.BEYOND_MAX_DEPTH, limit=self.depth, other=self.name)

    def slept_since(self, info: QueueUnitInfo) -> int | None:
        """Return when the answer of `refusal_of` was found; None: it is current.

        In seconds since the epoch; 0: unknown.
        """
        unit_class = self._classes[info.class_key]
        if self._is_stopped or unit_class.refusal is None:
            return None
        return unit_class.refused_at or 0

    def asleep(self) -> Iterator[tuple[OrderKey, Refusal, int | None]]:
        """Yield the classes that were refused, in the order in which they came.

        Each as the position of its first unit, why it was refused, and when, in seconds since the
        epoch (None: unknown).
        """
        for number in sorted(self._numbered):
            each = self._numbered[number]
            if each.refusal is not None and each.head is not None:
                yield each.head, each.refusal, each.refused_at

    def count_by_reason(self) -> dict[Reason, int]:
        """Return how many units are pending for each reason; the reasons are those of `refusal_of`.

        The cost grows with the classes, not the units.
        """
        if self._is_stopped:
            return {Reason.STOPPED_QUEUE: self.length} if self.length else {}
        counts: dict[Reason, int] = {}
        beyond = self.at(self.depth) if self.depth is not None else None
        for unit_class in self._classes.values():
            for reason, count in self._reasons_of(unit_class, beyond):
                if count:
                    counts[reason] = counts.get(reason, 0) + count
        return counts

    def in_order(self, quota: str | None = None) -> Iterator[OrderKey]:
        """Iterate lazily over all positions in order, or those of one quota."""
        if quota is None and self._all is not None:
            return iter(self._all)
        classes = self._numbered if quota is None else self._classes_of(quota)
        return merge(*(unit_class.order for unit_class in classes.values()))

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
            for unit_class in self._classes.values()
            if (head := unit_class.head) is not None and head < key
        )

    def last_refusals(self) -> Iterator[tuple[OrderKey, Refusal]]:
        """Iterate over the first unit and the refusal of every class that is asleep."""
        for unit_class in self._classes.values():
            head = unit_class.head
            if unit_class.refusal is not None and head is not None:
                yield head, unit_class.refusal

    def refused_in_order(self) -> list[tuple[OrderKey, Refusal]]:
        """Return the first unit and the refusal of the classes that are asleep, in order.

        The list is not for changes.
        """
        if self._refused is None:
            self._refused = sorted(self.last_refusals(), key=lambda pair: pair[0])
        return self._refused

    def heads(self) -> Iterator[OrderKey]:
        """Iterate over the first unit of every class."""
        return (each.head for each in self._classes.values() if each.head is not None)

    def head(self) -> OrderKey | None:
        """Return the position of the head of the queue; None: there is none.

        That is the first unit, except that units that ask for more than their quota may ever have
        are skipped if they hold back no others.
        """
        return min(
            (
                place
                for unit_class in self._classes.values()
                if (place := unit_class.head) is not None
                and not (
                    unit_class.refusal is not None
                    and unit_class.refusal.reason is Reason.EXCEEDS_QUOTA
                    and self.holds_back(place) is HoldsBack.NOBODY
                )
            ),
            default=None,
        )

    @property
    def has_one_quota(self) -> bool:
        """Whether all pending units are of one quota."""
        return len(self._by_quota) == 1

    def quotas(self) -> Iterator[str]:
        """Iterate over the quotas of pending units."""
        return iter(self._by_quota)

    def first_eligible(self, quota: str) -> OrderKey | None:
        """Return the position of the quota's first unit, or None if it cannot start in any case."""
        of_quota = None if self._is_stopped else self._by_quota.get(quota)
        first = of_quota.first() if of_quota is not None else None
        if first is None or (self._banded is not None and first[0] != self.first_band):
            return None
        return None if self.depth is not None and self._is_beyond(first, self.depth) else first

    def first_of(self, quota: str) -> OrderKey | None:
        """Return the position of the quota's first unit, or None."""
        of_quota = self._by_quota.get(quota)
        return of_quota.first() if of_quota is not None else None

    def copy(self) -> SchedulingQueue:
        """Return an independent copy that shares the classes until either of the two changes them.

        Whichever changes first takes classes of its own, so a fork of the engine pays for the
        queues that its question changes. Shared classes are never changed, so both may be used in
        two threads; the copy itself is made in the thread of the original.
        """
        if not self._is_shared:
            # Reading the heaps drops stale entries, which would be a change.
            for of_quota in self._by_quota.values():
                of_quota.first()
            self._is_shared = True
        twin: SchedulingQueue = SchedulingQueue.__new__(SchedulingQueue)
        # Written out: an object whose `__dict__` was read has slower attributes from then on.
        twin.name, twin.api_object = self.name, self.api_object
        twin._policy, twin._banded, twin._bands = self._policy, self._banded, self._bands
        twin._options, twin._is_stopped = self._options, self._is_stopped
        twin.counts_admitted, twin.is_backfilling = self.counts_admitted, self.is_backfilling
        twin._blocks, twin._blocks_in_part = self._blocks, self._blocks_in_part
        twin.lets_evict, twin.depth = self.lets_evict, self.depth
        twin._is_limited = self._is_limited
        twin._max_priority, twin.reasons_version = self._max_priority, self.reasons_version
        twin.length, twin.first_band, twin._in_band = self.length, self.first_band, self._in_band
        twin.in_flight, twin.requests, twin._asked = self.in_flight, self.requests, self._asked
        twin._classes, twin._numbered = self._classes, self._numbered
        twin._by_quota, twin._next_number = self._by_quota, self._next_number
        twin._all, twin._refused = self._all, self._refused
        twin._offers, twin._changed, twin._is_shared = self._offers, self._changed, True
        return twin

    def _stop_sharing(self) -> None:
        self.in_flight = self.in_flight.copy()
        self.requests = self.requests.copy()
        self._in_band = self._in_band[:]
        numbered = {number: found.copy() for number, found in self._numbered.items()}
        self._numbered = numbered
        self._classes = {found.key: found for found in numbered.values()}
        self._by_quota = {quota: held.copy(numbered) for quota, held in self._by_quota.items()}
        self._all = self._all.copy() if self._all is not None else None
        self._offers = self._offers[:]
        self._changed = self._changed.copy()
        self._is_shared = False

    def validate(self) -> None:
        """Recompute what is derived; raise AssertionError with the story if it differs."""
        keys = [key for c in self._classes.values() for key in c.order]
        assert self.length == len(keys), self.name
        assert (self._all is None) is (self.depth is None), self.name
        assert self._all is None or list(self._all) == sorted(keys), f"{self.name}: wrong order"
        bands = [self.band_of(key) for key in keys]
        assert self._in_band == [bands.count(band) for band in range(len(self._bands))], self.name
        assert self.first_band == min(bands, default=0), self.name
        assert sorted(self._numbered) == sorted(c.number for c in self._classes.values())
        known, self._refused = self._refused, None
        assert known in (None, self.refused_in_order()), f"queue {self.name}: {known}"
        places: list[OrderKey] = []
        heads = {c.head: c.priority for c in self._classes.values() if not c.refusal}
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
            if awake is None or self.band_of(awake) > self.first_band:
                continue
            if self.requests.hold_back(heads[awake]):
                continue
            is_barred = asleep is not None and asleep < awake
            if not (is_barred and self.holds_back(asleep or ()) is HoldsBack.SAME_QUOTA):
                places.append(awake)
        first = None if self.options.is_stopped else min(places, default=None)
        if first is not None and self.in_flight:
            first = first if self.may_overtake and self._overtakes(first) else None
        if first is not None and self.depth is not None:
            first = first if self.count_before(first) < self.depth else None
        assert self.next_key() == first, f"queue {self.name}: {first} should be next"

    # --- inside -------------------------------------------------------------------------------

    def _count(self, key: OrderKey, one: int) -> None:
        """Count a unit that was added (1) or removed (-1)."""
        self.length += one
        self._in_band[key[0] if self._banded is not None else 0] += one
        if self._banded is not None:
            counts = enumerate(self._in_band)
            self.first_band = next((band for band, count in counts if count), 0)

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
            of_quota = self._by_quota[info.quota] = ClassQueue()
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
            # Another policy may follow, whose keys cannot be compared with these.
            self._offers.clear()
            self._changed.clear()

    def _note(self, unit_class: UnitClass) -> None:
        """Note that a class has another head, or was woken or put to sleep."""
        self._by_quota[unit_class.quota].note(unit_class)
        self._changed[unit_class.quota] = None

    def _renew_offers(self) -> None:
        """Look up the offers of the changed quotas, and drop stale ones from the top."""
        offers = self._offers
        if len(self._by_quota) == 1:
            # Most queues have units of one quota, and need no heap.
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
        """Return the position of the unit that a quota may offer: not refused, not held back."""
        of_quota = self._by_quota.get(quota)
        key = of_quota.first_awake() if of_quota is not None else None
        if key is None or not (self._blocks or self.requests.highest is not None):
            return key
        barrier = self._barrier(quota)
        return None if barrier is not None and barrier <= key else key

    def _reasons_of(
        self, unit_class: UnitClass, beyond: OrderKey | None
    ) -> Iterator[tuple[Reason, int]]:
        """Yield why units of a class are pending, and how many; `beyond`: the first past depth."""
        count = len(unit_class.order)
        if unit_class.refusal is not None:
            yield unit_class.refusal.reason, count
            return
        if self.in_flight:
            yield Reason.WAITING_FOR_PODS_RUNNING, count
            return
        if self.requests.hold_back(unit_class.priority):
            yield Reason.WAITING_FOR_NODES_OF_OTHERS, count
            return
        tried = count
        if self._banded is not None:
            tried = unit_class.order.count_before((self.first_band + 1,))
        barrier = self._barrier(unit_class.quota)
        free = tried if barrier is None else min(tried, unit_class.order.count_before(barrier))
        near = free if beyond is None else min(free, unit_class.order.count_before(beyond))
        yield Reason.BEHIND_HIGHER_BAND, count - tried
        yield Reason.BEHIND_REFUSED_UNIT, tried - free
        yield Reason.BEYOND_MAX_DEPTH, free - near
        yield Reason.WAITING, near

    def _barrier(self, quota: str) -> OrderKey | None:
        """Return the position from which on units of the quota are held back, or None."""
        of_quota = self._by_quota.get(quota)
        first = of_quota.first_asleep() if of_quota is not None and self._blocks else None
        if first is not None and self._blocks_in_part:
            first = None if self.holds_back(first) is HoldsBack.NOBODY else first
        if of_quota is None or self.requests.highest is None:
            return first
        held = of_quota.first_below(self.requests.highest)
        return held if first is None or (held is not None and held < first) else first

    def _is_beyond(self, key: OrderKey, depth: int) -> bool:
        """Return whether at least `depth` units come before that position."""
        return self.length >= depth and self.count_before(key) >= depth

    def _merge_classes(self) -> PendingOrder:
        order = PendingOrder()
        for key in merge(*(unit_class.order for unit_class in self._classes.values())):
            order.add(key)
        return order
