"""From a QueueUnit to amounts: what it asks for, and what it was granted.

The demand comes from `podSet`; if that is empty, from `request`; if that is empty too, from
`resource`, the deprecated total. A pending unit with none of them, with a negative amount, or with
anything that cannot be parsed, is on hold: its condition says why, and no other unit waits behind
it.

Resources have the names that koord-scheduler reads (`shared_api.resource_names`), whichever names
the unit or an admission of an older version uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from queue_scheduler.cache.partial_admission import with_least
from queue_scheduler.decision import Grant
from queue_scheduler.framework.queue_unit_info import Granted, Occupancy, PodSetDemand, UnitDemand
from shared_api.objects.pod import ResourceQuantities
from shared_api.objects.queue_unit import (
    DEFAULT_REQUIREMENT,
    MAX_POD_SETS,
    Admission,
    QueueUnit,
    SalvagedUnit,
)
from shared_api.pod_requests import pod_requests
from shared_api.quantity import QuantityError
from shared_api.queue_unit_phases import is_being_evicted
from shared_api.resource_list import (
    Amounts,
    add,
    format_amounts,
    maximum,
    parse_amounts,
    parse_demand,
    scale,
)
from shared_api.resource_names import rename_deprecated

MAX_AMOUNT: Final = 1 << 60
"""The most of one resource, in base units: an exbibyte, or 10^15 cores. Arbitrarily many larger
numbers can have the same hash, and demands are keys (a checkpoint refuses many such)."""


class InvalidDemandError(ValueError):
    """The unit's demand cannot be parsed; the message says which field and why."""


def build_demand(unit: QueueUnit) -> UnitDemand:
    """Return what the unit asks for, in base units.

    Raises:
        InvalidDemandError: No demand at all, too many pod sets, more than any cluster has, or a
            value that cannot be parsed.
    """
    if isinstance(unit, SalvagedUnit):
        raise InvalidDemandError(unit.unreadable)
    spec = unit.spec
    if len(spec.pod_set) > MAX_POD_SETS:
        msg = f"spec.podSet: {len(spec.pod_set)} entries, at most {MAX_POD_SETS} are possible"
        raise InvalidDemandError(msg)
    if spec.pod_set:
        return _demand_of_pod_sets(unit)
    for field, quantities in (("request", spec.request), ("resource", spec.resource)):
        if quantities:
            total = _parse(f"spec.{field}", quantities)
            _check_amounts(total)
            return UnitDemand(pod_sets=(), total=total)
    raise InvalidDemandError("no demand: spec.podSet, spec.request and spec.resource are all empty")


def _demand_of_pod_sets(unit: QueueUnit) -> UnitDemand:
    pod_sets = []
    min_counts: list[int | None] = []
    total: Amounts = {}
    pods = 0
    for index, pod_set in enumerate(unit.spec.pod_set):
        path = f"spec.podSet[{index}]"
        if pod_set.count < 0:
            raise InvalidDemandError(f"{path}.count: {pod_set.count} is negative")
        try:
            per_pod = pod_requests(pod_set.template.spec)
        except QuantityError as error:
            raise InvalidDemandError(f"{path}.template: {error}") from error
        pod_sets.append(PodSetDemand(pod_set.name, pod_set.count, per_pod))
        min_counts.append(pod_set.min_count)
        total = add(total, scale(per_pod, pod_set.count))
        pods += pod_set.count
    _check_amounts(total)
    demand = UnitDemand(pod_sets=tuple(pod_sets), total=total, pods=pods)
    return demand if not any(min_counts) else with_least(demand, tuple(min_counts))


def _check_amounts(total: Amounts) -> None:
    for resource, amount in total.items():
        if amount > MAX_AMOUNT:
            shown = format_amounts({resource: amount})[resource]
            msg = f"it requests {shown} of {resource}, which is more than any cluster has"
            raise InvalidDemandError(msg)


def bounded(amounts: Amounts) -> Amounts:
    """Return what a pod requests, at most `MAX_AMOUNT` of each resource."""
    if any(amount > MAX_AMOUNT for amount in amounts.values()):
        return {resource: min(amount, MAX_AMOUNT) for resource, amount in amounts.items()}
    return amounts


def _parse(path: str, quantities: ResourceQuantities) -> Amounts:
    try:
        return rename_deprecated(parse_demand(quantities))
    except QuantityError as error:
        raise InvalidDemandError(f"{path}: {error}") from error


