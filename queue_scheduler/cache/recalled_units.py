"""What another process knew of units and queues, and their objects do not say."""

from __future__ import annotations

from msgspec.structs import replace

from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.framework.extension_points import AdmissionRecord


def recall_quota(units: UnitCache, record: CachedUnit, quota: str) -> None:
    """Charge an admitted unit to a quota."""
    info = record.info
    assert info is not None, f"{record.key} occupies quota without a demand"
    units.leave(record)
    recalled = replace(record, info=replace(info, quota=quota))
    units.enter(recalled)
    units.charges.charge(record.uid, recalled)


def recall_admission(units: UnitCache, key: str, on: AdmissionRecord) -> None:
    """Note what a unit was admitted on, if it is admitted."""
    record = units.records.get(key)
    if record is not None and record.state is UnitState.ADMITTED:
        units.records[key] = replace(record, admitted_on=on)


def recall_turn(
    units: UnitCache, queue_name: str, generation: int, served: int, backs_off: float | None
) -> None:
    """Put a queue at its place among the turns (`Turns.resume`)."""
    units.queues.turns.resume(queue_name, generation, served, backs_off)
    refresh_turn(units, queue_name)


def refresh_turn(units: UnitCache, queue_name: str) -> None:
    """Have the turn of a queue looked up again with the next fact."""
    units.changed_queues[queue_name] = None
