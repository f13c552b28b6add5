"""Since when each unit is charged, by its object and its pods. Pure.

A process that has just started charges units that were admitted long ago. What it has not seen, it
reads from their objects: their times are the best that there is.
"""

from __future__ import annotations

from collections.abc import Iterator

from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.cache.usage import Charge
from shared_api.objects.meta import Uid
from shared_api.timestamps import read_seconds


def date_charges(units: UnitCache, now: int) -> Iterator[tuple[Uid, int, Charge]]:
    """Yield all charges as (uid, since, charge); `since` is a second, `now` if it is unknown.

    An admitted unit is charged since its admission, and living pods without one since the first of
    them was created. Times are between the creation of the object and `now`.
    """
    usage = units.usage
    admitted: dict[Uid, int] = {}
    for record in units:
        if record.state is UnitState.ADMITTED:
            unit = record.unit
            since = _read_second(unit.status.last_allocate_time, now)
            created = _read_second(unit.metadata.creation_timestamp, 0)
            admitted[record.uid] = min(max(since, created), now)
    for uid in usage:
        charge = usage.charge_of(uid)
        assert charge is not None, f"{uid} is charged nothing"
        yield uid, (admitted[uid] if uid in admitted else _first_pod(units, uid, now)), charge


def _first_pod(units: UnitCache, uid: Uid, now: int) -> int:
    pods = units.usage.pods
    found = (pods.find(key, None).facts for key, _ in pods.pods_of(uid))
    times = (_read_second(facts.created, now) for facts in found if facts is not None)
    return max(0, min((*times, now)))


def _read_second(text: str | None, unknown: int) -> int:
    seconds = read_seconds(text)
    return unknown if seconds is None else int(seconds)
