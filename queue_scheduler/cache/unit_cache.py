"""Every unit and its state: how units are placed, and the counts that follow from their states.

A unit is *placed* from its object: `builder` says in which state it is, and `enter` puts it there.
`leave` undoes `enter`: between the two, a unit is in exactly one of the queues, the admitted units,
or the units on hold. What is charged follows from the state (`charges`).

The state of a unit depends on its object and on the known queues, quotas and namespaces, never on
the order in which these arrived: whatever a fact may map differently is placed again
(`place_again`). So a restart, or quotas that arrive late, lead to the same state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from queue_scheduler.cache.admission_check_rules import KnownChecks
from queue_scheduler.cache.admitted_units import AdmittedUnits
from queue_scheduler.cache.gone_units import GoneUnits
from queue_scheduler.cache.record_builder import RecordBuilder
from queue_scheduler.cache.unit_charges import UnitCharges
from queue_scheduler.cache.unit_demand import granted_by
from queue_scheduler.cache.unit_state import (
    CachedUnit,
    UnitState,
    admitted_unit,
    counts_as_before,
    is_disowned,
    is_same_claim,
    judge,
    known_admission,
)
from queue_scheduler.cache.units_on_hold import NOT_IN_QUEUE, FactWaits, UnitsOnHold
from queue_scheduler.cache.usage import Usage
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import Granted, QueueUnitInfo, unit_key
from queue_scheduler.queueing.queue_options import QueueOptions
from queue_scheduler.queueing.queue_set import QueueSet
from queue_scheduler.queueing.scheduling_queue import AdmittedUnit, SchedulingQueue
from queue_scheduler.reservations.queue_reservations import QueueReservations
from queue_scheduler.tenants.quota_policies import QuotaPolicies
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import DEFAULT_QUEUE_NAMESPACE, PRIORITY_BOOST, read_boost

_STAYS_IN = {
    UnitState.WAITING: UnitState.WAITING,
    UnitState.ASSUMED: UnitState.ADMITTED,
    UnitState.ADMITTED: UnitState.ADMITTED,
}


class UnitFinder:
    """Finds the newest known object of a unit.

    Not a method of the cache, which would be in a cycle with its parts: a fork that is not used any
    more is freed at once, and not when the garbage collector comes. And not a closure, which no
    checkpoint can hold.
    """

    __slots__ = ("_records",)

    def __init__(self, records: Mapping[str, CachedUnit]) -> None:
        self._records = records

    def __call__(self, key: str) -> QueueUnit | None:
        """Return the object; None if the unit is unknown."""
        record = self._records.get(key)
        return record.unit if record is not None else None


class UnitCache:
    """The units, by `namespace/name`.

    Attributes:
        records: All units by key; written here. What is outside the engine iterates over the cache,
            or asks `known_units`.
        queues: The queues, with their pending units.
        usage: What is charged for units.
        charges: Charges units by their records.
        checks: The AdmissionCheck objects.
        policies: The QuotaPolicies, with what is in force for each quota.
        reservations: The QueueReservations, with what of each is in force.
        builder: Builds records.
        gone: The units that were deleted not long ago.
        fact_waits: Which units wait for which fact (`Unmapped.waits_for`).
        held: The counts of units on hold, and of those whose admission was not written.
        admitted: The units that occupy quota, by what their eviction costs.
        changed_queues: Names of queues to refresh in the turn order; cleared by `WakeUp.pass_on`.
        held_lately: Keys of units whose reason to be on hold is to be reported again: they went on
            hold, came off it, or are charged although their object denies it.
        lowered_lately: Keys of new pending units whose priority the ceiling of their queue lowers,
            and of units whose boost cannot be read; cleared by `QueueState.take_notices`.
    """

    def __init__(
        self, plugins: PluginRunner, queue_namespace: str = DEFAULT_QUEUE_NAMESPACE
    ) -> None:
        self.policies = QuotaPolicies(queue_namespace)
        self.reservations = QueueReservations(queue_namespace)
        self.held = UnitsOnHold()
        self.admitted = AdmittedUnits()
        self.gone = GoneUnits()
        self.fact_waits = FactWaits()
        self.changed_queues: dict[str, None] = {}
        self.held_lately: dict[str, None] = {}
        self.lowered_lately: dict[str, None] = {}
        self._plugins = plugins
        self._queue_namespace = queue_namespace
        records: dict[str, CachedUnit] = {}
        self._hold(records, QueueSet(), KnownChecks(), Usage(plugins, UnitFinder(records)))

    def _hold(
        self,
        records: dict[str, CachedUnit],
        queues: QueueSet,
        checks: KnownChecks,
        usage: Usage,
    ) -> None:
        self.records, self.queues, self.checks, self.usage = records, queues, checks, usage
        self.builder = RecordBuilder(self._plugins, queues, checks, usage, self._queue_namespace)
        self.charges = UnitCharges(self._plugins, usage, records)

    def __iter__(self) -> Iterator[CachedUnit]:
        return iter(self.records.values())

    def take_held_lately(self) -> list[str]:
        """Return, once, the keys of units whose reason to be on hold is to be reported again."""
        keys = list(self.held_lately)
        self.held_lately.clear()
        return keys

    # --- placing ------------------------------------------------------------------------------

    def place(
        self,
        unit: QueueUnit,
        version: int,
        verdict: UnitState | Refusal,
        before: CachedUnit | None = None,
    ) -> None:
        """Enter a unit in the state that follows from its object, and charge it accordingly.

        Args:
            unit: Its object.
            version: The object's resourceVersion.
            verdict: The answer of `judge`.
            before: Its earlier record, which must have left; what has not changed is reused.
        """
        record = self.builder.build(unit, version, verdict, before)
        self.enter(record)
        if PRIORITY_BOOST in unit.metadata.annotations and _has_new_bad_boost(unit, before):
            self.lowered_lately[record.key] = None
        if record.state is UnitState.ADMITTED:
            self.charges.charge(record.uid, record)
            if is_disowned(unit):
                self.held_lately[record.key] = None
            return
        self.charges.charge_living(record)
        if record.is_lowered and (before is None or _priorities(before) != _priorities(record)):
            self.lowered_lately[record.key] = None

    def can_stay(
        self, record: CachedUnit, unit: QueueUnit, version: int, verdict: UnitState | Refusal
    ) -> bool:
        """Update a unit in place if nothing changed that affects scheduling; return whether it did.

        That is a pending unit whose conditions were written, an admitted one whose pods were
        counted, and an assumed one whose admission is now in its object: counts, queue and mostly
        the charge stay as they are.
        """
        info = record.info
        if info is None or verdict is not _STAYS_IN.get(record.state):
            return False
        if not is_same_claim(record.unit, unit):
            return False
        info = replace(info, unit=unit)
        on = record.admitted_on
        if on is not None and record.state is UnitState.ADMITTED:
            on = known_admission(record, unit)
        stays = CachedUnit(
            unit=unit,
            version=version,
            state=_STAYS_IN[record.state],
            info=info,
            admitted_on=on,
        )
        if stays.state is UnitState.ADMITTED:
            if record.waits_for or not counts_as_before(record, stays):
                return False
            if record.state is UnitState.ASSUMED and not self.builder.is_mapped_like(unit, info):
                return False
            self.usage.charge_admitted(info, granted_by(unit, info.demand))
            self.admitted.replace(record, stays)
            queue = self.queues.find(info.queue)
            if queue is not None and info.uid in queue.in_flight:
                queue.count_admitted(admitted_unit(stays))
                self.changed_queues[info.queue] = None
        self.records[info.key] = stays
        return True

    def pull_out(self, queue: SchedulingQueue) -> list[str]:
        """Take all units out of a queue; return their keys, to be placed again."""
        keys = [unit_key(key) for key in queue.pending.in_order()]
        for key in keys:
            record = self.records[key]
            self.leave(record)
            self.records[key] = replace(record, state=UnitState.DETACHED)  # with its demand
        return keys

    def place_again(self, keys: Iterable[str]) -> None:
        """Place units again, since what they are mapped by has changed.

        A unit with a write in flight, or with a conflict, is placed when its fresh object arrives.
        """
        for key in list(keys):
            record = self.records[key]
            if record.state not in {UnitState.ASSUMED, UnitState.CONFLICT, UnitState.ENDED}:
                self.leave(record)
                self.place(record.unit, record.version, judge(record.unit), record)

    def place_again_for(self, names: Sequence[str]) -> None:
        """Place again the units that wait for one of these facts, or were placed by it."""
        if not names:
            return
        keys: dict[str, None] = {}
        namespaces: set[str] = set()
        for name in names:
            keys.update(dict.fromkeys(self.fact_waits.keys(name)))
            kind, _, value = name.partition("/")
            if kind == "quota":
                for queue_name in self.queues.queues_of(value):
                    queue = self.queues.find(queue_name)
                    assert queue is not None, f"{queue_name} has units of {value} and no line"
                    keys.update({unit_key(key): None for key in queue.pending.in_order(value)})
            elif kind == "namespace":
                namespaces.add(value)
        if namespaces:
            keys.update({k: None for k in self.records if k.partition("/")[0] in namespaces})
        self.place_again(keys)
        self.charges.charge_living_again()

    # --- entering and leaving a state ---------------------------------------------------------

    def enter(self, record: CachedUnit) -> None:
        """Put a unit into the queue, count or hold of its state.

        One that may be pending is put on hold where its user has too many such units.
        """
        if record.state is UnitState.WAITING:
            record = self._seat(record)
        info, state = record.info, record.state
        key = record.key if info is None else info.key
        self.records[key] = record
        if record.waits_for:
            self.fact_waits.add(key, record.waits_for)
        if state in NOT_IN_QUEUE:
            self.held_lately[key] = None
            self.held.add(record)
        if info is None:
            return
        if state is UnitState.WAITING:
            for woken in self.queues.enqueue(info):
                self._plugins.waking.stop_waiting((info.queue, woken))
            self.changed_queues[info.queue] = None
        elif state is UnitState.ADMITTED or state is UnitState.ASSUMED:
            self.admitted.add(record)
            self.usage.pods.moved.note_admitted(record.uid, key)
            queue = self.queues.find(info.queue)
            if queue is None or not queue.rules.counts_admitted:
                return
            if queue.count_admitted(admitted_unit(record)):
                self.changed_queues[info.queue] = None

    def _rank(self, info: QueueUnitInfo) -> None:
        """Let a queue that orders accounts know that of a unit that is about to be pending."""
        queue = self.queues.find(info.queue)
        if queue is None or queue.fair is None or info.order_key[0] in queue.fair.lanes:
            return
        fair, path = self.usage.fair, info.order_key[0][1]
        queue.fair.set_ranks(fair.ranks(info.queue, (path,)), are_new=True)

    def leave(self, record: CachedUnit | None) -> None:
        """Undo `enter`; what is charged stays until the unit is placed again."""
        if record is None:
            return
        if record.waits_for:
            self.fact_waits.remove(record.key, record.waits_for)
        info, state = record.info, record.state
        if info is not None and self.usage.limits.is_on:
            self.usage.limits.unseat(info)
        if state in NOT_IN_QUEUE:
            self.held_lately[record.key] = None
            self.held.remove(record)
        if info is None:
            return
        if state is UnitState.WAITING:
            for left in self.queues.withdraw(info):
                self._plugins.waking.stop_waiting((info.queue, left))
            self.changed_queues[info.queue] = None
        elif state is UnitState.ADMITTED or state is UnitState.ASSUMED:
            self.admitted.remove(record)
            self._uncount_admitted(info)

    def _uncount_admitted(self, info: QueueUnitInfo) -> None:
        queue = self.queues.find(info.queue)
        if queue is None or not queue.rules.counts_admitted:
            return
        if queue.uncount_admitted(info.uid):
            self.changed_queues[info.queue] = None

    def _seat(self, record: CachedUnit) -> CachedUnit:
        """Let a unit that may be pending stand in line; return it as it is to enter."""
        info, usage = record.info, self.usage
        assert info is not None, f"{record.key} is pending without a demand"
        hold = usage.limits.seat(info) if usage.limits.is_on else None
        if hold is None:
            if usage.fair.is_on:
                self._rank(info)
            return record
        waits_for = (f"queue/{info.queue}", f"quota/{info.quota}")  # by which it is placed again
        return replace(record, state=UnitState.ON_HOLD, hold=hold, waits_for=waits_for)

    def seat_again(self) -> None:
        """Let units be pending that have got a seat, and hold those that have lost theirs."""
        limits = self.usage.limits
        while limits.seats.moved:
            moved, limits.seats.moved = limits.seats.moved, {}
            for key in moved:
                record = self.records.get(key)
                if record is None or record.info is None:
                    continue
                is_held = record.hold is not None and record.hold.reason is Reason.USER_LIMIT
                if not is_held and record.state is not UnitState.WAITING:
                    continue
                if (limits.why_on_hold(record.info) is not None) != is_held:
                    self.place_again((key,))

    def set_options(self, queue: SchedulingQueue, options: QueueOptions) -> None:
        """Set the options of a queue; if they now depend on admitted units, count these."""
        before = queue.rules.options
        self.queues.set_options(queue, options)
        if before.max_priority != options.max_priority:
            self.bound_again(queue.name)
        if (before.waits_for_pods, before.is_strict) != (options.waits_for_pods, options.is_strict):
            queue.recount_admitted(self._admitted_through(queue.name))

    def bound_again(self, queue_name: str) -> None:
        """Recompute the priorities of the units admitted through a queue, by its present ceiling.

        Charges do not change. Pending units are placed again by the caller, if they must be.
        """
        queue = self.queues.find(queue_name)
        buckets = self.admitted.of_queue(queue_name)
        keys = [key for of_quota in buckets for bucket in of_quota.values() for key in bucket]
        for key in keys:
            record = self.records[key]
            info = record.info
            assert info is not None, f"{key} occupies quota without a demand"
            priority = self._priority_in(queue_name, record.unit)
            bounded = replace(record, info=replace(info, priority=priority))
            self.records[key] = bounded
            self.admitted.replace(record, bounded)
        if queue is not None and queue.rules.counts_admitted:
            queue.recount_admitted(self._admitted_through(queue.name))

    def _admitted_through(self, queue_name: str) -> Iterator[AdmittedUnit]:
        for record in self.records.values():
            if record.info is not None and record.info.queue == queue_name:
                yield admitted_unit(record)

    def _priority_in(self, queue_name: str, unit: QueueUnit) -> int:
        queue = self.queues.find(queue_name)
        return (unit if queue is None else queue.rules.bounded(unit)).spec.priority

    def forget_admission(self, key: str, uid: Uid) -> None:
        """Forget the terms of an admission that was not made by the recorded decision."""
        record = self.records.get(key)
        if record is not None and record.uid == uid and record.state is UnitState.ADMITTED:
            self.records[key] = replace(record, admitted_on=None)

    def forget(self, record: CachedUnit) -> None:
        """Forget a deleted unit; its living pods stay charged."""
        uid = record.uid
        self.leave(record)
        del self.records[record.key]
        self.held_lately.pop(record.key, None)
        self.lowered_lately.pop(record.key, None)
        self.gone.add(uid)
        # First: once the pods are separated from the unit, its quota is no longer known.
        self.charges.charge_living(record)
        self.usage.known.on_unit_gone(record.unit)

    # --- charges ------------------------------------------------------------------------------

    def set_growing(self, record: CachedUnit, growing: Granted | None) -> None:
        """Charge an admitted unit for what it will be granted; None for what its object says."""
        before, record = record, replace(record, granting=growing)
        self.admitted.replace(before, record)
        self.records[record.key] = record
        self.charges.charge(record.uid, record)

    # --- copies -------------------------------------------------------------------------------

    def fork(self, plugins: PluginRunner) -> UnitCache:
        """Return an independent copy over forked plugins; shares units, copies containers."""
        twin = UnitCache(plugins, self._queue_namespace)
        records = dict(self.records)
        usage = self.usage.fork(plugins, UnitFinder(records))
        twin._hold(records, self.queues.fork(), self.checks.copy(), usage)
        if usage.quota_use is not None:
            twin.queues.turns.go_by_use(usage.quota_use.ranks)
        twin.policies = self.policies.copy()
        twin.reservations = self.reservations.copy()
        twin.held = self.held.fork()
        twin.admitted = self.admitted.fork()
        twin.gone = self.gone.copy()
        twin.fact_waits = self.fact_waits.fork()
        twin.changed_queues = dict(self.changed_queues)
        return twin

    def validate(self) -> None:
        """Recompute what is derived; raise AssertionError with the story if it differs."""
        self.queues.validate(self._plugins.domains)
        self.usage.pods.validate()
        self.usage.limits.validate(self.usage.charges)
        self.usage.windows.validate()
        counts: dict[UnitState, Counter[str]] = {state: Counter() for state in UnitState}
        lagging = self.usage.limits.lagging
        for record in self.records.values():
            info = record.info
            if info is not None:
                counts[record.state][info.queue] += 1
                priority = self._priority_in(info.queue, record.unit)
                is_known = record.state is UnitState.CONFLICT or info.priority == priority
                assert is_known, f"{record.key} has priority {info.priority}, should be {priority}"
                if record.state is UnitState.WAITING and record.key not in lagging:
                    who = self.builder.submitter_of(record.unit, info.quota)
                    assert info.submitter == who, f"{record.key} counts for {who}"
        self.fact_waits.validate({key: each.waits_for for key, each in self.records.items()})
        lengths = Counter({queue.name: queue.pending.length for queue in self.queues})
        assert counts[UnitState.WAITING] == lengths, "pending units differ"
        assert not counts[UnitState.DETACHED], "detached units were forgotten"
        self.held.validate(self.records.values())
        self.admitted.validate(self.records.values())
        for queue in self.queues:
            queue.validate_admitted(self._admitted_through(queue.name))
        self.charges.validate()


def _priorities(record: CachedUnit) -> tuple[int, int]:
    """Return the priority that a unit states, and the one that counts."""
    return record.unit.spec.priority, record.priority


def _has_new_bad_boost(unit: QueueUnit, before: CachedUnit | None) -> bool:
    """Return whether a unit's boost cannot be read, and is not as it was."""
    annotations = unit.metadata.annotations
    known = None if before is None else before.unit.metadata.annotations.get(PRIORITY_BOOST)
    return known != annotations[PRIORITY_BOOST] and read_boost(annotations) is None
