"""Which units are evicted for the windows of reservations. Pure questions.

They are asked at a time, and not when something happens: who leads next finds what is left to be
done, and a unit that comes to run in a window by whatever way is evicted as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.engine.engine import Engine
from queue_scheduler.reservations.reservation_rules import describe_span
from queue_scheduler.reservations.windows import EvictingWindows
from shared_api.queue_unit_phases import is_being_evicted


def find_units(engine: Engine, second: int) -> Iterator[tuple[CachedUnit, str]]:
    """Yield the units that are to be evicted at a second since the epoch, each with why.

    Those that are being evicted are left out.
    """
    windows = engine.usage.windows.evicting(second)
    for record in engine.units if windows else ():
        why = _find_reason(engine, record, windows)
        if why is not None:
            yield record, why


def find_reason(engine: Engine, record: CachedUnit, second: int) -> str | None:
    """Return why a unit is to be evicted at a second, as a text for users; None: it is not."""
    return _find_reason(engine, record, engine.usage.windows.evicting(second))


def _find_reason(engine: Engine, record: CachedUnit, windows: EvictingWindows) -> str | None:
    charge = engine.usage.charge_of(record.uid)
    if charge is None or record.state is not UnitState.ADMITTED or is_being_evicted(record.unit):
        return None
    found = windows.of_quota(charge.quota)
    if found is None:
        return None
    rule, window = found
    return (
        f"makes way for the window of QueueReservation {rule.name} ({describe_span(window)}), in"
        " which no unit must run"
    )
