"""Jobs that grow while they run: what they ask for beyond their admissions, if it fits. Pure.

What they were granted stays granted. Asked is whether the whole job would fit if nothing were
booked for it: pods that it has grown by, and that live, are charged already.
"""

from __future__ import annotations

from msgspec.structs import replace

from queue_scheduler.decision import Growth, Refusal
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import UnitDemand
from queue_scheduler.unit_demand import admitted_amounts
from queue_scheduler.unit_record import Standing, UnitRecord
from queue_scheduler.unit_registry import UnitRegistry
from shared_api.evictions import is_given_back
from shared_api.objects.queue_unit import Admission, QueueUnit
from shared_api.quantity import QuantityError
from shared_api.queue_unit_phases import RELEASED_PHASES, is_being_evicted, phase_of
from shared_api.resource_list import Amounts, add, format_amounts, parse_amounts, scale


class Growths:
    """The running units that have grown."""

    def __init__(self, units: UnitRegistry, plugins: PluginRunner) -> None:
        self._units = units
        self._plugins = plugins

    def grow(self, key: str) -> Growth | Refusal | None:
        """Book what a unit has grown by, if it fits; else say why not, None: it has not grown."""
        record = self._units.records.get(key)
        asked = None if record is None else self._ask(record)
        if record is None or asked is None:
            return None
        admissions, target, refusal = asked
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
        """Book what the unit's object says, unless newer news have done so."""
        record = self.record_of(growth)
        if record is not None:
            self._units.set_growing(record, None)

    def record_of(self, growth: Growth) -> UnitRecord | None:
        """Return the unit of a growth about which nothing newer is known, or None."""
        record = self._units.records.get(growth.unit)
        if record is None or record.growing is None:
            return None
        known = record.unit.metadata
        this_one = (known.uid, known.resource_version) == (growth.uid, growth.resource_version)
        return record if this_one else None

    def refusal_of(self, key: str) -> Refusal | None:
        """Return why a unit is not granted its growth; None where it is, or has none."""
        record = self._units.records.get(key)
        asked = None if record is None else self._ask(record)
        return None if asked is None else asked[2]

    def _ask(
        self, record: UnitRecord
    ) -> tuple[tuple[Admission, ...], Amounts, Refusal | None] | None:
        """Return a grown unit's admissions, what it will occupy, and why that may not be."""
        info, unit = record.info, record.unit
        if record.standing is not Standing.BOOKED or info is None or record.growing is not None:
            return None
        admissions = grown_admissions(unit, info.demand)
        if admissions is None:
            return None
        grown = replace(unit, status=replace(unit.status, admissions=admissions))
        target = admitted_amounts(grown, info.demand)
        whole = replace(info, demand=UnitDemand(pod_sets=(), total=target))
        return admissions, target, self._plugins.check_without(whole, (info.uid,))


def has_grown(unit: QueueUnit) -> bool:
    """Say whether a released unit asks for more pods of a set than it was admitted with.

    One without admissions was adopted: it is charged whatever it asks for.
    """
    admissions = unit.status.admissions
    if not admissions or phase_of(unit) not in RELEASED_PHASES or _leaves(unit):
        return False
    granted = {each.name: each.replicas for each in admissions}
    return any(each.count > granted.get(each.name, 0) for each in unit.spec.pod_set)


def _leaves(unit: QueueUnit) -> bool:
    """Say whether its place is given back, or asked back: it must not be granted more of it."""
    return (
        is_being_evicted(unit)
        or is_given_back(unit)
        or unit.spec.active is False
        or unit.metadata.deletion_timestamp is not None
    )


def grown_admissions(unit: QueueUnit, demand: UnitDemand) -> tuple[Admission, ...] | None:
    """Return all admissions of a unit once it is granted its growth; None: it has not grown.

    What was granted before stays as it is recorded: only the pods that came are asked for.
    """
    if not has_grown(unit):
        return None
    after = {each.name: each for each in unit.status.admissions}
    for pod_set in demand.pod_sets:
        known = after.get(pod_set.name) or Admission(name=pod_set.name)
        more = pod_set.count - known.replicas
        if more <= 0:
            continue
        try:
            recorded = parse_amounts(known.resources)
        except QuantityError:
            recorded = {}
        before = recorded or scale(pod_set.per_pod, known.replicas)
        resources = format_amounts(add(before, scale(pod_set.per_pod, more)))
        after[pod_set.name] = replace(known, replicas=pod_set.count, resources=resources)
    return tuple(after.values())
