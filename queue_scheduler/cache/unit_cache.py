"""Every unit and its state: how units are placed, and the counts that follow from their states.

A unit is *placed* from its object: its phase is judged, it is mapped to quota and queue, and its
demand is read. `leave` undoes `enter`: between the two, a unit is in exactly one of the queues, the
admitted units, or the units on hold. What is charged follows from the state (`usage`).

The state of a unit depends on its object and on the known queues, quotas and namespaces, never on
the order in which these arrived: whatever a fact may map differently is placed again
(`place_again`). So a restart, or quotas that arrive late, lead to the same state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from queue_scheduler.cache.admission_check_rules import KnownChecks, needed_checks
from queue_scheduler.cache.admitted_units import AdmittedUnits
from queue_scheduler.cache.expected_ends import remaining_seconds
from queue_scheduler.cache.partial_admission import shape_of
from queue_scheduler.cache.unit_demand import InvalidDemandError, admitted_occupancy, build_demand
from queue_scheduler.cache.unit_state import (
    CachedUnit,
    UnitState,
    admitted_unit,
    counts_alike,
    find_known_demand,
    is_disowned,
    is_same_claim,
    judge,
    judge_place,
    known_admission,
    occupancy_of,
)
from queue_scheduler.cache.units_on_hold import OUT_OF_LINE, FactWaits, UnitsOnHold
from queue_scheduler.cache.usage import Usage
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.extension_points import Mapped, Unmapped
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import (
    NO_DEMAND,
    Occupancy,
    OrderKey,
    QueueUnitInfo,
    UnitDemand,
    unit_key,
)
from queue_scheduler.queueing.queue_options import QueueOptions
from queue_scheduler.queueing.queue_policies import creation_order
from queue_scheduler.queueing.queue_set import QueueSet
from queue_scheduler.queueing.scheduling_queue import AdmittedUnit, SchedulingQueue
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import is_adopted
from shared_api.well_known_labels import DEFAULT_QUEUE_NAMESPACE, PREEMPTIBLE

GONE_REMEMBERED = 10_000
"""Uids of deleted units that are remembered, at least: the answer to a write may arrive some
seconds after the deletion (a write's timeout and its retries), and must not bring the unit back."""

_NOT_THEIRS = Reason.QUOTA_NOT_IN_NAMESPACE

_STAYS_IN = {
    UnitState.WAITING: UnitState.WAITING,
    UnitState.ASSUMED: UnitState.ADMITTED,
    UnitState.ADMITTED: UnitState.ADMITTED,
}


class UnitCache:
    """The units, by `namespace/name`.

    Attributes:
        records: All units by key; written here, read everywhere.
        queues: The queues, with their pending units.
        usage: What is charged for units.
        checks: The AdmissionCheck objects.
        held: The counts of units on hold, and of those whose admission was not written.
        admitted: The units that occupy quota, by what their eviction costs.
        changed_lines: Names of queues to refresh in the turn order; cleared by `WakeUp.pass_on`.
        held_lately: Keys of units whose reason to be on hold is to be reported again: they went on
            hold, came off it, or are charged although their object denies it; cleared by
            `pending_reason`.
        lowered_lately: Keys of new pending units whose priority the ceiling of their queue lowers;
            cleared by `QueueState.take_notices`.
    """

    def __init__(
        self, plugins: PluginRunner, queue_namespace: str = DEFAULT_QUEUE_NAMESPACE
    ) -> None:
        self.records: dict[str, CachedUnit] = {}
        self.queues = QueueSet()
        self.usage = Usage(plugins, self.unit)
        self.checks = KnownChecks()
        self.held = UnitsOnHold()
        self.admitted = AdmittedUnits()
        self.changed_queues: dict[str, None] = {}
        self.held_lately: dict[str, None] = {}
        self.lowered_lately: dict[str, None] = {}
        self._plugins = plugins
        self._queue_namespace = queue_namespace
        self._waits_for = FactWaits()
        self._gone: set[Uid] = set()
        self._gone_before: set[Uid] = set()

    def unit(self, key: str) -> QueueUnit | None:
        """Return the newest known object of a unit; None: the unit is unknown."""
        record = self.records.get(key)
        return record.unit if record is not None else None

    def is_gone(self, uid: Uid) -> bool:
        """Return whether a unit of that uid was deleted not long ago."""
        return uid in self._gone or uid in self._gone_before

    def revive(self, uid: Uid) -> None:
        """Forget that a unit of that uid was deleted."""
        self._gone.discard(uid)
        if uid in self._gone_before:
            self._gone_before = self._gone_before - {uid}

    def held_for(self, name: str) -> tuple[str, ...]:
        """Return the keys of the units that wait for a fact (`Unmapped.waits_for`)."""
        return self._waits_for.keys(name)

    def pending_count(self, queue_name: str) -> int:
        """Return how many units are pending in a queue, or on hold for it."""
        queue = self.queues.find(queue_name)
        return (queue.length if queue is not None else 0) + self.held.total(queue_name)

    def admitted_count(self, queue_name: str) -> int:
        """Return how many units that came through a queue occupy quota."""
        return self.admitted.count(queue_name)

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
        if verdict is UnitState.ENDED:
            record = CachedUnit(unit=unit, version=version, state=UnitState.ENDED)
            self.enter(record)
            self.charge_living(record)
            return
        if verdict is UnitState.ADMITTED and (refusal := self._why_not_adopted(unit)) is not None:
            verdict = refusal
        try:
            demand = find_known_demand(unit, before) or build_demand(unit)
        except InvalidDemandError as error:
            demand = NO_DEMAND
            if verdict is not UnitState.ADMITTED:
                verdict = Refusal(reason=Reason.INVALID_DEMAND, detail=str(error))
        if verdict is UnitState.ADMITTED:
            self._place_admitted(unit, version, demand, before)
        else:
            self._place_waiting(unit, version, demand, verdict, before)

    def _why_not_adopted(self, unit: QueueUnit) -> Refusal | None:
        """Return why an adopted unit is not charged to the quota that it names; None: it is.

        No decision was made about it, so the label of a running job would be enough to fill another
        team's quota. Its living pods are charged where koord-scheduler charges them.
        """
        if not is_adopted(unit):
            return None
        mapped = self._plugins.map_unit(unit, self.queues)
        if isinstance(mapped, Mapped) or mapped.refusal.reason is not _NOT_THEIRS:
            return None
        return mapped.refusal

    def _place_admitted(
        self, unit: QueueUnit, version: int, demand: UnitDemand, before: CachedUnit | None
    ) -> None:
        known = before.info if before is not None else None
        waits_for: tuple[str, ...] = ()
        mapped = self._plugins.map_unit(unit, self.queues)
        if not isinstance(mapped, Mapped):
            # Its quota or queue is missing: what it occupies stays charged under the quota's name.
            waits_for = mapped.waits_for
            mapped = self._map_by_name(unit, mapped, known)
        info = self._info(unit, mapped, demand, known)
        self.enter(
            CachedUnit(
                unit=unit,
                version=version,
                state=UnitState.ADMITTED,
                info=info,
                waits_for=waits_for,
                admitted_on=known_admission(before, unit),
            )
        )
        self.usage.charge_admitted(info, admitted_occupancy(unit, demand))
        if is_disowned(unit):
            self.held_lately[info.key] = None

    def _map_by_name(
        self, unit: QueueUnit, missing: Unmapped, known: QueueUnitInfo | None
    ) -> Mapped:
        names = self._plugins.quota_names(unit)
        quota = names[0] if names else known.quota if known is not None else ""
        return Mapped(quota=quota, queue=missing.queue or unit.spec.queue)

    def _place_waiting(
        self,
        unit: QueueUnit,
        version: int,
        demand: UnitDemand,
        verdict: UnitState | Refusal,
        before: CachedUnit | None,
    ) -> None:
        mapped = self._plugins.map_unit(unit, self.queues)
        hold = verdict if isinstance(verdict, Refusal) else None
        waits_for: tuple[str, ...] = ()
        info = None
        if isinstance(mapped, Mapped):
            info = self._info(unit, mapped, demand, None)
            waits_for = (f"queue/{mapped.queue}", f"quota/{mapped.quota}")
            queue = self.queues.queue(mapped.queue)
            hold = hold or judge_place(unit, queue, mapped.queue, self.checks.inactive)
            hold = hold or self._plugins.check_requests(info)
        else:
            hold = hold or mapped.refusal
            waits_for = mapped.waits_for
        if hold is not None and hold.reason is Reason.NO_QUEUE and hold.other:
            # Plugins and `judge_place` know only the names of queues.
            hold = replace(hold, detail=self._queue_namespace)
        record = CachedUnit(
            unit=unit,
            version=version,
            state=UnitState.ON_HOLD if hold is not None else UnitState.WAITING,
            info=info,
            hold=hold,
            waits_for=waits_for if hold is not None else (),
        )
        self.enter(record)
        self.charge_living(record)
        if record.is_lowered and (before is None or _priorities(before) != _priorities(record)):
            self.lowered_lately[record.key] = None

    def _info(
        self, unit: QueueUnit, mapped: Mapped, demand: UnitDemand, known: QueueUnitInfo | None
    ) -> QueueUnitInfo:
        """Build what plugins get; of an admitted unit, `known` is reused if it still holds."""
        meta = unit.metadata
        queue = self.queues.find(mapped.queue)
        bounded = unit if queue is None else queue.bounded(unit)
        priority = bounded.spec.priority
        non_preemptible = meta.labels.get(PREEMPTIBLE) == "false" or (
            self._plugins.has_own_labels
            and self._plugins.is_non_preemptible(mapped.quota, meta.labels)
        )
        if (
            known is not None
            and known.demand is demand
            and known.quota == mapped.quota
            and known.queue == mapped.queue
            and known.non_preemptible == non_preemptible
        ):
            return replace(known, unit=unit, priority=priority)
        order_key: OrderKey | None = None
        if queue is not None:
            order_key = self._place_in(queue, bounded)
        keys = self._plugins.class_keys(unit)
        class_key = (mapped.quota, shape_of(demand), non_preemptible, *keys)
        if queue is not None:
            if queue.options.is_strict:
                class_key = (*class_key, priority)  # lower ones are held back
            if queue.is_backfilling:
                # A unit that waits for checks passes no head, however early it would end.
                checks = bool(needed_checks(queue.api_object, unit))
                class_key = (*class_key, remaining_seconds(unit), checks)
            class_key, demand = queue.share(class_key, demand)
        return QueueUnitInfo(
            key=meta.key,
            uid=meta.uid,
            unit=unit,
            queue=mapped.queue,
            quota=mapped.quota,
            demand=demand,
            non_preemptible=non_preemptible,
            priority=priority,
            order_key=order_key or creation_order(unit),
            class_key=class_key,
        )

    def place_in(self, queue: SchedulingQueue, unit: QueueUnit) -> OrderKey:
        """Return the position of a unit in a queue; the `info` of an admitted one may lack it."""
        return self._place_in(queue, queue.bounded(unit))

    def _place_in(self, queue: SchedulingQueue, bounded: QueueUnit) -> OrderKey:
        return queue.place(bounded, self._plugins.order_key(bounded, queue.api_object))

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
            if record.waits_for or not counts_alike(record, stays):
                return False
            if record.state is UnitState.ASSUMED and not self._is_mapped_like(unit, info):
                return False
            self.usage.charge_admitted(info, admitted_occupancy(unit, info.demand))
            self.admitted.replace(record, stays)
            queue = self.queues.find(info.queue)
            if queue is not None and info.uid in queue.in_flight:
                queue.count_admitted(admitted_unit(stays))
                self.changed_queues[info.queue] = None
        self.records[info.key] = stays
        return True

    def _is_mapped_like(self, unit: QueueUnit, info: QueueUnitInfo) -> bool:
        """Return whether a unit is still mapped as it was when its write was sent."""
        return self._plugins.map_unit(unit, self.queues) == Mapped(info.quota, info.queue)

    def pull_out(self, queue: SchedulingQueue) -> list[str]:
        """Take all units out of a queue; return their keys, to be placed again."""
        keys = [unit_key(key) for key in queue.in_order()]
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
            keys.update(dict.fromkeys(self._waits_for.keys(name)))
            kind, _, value = name.partition("/")
            if kind == "quota":
                for queue_name in self.queues.queues_of(value):
                    queue = self.queues.find(queue_name)
                    assert queue is not None, f"{queue_name} has units of {value} and no line"
                    keys.update({unit_key(key): None for key in queue.in_order(value)})
            elif kind == "namespace":
                namespaces.add(value)
        if namespaces:
            keys.update({k: None for k in self.records if k.partition("/")[0] in namespaces})
        self.place_again(keys)
        # Charges for living pods alone may belong to another quota now.
        for group, key in self.usage.pods.groups():
            found = self._record_of(group, key)
            if found is None or not found.occupies:
                self._charge(Uid(group), found)

    # --- entering and leaving a state ---------------------------------------------------------

    def enter(self, record: CachedUnit) -> None:
        """Put a unit into the queue, count or hold of its state."""
        info, state = record.info, record.state
        key = record.key if info is None else info.key
        self.records[key] = record
        if record.waits_for:
            self._waits_for.add(key, record.waits_for)
        if state in OUT_OF_LINE:
            self.held_lately[key] = None
            self.held.add(record)
        if info is None:
            return
        if state is UnitState.WAITING:
            woken = self.queues.enqueue(info)
            if woken is not None:
                self._plugins.stop_waiting((info.queue, woken))
            self.changed_queues[info.queue] = None
        elif state is UnitState.ADMITTED or state is UnitState.ASSUMED:
            self.admitted.add(record)
            queue = self.queues.find(info.queue)
            if queue is None or not queue.counts_admitted:
                return
            if queue.count_admitted(admitted_unit(record)):
                self.changed_queues[info.queue] = None

    def leave(self, record: CachedUnit | None) -> None:
        """Undo `enter`; what is charged stays until the unit is placed again."""
        if record is None:
            return
        if record.waits_for:
            self._waits_for.remove(record.key, record.waits_for)
        info, state = record.info, record.state
        if state in OUT_OF_LINE:
            self.held_lately[record.key] = None
            self.held.remove(record)
        if info is None:
            return
        if state is UnitState.WAITING:
            emptied = self.queues.withdraw(info)
            if emptied is not None:
                self._plugins.stop_waiting((info.queue, emptied))
            self.changed_queues[info.queue] = None
        elif state is UnitState.ADMITTED or state is UnitState.ASSUMED:
            self.admitted.remove(record)
            queue = self.queues.find(info.queue)
            if queue is not None and queue.counts_admitted and queue.uncount_admitted(info.uid):
                self.changed_queues[info.queue] = None

    def set_options(self, queue: SchedulingQueue, options: QueueOptions) -> None:
        """Set the options of a queue; if they now depend on admitted units, count these."""
        before = queue.options
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
        if queue is not None and queue.counts_admitted:
            queue.recount_admitted(self._admitted_through(queue.name))

    def _admitted_through(self, queue_name: str) -> Iterator[AdmittedUnit]:
        for record in self.records.values():
            if record.info is not None and record.info.queue == queue_name:
                yield admitted_unit(record)

    def _priority_in(self, queue_name: str, unit: QueueUnit) -> int:
        queue = self.queues.find(queue_name)
        return (unit if queue is None else queue.bounded(unit)).spec.priority

    def forget_admission(self, key: str, uid: Uid) -> None:
        """Forget what an admitted unit was admitted on, since it was not by that decision."""
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
        self._gone.add(uid)
        if len(self._gone) >= GONE_REMEMBERED:
            self._gone, self._gone_before = set(), self._gone
        # First: once the pods are separated from the unit, its quota is no longer known.
        self.charge_living(record)
        self.usage.pods.on_unit_gone(record.unit)

    # --- charges ------------------------------------------------------------------------------

    def charge_living(self, record: CachedUnit) -> None:
        """Charge a unit that is not admitted for its living pods; if it has none, release it."""
        uid = record.unit.metadata.uid
        if self.usage.pods.has_living(uid):
            quota, non_preemptible = self._quota_of(record)
            self.usage.charge_living(uid, quota, non_preemptible=non_preemptible)
        else:
            self.usage.release(uid)

    def set_growing(self, record: CachedUnit, growing: Occupancy | None) -> None:
        """Charge an admitted unit for what it will be granted; None: for what its object says."""
        before, record = record, replace(record, granting=growing)
        self.admitted.replace(before, record)
        self.records[record.key] = record
        self._charge(record.uid, record)

    def charge_changed_pods(self) -> None:
        """Update the charges for the pods that came, changed and went."""
        for group, key in self.usage.pods.take_changed_groups():
            self._charge(Uid(group), self._record_of(group, key))
        self.usage.tell_foreign()

    def _record_of(self, group: str, key: str) -> CachedUnit | None:
        """Return the unit of a group of pods, unless it is gone."""
        record = self.records.get(key)
        return record if record is not None and record.uid == group else None

    def _charge(self, uid: Uid, record: CachedUnit | None) -> None:
        if record is None:
            self.usage.charge_left_behind(uid)
        elif record.info is not None and record.occupies:
            self.usage.charge_admitted(record.info, occupancy_of(record, record.info))
        else:
            self.charge_living(record)

    def _quota_of(self, record: CachedUnit) -> tuple[str, bool]:
        """Return (quota, non-preemptible) of a unit, by its object; "" if that names no quota."""
        info = record.info
        if info is not None:
            return info.quota, info.non_preemptible
        uid, labels = record.uid, record.unit.metadata.labels
        is_theirs = record.hold is None or record.hold.reason is not _NOT_THEIRS
        if not is_theirs and self.usage.pods.has_living(uid):
            # It may not name that quota: its pods are charged to the one that they name.
            namespace, labels = self.usage.pods.labels_of(uid)
            quota = self._plugins.quota_of_pod(namespace, labels)
        else:
            names = self._plugins.quota_names(record.unit)
            quota = names[0] if names else ""
        return quota, self._plugins.is_non_preemptible(quota, labels)

    # --- copies -------------------------------------------------------------------------------

    def fork(self, plugins: PluginRunner) -> UnitCache:
        """Return an independent copy over forked plugins; shares units, copies containers."""
        twin = UnitCache(plugins, self._queue_namespace)
        twin.queues = self.queues.fork()
        twin.usage = self.usage.fork(plugins, twin.unit)
        twin.changed_queues = dict(self.changed_queues)
        twin.records = dict(self.records)
        twin._waits_for = self._waits_for.fork()
        twin.checks = self.checks.copy()
        twin.held = self.held.fork()
        twin.admitted = self.admitted.fork()
        twin._gone = set(self._gone)
        twin._gone_before = self._gone_before  # replaced, never changed
        return twin

    def validate(self) -> None:
        """Recompute what is derived; raise AssertionError with the story if it differs."""
        self.queues.validate(self._plugins.domains)
        self.usage.pods.validate()
        counts: dict[UnitState, Counter[str]] = {state: Counter() for state in UnitState}
        for record in self.records.values():
            info = record.info
            if info is not None:
                counts[record.state][info.queue] += 1
                priority = self._priority_in(info.queue, record.unit)
                is_known = record.state is UnitState.CONFLICT or info.priority == priority
                assert is_known, f"{record.key} has priority {info.priority}, should be {priority}"
        self._waits_for.validate({key: each.waits_for for key, each in self.records.items()})
        lengths = Counter({queue.name: queue.length for queue in self.queues})
        assert counts[UnitState.WAITING] == lengths, "pending units differ"
        assert not counts[UnitState.DETACHED], "units were pulled out and forgotten"
        self.held.validate(self.records.values())
        self.admitted.validate(self.records.values())
        for queue in self.queues:
            queue.validate_admitted(self._admitted_through(queue.name))
        self._validate_charges()

    def _validate_charges(self) -> None:
        pods = self.usage.pods
        for key, record in self.records.items():
            charge = self.usage.charge_of(record.uid)
            living = pods.living(record.uid)
            want = living if pods.has_living(record.uid) else None
            if record.occupies and record.info is not None:
                want = living.at_least(occupancy_of(record, record.info))
            got = None if charge is None else charge.occupancy
            assert got == want, f"{key} is charged {got}, should be {want}"
            quota, non_preemptible = self._quota_of(record)
            if charge is not None and quota:
                terms = (charge.quota, charge.non_preemptible)
                assert terms == (quota, non_preemptible), f"{key}: {charge}, not {quota}"
        self.usage.validate_left_behind({record.uid for record in self.records.values()})


def _priorities(record: CachedUnit) -> tuple[int, int]:
    """Return what a unit says, and what counts."""
    return record.unit.spec.priority, record.priority
