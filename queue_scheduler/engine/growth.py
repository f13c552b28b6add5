"""Growth of running jobs: what they ask for beyond their admissions, granted if it fits. Pure.

What is granted stays granted. The check asks whether the whole job would fit if nothing were
charged for it, because new pods that already live are charged.

A job with partial admission is granted as many pods as fit, and only while no unit is pending for
the same limits: pods that it lacks do not exist yet, so the pending units come first.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from queue_scheduler.cache.partial_admission import demand_of, most_that
from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_demand import granted_by
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.decision import Growth, Reason, Refusal
from queue_scheduler.engine.backfill import may_fit_one_day
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import (
    Granted,
    PodSetDemand,
    QueueUnitInfo,
    UnitDemand,
    unit_key,
)
from queue_scheduler.queueing.queue_questions import refusal_of
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from shared_api.evictions import is_losing_quota
from shared_api.objects.queue_unit import Admission, QueueUnit
from shared_api.quantity import QuantityError
from shared_api.queue_unit_phases import RELEASED_PHASES, phase_of
from shared_api.resource_list import add, format_amounts, parse_amounts, scale
from shared_api.resource_names import rename_deprecated


class Growths:
    """The running units that have grown."""

    def __init__(self, units: UnitCache, plugins: PluginRunner) -> None:
        self._units = units
        self._plugins = plugins

    def grow(self, key: str) -> Growth | Refusal | None:
        """Charge what a unit has grown by if it fits, else return why not; None: no growth."""
        record = self._units.records.get(key)
        request = None if record is None else self._ask(record)
        if record is None or request is None:
            return None
        admissions, target, refusal = request
        if refusal is not None:
            return refusal
        self._units.set_growing(record, target)
        meta = record.unit.metadata
        return Growth(
            unit=key,
            uid=meta.uid,
            resource_version=meta.resource_version,
            admissions=admissions,
        )

    def take_back(self, growth: Growth) -> None:
        """Charge what the unit's object says, unless a newer object has been charged already."""
        record = self.record_of(growth)
        if record is not None:
            self._units.set_growing(record, None)

    def record_of(self, growth: Growth) -> CachedUnit | None:
        """Return the unit of a growth if nothing newer is known of it, or None."""
        record = self._units.records.get(growth.unit)
        if record is None or record.granting is None:
            return None
        known = record.unit.metadata
        this_one = (known.uid, known.resource_version) == (growth.uid, growth.resource_version)
        return record if this_one else None

    def refusal_of(self, key: str) -> Refusal | None:
        """Return why a unit's growth is not granted; None if it is granted, or there is none."""
        record = self._units.records.get(key)
        request = None if record is None else self._ask(record)
        return None if request is None else request[2]

    def _ask(
        self, record: CachedUnit
    ) -> tuple[tuple[Admission, ...], Granted, Refusal | None] | None:
        """Return a grown unit's admissions, what it will occupy, and why that is refused."""
        info, unit = record.info, record.unit
        if record.state is not UnitState.ADMITTED or info is None or record.granting is not None:
            return None
        if not has_grown(unit):
            return None
        whole = self._ask_for(info, info.demand)
        if info.demand.least is None:
            return whole
        waiting = self._first_waiting(info.quota)
        if waiting:
            refusal = Refusal(reason=Reason.GROWS_AFTER_OTHERS, quota=info.quota, other=waiting)
            return *whole[:2], refusal
        if whole[2] is None:
            return whole
        granted = _granted_of(unit, info.demand)
        most = most_that(
            lambda demand: self._ask_for(info, demand)[2] is None, info.demand, granted
        )
        return whole if most is granted else self._ask_for(info, most)

    def _ask_for(
        self, info: QueueUnitInfo, demand: UnitDemand
    ) -> tuple[tuple[Admission, ...], Granted, Refusal | None]:
        """Return the same for a grown unit that is granted this demand."""
        admissions = grown_admissions(info.unit, demand)
        target = granted_by(_granted(info.unit, admissions), info.demand)
        # With its pods as they live now: larger than their templates, or ending.
        whole = self._units.usage.occupied(info.uid, target)
        pod_sets = tuple(PodSetDemand(each.name, each.replicas, {}) for each in admissions)
        total = UnitDemand(pod_sets=pod_sets, total=whole.amounts, pods=whole.pods)
        request = replace(info, demand=total)
        refusal = self._plugins.check_without(request, (info.uid,))
        charge = self._units.usage.charge_of(info.uid)
        if refusal is None and charge is not None:
            usage = self._units.usage
            refusal = usage.limits.why_not_grow(charge, whole.amounts)
            refusal = refusal or usage.budgets.why_not_grow(info, charge, whole.amounts)
        return admissions, target, refusal

    def _first_waiting(self, quota: str) -> str:
        """Return the key of a pending unit with the same limits that may start one day, or ""."""
        domains = self._plugins.domains(quota)
        rivals = (
            (queue, other)
            for queue in self._units.queues
            if not queue.rules.is_stopped
            for other in queue.pending.by_quota
            if other == quota or not domains.isdisjoint(self._plugins.domains(other))
        )
        return next((key for queue, other in rivals for key in self._hopeful(queue, other)), "")

    def _hopeful(self, queue: SchedulingQueue, quota: str) -> Iterator[str]:
        """Yield the units of a queue that may start one day."""
        for place in queue.pending.in_order(quota):
            info = self._units.records[unit_key(place)].info
            assert info is not None, f"{unit_key(place)} is pending without a demand"
            if may_fit_one_day(refusal_of(queue, info)):
                yield info.key


