"""One queue: its rules, its pending units, what is counted of its admitted ones, and the next unit.

*Held back*, in policies that block, is not a state but a comparison: the first awake unit of a
quota is not offered while an asleep unit of the same quota stands before it; in strict queues, also
not while its priority is below that of a unit whose nodes are requested. So every operation is
O(log n), whatever the number of classes (`pending_classes`), except that every quota is looked at
when the highest priority of the units with requested nodes changes.

Policies may divide the queue into *bands*: units of a later band than that of the first unit are
not offered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from queue_scheduler.framework.queue_unit_info import OrderKey, QueueUnitInfo
from queue_scheduler.queueing.fair_classes import FairClasses
from queue_scheduler.queueing.pending_classes import PendingClasses
from queue_scheduler.queueing.queue_options import DEFAULT_OPTIONS, QueueOptions
from queue_scheduler.queueing.queue_policies import HoldsBack, QueuePolicy
from queue_scheduler.queueing.queue_rules import QueueRules, build_rules
from queue_scheduler.queueing.strict_mode import NodeRequests
from shared_api.objects.meta import Uid
from shared_api.objects.queue import Queue


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
    """One queue; it knows which of its units is next.

    Attributes:
        name: Name of the queue; it is its identity.
        rules: Its Queue object, policy and options; replaced by `renew` and `set_options`.
        pending: The pending units.
        fair: The same, if the policy is Fair.
        in_flight: The units that are admitted and do not run yet, if the queue waits for pods, each
            with the priority above which others may displace it; None: none may.
        requests: The units whose nodes are requested, if the queue is strict.
    """

    def __init__(self, queue: Queue, policy: QueuePolicy) -> None:
        self.name = queue.metadata.name
        self.pending = PendingClasses()
        self.fair: FairClasses | None = None
        self.in_flight: dict[Uid, int | None] = {}
        self.requests = NodeRequests()
        # `requests.highest` when the offers were looked up: units below it were left out.
        self._asked: int | None = None
        # Whether copies hold the same counts of admitted units; then they are not changed.
        self._is_shared = False
        self._set_rules(build_rules(queue, policy, DEFAULT_OPTIONS))

    # --- rules --------------------------------------------------------------------------------

    def renew(self, queue: Queue, policy: QueuePolicy) -> None:
        """Take a newer object of the queue; for another policy it must have no pending units."""
        length = self.pending.length
        is_same = policy is self.rules.policy
        assert is_same or not length, f"queue {self.name}: policy under {length}"
        self._set_rules(build_rules(queue, policy, self.rules.options))

    def set_options(self, options: QueueOptions) -> None:
        """Take other options of the queue; `backfill` changes only while no unit is pending.

        What quotas offer follows from it, and is not looked up again.
        """
        before = self.rules
        if options.is_stopped != before.is_stopped:
            self.pending.reasons_version += 1
        self._set_rules(build_rules(before.api_object, before.policy, options))

    def _set_rules(self, rules: QueueRules) -> None:
        self.rules = rules
        if (rules.fair is not None) is not (self.fair is not None):
            assert not self.pending.length, f"queue {self.name}: other classes under units"
            # Numbers are never reused, and no version comes twice.
            on_from = self.pending.next_number, self.pending.reasons_version + 1
            self.fair = None if rules.fair is None else FairClasses(*on_from)
            self.pending = PendingClasses(*on_from) if self.fair is None else self.fair
        self.pending.arrange(bands=len(rules.bands), has_depth=rules.depth is not None)

    # --- admitted units -----------------------------------------------------------------------

    def count_admitted(self, unit: AdmittedUnit) -> bool:
        """Count an admitted unit; return whether that may change the next decision."""
        counts, options = False, self.rules.options
        if self._is_shared:
            self._stop_sharing()
        if unit.is_in_flight and options.waits_for_pods:
            self.in_flight[unit.uid] = unit.displaced_above
            counts = True
        if unit.asks_for_nodes and options.is_strict:
            self.requests.add(unit.uid, unit.priority)
            counts = True
        return counts

    def uncount_admitted(self, uid: Uid) -> bool:
        """Undo `count_admitted`."""
        if self._is_shared:
            self._stop_sharing()
        was_in_flight = uid in self.in_flight
        self.in_flight.pop(uid, None)
        # The call comes first: `or` would skip it for a unit in flight.
        return self.requests.discard(uid) or was_in_flight

    def recount_admitted(self, units: Iterable[AdmittedUnit]) -> None:
        """Replace what is counted by these units, by the present options."""
        self.in_flight, self.requests, self._is_shared = {}, NodeRequests(), False
        for unit in units:
            self.count_admitted(unit)

    def validate_admitted(self, units: Iterable[AdmittedUnit]) -> None:
        """Raise AssertionError with the story if others are counted than these."""
        twin = SchedulingQueue(self.rules.api_object, self.rules.policy)
        twin.set_options(self.rules.options)
        twin.recount_admitted(units)
        assert self.in_flight == twin.in_flight, f"queue {self.name}: in flight {twin.in_flight}"
        counted, want = self.requests.as_dict(), twin.requests.as_dict()
        assert counted == want, f"queue {self.name}: nodes asked for {counted}, should be {want}"
        highest = max(want.values(), default=None)
        assert self.requests.highest == highest, f"queue {self.name}: {self.requests.highest}"

    # --- positions ----------------------------------------------------------------------------

    def place(self, key: OrderKey) -> OrderKey:
        """Return where an order key stands now: only places are compared."""
        return key if self.fair is None else self.fair.place(key)

    def position_of(self, info: QueueUnitInfo) -> int:
        """Return the position of a pending unit, from 1."""
        return self.pending.count_before(self.place(info.order_key)) + 1

    # --- the next unit ------------------------------------------------------------------------

    def next_key(self) -> OrderKey | None:
        """Return the place of the unit to decide next, or None."""
        pending, highest = self.pending, self.requests.highest
        if self._asked != highest:
            # Requests for nodes hold back units of all quotas, but change no class that notes it.
            self._asked, pending.changed = highest, dict.fromkeys(pending.by_quota)
        if pending.changed:
            pending.renew_offers(self._offer_of)
        if not pending.offers:
            return None
        key = pending.offers[0][0]
        is_next = not (self.rules.is_limited or self.in_flight) or self._may_be_next(key)
        return key if is_next else None

    def _may_be_next(self, key: OrderKey) -> bool:
        rules = self.rules
        if rules.is_stopped or rules.band_of(key) > self.pending.tried.first_band:
            return False
        if self.in_flight and not (self.may_overtake and self._overtakes(key)):
            return False
        return not self.is_beyond(key)

    @property
    def may_overtake(self) -> bool:
        """Whether a unit may be decided while others are in flight, since it may displace them."""
        return self.rules.lets_evict and None not in self.in_flight.values()

    def _overtakes(self, key: OrderKey) -> bool:
        """Return whether a position has a higher priority than all units in flight."""
        in_flight = self.in_flight.values()
        return isinstance(key[0], int) and all(key < (-(each or 0),) for each in in_flight)

    def _offer_of(self, quota: str) -> OrderKey | None:
        """Return the position of the unit that a quota may offer: not refused, not held back."""
        of_quota = self.pending.by_quota.get(quota)
        key = of_quota.first_awake() if of_quota is not None else None
        if key is None or not (self.rules.blocks or self.requests.highest is not None):
            return key
        barrier = self.barrier(quota)
        return None if barrier is not None and barrier <= key else key

    def barrier(self, quota: str) -> OrderKey | None:
        """Return the position from which on units of the quota are held back, or None."""
        rules, of_quota = self.rules, self.pending.by_quota.get(quota)
        first = of_quota.first_asleep() if of_quota is not None and rules.blocks else None
        if first is not None and rules.banded is not None:
            first = None if rules.holds_back(first) is HoldsBack.NOBODY else first
        if of_quota is None or self.requests.highest is None:
            return first
        held = of_quota.first_below(self.requests.highest)
        return held if first is None or (held is not None and held < first) else first

    def is_beyond(self, key: OrderKey) -> bool:
        """Return whether a position is beyond the depth of the queue."""
        depth, pending = self.rules.depth, self.pending
        if depth is None or pending.length < depth:
            return False
        return pending.count_before(key, tried=True) >= depth

    def first_eligible(self, quota: str) -> OrderKey | None:
        """Return the position of the quota's first unit, or None if it cannot start in any case."""
        rules, pending = self.rules, self.pending
        of_quota = None if rules.is_stopped else pending.by_quota.get(quota)
        first = of_quota.first() if of_quota is not None else None
        if (
            first is None
            or rules.band_of(first) != pending.tried.first_band
            or self.is_beyond(first)
        ):
            return None
        return first

    # --- copies -------------------------------------------------------------------------------

    def copy(self) -> SchedulingQueue:
        """Return an independent copy, which costs the same however many units are pending."""
        self._is_shared = True
        twin: SchedulingQueue = SchedulingQueue.__new__(SchedulingQueue)
        # Written out: an object whose `__dict__` was read has slower attributes from then on.
        twin.name, twin.rules, twin.fair = self.name, self.rules, None
        if self.fair is None:
            twin.pending = self.pending.copy()
        else:
            twin.pending = twin.fair = self.fair.copy()
        twin.in_flight, twin.requests, twin._asked = self.in_flight, self.requests, self._asked
        twin._is_shared = True
        return twin

    def _stop_sharing(self) -> None:
        self.in_flight = self.in_flight.copy()
        self.requests = self.requests.copy()
        self._is_shared = False

    def validate(self) -> None:
        """Recompute what is derived; raise AssertionError with the story if it differs."""
        rules, pending = self.rules, self.pending
        pending.validate(f"queue {self.name}")
        places: list[OrderKey] = []
        for of_quota in pending.by_quota.values():
            priorities = {
                self.place(c.head): c.priority for c in of_quota.classes.values() if c.head
            }
            key, asleep = of_quota.first_awake(), of_quota.first_asleep()
            if key is None or rules.band_of(key) > pending.tried.first_band:
                continue
            if self.requests.hold_back(priorities[key]):
                continue
            is_barred = asleep is not None and asleep < key
            if not (is_barred and rules.holds_back(asleep or ()) is HoldsBack.SAME_QUOTA):
                places.append(key)
        first = None if rules.is_stopped else min(places, default=None)
        if first is not None and self.in_flight:
            first = first if self.may_overtake and self._overtakes(first) else None
        if first is not None and rules.depth is not None:
            first = first if pending.count_before(first, tried=True) < rules.depth else None
        assert self.next_key() == first, f"queue {self.name}: {first} should be next"
