"""Queues that preempt and quotas that reclaim, under random facts, delays, conflicts, restarts.

No quota is over its max, no second round begins before the first is over, freed capacity goes to
its preemptor, and no unit has others evicted again and again.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_scheduler.cache.unit_state import UnitState, makes_room
from queue_scheduler.decision import Decision, Dequeue, Preempt, Reason, Rest, WriteFailure
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.preemption.nomination import for_whom_mark
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import Condition, Timestamp, Uid
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import occupies_quota
from shared_api.testing.object_builders import elastic_quota, node
from shared_api.well_known_labels import (
    AVAILABLE_QUOTA,
    ENABLE_PREEMPTION,
    MAX_PRIORITY,
    PREEMPT_RUNNING,
    PREEMPTIBLE,
    RECLAIM_POLICY,
    WAIT_FOR_PODS_RUNNING,
)
from tests.properties.engine_kit import admitted, build_queue, build_unit, changed

pytestmark = pytest.mark.properties

QUOTAS = ("a", "b", "c")
NODES_CPU = 12


class World:
    """Objects as the server has them, an engine, and writes in flight."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.mode = self.rng.choice([QuotaMode.RUNTIME, QuotaMode.MAX])
        self.units: dict[str, QueueUnit] = {}
        self.queues = [self._random_queue(name) for name in QUOTAS]
        self.quotas = self._random_quotas()
        self.version = 1
        self.number = 0
        self.dequeues: list[Dequeue] = []
        self.rounds: list[Preempt] = []
        self.begun: Counter[Uid] = Counter()
        self.excused: Counter[Uid] = Counter()
        # Victims that a round could not ask: they are asked again, or others instead.
        self.failed: dict[str, list[Uid]] = {}
        self.engine = self._new_engine()

    def _random_queue(self, name: str) -> Queue:
        annotations = {AVAILABLE_QUOTA[0]: "*"}
        for key, chance in (
            (ENABLE_PREEMPTION, 0.8), (PREEMPT_RUNNING, 0.5), (WAIT_FOR_PODS_RUNNING, 0.3),
        ):  # fmt: skip
            if self.rng.random() < chance:
                annotations[key] = "true"
        if self.rng.random() < 0.2:
            annotations[MAX_PRIORITY] = str(self.rng.randint(0, 3))
        return build_queue(name, self.rng.choice(["Priority", "Block"]), annotations=annotations)

    def _random_quotas(self) -> list[ElasticQuota]:
        quotas = [
            elastic_quota("org", min={"cpu": 12}, max={"cpu": 12}, is_parent=True, namespace="kq")
        ]
        for name in QUOTAS:
            policy = self.rng.choice(["Never", "LowerPriority", "Any"])
            quotas.append(
                elastic_quota(
                    name,
                    min={"cpu": 4},
                    max={"cpu": self.rng.choice([4, 8, 12])},
                    parent="org",
                    namespace="kq",
                    metadata={"annotations": {RECLAIM_POLICY: policy}},
                )
            )
        return quotas

    def _new_engine(self) -> Engine:
        plugin = ElasticQuotaPlugin(QuotaSettings(mode=self.mode))
        engine = Engine(PluginRunner([plugin]), BUILT_IN_POLICIES)
        engine.on_node(node("n", allocatable={"cpu": NODES_CPU}))
        for quota in self.quotas:
            engine.on_quota(quota)
        for queue in self.queues:
            engine.on_queue(queue)
        for unit in self.units.values():
            engine.on_queue_unit(unit)
        return engine

    # --- what happens -------------------------------------------------------------------------

    def turn(self) -> None:
        """Let one thing happen, then let the workers ask until they rest."""
        happen = self.rng.choices(
            [
                self.add, self.write, self.write_round, self.run, self.stop, self.finish,
                self.delete, self.restart,
            ],
            weights=[30, 40, 40, 25, 25, 10, 4, 1],
        )[0]  # fmt: skip
        happen()
        self.ask()

    def ask(self) -> None:
        for _ in range(1000):
            names = self.rng.sample(QUOTAS, k=len(QUOTAS))
            rests = 0
            for name in names:
                decision = self.engine.decide_next(name, 0.0)
                rests += isinstance(decision, Rest)
                self.take(decision)
            if rests == len(names):
                self.check()
                return
        raise AssertionError("no rest")

    def take(self, decision: Decision) -> None:
        if isinstance(decision, Dequeue):
            self.dequeues.append(decision)
            self.excused[decision.uid] += 1
            self.check_room(decision)
        elif isinstance(decision, Preempt):
            self.check_alone(decision)
            self.begun[decision.uid] += 1
            self.rounds.append(decision)

    def add(self) -> None:
        self.number += 1
        labels = {PREEMPTIBLE: "false"} if self.rng.random() < 0.1 else {}
        unit = build_unit(
            f"u{self.number}",
            self.rng.choice(QUOTAS),
            queue=self.rng.choice(QUOTAS),
            cpu=self.rng.choice([1, 1, 2, 3, 4]),
            priority=self.rng.randint(0, 4),
            created=self.number,
            version=self.next_version(),
            labels=labels,
        )
        self.put(unit)

    def next_version(self) -> int:
        self.version += 1
        return self.version

    def put(self, unit: QueueUnit) -> None:
        self.units[unit.metadata.key] = unit
        self.engine.on_queue_unit(unit)

    def write(self) -> None:
        """Let the server answer a decision to start."""
        if not self.dequeues:
            return
        decision = self.dequeues.pop(self.rng.randrange(len(self.dequeues)))
        unit = self.units.get(decision.unit)
        if unit is None:
            self.engine.on_write_failed(decision, WriteFailure.GONE)
        elif unit.metadata.resource_version != decision.resource_version:
            self.engine.on_write_failed(decision, WriteFailure.CONFLICT)
            self.engine.on_queue_unit(unit)
        else:
            written = admitted(unit, self.next_version())
            self.units[decision.unit] = written
            self.engine.on_written(decision, written)

    def write_round(self) -> None:
        """Let the server answer the requests of a round."""
        if not self.rounds:
            return
        decision = self.rounds.pop()
        failed = []
        for victim in decision.victims:
            unit = self.units.get(victim.unit)
            version = None if unit is None else unit.metadata.resource_version
            if unit is None or version != victim.resource_version or self.rng.random() < 0.1:
                failed.append(victim)
                continue
            evicted = Condition(
                type="Evicted",
                status="True",
                reason=decision.reason,
                message=f"{for_whom_mark(decision.unit)}(...)",
                last_transition_time=Timestamp("2026-11-01T00:00:00Z"),
            )
            self.put(changed(unit, self.next_version(), conditions=(evicted,)))
        self.excused[decision.uid] += bool(failed)
        self.failed[decision.unit] = [victim.uid for victim in failed]
        self.engine.on_preempted(decision, tuple(failed))

    def pick(self, *, evicted: bool) -> QueueUnit | None:
        found = [
            unit
            for _, unit in sorted(self.units.items())
            if occupies_quota(unit) and makes_room(unit) is evicted
        ]
        return self.rng.choice(found) if found else None

    def run(self) -> None:
        unit = self.pick(evicted=False)
        if unit is not None:
            admissions = tuple(
                replace(each, running=each.replicas) for each in unit.status.admissions
            )
            self.put(changed(unit, self.next_version(), "Running", admissions=admissions))

    def stop(self) -> None:
        unit = self.pick(evicted=True)
        if unit is not None:
            over = tuple(replace(each, status="False") for each in unit.status.conditions)
            version = self.next_version()
            self.put(changed(unit, version, "Enqueued", admissions=(), conditions=over))

    def finish(self) -> None:
        unit = self.pick(evicted=False)
        if unit is not None:
            self.put(changed(unit, self.next_version(), "Succeed", admissions=()))

    def delete(self) -> None:
        if self.units:
            unit = self.units.pop(self.rng.choice(sorted(self.units)))
            self.engine.on_queue_unit_gone(unit)

    def restart(self) -> None:
        """Lose the writes in flight."""
        self.dequeues.clear()
        self.rounds.clear()
        self.excused.update(self.begun.keys())
        self.engine = self._new_engine()

    # --- what must be true --------------------------------------------------------------------

    def check(self) -> None:
        plugin = next(iter(self.engine.plugins))
        assert isinstance(plugin, ElasticQuotaPlugin)
        if self.version % 16 == 0:  # it costs more than all other checks
            self.engine.validate()
            plugin.quotas.validate()
        for name in ("org", *QUOTAS):
            view = plugin.quotas.view(name)
            assert view is not None
            assert view.used.get("cpu", 0) <= view.max["cpu"], f"{name} is over its max"
        for uid, rounds in self.begun.items():
            assert rounds <= 1 + self.excused[uid], f"{uid} evicts again and again"

    def check_alone(self, decision: Preempt) -> None:
        """Check that no other round is open: all units compete for one limit here."""
        leaving = [
            unit for unit in self.units.values() if occupies_quota(unit) and makes_room(unit)
        ]
        for unit in leaving:
            message = unit.status.conditions[-1].message
            assert message.startswith(for_whom_mark(decision.unit)), (decision, message)
        assert not self.rounds, "a round begins while another is written"
        preemptor = self.units[decision.unit]
        for victim in decision.victims:
            unit = self.units[victim.unit]
            assert unit.metadata.labels.get(PREEMPTIBLE) != "false"
            assert not makes_room(unit)
            if decision.reason == "Preempted":
                assert victim.priority < decision.priority <= preemptor.spec.priority

        if decision.reason == "Reclaimed":
            self.check_mins(decision)

    def check_mins(self, decision: Preempt) -> None:
        """Check that a victim evicted for an owner leaves its quota no less than its min.

        Units whose pods the owner's queue waits for may be evicted too, by priority.
        """
        plugin = next(iter(self.engine.plugins))
        assert isinstance(plugin, ElasticQuotaPlugin)
        lost: Counter[str] = Counter()
        queue = self.engine.queues.find(decision.queue)
        assert queue is not None
        for victim in decision.victims:
            if victim.uid in queue.in_flight:
                continue
            record = self.engine.record(victim.unit)
            assert record is not None
            assert record.info is not None
            lost[record.info.quota] += record.info.demand.total["cpu"]
        for name, amount in lost.items():
            view = plugin.quotas.view(name)
            assert view is not None
            assert view.used["cpu"] - amount >= view.min["cpu"], f"{name} is left less than its min"

    def check_room(self, decision: Dequeue) -> None:
        """Check that a starting unit leaves the kept room to its preemptors."""
        engine = self.engine
        own = engine.record(decision.unit)
        for key in engine.nominations.by_key:
            record = engine.record(key)
            if record is None or record.state is not UnitState.WAITING or record.info is None:
                continue
            assert own is not None
            assert own.info is not None
            is_first = own.info.queue == record.info.queue and (
                own.info.order_key < record.info.order_key
            )
            leaving = [unit.metadata.uid for unit in self.units.values() if makes_room(unit)]
            leaving += [victim.uid for each in self.rounds for victim in each.victims]
            leaving += self.failed.get(key, [])
            refusal = engine.plugins.check_without(record.info, leaving)
            # Behind the starting unit an owner may come first, whose room no unit may borrow.
            fits = refusal is None or refusal.reason is Reason.GUARANTEE_OF_OTHERS
            assert fits or is_first, f"{decision.unit} starts in the room of {key}"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_freed_capacity_goes_to_its_preemptor(seed: int) -> None:
    world = World(seed)
    for _ in range(120):
        world.turn()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_everything_runs_in_the_end(seed: int) -> None:
    """When no unit arrives any more, and victims stop, all units run to their end."""
    world = World(seed)
    for _ in range(60):
        world.turn()
    for _ in range(150):
        for happen in (world.write, world.write_round, world.stop, world.run, world.finish):
            happen()
            world.ask()
    left = {
        name: refusal_of_unit(world.engine, name)
        for name, unit in world.units.items()
        if unit.status.phase != "Succeed"
    }
    hopeless = {Reason.EXCEEDS_QUOTA, Reason.NON_PREEMPTIBLE_OVER_MIN}
    stuck = {
        name: refusal
        for name, refusal in left.items()
        if refusal is not None and refusal.reason not in {*hopeless, Reason.BEHIND_REFUSED_UNIT}
    }
    assert not stuck, stuck
