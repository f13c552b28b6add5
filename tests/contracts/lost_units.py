"""Counts how often a released pod lacks one unit.

    python -m tests.contracts.lost_units [SEEDS] [quiet] [devices]

koord-scheduler up to 1.8 rounds shares half up, which loses single units, and refreshes quotas one
by one. So what a queue promises and what the scheduler gives at one moment may differ by a unit in
either direction. Here jobs arrive and end in random trees, the real quota cache releases them, and
a model of the scheduler judges their pods: with no tolerance, with that of the quota cache, and
with one for every lost unit.

A turn is a second. A job's pods are created together, judged in order, and judged again each turn
while they are refused, since something happens in a cluster every second; every tenth turn all
leaves are refreshed. `quiet` has a tenth of the jobs, which run eight times as long. `devices` has
quotas of devices without a min, where nothing brings a lost one.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

import pytest

from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaSettings, Rounding
from queue_scheduler.quota.runtime_division import Claim, divide, scaled_min
from queue_scheduler.quota_cache import level_division
from queue_scheduler.quota_cache.level_division import LevelDivision
from queue_scheduler.quota_cache.limit_checks import SUM_REASONS
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from queue_scheduler.quota_cache.tree_usage import NodeUsage
from tests.properties.quota_cases import build_quota

REFRESH_TURNS: Final = 10
STUCK_TURNS: Final = 60


class Goods(NamedTuple):
    """What jobs ask for: the resource, and the base units of a pod; `unit` is a whole one."""

    key: str
    unit: int
    sizes: tuple[int, ...]
    has_min: bool


CPU_SIZES: Final = (10, 50, 100, 125, 250, 333, 500, 750, 1000, 1500, 2000, 4000)
CPU: Final = Goods("cpu", 1000, CPU_SIZES, has_min=True)
DEVICES: Final = Goods("nvidia.com/gpu", 1, (1, 1, 1, 2, 4), has_min=False)


class Pace(NamedTuple):
    """The load: number of turns, jobs per turn, and how long they run."""

    turns: int
    arrivals: float
    shortest: int
    longest: int


BUSY: Final = Pace(turns=200, arrivals=0.4, shortest=20, longest=120)
QUIET: Final = Pace(turns=1000, arrivals=0.04, shortest=160, longest=960)


@dataclass
class Job:
    """A job with its pods that are not yet bound."""

    number: int
    quota: str
    pod: int
    count: int
    ends_at: int
    pending: int = 0
    released_at: int = 0


@dataclass
class Counts:
    """Jobs by outcome, and the turns that they lost; "one" is one base unit."""

    arrived: int = 0
    released: int = 0
    waited_for_one: int = 0
    """Jobs that the queue refused for one unit of a runtime."""
    queue_turns: int = 0
    """Turns in which this happened."""
    refused_for_one: int = 0
    """Released jobs with a pod that the scheduler refused for one unit."""
    pod_turns: int = 0
    """Turns in which this happened."""
    stuck_for_one: int = 0
    """Those for which this still holds a minute later."""
    refused_for_more: int = 0

    def add(self, other: Counts) -> None:
        """Add the counts of another run."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def describe(self) -> str:
        """Return all counts as text."""
        return ", ".join(f"{each.name} {getattr(self, each.name)}" for each in fields(self))


class LazyScheduler:
    """The state of koord-scheduler 1.8 for one resource, which it refreshes one chain at a time.

    Source: koordinator v1.8.0, pkg/scheduler/plugins/elasticquota/core: group_quota_manager.go
    (refreshRuntimeNoLock), scale_minquota_when_over_root_res.go, runtime_quota_calculator.go.
    """

    def __init__(self, key: str, total: int) -> None:
        self.key, self.total = key, total
        self.own: dict[str, int] = {}
        self.used: dict[str, int] = {}
        self.floors: dict[str, int] = {}

    def limited(self, node: NodeUsage) -> int:
        """Return what a quota requests from its parent."""
        asked = self.own.get(node.name, 0) + sum(map(self.limited, node.children))
        return min(asked, node.spec.max.get(self.key, 0))

    def refresh(self, leaf: NodeUsage) -> int:
        """Compute the runtimes of a chain; return the leaf's. Siblings keep their old floors."""
        total = self.total
        for node in reversed(leaf.chain):
            parent = node.parent
            assert parent is not None
            minimum = node.spec.min.get(self.key, 0)
            mins = sum(child.spec.min.get(self.key, 0) for child in parent.children)
            self.floors[node.name] = (
                scaled_min(total, minimum, mins) if minimum and total < mins else minimum
            )
            claims = [
                Claim(
                    child.spec.weight.get(self.key, 0),
                    self.limited(child),
                    self.floors.get(child.name, child.spec.min.get(self.key, 0)),
                    lends=True,
                )
                for child in parent.children
            ]
            granted = divide(total, claims, Rounding.HALF_UP)
            total = granted[parent.children.index(node)]
        return total

    def missing(self, leaf: NodeUsage, pod: int) -> int:
        """Return how much a pod of this size lacks; it passes with 0 or less."""
        return self.used.get(leaf.name, 0) + pod - self.refresh(leaf)


