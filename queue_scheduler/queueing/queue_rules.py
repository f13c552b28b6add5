"""The rules of one queue: what its object, its policy and its options say together. Pure.

A `SchedulingQueue` replaces its rules when one of the three changes. Copies of a queue share them,
so a what-if question that gives a copy other options leaves the original as it is.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from queue_scheduler.framework.queue_unit_info import OrderKey
from queue_scheduler.queueing.fair_settings import FairSettings, Lane
from queue_scheduler.queueing.queue_options import BACKFILL_DEPTH, QueueOptions
from queue_scheduler.queueing.queue_policies import (
    BLOCK,
    FAIR,
    PRIORITY,
    BandedPolicy,
    HoldsBack,
    QueuePolicy,
    bands_of,
    is_banded,
)
from shared_api.objects.field_schema import INT32_MAX, INT32_MIN
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import PRIORITY_BOOST, read_boost


class QueueRules(msgspec.Struct, frozen=True, kw_only=True):
    """How one queue orders its units, and which of them may start.

    Attributes:
        api_object: The Queue object as last seen.
        policy: How it orders and blocks.
        options: Its further settings.
        banded: The policy, if it has bands.
        fair: How its accounts are ordered, if the policy is Fair.
        bands: What a refused unit of each band holds back; one band if the policy has none.
        depth: How many positions are considered; None: all.
        is_stopped: Whether none of its units may start.
        is_backfilling: Whether `backfill` decides which units pass a refused one; never under
            policies with bands.
        is_limited: Whether the first unit of a queue may have to wait for its position alone.
        blocks: Whether a refused unit of any band holds back others.
        lets_evict: Whether its units may evict others of it, by priority.
        counts_admitted: Whether its next decision depends on admitted units.
    """

    api_object: Queue
    policy: QueuePolicy
    options: QueueOptions
    banded: BandedPolicy | None
    fair: FairSettings | None
    bands: tuple[HoldsBack, ...]
    depth: int | None
    is_stopped: bool
    is_backfilling: bool
    is_limited: bool
    blocks: bool
    lets_evict: bool
    counts_admitted: bool

    def bounded(self, unit: QueueUnit) -> QueueUnit:
        """Return a unit with its priority boosted, and then limited to the queue's ceiling."""
        priority, most = unit.spec.priority, self.options.max_priority
        if PRIORITY_BOOST in unit.metadata.annotations:
            priority = boosted_priority(unit)
        if most is not None and priority > most:
            priority = most
        if priority == unit.spec.priority:
            return unit
        return replace(unit, spec=replace(unit.spec, priority=priority))

    def place(
        self, unit: QueueUnit, sorted_by_plugin: OrderKey | None, lane: Lane | None = None
    ) -> OrderKey:
        """Return the position of a `bounded` unit: its order key, after its band if it has one.

        Under the policy Fair it comes after its lane, and positions of different lanes are compared
        by `PendingClasses.place`.
        """
        key = sorted_by_plugin or self.policy.order_key(unit)
        if lane is not None:
            return (lane, *key)
        if self.banded is None:
            return key
        band = self.banded.band(unit, self.api_object, self.options)
        return (min(max(band, 0), len(self.bands) - 1), *key)

    def holds_back(self, key: OrderKey) -> HoldsBack:
        """Return what a unit at that position does, while it is refused, to those behind it.

        In a queue that backfills this is NOBODY: `backfill` decides instead.
        """
        return HoldsBack.NOBODY if self.is_backfilling else self.bands[self.band_of(key)]

    def band_of(self, key: OrderKey) -> int:
        """Return the band of a position."""
        return key[0] if self.banded is not None else 0

    @property
    def asks_past_refused(self) -> bool:
        """Whether a refused unit never keeps another from being asked, whatever their positions."""
        return self.depth is None and len(self.bands) == 1 and not self.blocks


def boosted_priority(unit: QueueUnit) -> int:
    """Return a unit's priority with its boost, before any ceiling; an unreadable one is none."""
    boosted = unit.spec.priority + (read_boost(unit.metadata.annotations) or 0)
    return min(max(boosted, INT32_MIN), INT32_MAX)


def build_rules(queue: Queue, policy: QueuePolicy, options: QueueOptions) -> QueueRules:
    """Return the rules, with all that every decision reads of them several times."""
    banded = policy if is_banded(policy) else None
    bands = bands_of(policy)
    is_backfilling = options.backfill and banded is None
    blocks = HoldsBack.SAME_QUOTA in bands and not is_backfilling
    depth = options.max_depth
    if is_backfilling:
        depth = BACKFILL_DEPTH if depth is None else min(depth, BACKFILL_DEPTH)
    return QueueRules(
        api_object=queue,
        policy=policy,
        options=options,
        banded=banded,
        fair=options.fair if policy is FAIR else None,
        bands=bands,
        depth=depth,
        is_stopped=options.is_stopped,
        is_backfilling=is_backfilling,
        is_limited=options.is_stopped or banded is not None or depth is not None,
        blocks=blocks,
        lets_evict=options.preempts and (policy is PRIORITY or policy is BLOCK),
        counts_admitted=options.waits_for_pods or options.is_strict,
    )
