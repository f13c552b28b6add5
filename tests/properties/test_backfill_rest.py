"""At rest no unit could start: queues that backfill, some preempting, under random facts.

A queue is asked only when it is woken or at the time that its `Rest` names. When all rest, a fork
of the engine in which every unit is awake starts none and evicts none.
"""

from __future__ import annotations

import random
from datetime import datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_scheduler.decision import Decision, Dequeue, Preempt, Rest
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.preemption.blocked_classes import SEARCH_AGAIN_SECONDS
from queue_scheduler.preemption.nomination import for_whom_mark
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.meta import Condition, find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import EVICTED
from shared_api.testing.object_builders import elastic_quota, node
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import BACKFILL, ENABLE_PREEMPTION, PREEMPT_RUNNING
from tests.properties import engine_checks
from tests.properties.engine_kit import (
    WALL,
    Workers,
    admitted,
    build_queue,
    build_unit,
    changed,
    declaring,
    running,
    wall_time,
)
from tests.properties.real_quotas import new_engine

pytestmark = pytest.mark.properties

NAMES = ("a", "b", "c")
MOST_UNITS = 20


class World:
    """Objects as the server has them, and an engine that is asked only when it wants to be."""

    def __init__(self, seed: int, *, preempts: bool) -> None:
        self.rng = random.Random(seed)
        self.engine = new_engine(
            QuotaSettings(mode=self.rng.choice([QuotaMode.MAX, QuotaMode.RUNTIME]))
        )
        self.workers = Workers(self.engine)
        self.units: dict[str, QueueUnit] = {}
        self._version = 100
        self._preempts = preempts
        self.engine.on_node(node("n", allocatable={"cpu": 12}))
        self._put_quota("org", cpu=12, guaranteed=12)
        for name in NAMES:
            self.put_quota(name)
            self.put_queue(name)

    def live(self, turns: int) -> None:
        """Let this many things happen."""
        happenings = [
            (self.add, 30), (self.run, 20), (self.stop, 20), (self.finish, 15), (self.declare, 6),
            (self.delete, 5), (self.pass_time, 15), (self.adopt, 2),
            (lambda: self.put_quota(self.rng.choice(NAMES)), 1),
            (lambda: self.put_queue(self.rng.choice(NAMES)), 1),
        ]  # fmt: skip
        happen, weights = zip(*happenings, strict=True)
        for _ in range(turns):
            self.rng.choices(happen, weights)[0]()
            self.ask()
            self.check()

    # --- what happens -------------------------------------------------------------------------

    def add(self) -> None:
        if len(self.units) < MOST_UNITS:
            self._apply(self._random_unit())

    def adopt(self) -> None:
        if len(self.units) < MOST_UNITS:
            self._apply(admitted(self._random_unit(), 1, "Running"))

    def run(self) -> None:
        unit = self._some("Dequeued")
        if unit is not None and not is_evicted(unit):
            self._apply(running(unit, 1, since=rfc3339(self._wall())))

    def stop(self) -> None:
        leaving = [unit for unit in self.units.values() if is_evicted(unit)]
        if leaving:
            unit = self.rng.choice(leaving)
            self._apply(changed(unit, 1, "Enqueued", admissions=(), conditions=()))

    def finish(self) -> None:
        unit = self._some("Running", "Dequeued")
        if unit is not None:
            self._apply(changed(unit, 1, "Succeed", admissions=(), conditions=()))

    def declare(self) -> None:
        unit = self._some("Running", "Dequeued", "Enqueued", "")
        if unit is not None:
            self._apply(declaring(unit, self._random_seconds()))

    def delete(self) -> None:
        if self.units:
            unit = self.units.pop(self.rng.choice(sorted(self.units)))
            self._wake(self.engine.on_queue_unit_gone(unit))

    def put_queue(self, name: str) -> None:
        annotations = {BACKFILL: "true"} if self.rng.random() < 0.8 else {}
        if self._preempts and self.rng.random() < 0.6:
            annotations |= {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}
        policy = self.rng.choice(["Priority", "Block", "FIFO"])
        queue = build_queue(name, policy, takes="*", annotations=annotations)
        self._wake((name, *self.engine.on_queue(queue)))

    def put_quota(self, name: str) -> None:
        rng = self.rng
        self._put_quota(name, rng.choice([4, 8, 12]), rng.choice([0, 0, 2, 4]), parent="org")

    def _put_quota(self, name: str, cpu: int, guaranteed: int, parent: str = "") -> None:
        quota = elastic_quota(
            name,
            namespace="kq",
            min={"cpu": guaranteed},
            max={"cpu": cpu},
            parent=parent,
            is_parent=not parent,
        )
        self._wake(self.engine.on_quota(quota))

    def pass_time(self) -> None:
        """Let seconds pass; queues are asked at the times they named."""
        self.workers.let_pass(self.rng.choice([1, 5, 20, 70, 400]), self.ask)

    # --- asking -------------------------------------------------------------------------------

    def ask(self) -> None:
        """Ask woken queues until all rest."""
        self.workers.wall = WALL + int(self.workers.now)
        for _ in range(2000):
            if self.workers.is_quiet():
                return
            self._carry_out(self.workers.step())
        raise AssertionError("no rest")

    def _carry_out(self, decision: Decision) -> None:
        if isinstance(decision, Dequeue):
            self._version += 1
            unit = admitted(self.units[decision.unit], self._version, grants=decision.grants)
            self.units[decision.unit] = unit
            self._wake(self.engine.on_written(decision, unit))
        elif isinstance(decision, Preempt):
            for victim in decision.victims:
                evicted = Condition(
                    type=EVICTED,
                    status="True",
                    reason=decision.reason,
                    message=f"{for_whom_mark(decision.unit)}(...)",
                    last_transition_time=rfc3339(self._wall()),
                )
                self._apply(changed(self.units[victim.unit], 1, conditions=(evicted,)))
            self._wake(self.engine.on_preempted(decision))

    def check(self) -> None:
        """Ask a fork in which every unit is awake."""
        if self.engine.nominations.by_key or self.engine.units.admitted.leaving:
            return  # a unit that waits for a round is woken by its end
        twin = self.engine.fork()
        engine_checks.wake_everybody(twin)
        now = self.workers.now
        for name in NAMES:
            while not isinstance(decision := twin.decide_next(name, now, self._wall()), Rest):
                why = refusal_of_unit(self.engine, decision.unit)
                story = f"at {now} in {name}: {decision}; {self.workers.alarms}; it waited: {why}"
                assert not isinstance(decision, Dequeue), story
                if isinstance(decision, Preempt):
                    # A unit that found no victims looks again a while later.
                    rests = self.workers.alarms.get(name, now + 2 * SEARCH_AGAIN_SECONDS) - now
                    assert rests <= SEARCH_AGAIN_SECONDS, story
                    return

    # --- inside -------------------------------------------------------------------------------

    def _random_unit(self) -> QueueUnit:
        self._version += 1
        unit = build_unit(
            f"u{self._version}",
            self.rng.choice(NAMES),
            cpu=self.rng.choice([1, 1, 2, 3, 4, 6]),
            queue=self.rng.choice(NAMES),
            priority=self.rng.choice([0, 0, 1, 5, 9]),
            created=self._version,
        )
        return declaring(unit, self._random_seconds())

    def _random_seconds(self) -> int | None:
        return self.rng.choice([None, None, 20, 100, 500, 2000])

    def _some(self, *phases: str) -> QueueUnit | None:
        found = [unit for unit in self.units.values() if unit.status.phase in phases]
        return self.rng.choice(found) if found else None

    def _apply(self, unit: QueueUnit) -> None:
        self._version += 1
        meta = replace(unit.metadata, resource_version=str(self._version))
        unit = replace(unit, metadata=meta)
        self.units[meta.key] = unit
        self._wake(self.engine.on_queue_unit(unit))

    def _wake(self, names: tuple[str, ...] | list[str]) -> None:
        self.workers.wake(names)

    def _wall(self) -> datetime:
        return wall_time(WALL + int(self.workers.now))


def is_evicted(unit: QueueUnit) -> bool:
    return find_condition(unit.status.conditions, EVICTED) is not None


@pytest.mark.parametrize("preempts", [False, True])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=9)
@example(seed=30)
@example(seed=34)
def test_at_rest_no_unit_could_start(seed: int, *, preempts: bool) -> None:
    World(seed, preempts=preempts).live(80)
