"""Questions about all units that the engine knows, in whatever state. Pure.

They only read; a record is never changed, so it may be kept. `for record in units` yields all of
them, in no particular order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.queue_unit_info import OrderKey, unit_key
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts


def units_by_key(units: UnitCache) -> Mapping[str, CachedUnit]:
    """Return the units by `namespace/name`, for reading: it follows their changes.

    Nothing else of the engine is kept alive by it. A record makes its key anew when asked for it,
    so a loop that needs the keys of most units takes them from here.
    """
    return units.records


def in_key_order(units: UnitCache) -> list[CachedUnit]:
    """Return the units by `namespace/name`, in an order that is the same in each process."""
    return [units.records[key] for key in sorted(units.records)]


def occupying_units(units: UnitCache) -> Iterator[CachedUnit]:
    """Yield the units that are charged for what they were granted: admitted and assumed ones."""
    return (record for record in units if record.occupies)


def unit_at(units: UnitCache, place: OrderKey) -> CachedUnit:
    """Return the pending unit that has this place in its queue."""
    return units.records[unit_key(place)]


def last_version(units: UnitCache) -> int:
    """Return the highest resourceVersion of the units; 0 if there are none."""
    return max((record.version for record in units), default=0)


def pending_units(units: UnitCache, queue_name: str) -> Iterator[CachedUnit]:
    """Yield the pending units of a queue lazily, in order."""
    queue = units.queues.find(queue_name)
    keys: Iterable[OrderKey] = queue.pending.in_order() if queue is not None else ()
    return (units.records[unit_key(key)] for key in keys)


def count_pending(units: UnitCache, queue_name: str) -> int:
    """Return how many units are pending in a queue, or on hold for it."""
    queue = units.queues.find(queue_name)
    return (queue.pending.length if queue is not None else 0) + units.held.total(queue_name)


def count_admitted(units: UnitCache, queue_name: str) -> int:
    """Return how many units that were admitted through a queue occupy quota."""
    return units.admitted.count(queue_name)


def count_held(units: UnitCache, queue_name: str) -> Mapping[Reason, int]:
    """Return how many units of a queue are on hold, by reason; "" for those of no queue."""
    return units.held.by_reason(queue_name)


def held_for(units: UnitCache, queue_name: str) -> tuple[str, ...]:
    """Return the keys of the units that a fact about a queue may bring off hold."""
    return units.fact_waits.keys(f"queue/{queue_name}")


def quotas_in_use(units: UnitCache, queue: SchedulingQueue) -> list[str]:
    """Return the quotas of the units that are pending in a queue or were admitted through it."""
    return [*queue.pending.by_quota, *units.admitted.quotas_of(queue.name)]


def charged_elsewhere(units: UnitCache, record: CachedUnit) -> dict[str, Amounts]:
    """Return what is charged to other quotas than a unit's, since its living pods name them."""
    return units.charges.elsewhere(record)


def place_in(units: UnitCache, queue: SchedulingQueue, unit: QueueUnit) -> OrderKey:
    """Return the place that a unit would have in a queue."""
    return units.builder.place_in(queue, unit)


def every_hold(units: UnitCache, record: CachedUnit) -> Iterator[Refusal]:
    """Yield all that would put a unit on hold; its record says only the first."""
    return units.builder.every_hold(record)
