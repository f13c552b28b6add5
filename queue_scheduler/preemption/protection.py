"""Which admitted units are not evicted for others, and until when. Pure.

For a time after its admission a unit is left alone: `defaultReclaimProtectTime` of the program, a
minute at least if it was evicted before, and what queues and quotas state in addition, which
depends on the unit that would evict it (`spared_by_queue`, `MinRunTimes`). The longest counts. All
of them count from the admission, which only the scheduler writes: a job could begin a time anew
that counts from when its pods run, by ending one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from math import ceil
from typing import Final, TypeAlias

from queue_scheduler.cache.unit_state import CachedUnit, UnitState, is_preemptible
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.queueing.parent_queues import with_parents
from queue_scheduler.queueing.queue_set import QueueSet
from queue_scheduler.quota.quota_decision import MinRunTime
from shared_api.queue_unit_phases import is_being_evicted, was_evicted
from shared_api.timestamps import MAX_CLOCK_SKEW, read_time, rfc3339

LEFT_ALONE_SECONDS: Final = 60.0
"""For this time a unit that was evicted before keeps its next place, whatever the protect time:
else a stream of short units that come first would stop it again and again without progress."""


class Kept(Enum):
    """Why a unit is not evicted for another now."""

    # Members are singletons; Enum's own hash is a call of Python code.
    __hash__ = object.__hash__

    NOT_PREEMPTIBLE = "NotPreemptible"
    BEING_DELETED = "BeingDeleted"
    LEAVING = "Leaving"
    """Its eviction is requested already."""
    SETTLING = "Settling"
    """Its admission is being written."""
    PROTECTED = "Protected"
    """It was admitted within the protect time."""
    LEFT_ALONE = "LeftAlone"
    """It was evicted before, and admitted again within `LEFT_ALONE_SECONDS` or the protect time."""
    MIN_RUNTIME = "MinRuntime"
    """It was admitted within the time that its queue or a quota states."""


FOR_A_TIME: Final = frozenset({Kept.PROTECTED, Kept.LEFT_ALONE, Kept.MIN_RUNTIME})
"""Reasons that end with a time after the unit's admission."""

SparedBy: TypeAlias = Callable[[QueueUnitInfo], MinRunTime | None]
"""Returns how long an admitted unit is spared by queues or quotas; None: not at all."""


class Protection:
    """Which units are not evicted, at one time.

    Args:
        wall: The time.
        protect_seconds: How long after its admission no unit is evicted.
        spared_by: For how long units are spared in addition; None: no time is stated.

    Attributes:
        wall: The time.
    """

    def __init__(
        self, wall: datetime, protect_seconds: float, spared_by: SparedBy | None = None
    ) -> None:
        self.wall = wall
        self._protect_seconds = protect_seconds
        self._spared_by = spared_by
        self._protected_from = rfc3339(wall - timedelta(seconds=protect_seconds))
        left_alone = self.seconds(is_back=True)
        self._left_alone_from = rfc3339(wall - timedelta(seconds=left_alone))
        self._latest = rfc3339(wall + MAX_CLOCK_SKEW)

    def seconds(self, *, is_back: bool) -> float:
        """Return for how long after its admission a unit is not evicted, whatever is stated.

        Args:
            is_back: Whether it was evicted before.
        """
        least = LEFT_ALONE_SECONDS if is_back else 0.0
        return max(self._protect_seconds, least)

    def until(self, record: CachedUnit, kept: Kept) -> datetime | None:
        """Return until when a unit is kept; None if its time has no end that is known."""
        granted = read_time(record.unit.status.last_allocate_time or "")
        if granted is None or kept not in FOR_A_TIME:
            return None
        spared = self.spared(record) if kept is Kept.MIN_RUNTIME else None
        if spared is not None:
            return granted + timedelta(seconds=spared.seconds)
        return granted + timedelta(seconds=self.seconds(is_back=kept is Kept.LEFT_ALONE))

    def why_kept(self, record: CachedUnit) -> Kept | None:
        """Return why a unit is not evicted now; None if it may be."""
        unit = record.unit
        if not is_preemptible(record):
            return Kept.NOT_PREEMPTIBLE
        if unit.metadata.deletion_timestamp is not None:
            return Kept.BEING_DELETED
        if is_being_evicted(unit):
            return Kept.LEAVING
        if record.state is UnitState.ASSUMED:
            return Kept.SETTLING
        granted = unit.status.last_allocate_time or ""
        if self._spared_by is not None and self._is_spared(record, granted):
            return Kept.MIN_RUNTIME
        if not self._left_alone_from < granted <= self._latest:
            return None
        if was_evicted(unit):
            return Kept.LEFT_ALONE
        return Kept.PROTECTED if granted > self._protected_from else None

    def spared(self, record: CachedUnit) -> MinRunTime | None:
        """Return the time that is stated for a unit, which may be over; None: none is."""
        if self._spared_by is None or record.info is None:
            return None
        return self._spared_by(record.info)

    def _is_spared(self, record: CachedUnit, granted: str) -> bool:
        """Return whether a unit is kept by a stated time that is longer than all others."""
        spared = self.spared(record)
        if spared is None or spared.seconds <= self.seconds(is_back=was_evicted(record.unit)):
            return False
        return rfc3339(self.wall - timedelta(seconds=spared.seconds)) < granted <= self._latest


def spared_by_queue(queues: QueueSet, queue: str) -> MinRunTime | None:
    """Return how long units of a queue are not preempted; None: no time is stated.

    That is what the queue states, or else the lowest above it that states a time.
    """
    for each in with_parents(queues, queue):
        seconds = each.rules.options.preempt_min_seconds
        if seconds is not None:
            return MinRunTime(ceil(seconds), each.name)
    return None


def spared_by_quotas(plugins: PluginRunner, quota: str) -> SparedBy | None:
    """Return how long units are spared when a quota reclaims; None: no quota states a time."""
    if not any(each.spares for each in plugins.sparing):
        return None
    found: dict[str, MinRunTime | None] = {}

    def spared_by(info: QueueUnitInfo) -> MinRunTime | None:
        if info.quota not in found:
            times = (each.min_run_time(quota, info.quota) for each in plugins.sparing)
            stated = [each for each in times if each is not None]
            found[info.quota] = max(stated, key=lambda each: each.seconds, default=None)
        return found[info.quota]

    return spared_by
