"""Which record follows from a unit's object: its state, quota, queue, demand and place.

A record depends on the object and on the known queues, quotas and checks, never on the order in
which these arrived. Only what has not changed is taken over from the record before.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from queue_scheduler.cache.admission_check_rules import KnownChecks, needed_checks
from queue_scheduler.cache.partial_admission import shape_of
from queue_scheduler.cache.unit_demand import InvalidDemandError, build_demand
from queue_scheduler.cache.unit_state import (
    CachedUnit,
    UnitState,
    evictions_of,
    find_known_demand,
    judge,
    judge_place,
    known_admission,
)
from queue_scheduler.cache.usage import Usage
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.extension_points import Mapped, Unmapped
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import (
    NO_DEMAND,
    AccountKey,
    BackfillKey,
    ClassKey,
    LaneKey,
    OrderKey,
    QueueUnitInfo,
    UnitDemand,
    remaining_seconds,
)
from queue_scheduler.queueing.queue_policies import creation_order
from queue_scheduler.queueing.queue_set import QueueSet
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import is_adopted
from shared_api.submitters import Submitter, read_submitter
from shared_api.well_known_labels import MAX_BOOST, PREEMPTIBLE


class RecordBuilder:
    """Builds records; it changes nothing, and has no state of its own."""

    def __init__(
        self,
        plugins: PluginRunner,
        queues: QueueSet,
        checks: KnownChecks,
        usage: Usage,
        queue_namespace: str,
    ) -> None:
        self._placing = plugins.placing
        self._usage = usage
        self._queues = queues
        self._checks = checks
        self._queue_namespace = queue_namespace

    def build(
        self,
        unit: QueueUnit,
        version: int,
        verdict: UnitState | Refusal,
        before: CachedUnit | None = None,
    ) -> CachedUnit:
        """Return the record of a unit.

        Args:
            unit: Its object.
            version: The object's resourceVersion.
            verdict: The answer of `judge`.
            before: Its earlier record; what has not changed is reused.
        """
        if verdict is UnitState.ENDED:
            return CachedUnit(unit=unit, version=version, state=UnitState.ENDED)
        if verdict is UnitState.ADMITTED and (refusal := self._why_not_adopted(unit)) is not None:
            verdict = refusal
        try:
            demand = find_known_demand(unit, before) or build_demand(unit)
        except InvalidDemandError as error:
            demand = NO_DEMAND
            if verdict is not UnitState.ADMITTED:
                verdict = Refusal(reason=Reason.INVALID_DEMAND, detail=str(error))
        if verdict is UnitState.ADMITTED:
            return self._build_admitted(unit, version, demand, before)
        return self._build_waiting(unit, version, demand, verdict)

    def is_mapped_like(self, unit: QueueUnit, info: QueueUnitInfo) -> bool:
        """Return whether a unit is still mapped as it was when its write was sent."""
        return self._placing.map_unit(unit, self._queues) == Mapped(info.quota, info.queue)

    def place_in(self, queue: SchedulingQueue, unit: QueueUnit) -> OrderKey:
        """Return the position of a unit in a queue; the `info` of an admitted one may lack it."""
        return self._place_in(queue, queue.rules.bounded(unit))

    def _why_not_adopted(self, unit: QueueUnit) -> Refusal | None:
        """Return why an adopted unit is not charged to the quota that it names; None if it is.

        No decision was made about it, so the label of a running job would be enough to fill another
        team's quota. Its living pods are charged where koord-scheduler charges them.
        """
        if not is_adopted(unit):
            return None
        mapped = self._placing.map_unit(unit, self._queues)
        if isinstance(mapped, Mapped) or mapped.refusal.reason is not Reason.QUOTA_NOT_IN_NAMESPACE:
            return None
        return mapped.refusal

    def _build_admitted(
        self, unit: QueueUnit, version: int, demand: UnitDemand, before: CachedUnit | None
    ) -> CachedUnit:
        known = before.info if before is not None else None
        waits_for: tuple[str, ...] = ()
        mapped = self._placing.map_unit(unit, self._queues)
        if not isinstance(mapped, Mapped):
            # Its quota or queue is missing: what it occupies stays charged under the quota's name.
            waits_for = mapped.waits_for
            mapped = self._map_by_name(unit, mapped, known)
        return CachedUnit(
            unit=unit,
            version=version,
            state=UnitState.ADMITTED,
            info=self._info(unit, mapped, demand, known),
            waits_for=waits_for,
            admitted_on=known_admission(before, unit),
        )

    def _complete(self, hold: Refusal) -> Refusal:
        """Return a reason for a hold with what plugins and `judge_place` do not know."""
        if hold.reason is Reason.NO_QUEUE and hold.other:
            return replace(hold, detail=self._queue_namespace)
        return hold

    def every_hold(self, record: CachedUnit) -> Iterator[Refusal]:
        """Yield all that would put a unit on hold; `build` stops at the first."""
        unit = record.unit
        verdict = judge(unit)
        if isinstance(verdict, Refusal):
            yield verdict
        mapped = self._placing.map_unit(unit, self._queues)
        if not isinstance(mapped, Mapped):
            yield self._complete(mapped.refusal)
            yield from (self._complete(each) for each in mapped.others)
            return
        queue = self._queues.queue(mapped.queue)
        misplaced = judge_place(unit, queue, mapped.queue, self._checks.inactive)
        if misplaced is not None:
            yield self._complete(misplaced)
        lacking = None if record.info is None else self._placing.check_requests(record.info)
        if lacking is not None:
            yield lacking
        if record.hold is not None and record.hold.reason is Reason.USER_LIMIT:
            yield record.hold
        if not self._queues.may_start(mapped.queue):
            yield Refusal(reason=Reason.STOPPED_QUEUE, quota=mapped.quota, other=mapped.queue)

    def _map_by_name(
        self, unit: QueueUnit, missing: Unmapped, known: QueueUnitInfo | None
    ) -> Mapped:
        names = self._placing.quota_names(unit)
        quota = names[0] if names else known.quota if known is not None else ""
        return Mapped(quota=quota, queue=missing.queue or unit.spec.queue)

    def _build_waiting(
        self, unit: QueueUnit, version: int, demand: UnitDemand, verdict: UnitState | Refusal
    ) -> CachedUnit:
        mapped = self._placing.map_unit(unit, self._queues)
        hold = verdict if isinstance(verdict, Refusal) else None
        waits_for: tuple[str, ...] = ()
        info = None
        if isinstance(mapped, Mapped):
            info = self._info(unit, mapped, demand, None)
            waits_for = (f"queue/{mapped.queue}", f"quota/{mapped.quota}")
            queue = self._queues.queue(mapped.queue)
            hold = hold or judge_place(unit, queue, mapped.queue, self._checks.inactive)
            hold = hold or self._placing.check_requests(info)
        else:
            hold = hold or mapped.refusal
            waits_for = mapped.waits_for
        hold = None if hold is None else self._complete(hold)
        return CachedUnit(
            unit=unit,
            version=version,
            state=UnitState.ON_HOLD if hold is not None else UnitState.WAITING,
            info=info,
            hold=hold,
            waits_for=waits_for if hold is not None else (),
        )

    def submitter_of(self, unit: QueueUnit, quota: str) -> Submitter | None:
        """Return whom a unit of a quota counts for, if a limit concerns it, else None."""
        usage = self._usage
        if not usage.limits.is_on or not usage.limits.rules.levels(quota):
            return None
        meta, are_proved = unit.metadata, usage.are_names_proved
        who = read_submitter(meta.namespace, meta.labels, meta.annotations, are_proved=are_proved)
        return who if usage.limits.rules.concern(quota, who) else None

    def _info(
        self, unit: QueueUnit, mapped: Mapped, demand: UnitDemand, known: QueueUnitInfo | None
    ) -> QueueUnitInfo:
        """Build what plugins get; of an admitted unit, `known` is reused if it still holds."""
        meta = unit.metadata
        queue = self._queues.find(mapped.queue)
        bounded = unit if queue is None else queue.rules.bounded(unit)
        priority, spare = bounded.spec.priority, 0
        if self._usage.boost_per_eviction:
            spare = self._spare_of(unit, priority, queue)
        non_preemptible = meta.labels.get(PREEMPTIBLE) == "false" or (
            self._placing.has_own_labels
            and self._placing.is_non_preemptible(mapped.quota, meta.labels)
        )
        if (
            known is not None
            and known.demand is demand
            and known.quota == mapped.quota
            and known.queue == mapped.queue
            and known.non_preemptible == non_preemptible
        ):
            return replace(known, unit=unit, priority=priority, spare=spare)
        order_key: OrderKey | None = None
        if queue is not None:
            order_key = self._place_in(queue, bounded)
        keys = self._placing.class_keys(unit)
        class_key: ClassKey = (mapped.quota, shape_of(demand), non_preemptible, *keys)
        if self._usage.limits.is_on:
            self._usage.limits.rules.follow(mapped.quota)
        submitter = self.submitter_of(unit, mapped.quota)
        if self._is_timed(mapped.quota):
            class_key = (*class_key, remaining_seconds(unit))
        class_key = _complete_key(class_key, queue, bounded, submitter, order_key)
        if queue is not None:
            class_key, demand = queue.pending.share(class_key, demand)
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
            submitter=submitter,
            spare=spare,
        )

    def _is_timed(self, quota: str) -> bool:
        """Return whether the time that units of a quota declare makes a difference."""
        usage = self._usage
        return (usage.budgets.is_on and usage.budgets.accounts.chains.reserves(quota)) or (
            usage.windows.is_on and usage.windows.concern(quota)
        )

    def _spare_of(self, unit: QueueUnit, priority: int, queue: SchedulingQueue | None) -> int:
        """Return by how much a unit's priority is raised where victims are chosen.

        Not where it would evict others: two units would then evict each other in turn, each raised
        by its last eviction.
        """
        boost = self._usage.boost_per_eviction * max(0, evictions_of(unit).count)
        raised = priority + min(boost, MAX_BOOST)
        most = None if queue is None else queue.rules.options.max_priority
        return max(0, (raised if most is None else min(raised, most)) - priority)

    def _place_in(self, queue: SchedulingQueue, bounded: QueueUnit) -> OrderKey:
        rules, lane = queue.rules, None
        if rules.fair is not None:
            meta, are_proved = bounded.metadata, self._usage.are_names_proved
            who = read_submitter(
                meta.namespace, meta.labels, meta.annotations, are_proved=are_proved
            )
            lane = rules.fair.lane_of(bounded.spec.priority, meta.namespace, who)
            if queue.fair is not None:  # equal lanes are to be one object
                lane = queue.fair.ranks.lanes.get(lane, lane)
        return rules.place(bounded, self._placing.order_key(bounded, rules.api_object), lane)


def _complete_key(
    key: ClassKey,
    queue: SchedulingQueue | None,
    bounded: QueueUnit,
    submitter: Submitter | None,
    order_key: OrderKey | None,
) -> ClassKey:
    """Return the key of a unit's class: what plugins ask about, with what else decides it."""
    if queue is not None and queue.rules.options.is_strict:
        key = (*key, bounded.spec.priority)  # lower ones are held back
    if submitter is not None:
        key = AccountKey(key, *submitter)
    if queue is not None and queue.rules.fair is not None and order_key is not None:
        key = LaneKey(key, order_key[0])
    if queue is not None and queue.rules.is_backfilling:
        # A unit that waits for checks passes no head, however early it would end.
        checks = bool(needed_checks(queue.rules.api_object, bounded))
        key = BackfillKey(key, remaining_seconds(bounded), checks)
    return key