class World:
    """One random tree with its queue and its scheduler."""

    def __init__(self, seed: int, pace: Pace, goods: Goods = CPU) -> None:
        self.pace, self.goods = pace, goods
        self.rng = rng = random.Random(seed)
        self.counts = Counts()
        self.seen: set[tuple[str, int]] = set()
        self.quotas = QuotaCache(QuotaSettings(rounding_override=Rounding.HALF_UP))
        self.leaves: list[str] = []
        total = rng.choice([20, 50, 100]) * goods.unit
        for parent in "pq"[: rng.choice([1, 1, 2])]:
            self._add_parent(parent, total)
        self.quotas.on_capacity({goods.key: total})
        tree = self.quotas.trees.trees[""]
        self.nodes = tree.nodes
        self.scheduler = LazyScheduler(goods.key, total)
        self.waiting: list[Job] = []
        self.running: list[Job] = []

    def _add_parent(self, parent: str, total: int) -> None:
        rng, whole = self.rng, total // self.goods.unit
        most = rng.randint(whole // 3, whole)
        least = rng.randint(0, most)
        self._add_quota(parent, least, most)
        for number in range(rng.randint(2, 6)):
            name = f"{parent}{number}"
            high = rng.randint(2, most)
            low = rng.randint(0, min(high, max(1, least // 3)))
            self._add_quota(name, low, high, parent)
            self.leaves.append(name)

    def _add_quota(self, name: str, low: int, high: int, parent: str = "") -> None:
        key = self.goods.key
        quota = build_quota(
            name,
            minimum={key: low} if self.goods.has_min else {},
            maximum={key: high},
            parent=parent,
            is_parent=not parent,
        )
        self.quotas.on_quota(quota)

    def run(self) -> Counts:
        """Simulate some minutes."""
        for turn in range(self.pace.turns):
            self._end(turn)
            if self.rng.random() < self.pace.arrivals:
                self._arrive(turn)
            self._release(turn)
            for job in self.running:
                self._judge(job, turn)
            if turn % REFRESH_TURNS == 0:
                leaves = list(self.leaves)
                self.rng.shuffle(leaves)
                for leaf in leaves:
                    self.scheduler.refresh(self.nodes[leaf])
        return self.counts

    def _arrive(self, turn: int) -> None:
        self.counts.arrived += 1
        job = Job(
            self.counts.arrived,
            self.rng.choice(self.leaves),
            self.rng.choice(self.goods.sizes),
            self.rng.randint(1, 4),
            turn,
        )
        self.waiting.append(job)

    def _release(self, turn: int) -> None:
        for job in list(self.waiting):
            demand = Demand({self.goods.key: job.pod * job.count})
            refusal = self.quotas.check(job.quota, demand)
            if refusal is not None:
                if refusal.missing == 1 and refusal.reason not in SUM_REASONS:
                    self._count("waited_for_one", job)
                    self.counts.queue_turns += 1
                continue
            self.waiting.remove(job)
            self.quotas.charge(str(job.number), job.quota, demand)
            self.counts.released += 1
            job.pending = job.count
            job.released_at = turn
            job.ends_at = turn + self.rng.randint(self.pace.shortest, self.pace.longest)
            self.running.append(job)
            own = self.scheduler.own
            own[job.quota] = own.get(job.quota, 0) + job.pod * job.count

    def _judge(self, job: Job, turn: int) -> None:
        node, used = self.nodes[job.quota], self.scheduler.used
        for _ in range(job.pending):
            missing = self.scheduler.missing(node, job.pod)
            if missing <= 0:
                used[job.quota] = used.get(job.quota, 0) + job.pod
                job.pending -= 1
                continue
            self.counts.pod_turns += missing == 1
            self._count("refused_for_one" if missing == 1 else "refused_for_more", job)
            if missing == 1 and turn - job.released_at >= STUCK_TURNS:
                self._count("stuck_for_one", job)

    def _count(self, what: str, job: Job) -> None:
        key = (what, job.number)
        if key not in self.seen:
            self.seen.add(key)
            setattr(self.counts, what, getattr(self.counts, what) + 1)

    def _end(self, turn: int) -> None:
        for job in [job for job in self.running if turn >= job.ends_at]:
            self.running.remove(job)
            self.quotas.release(str(job.number))
            amount = job.pod * job.count
            self.scheduler.own[job.quota] -= amount
            bound = job.pod * (job.count - job.pending)
            self.scheduler.used[job.quota] = self.scheduler.used.get(job.quota, 0) - bound


@contextmanager
def without_tolerance() -> Iterator[None]:
    """Have the quota cache use the scheduler's bare division."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(level_division, "TOLERATED", frozenset())
        yield


@contextmanager
def with_all_tolerance() -> Iterator[None]:
    """Have the quota cache hand out every unit that rounding loses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LevelDivision, "_is_tolerant", lambda *_: True)
        yield


def count(seeds: Iterable[int], pace: Pace = BUSY, goods: Goods = CPU) -> Counts:
    """Run these worlds and return the sum of their counts."""
    total = Counts()
    for seed in seeds:
        total.add(World(seed, pace, goods).run())
    return total


def main(arguments: list[str]) -> int:
    """Print all counts."""
    numbers = [int(each) for each in arguments if each.isdecimal()]
    seeds = range(numbers[0] if numbers else 400)
    pace = QUIET if "quiet" in arguments else BUSY
    goods = DEVICES if "devices" in arguments else CPU
    with without_tolerance():
        print(f"without a tolerance: {count(seeds, pace, goods).describe()}")
    print(f"with the tolerance: {count(seeds, pace, goods).describe()}")
    with with_all_tolerance():
        print(f"with one for every unit: {count(seeds, pace, goods).describe()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
