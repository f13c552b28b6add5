"""Places a unit again whatever is kept of it: even if a change that a plugin broke lost its place.

`UnitCache.leave` undoes `enter`, so it needs a unit in its place. A change that raises between the
two leaves a unit in none, under a record that says otherwise.
"""

from __future__ import annotations

from msgspec.structs import replace

from queue_scheduler.cache.pod_accounting import is_charged_by_labels
from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import CachedUnit, UnitState, judge
from queue_scheduler.cache.usage import Usage
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit


def is_in_place(units: UnitCache, record: CachedUnit) -> bool:
    """Return whether a unit is in the queue, the count or the waits of its state."""
    if record.waits_for and not units.fact_waits.has(record.key, record.waits_for[0]):
        return False
    info = record.info
    if record.state is UnitState.WAITING:
        queue = None if info is None else units.queues.find(info.queue)
        return queue is not None and info is not None and info in queue.pending
    if record.occupies and info is not None:
        return info.key in units.admitted
    return record.state is not UnitState.DETACHED


def place_anew(units: UnitCache, unit: QueueUnit, version: int, record: CachedUnit | None) -> None:
    """Place a unit and charge it, whatever was charged, even if it is not `is_in_place`.

    While a write is in flight, or has met a conflict, the state is kept: what is charged for the
    write must stay, until its answer comes.

    Args:
        units: Where it is placed.
        unit: Its newest object.
        version: The object's resourceVersion.
        record: Its earlier record; None if it was unknown.
    """
    uid = unit.metadata.uid
    if record is not None and version <= record.version and _awaits_answer(record):
        units.usage.void(uid)
        units.charges.charge(uid, record)
        return
    units.usage.pods.on_unit(unit, None if record is None else record.unit)
    units.leave(None if record is None else _in_place(units, record))
    units.usage.void(uid)
    units.place(unit, version, judge(unit), record)


def forget_anyhow(units: UnitCache, record: CachedUnit) -> None:
    """Forget a unit that does not exist, even if it is not `is_in_place`."""
    units.forget(_in_place(units, record))


def _in_place(units: UnitCache, record: CachedUnit) -> CachedUnit:
    """Return a record that can leave: of a unit that is not in its place, one without."""
    if is_in_place(units, record):
        return record
    return replace(record, state=UnitState.DETACHED, hold=None, waits_for=())


def _awaits_answer(record: CachedUnit) -> bool:
    """Return whether a write is in flight for a unit, or its answer is to be followed by news."""
    if record.granting is not None:
        return True
    return record.state is UnitState.ASSUMED or record.state is UnitState.CONFLICT


def charge_left_anew(usage: Usage, uid: Uid) -> None:
    """Charge the living pods of a unit that does not exist, whatever was charged."""
    known = usage.charge_of(uid)
    usage.void(uid)
    if known is None or is_charged_by_labels(uid):
        usage.charge_left_behind(uid)
    else:
        usage.charge_living(uid, known.account, non_preemptible=known.non_preemptible)
