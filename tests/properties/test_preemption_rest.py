"""Queues that preempt and quotas that reclaim, asked only when woken or when their time has come.

When everything has come to rest, no unit that is asked once more could start, or have others
evicted: a forgotten wake or timer shows here.
"""

from __future__ import annotations

import random
from datetime import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_scheduler.decision import Decision, Dequeue, Preempt, Refused, Rest
from queue_scheduler.preemption.nomination import for_whom_mark
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import elastic_quota
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import (
    AVAILABLE_QUOTA,
    BACKFILL,
    ENABLE_PREEMPTION,
    MAX_DEPTH,
    MAX_PRIORITY,
    PREEMPT_RUNNING,
    PREEMPTIBLE,
    RECLAIM_POLICY,
    STOP_POLICY,
    WAIT_FOR_PODS_RUNNING,
)
from tests.properties.engine_kit import (
    WALL,
    Workers,
    admitted,
    build_queue,
    build_unit,
    changed,
    running,
    wall_time,
)
from tests.properties.real_quotas import new_engine

pytestmark = pytest.mark.properties

NAMES = ("a", "b", "c")
LEAVE_SECONDS = 100.0
"""How long a victim takes to leave."""

REST_SECONDS = 700.0
"""Longer than room is kept, and than a unit rests."""

EVICTED = "Evicted"


