"""What is measured on one path, and how two sides compare over all paths. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, inf, isclose, isfinite
from typing import Final

import msgspec

from queue_insight.insight.virtual_cluster import Event, EventKind, VirtualCluster
from queue_scheduler.cache.known_units import occupying_units, pending_units
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts, add
from shared_api.timestamps import read_past

LEAST_COMPARED: Final = 5
"""Paths on which both sides need a number before a difference can be told from noise."""

WAIT_P50: Final = "waitP50"
WAIT_P90: Final = "waitP90"
COMPLETED: Final = "completed"
USED: Final = "used"

Name = tuple[str, str]
"""What a number is about, and which number: ("queue/a", "waitP50")."""


class Spread(msgspec.Struct, frozen=True):
    """Quantiles over the paths; None: not reached within the horizon."""

    p10: float | None
    p50: float | None
    p90: float | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One number, without and with the edits.

    Attributes:
        before: Without the edits.
        after: With them.
        difference: After minus before, path by path; None of each without paths to compare.
        compared: On how many paths both have a value.
        is_clear: Whether at least eight of ten paths differ in the same direction; otherwise it is
            noise, or nothing changes.
    """

    before: Spread
    after: Spread
    difference: Spread
    compared: int
    is_clear: bool


def compare(before: Sequence[float], after: Sequence[float]) -> Comparison:
    """Compare two sides; `inf`: not reached. Values at one place are of one path."""
    both = zip(before, after, strict=True)
    differences = [_subtract(new, old) for old, new in both if isfinite(old) and isfinite(new)]
    spread = spread_of(differences)
    is_clear = (
        len(differences) >= LEAST_COMPARED
        and spread.p10 is not None
        and spread.p90 is not None
        and spread.p10 * spread.p90 > 0
    )
    return Comparison(
        before=spread_of(before),
        after=spread_of(after),
        difference=spread,
        compared=len(differences),
        is_clear=is_clear,
    )


def spread_of(values: Iterable[float]) -> Spread:
    """Return quantiles of some values."""
    ordered = sorted(values)
    return Spread(*(_finite(quantile(ordered, part)) for part in (0.1, 0.5, 0.9)))


def quantile(ordered: Sequence[float], part: float) -> float:
    """Return a quantile by the nearest rank; `inf` of no values."""
    if not ordered:
        return inf
    return ordered[max(0, ceil(part * len(ordered)) - 1)]


def _subtract(new: float, old: float) -> float:
    """Return the difference; 0 if it is only that of rounding."""
    return 0.0 if isclose(new, old, rel_tol=1e-9, abs_tol=1e-6) else new - old


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


class PathTally:
    """Measures one engine on one path.

    A unit's wait goes from its creation to its first admission after now. A unit that waits at the
    end has no wait yet: it counts as longer than all others.
    """

    def __init__(self) -> None:
        self._waits: dict[str, list[float]] = {}
        self._seen: set[str] = set()
        self._held: dict[str, tuple[float, Amounts]] = {}
        self._used: dict[str, float] = {}
        self._completed: dict[str, int] = {}
        self._keys_by_unit: dict[str, tuple[str, ...]] = {}
        self._cluster: VirtualCluster | None = None

    def begin(self, cluster: VirtualCluster) -> None:
        """Note what is used now."""
        self._cluster = cluster
        for record in occupying_units(cluster.engine.units):
            self._seen.add(record.uid)
            self._keys_by_unit[record.uid] = _measure_keys(cluster.engine, record.key)
            charge = cluster.engine.usage.charge_of(record.uid)
            if charge is not None:
                self._held[record.uid] = (cluster.agenda.now, charge.amounts)

    def on_event(self, event: Event) -> None:
        """Take an event of the cluster."""
        cluster, uid = self._cluster, event.unit.metadata.uid
        if cluster is None:
            return
        match event.kind:
            case EventKind.ADMITTED:
                assert isinstance(event.decision, Dequeue), "an admission is a decision"
                amounts: Amounts = {}
                for grant in event.decision.grants:
                    amounts = add(amounts, grant.amounts) if amounts else grant.amounts
                self._held[uid] = (event.now, amounts)
                places = (f"queue/{event.decision.queue}", f"quota/{event.decision.quota}")
                self._keys_by_unit[uid] = places
                if uid not in self._seen:
                    self._seen.add(uid)
                    self._wait(places, event.now - _created(cluster, event.unit))
            case EventKind.FREED:
                self._release(uid, event.now)
            case EventKind.FINISHED:
                self._release(uid, event.now)
                for place in ("", *self._keys_by_unit.get(uid, ())):
                    self._completed[place] = self._completed.get(place, 0) + 1
            case _:
                pass

    def _wait(self, places: Iterable[str], seconds: float) -> None:
        for place in places:
            self._waits.setdefault(place, []).append(seconds)

    def _release(self, uid: str, now: float) -> None:
        since, amounts = self._held.pop(uid, (now, {}))
        for resource, amount in amounts.items():
            self._used[resource] = self._used.get(resource, 0.0) + amount * (now - since)

    def end(self, seconds: float) -> Mapping[Name, float]:
        """Return the numbers; `seconds`: the horizon."""
        cluster = self._cluster
        assert cluster is not None, "it has begun"
        for uid in list(self._held):
            self._release(uid, cluster.agenda.now)
        for queue in cluster.engine.queues:
            for record in pending_units(cluster.engine.units, queue.name):
                if record.uid not in self._seen:
                    self._wait(_measure_keys(cluster.engine, record.key), inf)
        numbers: dict[Name, float] = {}
        for place, waits in self._waits.items():
            waits.sort()
            numbers[place, WAIT_P50] = quantile(waits, 0.5)
            numbers[place, WAIT_P90] = quantile(waits, 0.9)
        for place, count in self._completed.items():
            numbers[place, COMPLETED] = float(count)
        for resource, used in self._used.items():
            numbers[f"resource/{resource}", USED] = used / seconds
        return numbers


def _measure_keys(engine: Engine, key: str) -> tuple[str, ...]:
    record = engine.record(key)
    info = None if record is None else record.info
    return () if info is None else (f"queue/{info.queue}", f"quota/{info.quota}")


def _created(cluster: VirtualCluster, unit: QueueUnit) -> float:
    """Return when a unit was created, in seconds of the monotonic clock."""
    created = read_past(unit.metadata.creation_timestamp, cluster.wall)
    return cluster.agenda.now if created is None else cluster.agenda.at(created)
