"""Complete lives in an engine with the real quota plugin, without threads or an API server.

A life: a unit is decided and charged, and its job ends, which releases the quota; in between the
API server confirms the write, if that is measured too. Either there is room, and a fixed number
runs at a time; or every queue is always full, so that a start needs a release, and every release
wakes the units that it may help. Lives are measured in batches: between them, outside the measured
time, ended units are deleted and replaced by new ones, so that the number of pending units stays
the same. The API server's later versions of a unit are built when it arrives, and the clock is read
only twice per batch, since neither is the engine's work.
"""

from __future__ import annotations

import gc
import random
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from queue_scheduler.decision import Dequeue, Refused
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts
from shared_api.testing.object_builders import elastic_quota, queue_unit
from tests.properties.engine_kit import admitted, build_queue, changed, moment

POLICIES: Final = ("Priority", "Block", "FIFO")
CHURN: Final = 64
"""The next unit to end is one of this many oldest ones, so ends are not in order of the starts."""
BATCH: Final = 50
"""Lives between two readings of the clock, which is slow on some machines."""
GIB: Final = 1024**3


@dataclass(frozen=True)
class Shape:
    """A demand that many units share."""

    cpu: int
    memory_gib: int = 0
    gpus: int = 0

    def requests(self) -> dict[str, str]:
        """Return the requests of a pod."""
        named = {
            "cpu": str(self.cpu),
            "memory": f"{self.memory_gib}Gi",
            "nvidia.com/gpu": str(self.gpus),
        }
        return {name: text for name, text in named.items() if text not in {"0", "0Gi"}}


@dataclass
class EngineLoad:
    """One engine under load. `seconds` is the CPU time of `lives`."""

    engine: Engine
    queues: list[str]
    shapes: tuple[Shape, ...]
    most_running: int | None = None
    is_confirmed: bool = False
    seconds: float = 0.0
    enqueue_seconds: float = 0.0
    lives: int = 0
    refusals: int = 0
    rests: int = 0
    wakes: int = 0
    enqueued: int = 0
    _version: int = 0
    _ready: dict[str, None] = field(default_factory=dict)
    _running: deque[Dequeue] = field(default_factory=deque)
    _ended: list[Dequeue] = field(default_factory=list)
    _picks: list[int] = field(default_factory=list)
    _written: dict[str, QueueUnit] = field(default_factory=dict)
    _over: dict[str, QueueUnit] = field(default_factory=dict)
    _rng: random.Random = field(default_factory=lambda: random.Random(7))

    def fill(self, count: int) -> None:
        """Add this many units, in turn to all queues, and start those that fit."""
        self._enqueue([self.queues[number % len(self.queues)] for number in range(count)])
        gc.collect()
        gc.freeze()  # else the collection of the caller's objects is measured
        while self._may_start():
            self._decide_one()
        self.forget_figures()

    def forget_figures(self) -> None:
        """Reset the figures."""
        self.seconds, self.lives, self.refusals, self.rests, self.wakes = 0.0, 0, 0, 0, 0

    def run(self, lives: int, *, at_most_seconds: float) -> None:
        """Play this many lives, or as many as the time allows."""
        while self.lives < lives and self.seconds < at_most_seconds:
            self._draw_picks()
            self._run_batch(self.lives + BATCH)
            for decision in self._ended:
                self._wake(self.engine.on_queue_unit_gone(self._over.pop(decision.unit)))
            self._enqueue([decision.queue for decision in self._ended])
            self._ended.clear()

    @property
    def per_second(self) -> float:
        """Return lives per second of engine time."""
        return self.lives / self.seconds

    @property
    def running(self) -> int:
        """The number of running units."""
        return len(self._running)

    def describe(self) -> str:
        """Return the counts as text."""
        return (
            f"{len(self.queues)} queues x {len(self.shapes)} classes; per life"
            f" {self.refusals / self.lives:.2f} refusals, {self.rests / self.lives:.2f} rests,"
            f" {self.wakes / self.lives:.2f} wakes; {self.running} running"
        )

    def _draw_picks(self) -> None:
        """Draw beforehand which units end next, since drawing is not the engine's work."""
        self._picks = [self._rng.randrange(CHURN) for _ in range(2 * BATCH)]

    def _run_batch(self, until: int) -> None:
        began = time.process_time()
        while self.lives < until:
            if self._may_start():
                self._decide_one()
            else:
                self._end_one()
        self.seconds += time.process_time() - began

    def _may_start(self) -> bool:
        most = self.most_running
        return bool(self._ready) and (most is None or len(self._running) < most)

    def _decide_one(self) -> None:
        queue = next(iter(self._ready))
        decision = self.engine.decide_next(queue, 0.0)
        self._wake(decision.wake)
        if isinstance(decision, Dequeue):
            written = self._written.pop(decision.unit)
            if self.is_confirmed:
                self._wake(self.engine.on_written(decision, written))
            self._running.append(decision)
            self.lives += 1
            if self.most_running is not None:  # no queue is preferred: take turns
                self._ready[queue] = self._ready.pop(queue)
        elif isinstance(decision, Refused):
            self.refusals += 1
        else:
            self.rests += 1
            self._ready.pop(queue, None)

    def _end_one(self) -> None:
        assert self._running, "nothing runs and nothing may start"
        if not self._picks:
            self._draw_picks()
        self._running.rotate(-(self._picks.pop() % len(self._running)))
        decision = self._running.popleft()
        self._wake(self.engine.on_queue_unit(self._over[decision.unit]))
        self._ended.append(decision)

    def _enqueue(self, queues: Iterable[str]) -> None:
        units = [self._new_unit(queue) for queue in queues]
        began = time.process_time()
        for unit in units:
            self._wake(self.engine.on_queue_unit(unit))
        self.enqueue_seconds += time.process_time() - began
        self.enqueued += len(units)

    def _new_unit(self, queue: str) -> QueueUnit:
        self._version += 1
        number, version = self._version, 3 * self._version
        shape = self.shapes[self._rng.randrange(len(self.shapes))]
        unit = queue_unit(
            f"job-{number}",
            namespace=f"ns-{number % 50}",
            quota=queue,
            requests=shape.requests(),
            priority=number % 3,
            metadata={
                "uid": f"uid-{number}",
                "resourceVersion": str(version),
                "creationTimestamp": moment(number % 80_000),
            },
        )
        written = admitted(unit, version + 1)
        self._written[unit.metadata.key] = written
        self._over[unit.metadata.key] = changed(written, version + 2, "Succeed", admissions=())
        return unit

    def _wake(self, queues: Iterable[str]) -> None:
        for queue in queues:
            self.wakes += 1
            self._ready[queue] = None