class Town:
    """Three queues, three quotas of one parent, and units that arrive, run, leave or are edited."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.units: dict[str, QueueUnit] = {}
        self.version = 1
        mode = self.rng.choice([QuotaMode.MAX, QuotaMode.RUNTIME])
        self.engine = new_engine(QuotaSettings(mode=mode))
        self.workers = Workers(self.engine)
        self.put_quota("org", 12, 12)
        for name in NAMES:
            self.put_queue(name)
            self.change_quota(name)

    # --- objects ------------------------------------------------------------------------------

    @property
    def wall(self) -> datetime:
        """The time."""
        return wall_time(WALL + int(self.workers.now))

    def stamp(self) -> Timestamp:
        """Return the time as objects have it."""
        return Timestamp(rfc3339(self.wall))

    def put_queue(self, name: str) -> None:
        """Write a queue with other options."""
        said = {AVAILABLE_QUOTA[0]: "*"}
        for key, chance in (
            (ENABLE_PREEMPTION, 0.7), (PREEMPT_RUNNING, 0.6), (WAIT_FOR_PODS_RUNNING, 0.2),
        ):  # fmt: skip
            if self.rng.random() < chance:
                said[key] = "true"
        if self.rng.random() < 0.1:
            said[STOP_POLICY] = "Hold"
        if self.rng.random() < 0.2:
            said[MAX_PRIORITY] = self.rng.choice(["0", "1", "5"])
        if self.rng.random() < 0.3:
            said[MAX_DEPTH] = self.rng.choice(["1", "2", "3"])
        if self.rng.random() < 0.2:
            said[BACKFILL] = "true"
        policy = self.rng.choice(["Priority", "Block", "FIFO", "Intelligent"])
        priority = self.rng.choice([None, None, 1, 2])
        queue = build_queue(name, policy, priority=priority, annotations=said)
        self.workers.wake(self.engine.on_queue(queue))
        self.workers.wake([name])

    def put_quota(self, name: str, least: int, most: int, reclaims: str = "") -> None:
        """Write a quota; all but the first are children of it."""
        parent = "" if name == "org" else "org"
        quota = elastic_quota(
            name,
            namespace="kq",
            min={"cpu": least},
            max={"cpu": most},
            parent=parent,
            is_parent=not parent,
            metadata={"annotations": {RECLAIM_POLICY: reclaims}} if reclaims else None,
        )
        self.workers.wake(self.engine.on_quota(quota))

    def change_quota(self, name: str) -> None:
        """Write a quota with other limits."""
        reclaims = self.rng.choice(["Never", "LowerPriority", "Any"])
        self.put_quota(name, self.rng.choice([0, 2, 4]), self.rng.choice([4, 8, 12]), reclaims)

    def put(self, unit: QueueUnit) -> None:
        """Write a unit."""
        self.version += 1
        meta = replace(unit.metadata, resource_version=str(self.version))
        self.units[unit.metadata.name] = unit = replace(unit, metadata=meta)
        self.workers.wake(self.engine.on_queue_unit(unit))

    def some(self, *phases: str, evicted: bool | None = None) -> QueueUnit | None:
        """Return a random unit in these phases."""
        found = [
            unit
            for unit in self.units.values()
            if unit.status.phase in phases and evicted in {None, is_evicted(unit)}
        ]
        return self.rng.choice(found) if found else None

    # --- what happens -------------------------------------------------------------------------

    def add(self) -> None:
        """Let a job arrive."""
        rng, number = self.rng, self.version
        fixed = {PREEMPTIBLE: "false"} if rng.random() < 0.1 else None
        unit = build_unit(
            f"u{number}",
            rng.choice(NAMES),
            cpu=rng.choice([1, 1, 2, 3, 4, 6]),
            queue=rng.choice(NAMES),
            priority=rng.choice([0, 0, 1, 5, 9]),
            created=number % 60,
            labels=fixed,
        )
        self.put(unit)

    def adopt(self) -> None:
        """Let a running job be found: it is not checked whether it fits."""
        self.add()
        unit = self.units[max(self.units, key=lambda name: int(name[1:]))]
        if unit.status.phase == "Enqueued":
            self.put(admitted(unit, 1, "Running"))

    def run(self) -> None:
        """Let pods of a unit run."""
        unit = self.some("Dequeued", evicted=False)
        if unit is not None:
            self.put(running(unit, 1, since=self.stamp()))

    def stop(self) -> None:
        """Let an evicted unit leave."""
        unit = self.some("Dequeued", "Running", evicted=True)
        if unit is not None:
            self.put(changed(unit, 1, "Enqueued", admissions=(), conditions=()))

    def end(self) -> None:
        """Let a job end."""
        unit = self.some("Dequeued", "Running")
        if unit is not None:
            del self.units[unit.metadata.name]
            self.workers.wake(self.engine.on_queue_unit_gone(unit))

    def edit(self) -> None:
        """Edit a priority, or what a waiting unit is charged to."""
        unit = self.some("Enqueued", "Dequeued", "Running")
        if unit is None:
            return
        if unit.status.phase == "Enqueued" and self.rng.random() < 0.5:
            moved = replace(unit.spec, queue=self.rng.choice(NAMES))
        else:
            moved = replace(unit.spec, priority=self.rng.choice([0, 1, 5, 9]))
        self.put(replace(unit, spec=moved))

    def wipe(self) -> None:
        """Take back an eviction."""
        unit = self.some("Running", evicted=True)
        if unit is not None and self.rng.random() < 0.2:
            self.put(changed(unit, 1, conditions=()))

    def act(self) -> None:
        """Do one of these at random."""
        rng = self.rng
        acts = (
            (self.add, 30), (self.adopt, 2), (self.run, 25), (self.stop, 20), (self.end, 15),
            (self.edit, 8), (self.wipe, 3),
            (lambda: self.put_queue(rng.choice(NAMES)), 2),
            (lambda: self.change_quota(rng.choice(NAMES)), 2),
            (lambda: self.wait(rng.choice([1, 5, 20, 70, 400])), 10),
        )  # fmt: skip
        rng.choices([act for act, _ in acts], [weight for _, weight in acts])[0]()
        if len(self.units) > 25:
            self.end()
        if rng.random() < 0.8:
            self.ask()

    # --- workers ------------------------------------------------------------------------------

    def ask(self) -> None:
        """Ask woken queues, until all rest."""
        workers = self.workers
        workers.wall = WALL + int(workers.now)
        while not workers.is_quiet():
            self.take(workers.step())

    def take(self, decision: Decision) -> None:
        """Write what was decided."""
        if isinstance(decision, Dequeue):
            unit = self.units[decision.unit.partition("/")[2]]
            self.version += 1
            written = admitted(unit, self.version, grants=decision.grants)
            self.units[unit.metadata.name] = written
            self.workers.wake(self.engine.on_written(decision, written))
        elif isinstance(decision, Preempt):
            failed = tuple(each for each in decision.victims if self.rng.random() < 0.1)
            for victim in decision.victims:
                if victim not in failed:
                    self.evict(victim.unit.partition("/")[2], decision)
            self.workers.wake(self.engine.on_preempted(decision, failed))

    def evict(self, name: str, decision: Preempt) -> None:
        """Write that a unit has to leave."""
        asked = Condition(
            type=EVICTED,
            status="True",
            reason=decision.reason,
            message=f"{for_whom_mark(decision.unit)}(...)",
            last_transition_time=self.stamp(),
        )
        unit = self.units[name]
        kept = tuple(each for each in unit.status.conditions if each.type != EVICTED)
        self.put(changed(unit, 1, conditions=(*kept, asked)))

    def wait(self, seconds: float) -> None:
        """Let time pass, and ask the queues that named a time."""
        self.workers.let_pass(seconds, self.ask)

    def settle(self) -> None:
        """Let every evicted unit leave, and every deadline pass."""
        rested = 0.0
        for _ in range(100):
            self.wait(LEAVE_SECONDS)
            rested += LEAVE_SECONDS
            while self.some("Dequeued", "Running", evicted=True) is not None:
                self.stop()
                rested = 0.0
            if rested > REST_SECONDS:
                return
        raise AssertionError("they keep on evicting each other")

    def check(self) -> None:
        """Ask every unit once more, in a copy."""
        twin = self.engine.fork()
        for name in NAMES:
            queue = twin.units.queues.find(name)
            assert queue is not None
            for number in [*queue.pending.numbered]:
                if queue.pending.wake(number):
                    twin.plugins.waking.stop_waiting((name, number))
        for name in NAMES:
            while not isinstance(
                decision := twin.decide_next(name, self.workers.now, self.wall), Rest
            ):
                assert isinstance(decision, Refused), f"no wake led to {decision}"


def is_evicted(unit: QueueUnit) -> bool:
    """Return whether a unit has to leave."""
    return any(each.type == EVICTED and each.status == "True" for each in unit.status.conditions)


@settings(max_examples=12)
@given(seed=st.integers(0, 10_000))
def test_at_rest_no_unit_could_start_or_evict(seed: int) -> None:
    live(seed)


def live(seed: int) -> None:
    """Let a town live and come to rest, four times."""
    town = Town(seed)
    for _ in range(4):
        for _ in range(40):
            town.act()
        town.settle()
        town.check()
