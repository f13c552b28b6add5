"""What the scheduler knows about one unit while it plans: an immutable record.

A new record replaces the old one whenever the unit, its quota or its queue changes. So a
fork of the engine shares records with the original, and plugins may keep them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts, maximum

OrderKey = tuple[Any, ...]
"""Sorts units of one queue: smaller comes first. It ends in namespace and name, so that the
order is total and never compares anything else."""

ClassKey = tuple[Hashable, ...]
"""Units with equal keys get equal answers from every filter, so one of them is asked."""


class PodSetDemand(msgspec.Struct, frozen=True, gc=False):
    """`count` pods that ask for `per_pod` each (base units)."""

    name: str
    count: int
    per_pod: Amounts


class Occupancy(msgspec.Struct, frozen=True, gc=False):
    """What a unit, or its living pods, occupy: amounts in base units, and how many pods."""

    amounts: Amounts
    pods: int

    def at_least(self, other: Occupancy) -> Occupancy:
        """Return the larger of both, of each resource and of the pods."""
        return Occupancy(maximum(self.amounts, other.amounts), max(self.pods, other.pods))


class UnitDemand(msgspec.Struct, frozen=True, gc=False):
    """What a unit asks for as a whole.

    Attributes:
        pod_sets: One entry per pod set; empty where the unit names only a total.
        total: Sum over the pod sets, or the total that the unit names (base units).
        least: The same with the fewest pods with which its job may run; None: it needs all.
        pods: How many pods that is; one where the unit names only a total.
        whole: Of a least, by `at_least`: what it is the least of.
    """

    pod_sets: tuple[PodSetDemand, ...]
    total: Amounts
    least: UnitDemand | None = None
    pods: int = 1
    whole: UnitDemand | None = None

    @property
    def occupancy(self) -> Occupancy:
        """What it occupies once it is granted."""
        return Occupancy(self.total, self.pods)


NO_DEMAND: Final = UnitDemand(pod_sets=(), total={}, pods=0)
"""Of a unit whose demand cannot be read."""


class QueueUnitInfo(msgspec.Struct, frozen=True, gc=False):
    """A unit with a valid demand that is mapped to a queue and a quota.

    Attributes:
        key: `namespace/name` of the unit.
        uid: Its uid; a unit made again under its name is another unit.
        unit: The object as last seen.
        queue: Name of the queue it waits in, or was admitted through.
        quota: Name of the quota it is charged to.
        demand: What it asks for.
        non_preemptible: Its pods may not be preempted, so they must fit the quota's min too
            (`PluginRunner.is_non_preemptible`).
        priority: The one that counts: `spec.priority`, or the ceiling of its queue if that is less.
        order_key: Place in the queue (`queue_policies`).
        class_key: Units of one class are decided once per wake.
    """

    key: str
    uid: Uid
    unit: QueueUnit
    queue: str
    quota: str
    demand: UnitDemand
    non_preemptible: bool
    priority: int
    order_key: OrderKey
    class_key: ClassKey


def at_least(info: QueueUnitInfo) -> QueueUnitInfo:
    """Return what a unit must have to start: its fewest pods, where it may run with fewer."""
    least = info.demand.least
    return info if least is None else replace(info, demand=replace(least, whole=info.demand))


def unit_key(order_key: OrderKey) -> str:
    """Return the unit of a place in line: every order key ends in namespace and name."""
    return f"{order_key[-2]}/{order_key[-1]}"