def build_grants(demand: UnitDemand) -> tuple[Grant, ...]:
    """Return what grants a demand, one entry per pod set; the demand may be of fewer pods.

    A unit without pod sets gets the single entry that upstream's readers expect.
    """
    pod_sets = demand.pod_sets
    if not pod_sets:
        return (Grant(DEFAULT_REQUIREMENT, 1, demand.total),)
    if len(pod_sets) == 1:
        return (Grant(pod_sets[0].name, pod_sets[0].count, demand.total),)
    return tuple(
        [Grant(each.name, each.count, scale(each.per_pod, each.count)) for each in pod_sets]
    )


def granted_by(unit: QueueUnit, demand: UnitDemand) -> Granted:
    """Return what the unit's admissions grant it, less what it has given back.

    For each admission these are the `resources` that it records, so that no edit of the spec
    changes what is charged; if it records none, its replicas times the request of a pod of that
    set. Only replicas that are not reclaimable count. An admitted unit without admissions (adopted,
    or by an old version) was granted what it asks for.
    """
    status = unit.status
    admissions: Sequence[Admission] = status.admissions
    if not admissions:
        if not status.reclaimable_pods or not demand.pod_sets:
            return Granted(demand.occupancy, demand.pod_sets if _makes_pods(unit) else ())
        admissions = [Admission(name=each.name, replicas=each.count) for each in demand.pod_sets]
    reclaimable = {pods.name: pods.count for pods in status.reclaimable_pods}
    total: Amounts = {}
    sets: list[PodSetDemand] = []
    for admission in admissions:
        left = max(0, admission.replicas - max(0, reclaimable.get(admission.name, 0)))
        recorded = _recorded(admission.resources)
        granted = _granted(admission, recorded, left, demand)
        total = add(total, granted) if total else granted
        sets.append(PodSetDemand(admission.name, left, _per_pod(admission, recorded, demand)))
    # Share the demand's dict: all units of a class then hold one dict together.
    total = demand.total if total == demand.total else total
    occupancy = Occupancy(total, sum(each.count for each in sets))
    if not demand.pod_sets or not _makes_pods(unit):
        return Granted(occupancy)
    names = {each.name for each in sets}
    grown = [PodSetDemand(p.name, 0, p.per_pod) for p in demand.pod_sets if p.name not in names]
    return Granted(occupancy, (*sets, *grown))


def _makes_pods(unit: QueueUnit) -> bool:
    """Return whether pods are made in place of those that end: it stays, and is not a pod itself.

    The job of a unit that gives its quota back is stopped. A pod that is a job has no replacement.
    """
    consumer = unit.spec.consumer_ref
    if consumer is not None and (consumer.api_version, consumer.kind) == ("v1", "Pod"):
        return False
    stays = unit.spec.active is not False and unit.metadata.deletion_timestamp is None
    return stays and not is_being_evicted(unit)


def _per_pod(admission: Admission, recorded: Amounts, demand: UnitDemand) -> Amounts:
    """Return what one pod of an admission asks for.

    If what is recorded is not the same for all of its pods, rounded down: the sum is charged as it
    is recorded anyway.
    """
    if recorded and admission.replicas > 0:
        return {key: amount // admission.replicas for key, amount in recorded.items()}
    return _template(admission.name, demand)


def _template(name: str, demand: UnitDemand) -> Amounts:
    return next((each.per_pod for each in demand.pod_sets if each.name == name), {})


def _granted(admission: Admission, recorded: Amounts, left: int, demand: UnitDemand) -> Amounts:
    """Return what `left` of the admission's replicas were granted."""
    if recorded:
        if 0 < admission.replicas <= left:
            return recorded
        if not left:
            return {}
        # Rounded up: nothing that may still run goes uncharged.
        return {key: -(-amount * left // admission.replicas) for key, amount in recorded.items()}
    if not demand.pod_sets and admission.name == DEFAULT_REQUIREMENT:
        return scale(demand.total, left)
    return scale(_template(admission.name, demand), left)


def _recorded(resources: ResourceQuantities) -> Amounts:
    """Return the amounts that an admission records, none below 0; {} if they cannot be parsed."""
    try:
        amounts = rename_deprecated(parse_amounts(resources))
    except QuantityError:
        return {}
    return amounts if all(amount >= 0 for amount in amounts.values()) else maximum({}, amounts)
