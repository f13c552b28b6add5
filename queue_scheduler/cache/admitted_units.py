"""Which units occupy quota, by queue and by quota, so that victims are found quickly.

Of ten thousand running units, a preemptor needs a few of the lowest priority. So they are kept in
buckets, by the main costs of their eviction: priority, and whether all their pods run. New units
are put into buckets at the next question, so that a decision does not take that time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias

from queue_scheduler.cache.unit_state import CachedUnit
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import Phase, is_being_evicted

Bucket: TypeAlias = tuple[int, bool]
"""Priority, and whether all pods run: sorted by what an eviction costs."""

Buckets: TypeAlias = dict[Bucket, dict[str, None]]
"""Keys of units."""

Batch: TypeAlias = tuple[Bucket, Iterable[str]]
"""Keys of units of a bucket; they may be read several times."""

_NONE: Final[Mapping[str, Buckets]] = {}


class AdmittedUnits:
    """Keys of the units that occupy quota; `add` and `remove` are each other's undo.

    Attributes:
        leaving: Keys of the units whose eviction was requested and is not carried out yet.
        left: How many of them have been removed so far.
        changes: How often a unit was removed, or its bucket or labels changed.
    """

    def __init__(self) -> None:
        self.leaving: dict[str, None] = {}
        self.left = 0
        self.changes = 0
        # Units that were added since the last question; the others are in buckets.
        self._fresh: dict[str, CachedUnit] = {}
        self._bucket_of: dict[str, Bucket] = {}
        # Of a queue by quota, and of a quota by queue: the same buckets in both.
        self._by_queue: dict[str, dict[str, Buckets]] = {}
        self._by_quota: dict[str, dict[str, Buckets]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._fresh or key in self._bucket_of

    def count(self, queue: str) -> int:
        """Return how many units came through a queue."""
        return sum(len(keys) for buckets in self.of_queue(queue) for keys in buckets.values())

    def quotas_of(self, queue: str) -> tuple[str, ...]:
        """Return the quotas to which the units are charged that came through a queue."""
        self._sort_in()
        return tuple(self._by_queue.get(queue, ()))

    def of_queue(self, queue: str) -> Collection[Buckets]:
        """Return the units that came through a queue."""
        self._sort_in()
        return self._by_queue.get(queue, {}).values()

    def of_quota(self, quota: str) -> Collection[Buckets]:
        """Return the units that are charged to a quota."""
        self._sort_in()
        return self._by_quota.get(quota, {}).values()

    def add(self, record: CachedUnit) -> None:
        """Take a unit that occupies quota."""
        info = record.info
        if info is None:
            return
        self._fresh[info.key] = record
        if is_being_evicted(record.unit):
            self.leaving[info.key] = None

    def remove(self, record: CachedUnit) -> None:
        """Forget a unit; buckets and names without units are dropped."""
        info = record.info
        if info is None:
            return
        self.changes += 1
        if info.key in self.leaving:
            del self.leaving[info.key]
            self.left += 1
        if self._fresh.pop(info.key, None) is not None:
            return
        bucket = self._bucket_of.pop(info.key)
        buckets = self._by_queue[info.queue][info.quota]
        keys = buckets[bucket]
        del keys[info.key]
        if not keys:
            del buckets[bucket]
            if not buckets:
                self._close(info.queue, info.quota)

    def replace(self, before: CachedUnit, after: CachedUnit) -> None:
        """Take a newer object of a unit that stays admitted."""
        is_leaving = is_being_evicted(after.unit)
        key = after.key
        # Whether a question has sorted it in meanwhile must make no difference.
        fresh = self._fresh.get(key)
        bucket = self._bucket_of.get(key) if fresh is None else bucket_of(fresh)
        if bucket != bucket_of(after) or is_leaving != (key in self.leaving):
            self.remove(before)
            self.add(after)
        elif before.unit.metadata.labels != after.unit.metadata.labels:
            self.changes += 1

    def _sort_in(self) -> None:
        for key, record in self._fresh.items():
            info = record.info
            assert info is not None, f"{key} occupies quota without a demand"
            buckets = self._by_queue.get(info.queue, _NONE).get(info.quota)
            if buckets is None:
                buckets = self._open(info.queue, info.quota)
            bucket = self._bucket_of[key] = bucket_of(record)
            buckets.setdefault(bucket, {})[key] = None
        self._fresh.clear()

    def _open(self, queue: str, quota: str) -> Buckets:
        buckets: Buckets = {}
        self._by_queue.setdefault(queue, {})[quota] = buckets
        self._by_quota.setdefault(quota, {})[queue] = buckets
        return buckets

    def _close(self, queue: str, quota: str) -> None:
        for index, name, other in (
            (self._by_queue, queue, quota),
            (self._by_quota, quota, queue),
        ):
            del index[name][other]
            if not index[name]:
                del index[name]

    def fork(self) -> AdmittedUnits:
        """Return an independent copy."""
        self._sort_in()
        twin = AdmittedUnits()
        twin.leaving = dict(self.leaving)
        twin.left = self.left
        twin.changes = self.changes
        twin._bucket_of = dict(self._bucket_of)
        for queue, by_quota in self._by_queue.items():
            for quota, buckets in by_quota.items():
                copies = {bucket: dict(keys) for bucket, keys in buckets.items()}
                twin._open(queue, quota).update(copies)
        return twin

    def validate(self, records: Iterable[CachedUnit]) -> None:
        """Index again; raise AssertionError with the story if it differs."""
        fresh = AdmittedUnits()
        for record in records:
            if record.occupies:
                fresh.add(record)
        self._sort_in()
        fresh._sort_in()
        assert self._by_queue == fresh._by_queue, "units that occupy quota differ by queue"
        assert self._by_quota == fresh._by_quota, "units that occupy quota differ by quota"
        assert self._bucket_of == fresh._bucket_of, "buckets of units that occupy quota differ"
        leaving = set(fresh.leaving)
        assert set(self.leaving) == leaving, f"{set(self.leaving)} are leaving, should be {leaving}"


def in_buckets(
    all_buckets: Iterable[Buckets], below: int | None, *, running: bool = True
) -> Iterator[Batch]:
    """Iterate over buckets with the keys in them, the cheapest first; to be read at once.

    Args:
        all_buckets: Of one queue, or of several quotas.
        below: Only priorities below this; None: all.
        running: Whether those as well whose pods all run.
    """
    found = list(all_buckets)
    for bucket in sorted({bucket for buckets in found for bucket in buckets}):
        if below is not None and bucket[0] >= below:
            return
        if bucket[1] and not running:
            continue
        yield bucket, _Chained([buckets[bucket] for buckets in found if bucket in buckets])


class _Chained:
    """The keys of one bucket, not gathered: mostly the first bucket has more than are needed."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Iterable[str]]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._parts)


def bucket_of(record: CachedUnit) -> Bucket:
    """Return what an eviction of the unit costs first."""
    return record.victim_priority, runs_whole(record.unit)


def runs_whole(unit: QueueUnit) -> bool:
    """Return whether the unit runs: its phase says so, or all pods that it was granted do."""
    if unit.status.phase == Phase.RUNNING:
        return True
    admissions = unit.status.admissions
    return bool(admissions) and all(each.running >= each.replicas for each in admissions)
