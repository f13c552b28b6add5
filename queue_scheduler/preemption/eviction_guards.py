"""What keeps a unit from evicting others for a time, whichever they are. Pure.

Each names the second from which it is over. A unit that fits starts at any time.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil

from queue_scheduler.decision import BEGINNING, EvictionGuard, Reason
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.preemption.eviction_rates import EvictionRates
from queue_scheduler.preemption.found_victims import FoundVictims
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import EVICTED, QUOTA_RESERVED
from shared_api.timestamps import read_past, rfc3339


def find_delay(queue: SchedulingQueue, info: QueueUnitInfo, wall: datetime) -> EvictionGuard | None:
    """Return the delay for which a unit's queue has it wait before it evicts; None: it has waited.

    An autoscaler may bring nodes in that time, so that nothing has to be evicted.
    """
    delay = queue.rules.options.eviction_delay_seconds
    since = waits_since(info.unit, wall) if delay else None
    if since is None:
        return None
    until = since + timedelta(seconds=ceil(delay))
    if until <= wall:
        return None
    return EvictionGuard(reason=Reason.EVICTION_DELAY, by=queue.name, until=rfc3339(until))


def find_shortage(
    rates: EvictionRates, queue: SchedulingQueue, found: FoundVictims, wall: datetime
) -> EvictionGuard | None:
    """Return what keeps so many victims from being evicted for units of a queue; None: nothing."""
    count = len(found.victims)
    if not (rates.is_on and count) or wall == BEGINNING:
        return None
    lacks = rates.shortage(queue.name, count, int(wall.timestamp()))
    if lacks is None:
        return None
    return EvictionGuard(
        reason=Reason.EVICTION_RATE,
        by=lacks.queue,
        until=rfc3339(datetime.fromtimestamp(lacks.until, UTC)),
        per_hour=lacks.per_hour,
        used=lacks.used,
        needed=count,
    )


def waits_since(unit: QueueUnit, now: datetime) -> datetime | None:
    """Return since when a pending unit waits; None if its object has no time in the past.

    That is its creation, by the API server, or the end of its last eviction, or when it lost its
    quota otherwise. All are in fields that no user can write. A time on hold counts as waiting.
    """
    texts: list[str] = [unit.metadata.creation_timestamp]
    had_quota = unit.status.last_allocate_time is not None
    for condition in unit.status.conditions:
        is_end = condition.type == EVICTED or (condition.type == QUOTA_RESERVED and had_quota)
        if is_end and condition.status == "False":
            texts.append(condition.last_transition_time or "")
    times = [read_past(text, now) for text in texts]
    return max((time for time in times if time is not None), default=None)