def has_grown(unit: QueueUnit) -> bool:
    """Return whether a released unit asks for more pods of a set than it was admitted with.

    A unit without admissions was adopted: it is charged whatever it asks for.
    """
    admissions = unit.status.admissions
    if not admissions or phase_of(unit) not in RELEASED_PHASES or is_losing_quota(unit):
        return False
    granted = {each.name: each.replicas for each in admissions}
    # A pod set that may have fewer pods and reclaims some runs out of work: it needs no more.
    given_back = {each.name for each in unit.status.reclaimable_pods if each.count > 0}
    return any(
        each.count > granted.get(each.name, 0)
        and not (each.min_count is not None and each.name in given_back)
        for each in unit.spec.pod_set
    )


def _granted(unit: QueueUnit, admissions: tuple[Admission, ...]) -> QueueUnit:
    """Return a unit with these admissions."""
    return replace(unit, status=replace(unit.status, admissions=admissions))


def _granted_of(unit: QueueUnit, demand: UnitDemand) -> UnitDemand:
    """Return the part of its demand that a unit was admitted with."""
    granted = {each.name: each.replicas for each in unit.status.admissions}
    return demand_of(
        tuple(
            PodSetDemand(each.name, min(each.count, granted.get(each.name, 0)), each.per_pod)
            for each in demand.pod_sets
        )
    )


def grown_admissions(unit: QueueUnit, demand: UnitDemand) -> tuple[Admission, ...]:
    """Return all admissions of a unit once its growth to this demand is granted.

    Earlier grants stay as they are recorded; only the added pods are computed from the demand.
    """
    after = {each.name: each for each in unit.status.admissions}
    for pod_set in demand.pod_sets:
        known = after.get(pod_set.name) or Admission(name=pod_set.name)
        more = pod_set.count - known.replicas
        if more <= 0:
            continue
        try:
            recorded = rename_deprecated(parse_amounts(known.resources))
        except QuantityError:
            recorded = {}
        before = recorded or scale(pod_set.per_pod, known.replicas)
        resources = format_amounts(add(before, scale(pod_set.per_pod, more)))
        after[pod_set.name] = replace(known, replicas=pod_set.count, resources=resources)
    return tuple(after.values())