def flat_load(
    pending: int, queues: int = 100, *, has_room: bool = False, under_one_parent: bool = False
) -> EngineLoad:
    """Return a load in `max` mode: a quota per queue, four demands, about five running of each."""
    shapes = tuple(Shape(cpu) for cpu in (1, 2, 3, 4))
    names = [f"team-{number:03}" for number in range(queues)]
    parent = "org" if under_one_parent else ""
    quotas = [_quota(name, parent, 12, 1000 if has_room else 12) for name in names]
    if under_one_parent:
        quotas.insert(0, _quota("org", "", 12 * queues, 12 * queues, is_parent=True))
    engine = _engine(QuotaSettings(mode=QuotaMode.MAX), None, quotas, names)
    load = EngineLoad(engine, names, shapes, most_running=5 * queues if has_room else None)
    load.fill(pending + 5 * queues)
    return load


def deep_load(pending: int, settings: QuotaSettings) -> EngineLoad:
    """Return a load in `runtime` mode: 500 contending quotas in three levels (8, 72, 420).

    Of 40,000 cores, every leaf could use 300, so the leaves request three times as much, and
    pending units fifteen times as much: each division depends on the requests of all others, and
    the start of one unit waits for the end of another.
    """
    quotas = [_quota(f"o{org}", "", 2500, 10_000, is_parent=True) for org in range(8)]
    quotas += [
        _quota(f"o{org}u{unit}", f"o{org}", 250, 1500, is_parent=True)
        for org in range(8)
        for unit in range(9)
    ]
    names = []
    for number in range(420):
        parent = f"o{number % 8}u{number // 8 % 9}"
        names.append(f"{parent}t{number}")
        quotas.append(_quota(names[-1], parent, 25, 300))
    capacity = {"cpu": 40_000_000, "memory": 160_000 * GIB, "nvidia.com/gpu": 5000}
    shapes = tuple(Shape(cpu, 2 * cpu, cpu // 8) for cpu in (1, 2, 4, 8, 16))
    engine = _engine(settings, capacity, quotas, names)
    load = EngineLoad(engine, names, shapes)
    load.fill(pending)
    return load


def _quota(
    name: str, parent: str, minimum: int, maximum: int, *, is_parent: bool = False
) -> ElasticQuota:
    def amounts(cpu: int) -> dict[str, str]:
        return {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "nvidia.com/gpu": str(cpu)}

    return elastic_quota(
        name,
        min={**amounts(minimum), "nvidia.com/gpu": "0"},
        max=amounts(maximum),
        parent=parent,
        is_parent=is_parent,
        metadata={"uid": f"quota-{name}"},
    )


def _engine(
    settings: QuotaSettings,
    capacity: Amounts | None,
    quotas: Iterable[ElasticQuota],
    queues: Iterable[str],
) -> Engine:
    plugins = PluginRunner([ElasticQuotaPlugin(settings, capacity), Priority()])
    engine = Engine(plugins, BUILT_IN_POLICIES)
    for quota in quotas:
        engine.on_quota(quota)
    for number, name in enumerate(queues):
        engine.on_queue(build_queue(name, POLICIES[number % len(POLICIES)]))
    return engine
