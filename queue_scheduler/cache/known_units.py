"""Questions about all units that the engine knows, in whatever state. Pure.

They only read; a record is never changed, so it may be kept. `for record in units` yields all of
them, in no particular order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.framework.queue_unit_info import OrderKey, unit_key


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
