"""Random quotas, queues and jobs in virtual time: limits hold at every event, and all jobs end."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from math import inf

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from queue_insight.insight.virtual_cluster import (
    Arrival,
    Event,
    EventKind,
    Outside,
    VirtualCluster,
)
from queue_scheduler.decision import Moment
from queue_scheduler.engine.deadlines import Timeouts, next_due
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.strict_mode import StrictMode
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.queue import AdmissionCheckReference
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import elastic_quota
from shared_api.testing.virtual_clock import EPOCH
from shared_api.well_known_labels import (
    BACKFILL,
    ENABLE_PREEMPTION,
    EVICTION_DELAY,
    EVICTIONS_PER_HOUR,
    MANAGED_BY,
    MAX_DEPTH,
    PREEMPT_MIN_RUNTIME,
    PREEMPT_RUNNING,
    PRIORITY_BOOST,
    QUOTA_NAME,
    RECLAIM_MIN_RUNTIME,
    RECLAIM_POLICY,
    WAIT_FOR_PODS_RUNNING,
)
from tests.properties.engine_kit import build_queue, build_unit, declaring
from tests.properties.real_quotas import new_engine

pytestmark = pytest.mark.properties

NAMES = ("a", "b", "c")
JOBS = 25
MICROSECOND = 1e-6
LONG_SECONDS = 1000.0
"""About as long as jobs arrive."""
PARENT = "org"


class Town:
    """Three quotas of one parent, each with a queue, and jobs of which each fits alone."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.limits = {name: rng.randint(2, 8) for name in NAMES}
        self.limits[PARENT] = rng.randint(max(self.limits.values()), 16)
        self.start = float(rng.randrange(10_000))
        self.runs: dict[str, float] = {}
        self.held: dict[str, QueueUnit] = {}
        self.seen: Counter[EventKind] = Counter()
        self.log: list[tuple[float, str, str]] = []
        write, start, stop = (rng.choice([0.0, 0.5, 20.0]) for _ in range(3))
        self.cluster = VirtualCluster(
            self._engine(),
            Moment(self.start, EPOCH),
            Outside(
                run_seconds=lambda unit, ran: self.runs[unit.metadata.name] - ran,
                write_seconds=write,
                start_seconds=start,
                stop_seconds=stop,
                check_seconds=rng.choice([0.0, 5.0]),
                node_seconds=rng.choice([0.0, 5.0]),
                timeouts=Timeouts(checks_seconds=60.0, nodes_seconds=60.0),
            ),
            self._arrivals(),
            self._on_event,
        )

    def _engine(self) -> Engine:
        rng = self.rng
        strict_ones = frozenset(rng.sample(NAMES, rng.randint(0, 1)))
        self.strict = StrictMode(is_on=True, included=strict_ones)
        engine = new_engine(QuotaSettings(mode=QuotaMode.MAX), self.strict)
        engine.queue_state.limit_evictions(rng.choice([0, 0, 5, 60]))
        engine.usage.boost_per_eviction = rng.choice([0, 0, 1])
        for name in (PARENT, *NAMES):
            is_parent, most = name == PARENT, self.limits[name]
            reclaims = {} if is_parent or rng.random() < 0.5 else {RECLAIM_POLICY: "Any"}
            if rng.random() < 0.3:
                reclaims[RECLAIM_MIN_RUNTIME] = rng.choice(["0", "20s", "5m"])
            quota = elastic_quota(
                name,
                min={"cpu": most if is_parent else rng.randint(0, most // 2)},
                max={"cpu": most},
                parent="" if is_parent else PARENT,
                is_parent=is_parent,
                metadata={"annotations": reclaims},
            )
            engine.on_quota(quota)
        for name in NAMES:
            marks = dict.fromkeys(self._switches(), "true")
            if rng.random() < 0.2:
                marks[MAX_DEPTH] = "2"
            marks |= self._guards()
            policy = rng.choice(["Priority", "Block", "FIFO", "Intelligent"])
            checks = (AdmissionCheckReference(name="check"),) if rng.random() < 0.2 else ()
            engine.on_queue(build_queue(name, policy, annotations=marks, admission_checks=checks))
        return engine

    def _switches(self) -> list[str]:
        chances = {
            ENABLE_PREEMPTION: 0.5,
            PREEMPT_RUNNING: 0.5,
            WAIT_FOR_PODS_RUNNING: 0.2,
            BACKFILL: 0.3,
        }
        return [key for key, chance in chances.items() if self.rng.random() < chance]

    def _guards(self) -> dict[str, str]:
        values = {
            PREEMPT_MIN_RUNTIME: ("20s", "5m"),
            EVICTIONS_PER_HOUR: ("1", "60"),
            EVICTION_DELAY: ("10", "2m"),
        }
        rng = self.rng
        return {key: rng.choice(some) for key, some in values.items() if rng.random() < 0.3}

    def _arrivals(self) -> Iterator[Arrival]:
        rng, now = self.rng, self.start
        for number in range(JOBS):
            now += rng.choice([0.0, 1.0, rng.uniform(0.0, 60.0)])
            quota, name = rng.choice(NAMES), f"job-{number:02}"
            self.runs[name] = rng.choice([0.0, 10.0, rng.uniform(1.0, 300.0)])
            unit = build_unit(
                name,
                quota,
                cpu=rng.randint(1, self.limits[quota]),
                priority=rng.randint(0, 4),
                annotations=(
                    ({MANAGED_BY: "koord-queue-controllers"} if rng.random() < 0.8 else {})
                    | ({PRIORITY_BOOST: str(rng.randint(-3, 3))} if rng.random() < 0.2 else {})
                ),
            )
            yield Arrival(now, declaring(unit, rng.choice([None, None, 30, 1000])))

    def _on_event(self, event: Event) -> None:
        key = event.unit.metadata.key
        self.seen[event.kind] += 1
        self.log.append((event.now, event.unit.metadata.name, event.kind))
        if event.kind is EventKind.ADMITTED:
            assert key not in self.held, f"{key} is admitted twice"
            self.held[key] = event.unit
        elif event.kind in {EventKind.FREED, EventKind.FINISHED}:
            del self.held[key]
        self.check_limits()

    def check_limits(self) -> None:
        """Check the limits by the objects alone."""
        used: Counter[str] = Counter()
        for unit in self.held.values():
            cpu = int(str(unit.spec.request["cpu"]))
            used[unit.metadata.labels[QUOTA_NAME]] += cpu
            used[PARENT] += cpu
        over = {name: got for name, got in used.items() if got > self.limits[name]}
        assert over == {}, f"more is used than the limits {self.limits}: {over}"


@settings(max_examples=60)
@given(seed=st.integers(0, 100_000))
def test_no_limit_is_exceeded_and_every_job_ends(seed: int) -> None:
    town = Town(seed)
    town.cluster.run()
    town.cluster.engine.validate()
    assert town.seen[EventKind.ARRIVED] == JOBS
    assert town.seen[EventKind.FINISHED] == JOBS, (
        f"left: {sorted(town.cluster.engine.units.records)}"
    )
    assert town.held == {}


@settings(max_examples=15)
@given(seed=st.integers(0, 100_000))
def test_a_repeated_run_is_the_same(seed: int) -> None:
    first, second = Town(seed), Town(seed)
    first.cluster.run()
    second.cluster.run()
    assert first.log == second.log


@settings(max_examples=25)
@given(seed=st.integers(0, 100_000), steps=st.integers(1, 40))
@example(seed=26, steps=13)
def test_no_timer_of_the_engine_is_forgotten(seed: int, steps: int) -> None:
    """What looks at all units, as `next_due` does, never finds one that is overdue."""
    town = Town(seed)
    cluster, timeouts = town.cluster, Timeouts(checks_seconds=60.0, nodes_seconds=60.0)
    for _ in range(steps):
        if cluster.agenda.next_at == inf:
            return
        cluster.run(cluster.agenda.next_at)
        moment = Moment(cluster.agenda.now, cluster.wall)
        due = next_due(cluster.engine, timeouts, moment)
        # Of two times that are nanoseconds apart, only one has come.
        is_next = cluster.agenda.next_at - cluster.agenda.now < MICROSECOND
        assert due is None or due.at > moment.wall or is_next, due
        assert due is None or cluster.agenda.at(due.at) >= cluster.agenda.next_at - MICROSECOND


@settings(max_examples=25)
@given(seed=st.integers(0, 100_000), share=st.floats(0.0, 1.0))
def test_a_fork_ends_as_its_engine_would(seed: int, share: float) -> None:
    """The fork is taken at any time, also in the middle of writes, rounds and backoffs."""
    town = Town(seed)
    town.cluster.run(town.start + share * LONG_SECONDS)
    twin = town.cluster.engine.fork()
    moment = Moment(town.cluster.agenda.now, town.cluster.wall)
    waiting = len(twin.units.records)
    finished: list[str] = []

    def note(event: Event) -> None:
        if event.kind is EventKind.FINISHED:
            finished.append(event.unit.metadata.name)

    outside = Outside(run_seconds=lambda unit, ran: town.runs[unit.metadata.name] - ran)
    VirtualCluster(twin, moment, outside, on_event=note).run()
    twin.validate()
    assert len(finished) == waiting
