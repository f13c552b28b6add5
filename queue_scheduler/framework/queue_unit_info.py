"""What the scheduler knows about one unit when it decides: an immutable record.

A new record replaces the old one whenever the unit, its quota or its queue changes. So forks of the
engine share records with the original, and plugins may keep them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts, maximum
from shared_api.submitters import Submitter
from shared_api.well_known_labels import read_queue_name, read_quota_name

OrderKey = tuple[Any, ...]
"""Sorts units of one queue: smaller comes first. It ends in namespace and name, so the order is
total and the rest of a unit is never compared."""

ClassKey = tuple[Hashable, ...]
"""Units with equal keys get equal answers from every filter, so only one of them is asked."""


class PodSetDemand(msgspec.Struct, frozen=True, gc=False):
    """`count` pods that ask for `per_pod` each (base units)."""

    name: str
    count: int
    per_pod: Amounts


class Occupancy(msgspec.Struct, frozen=True, gc=False):
    """What a unit or its living pods occupy: amounts in base units, and the number of pods."""

    amounts: Amounts
    pods: int

    def at_least(self, other: Occupancy) -> Occupancy:
        """Return the larger of both, per resource and for the pods."""
        return Occupancy(maximum(self.amounts, other.amounts), max(self.pods, other.pods))


class Granted(msgspec.Struct, frozen=True, gc=False):
    """What a unit was granted and has not given back.

    Attributes:
        occupancy: All of it together.
        sets: The same by pod set: how many pods, and what one of them, made again, asks for. Empty
            if that is unknown, or if the unit makes no pods in place of those that end.
    """

    occupancy: Occupancy
    sets: tuple[PodSetDemand, ...] = ()


class UnitDemand(msgspec.Struct, frozen=True, gc=False):
    """What a unit asks for as a whole.

    Attributes:
        pod_sets: One entry per pod set; empty if the unit states only a total.
        total: Sum over the pod sets, or the total that the unit states (base units).
        least: The demand with the fewest pods with which its job may run; None if it needs all.
        pods: Number of pods; 1 if the unit states only a total.
        whole: Set by `at_least`: the demand of which this is the least.
    """

    pod_sets: tuple[PodSetDemand, ...]
    total: Amounts
    least: UnitDemand | None = None
    pods: int = 1
    whole: UnitDemand | None = None

    @property
    def occupancy(self) -> Occupancy:
        """What the unit occupies once it is granted."""
        return Occupancy(self.total, self.pods)

    @property
    def granted(self) -> Granted:
        """What the unit has once it is granted."""
        return Granted(self.occupancy, self.pod_sets)


NO_DEMAND: Final = UnitDemand(pod_sets=(), total={}, pods=0)
"""The demand of a unit whose demand cannot be read."""


class AccountKey(NamedTuple):
    """What units of one class have in common where their user or group is limited.

    Attributes:
        asked: What they have in common elsewhere: the plugins' answers follow from it.
        user: Who submitted them.
        group: The group that they were submitted for; "": none.
    """

    asked: ClassKey
    user: str
    group: str


class LaneKey(NamedTuple):
    """What units of one class have in common in a queue that orders accounts.

    Attributes:
        asked: What they have in common elsewhere: the filters' answers follow from it.
        lane: Whom they keep their order with (`queueing.fair_settings.Lane`).
    """

    asked: ClassKey
    lane: tuple[Any, ...]


class BackfillKey(NamedTuple):
    """What units of one class have in common in a queue that backfills.

    Attributes:
        asked: What they have in common elsewhere: the filters' answers follow from it.
        seconds: How long they may run; None if they do not say.
        has_checks: Whether they wait for checks after they have quota.
    """

    asked: ClassKey
    seconds: int | None
    has_checks: bool


def without_account(key: ClassKey) -> ClassKey | None:
    """Return what the keys of classes have in common that differ by account; None: it has none."""
    if isinstance(key, AccountKey):
        return key.asked
    if isinstance(key, LaneKey):
        return without_account(key.asked) or key.asked
    if isinstance(key, BackfillKey):
        asked = without_account(key.asked)
        return None if asked is None else key._replace(asked=asked)
    return None


def lane_of(key: ClassKey) -> tuple[Any, ...]:
    """Return whom the units of a class keep their order with, in a queue that orders accounts."""
    while not isinstance(key, LaneKey):
        assert isinstance(key, BackfillKey), f"{key} has no lane"
        key = key.asked
    return key.lane


def has_account(key: ClassKey) -> bool:
    """Return whether a limit concerns the account of a class."""
    while isinstance(key, BackfillKey | LaneKey):
        key = key.asked
    return isinstance(key, AccountKey)


class QueueUnitInfo(msgspec.Struct, frozen=True, gc=False):
    """A unit with a valid demand that is mapped to a queue and a quota.

    Attributes:
        key: `namespace/name` of the unit.
        uid: Its uid; a recreated unit of the same name is another unit.
        unit: The object as last seen.
        queue: Name of the queue it waits in, or was admitted through.
        quota: Name of the quota it is charged to.
        demand: What it asks for.
        non_preemptible: Its pods may not be preempted, so they must fit the quota's min too
            (`PluginPlacing.is_non_preemptible`).
        priority: The effective one: `spec.priority` with its boost, or the maximum of its queue if
            that is less.
        order_key: Position in the queue (`queue_policies`).
        class_key: Units of one class are decided once per wake.
        submitter: Whom it counts for, if a limit of users or groups concerns a pending unit; else
            None.
        spare: By how much its priority is higher where victims are chosen: it was evicted before.
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
    submitter: Submitter | None = None
    spare: int = 0


def at_least(info: QueueUnitInfo) -> QueueUnitInfo:
    """Return the unit with the least that it needs to start: its fewest pods, or all of them."""
    least = info.demand.least
    return info if least is None else replace(info, demand=replace(least, whole=info.demand))


def unit_key(order_key: OrderKey) -> str:
    """Return the unit of an order key, which ends in namespace and name."""
    return f"{order_key[-2]}/{order_key[-1]}"


def read_chosen_queue(unit: QueueUnit) -> str:
    """Return the queue that was chosen for a unit, or "".

    If a job names no queue, the controllers fill `spec.queue` with the name of the quota; that is
    not a choice.
    """
    meta = unit.metadata
    filled = unit.spec.queue
    return read_queue_name(meta.labels, meta.annotations) or (
        "" if filled == read_quota_name(meta.labels) else filled
    )


def remaining_seconds(unit: QueueUnit) -> int | None:
    """Return how long a unit may still run, without its earlier runs; None: it declares nothing."""
    declared = unit.spec.maximum_execution_time_seconds
    if declared is None:
        return None
    return max(0, declared - (unit.status.accumulated_past_execution_time_seconds or 0))
