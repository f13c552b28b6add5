"""Since when each unit is charged, by its object and its pods. Pure.

A process that has just started charges units that were admitted long ago. What it has not seen, it
reads from their objects: their times are the best that there is.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from heapq import merge
from typing import Final, TypeAlias

from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.cache.usage import Charge
from shared_api.objects.meta import Uid
from shared_api.timestamps import read_seconds

Dated: TypeAlias = tuple[Uid, int, Charge]
"""A charge: (uid, since, charge), where `since` is a second."""

RECORDS: Final = 16
"""Units that one step looks at."""

RUN: Final = 64
"""Charges that one step sorts."""


def date_charges(units: UnitCache, now: int) -> Iterator[Dated]:
    """Yield all charges in the order of their seconds; the second is `now` if it is unknown.

    An admitted unit is charged since its admission, and living pods without one since the first of
    them was created. Times are between the creation of the object and `now`.
    """
    steps = dating(units, tuple(units), units.usage.charges, now)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            yield from end.value
            return


def dating(
    units: UnitCache, records: Sequence[CachedUnit], charges: Mapping[Uid, Charge], now: int
) -> Generator[None, None, list[Dated]]:
    """Return the same, found in steps of some microseconds.

    Args:
        units: Has the pods.
        records: The units as they are.
        charges: The charges as they are.
        now: The present second.
    """
    admitted: dict[Uid, int] = {}
    for start in range(0, len(records), RECORDS):
        for record in records[start : start + RECORDS]:
            if record.state is UnitState.ADMITTED:
                admitted[record.uid] = _since_admission(record, now)
        yield
    seconds: list[tuple[int, Uid]] = []
    for uid in charges:
        known = admitted.get(uid)
        seconds.append((_first_pod(units, uid, now) if known is None else known, uid))
        yield
    runs: list[list[tuple[int, Uid]]] = []
    for start in range(0, len(seconds), RUN):
        runs.append(sorted(seconds[start : start + RUN]))
        yield
    dated: list[Dated] = []
    for since, uid in merge(*runs):
        dated.append((uid, since, charges[uid]))
        yield
    return dated


def _since_admission(record: CachedUnit, now: int) -> int:
    unit = record.unit
    since = _read_second(unit.status.last_allocate_time, now)
    created = _read_second(unit.metadata.creation_timestamp, 0)
    return min(max(since, created), now)


def _first_pod(units: UnitCache, uid: Uid, now: int) -> int:
    pods = units.usage.pods
    found = (pods.find(key, None).facts for key, _ in pods.pods_of(uid))
    times = (_read_second(facts.created, now) for facts in found if facts is not None)
    return max(0, min((*times, now)))


def _read_second(text: str | None, unknown: int) -> int:
    seconds = read_seconds(text)
    return unknown if seconds is None else int(seconds)
