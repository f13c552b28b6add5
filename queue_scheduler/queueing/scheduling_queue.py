r"""One queue: which pending unit is next, and which units the refused ones hold back.

Units wait in *classes*: equal quota, equal demand, equal results of every filter. A class has its
units in order, and one refusal for all of them; a decision considers only the first unit of a
class. A class is awake, or asleep with its refusal until a change wakes it.

*Held back*, in policies that block, is not a state but a comparison: the first awake unit of a
quota may not be offered while an asleep unit of the same quota is before it; in strict queues, nor
while its priority is lower than that of a unit whose nodes are requested. So the queue keeps, per
quota, the heads of its awake and of its asleep classes, and across quotas the units that may be
offered. All three are heaps whose entries are not removed when they become stale (the head left,
the class fell asleep) but dropped when they reach the top. Every operation is O(log n), whatever
the number of classes; all quotas are checked when the highest priority of units whose nodes are
requested changes.

Policies may divide the queue into *bands*. The order keys then begin with the band, and the queue
counts its units by band: a unit in a later band than that of the first unit is not offered.

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
    """The fields of an admitted unit that may affect its queue's next decision.

    A queue that waits for pods rests while one of its units is in flight: admitted, and its pods do
    not run yet. A strict queue offers no unit with a lower priority than a unit whose nodes are
    requested. Both are derived from the current unit, so the result is the same after a restart.

    Attributes:
        uid: Uid of the unit.
        is_in_flight: Whether it is in flight.
        displaced_above: The priority above which other units may displace it; None: none may.
        asks_for_nodes: Whether nodes are requested for it.
        priority: The priority of the unit.
    """

    uid: Uid
    is_in_flight: bool
    displaced_above: int | None
    asks_for_nodes: bool
    priority: int


class SchedulingQueue:
    """The pending units of one Queue object.

    Attributes:
        name: Name of the queue, which identifies it.
        queue: The object as last seen.
        is_backfilling: Whether `backfill` decides which units may pass a refused one; False for
            policies with bands.
        lets_evict: Whether its units may preempt others of the queue, by priority.
        counts_admitted: Whether its next decision depends on admitted units (`in_flight`).
        depth: How many positions are considered; None: all.
        in_flight: The units in flight, if the queue waits for pods -> the priority above which
            others may displace them; None: none may.
        requests: The units whose nodes are requested, if the queue is strict.
        not_before: Until when the worker backs off, in seconds of its clock.
        reasons_version: Incremented when the reason why some class waits changes.
        generation: Changes with the policy: then places are of another kind.
        turn: When it was last served, counted in decisions of the engine; the fair order uses it.
        length: Number of pending units.
        first_band: The band of the first pending unit; 0 if there is none.
    """

    def __init__(self, queue: Queue, policy: QueuePolicy) -> None:
        self.name = queue.metadata.name
        self.queue = queue
        self._options = DEFAULT_OPTIONS
        self.policy = policy
        self.in_flight: dict[Uid, int | None] = {}
        self.requests = NodeRequests()
        self.not_before = 0.0
        self.generation = 0
        self.turn = 0
        self.length = 0
        self.reasons_version = 0
        self._classes: dict[ClassKey, UnitClass] = {}
        self._numbered: dict[int, UnitClass] = {}
        self._by_quota: dict[str, ClassQueue] = {}
        self._offers: list[tuple[OrderKey, str]] = []
        # Quotas whose offer is not computed yet; while there are none, the first offer is valid.
        self._changed: dict[str, None] = {}
        # The value of `requests.highest` with which the offers were computed.
        self._asked: int | None = None
        self._next_number = 0

    @property
    def policy(self) -> QueuePolicy:
        """The policy of the queue; changed only while no unit is pending."""
        return self._policy

    @policy.setter
    def policy(self, policy: QueuePolicy) -> None:
        self._policy = policy
        self._banded = policy if is_banded(policy) else None
        self._bands = bands_of(policy)
        self._in_band = [0] * len(self._bands)
        self.first_band = 0
        self._derive()

    @property
    def options(self) -> QueueOptions:
        """The options of the queue other than its policy."""
        return self._options

    @options.setter
    def options(self, options: QueueOptions) -> None:
        if options.is_stopped != self._options.is_stopped:
            self.reasons_version += 1
        self._options = options
        self._derive()

    def _derive(self) -> None:
        """Compute what follows from policy and options: each decision reads it several times."""
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
        self._is_limited = self._is_stopped or self._banded is not None or self.depth is not None

    def bounded(self, unit: QueueUnit) -> QueueUnit:
        """Return a unit as it counts here: its priority bounded by the queue's ceiling."""
        most = self._max_priority
        if most is None or unit.spec.priority <= most:
            return unit
        return replace(unit, spec=replace(unit.spec, priority=most))

    def place(self, unit: QueueUnit, sorted_by_plugin: OrderKey | None) -> OrderKey:
        """Return a `bounded` unit's place: its band, if the policy has any, and its order in it."""
        key = sorted_by_plugin or self.policy.order_key(unit)
        if self._banded is None:
            return key
        band = self._banded.band(unit, self.queue, self.options)
        return (min(max(band, 0), len(self._bands) - 1), *key)

    def holds_back(self, key: OrderKey) -> HoldsBack:
        """Return which units behind the unit of that place it holds back while it is refused.

        In a queue with backfill, `backfill` decides that instead.
        """
        return HoldsBack.NOBODY if self.is_backfilling else self._bands[self.band_of(key)]

    def band_of(self, key: OrderKey) -> int:
        """Return the band of a place."""
        return key[0] if self._banded is not None else 0

    def would_keep_from_turn(
        self, place: OrderKey, quota: str, info: QueueUnitInfo, besides: int = 0
    ) -> bool:
        """Return whether a pending unit would not be tried while another is pending and refused.

        Args:
            place: The place that the other unit would have.
            quota: The quota of the other unit.
            info: The pending unit.
            besides: How many further units would be before it.
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
        """Whether a refused unit never keeps another from being tried, whatever their places."""
        return self.depth is None and len(self._bands) == 1 and not self._blocks

    # --- pending units ------------------------------------------------------------------------

    def add(self, info: QueueUnitInfo) -> int | None:
        """Add a pending unit; return the number of its class if that was asleep and wakes.

        A class is asleep in the place of its first unit. A unit before that place must be tried.
        """
        unit_class = self._classes.get(info.class_key) or self._new_class(info)
        unit_class.order.add(info.order_key)
        self._count(info.order_key, 1)
        head = unit_class.order.first()
        if head is unit_class.head:
            return None
        unit_class.head = head
        is_woken = unit_class.refusal is not None
        unit_class.refusal = None
        self._note(unit_class)
        return unit_class.number if is_woken else None

    def remove(self, info: QueueUnitInfo) -> int | None:
        """Remove a unit; return the number of its class if that is empty now, else None."""
        unit_class = self._classes[info.class_key]
        head = unit_class.order.remove(info.order_key)
        self._count(info.order_key, -1)
        if head is unit_class.head:
            return None
        unit_class.head = head
        self._note(unit_class)
        if head is not None:
            return None
        self._drop_class(unit_class)
        return unit_class.number

    def share(self, key: ClassKey, demand: UnitDemand) -> tuple[ClassKey, UnitDemand]:
        """Return the equal values that units of this class already have, to save memory."""
        unit_class = self._classes.get(key)
        if unit_class is None:
            return key, demand
        return unit_class.key, unit_class.demand if unit_class.demand == demand else demand

    def class_number(self, info: QueueUnitInfo) -> int:
        """Return the number of a pending unit's class, which identifies it in forks as well."""
        return self._classes[info.class_key].number

    def head_of(self, number: int) -> OrderKey | None:
        """Return the place of the first unit of the class of that number, or None."""
        unit_class = self._numbered.get(number)
        return unit_class.head if unit_class is not None else None

    # --- admitted units -----------------------------------------------------------------------

    def count_admitted(self, unit: AdmittedUnit) -> bool:
        """Count an admitted unit; return whether that may change the next decision."""
        counts = False
        if unit.is_in_flight and self._options.waits_for_pods:
            self.in_flight[unit.uid] = unit.displaced_above
            counts = True
        if unit.asks_for_nodes and self._options.is_strict:
            self.requests.add(unit.uid, unit.priority)
            counts = True
        return counts

    def uncount_admitted(self, uid: Uid) -> bool:
        """Undo `count_admitted`."""
        was_in_flight = uid in self.in_flight
        self.in_flight.pop(uid, None)
        return self.requests.discard(uid) or was_in_flight

    def recount_admitted(self, units: Iterable[AdmittedUnit]) -> None:
        """Count exactly these units, by the current options of the queue."""
        self.in_flight, self.requests = {}, NodeRequests()
        for unit in units:
            self.count_admitted(unit)

    def validate_admitted(self, units: Iterable[AdmittedUnit]) -> None:
        """Raise AssertionError with details if other units than these are counted."""
        twin = SchedulingQueue(self.queue, self.policy)
        twin.options = self.options
        twin.recount_admitted(units)
        assert self.in_flight == twin.in_flight, f"queue {self.name}: in flight {twin.in_flight}"
        asked, want = self.requests.as_dict(), twin.requests.as_dict()
        assert asked == want, f"queue {self.name}: nodes asked for {asked}, should be {want}"
        highest = max(want.values(), default=None)
        assert self.requests.highest == highest, f"queue {self.name}: {self.requests.highest}"

    # --- the next unit ------------------------------------------------------------------------

    def next_key(self) -> OrderKey | None:
        """Return the place of the unit to try next, or None."""
        if self._asked != self.requests.highest:
            self._asked, self._changed = self.requests.highest, dict.fromkeys(self._by_quota)
        if self._changed:
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
        """Whether a unit may be tried while others are in flight, since it may displace them."""
        return self.lets_evict and None not in self.in_flight.values()

    def _overtakes(self, key: OrderKey) -> bool:
        """Return whether a place begins with a higher priority than all in-flight units have."""
        under_way = self.in_flight.values()
        return isinstance(key[0], int) and all(key < (-(each or 0),) for each in under_way)

    def refuse(self, info: QueueUnitInfo, refusal: Refusal, at: int | None = None) -> int:
        """Put the unit's class to sleep; return the class's number.

        Args:
            info: The unit that was tried.
            refusal: Why it may not start.
            at: When, in seconds since the epoch; None: not known.
        """
        unit_class = self._classes[info.class_key]
        unit_class.refusal = refusal
        unit_class.refused_at = at
        self._note(unit_class)
        if unit_class.last_reason is not refusal.reason:
            unit_class.last_reason = refusal.reason
            self.reasons_version += 1
        return unit_class.number

    def wake(self, number: int) -> bool:
        """Wake the class of that number; return False if it is gone or already awake."""
        unit_class = self._numbered.get(number)
        if unit_class is None or unit_class.refusal is None:
            return False
        unit_class.refusal = None
        self._note(unit_class)
        return True

    def wake_all(self) -> list[int]:
        """Wake every class; return the numbers of those that were asleep."""
        return [number for number in sorted(self._numbered) if self.wake(number)]

    # --- queries ------------------------------------------------------------------------------

    def refusal_of(self, info: QueueUnitInfo) -> Refusal:
        """Return why a pending unit waits."""
        unit_class = self._classes[info.class_key]
        if self._is_stopped:
            return Refusal(reason=Reason.STOPPED_QUEUE, quota=info.quota, other=self.name)
        if unit_class.refusal is not None:
            return unit_class.refusal
        if self.in_flight:
            return Refusal(reason=Reason.WAITING_FOR_PODS_RUNNING, quota=info.quota)
        if self.requests.hold_back(unit_class.priority):
            return Refusal(reason=Reason.WAITING_FOR_NODES_OF_OTHERS, quota=info.quota)
        if self.band_of(info.order_key) > self.first_band:
            head = min(filter(None, map(self.first_of, self._by_quota)))
            return Refusal(reason=Reason.BEHIND_HIGHER_BAND, quota=info.quota, other=unit_key(head))
        barrier = self._barrier(info.quota)
        if barrier is not None and barrier < info.order_key:
            ahead = unit_key(barrier)
            return Refusal(reason=Reason.BEHIND_REFUSED_UNIT, quota=info.quota, other=ahead)
        if self.depth is not None and self._is_beyond(info.order_key, self.depth):
            return Refusal(reason=Reason.BEYOND_MAX_DEPTH, limit=self.depth, other=self.name)
        return Refusal(reason=Reason.WAITING, quota=info.quota)

    def slept_since(self, info: QueueUnitInfo) -> int | None:
        """Return when the refusal of `refusal_of` was made; None: it describes the present."""
        unit_class = self._classes[info.class_key]
        if self._is_stopped or unit_class.refusal is None:
            return None
        return unit_class.refused_at or 0

    def count_by_reason(self) -> dict[Reason, int]:
        """Return how many units wait for each reason; the reasons are those of `refusal_of`.

        The cost depends on the number of classes, not of units, and on `max_depth` if more units
        are pending.
        """
        if self._is_stopped:
            return {Reason.STOPPED_QUEUE: self.length} if self.length else {}
        counts: dict[Reason, int] = {}
        beyond = None
        if self.depth is not None and self.length > self.depth:
            beyond = next(islice(self.in_order(), self.depth, None))
        for unit_class in self._classes.values():
            for reason, count in self._reasons_of(unit_class, beyond):
                if count:
                    counts[reason] = counts.get(reason, 0) + count
        return counts

    def in_order(self, quota: str | None = None) -> Iterator[OrderKey]:
        """Iterate lazily over all places, or those of one quota, in order."""
        classes = self._numbered if quota is None else self._classes_of(quota)
        return merge(*(unit_class.order for unit_class in classes.values()))

    def count_before(self, key: OrderKey) -> int:
        """Return how many units are before that place."""
        return sum(unit_class.order.count_before(key) for unit_class in self._classes.values())

    def last_refusals(self) -> Iterator[tuple[OrderKey, Refusal]]:
        """Iterate over the first unit and the refusal of every class that is asleep."""
        for unit_class in self._classes.values():
            head = unit_class.head
            if unit_class.refusal is not None and head is not None:
                yield head, unit_class.refusal

    def head(self) -> OrderKey | None:
        """Return the place of the first unit that waits to start, which others may follow, or None.

        A unit that requests more than its quota can ever have is skipped, unless it blocks others.
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

    def quotas(self) -> Iterator[str]:
        """Iterate over the quotas of the pending units."""
        return iter(self._by_quota)

    def first_eligible(self, quota: str) -> OrderKey | None:
        """Return the place of the quota's first unit that could start if it fitted, or None."""
        of_quota = None if self._is_stopped else self._by_quota.get(quota)
        first = of_quota.first() if of_quota is not None else None
        if first is None or (self._banded is not None and first[0] != self.first_band):
            return None
        return None if self.depth is not None and self._is_beyond(first, self.depth) else first

    def first_of(self, quota: str) -> OrderKey | None:
        """Return the place of the quota's first unit, or None."""
        of_quota = self._by_quota.get(quota)
        return of_quota.first() if of_quota is not None else None

    def copy(self) -> SchedulingQueue:
        """Return an independent copy; costs the classes and one pointer per unit."""
        twin = SchedulingQueue(self.queue, self.policy)
        twin.options = self.options
        twin.in_flight = dict(self.in_flight)
        twin.requests = self.requests.copy()
        twin.not_before = self.not_before
        twin.generation, twin.turn = self.generation, self.turn
        twin.length = self.length
        twin.first_band = self.first_band
        twin._in_band = self._in_band[:]
        twin.reasons_version = self.reasons_version
        twin._next_number = self._next_number
        twin._numbered = {number: found.copy() for number, found in self._numbered.items()}
        twin._classes = {found.key: found for found in twin._numbered.values()}
        twin._by_quota = {
            quota: of_quota.copy(twin._numbered) for quota, of_quota in self._by_quota.items()
        }
        twin._offers = self._offers[:]
        twin._changed = dict(self._changed)
        twin._asked = self._asked
        return twin

    def validate(self) -> None:
        """Recompute what is derived; raise AssertionError with details if it differs."""
        keys = [key for c in self._classes.values() for key in c.order]
        assert self.length == len(keys), self.name
        bands = [self.band_of(key) for key in keys]
        assert self._in_band == [bands.count(band) for band in range(len(self._bands))], self.name
        assert self.first_band == min(bands, default=0), self.name
        assert sorted(self._numbered) == sorted(c.number for c in self._classes.values())
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

    # --- internals ----------------------------------------------------------------------------

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
        """Handle that the head of a class, or its sleep, has changed: its quota's offer follows."""
        self._by_quota[unit_class.quota].note(unit_class)
        self._changed[unit_class.quota] = None

    def _renew_offers(self) -> None:
        """Compute the offers of the changed quotas, and drop stale entries from the top."""
        offers = self._offers
        if len(self._by_quota) == 1:
            # A queue of a single quota, as most are, needs no heap.
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
        key = of_quota.first_awake() if of_quota is not None else None
        if key is None or not (self._blocks or self.requests.highest is not None):
            return key
        barrier = self._barrier(quota)
        return None if barrier is not None and barrier <= key else key

    def _reasons_of(
        self, unit_class: UnitClass, beyond: OrderKey | None
    ) -> Iterator[tuple[Reason, int]]:
        """Iterate over why units of a class wait; `beyond` is the first place beyond the depth."""
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
        """Return the place of the quota's first unit that blocks by a refusal, or is held back."""
        of_quota = self._by_quota.get(quota)
        first = of_quota.first_asleep() if of_quota is not None and self._blocks else None
        if first is not None and self._blocks_in_part:
            first = None if self.holds_back(first) is HoldsBack.NOBODY else first
        if of_quota is None or self.requests.highest is None:
            return first
        held = of_quota.first_below(self.requests.highest)
        return held if first is None or (held is not None and held < first) else first

    def _is_beyond(self, key: OrderKey, depth: int) -> bool:
        """Return whether at least `depth` units are before that place."""
        before = 0
        for unit_class in self._classes.values():
            if (before := before + unit_class.order.count_before(key)) >= depth:
                return True
        return depth == 0
