"""Strict queues: units ask for nodes, and none of lower priority overtakes them meanwhile."""

from __future__ import annotations

import pytest

from queue_scheduler.decision import Dequeue, Reason, WriteFailure
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.queueing.queue_questions import count_by_reason
from queue_scheduler.queueing.strict_mode import StrictMode
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import Phase
from tests.properties.engine_kit import (
    Workers,
    admitted,
    build_queue,
    build_quota,
    build_unit,
    changed,
    new_engine,
    started,
)


class StrictCluster:
    """Queues a and b, each with a quota of eight cores; a is strict."""

    def __init__(self, strict: StrictMode | None = None, policy: str = "") -> None:
        settings = strict or StrictMode(is_on=True, included=frozenset("a"))
        self.engine, _ = new_engine(strict=settings)
        self.workers = Workers(self.engine)
        for name in "ab":
            self.workers.wake(self.engine.on_quota(build_quota(name, cpu=8)))
            self.workers.wake(self.engine.on_queue(build_queue(name, policy)))
            self.workers.wake([name])

    def add(self, *units: QueueUnit) -> list[str]:
        """Add units; return the units that start."""
        for unit in units:
            self.workers.wake(self.engine.on_queue_unit(unit))
        return self.run()

    def run(self) -> list[str]:
        self.decisions = [d for d in self.workers.run() if isinstance(d, Dequeue)]
        self.engine.validate()
        return started(self.decisions)

    def goals(self) -> list[Phase]:
        return [decision.to for decision in self.decisions]

    def write(self, decision: Dequeue) -> None:
        record = self.engine.record(decision.unit)
        assert record is not None
        written = admitted(record.unit, record.version + 1, decision.to.value)
        self.workers.wake(self.engine.on_written(decision, written))

    def answer(self, name: str, phase: str) -> list[str]:
        """Move a unit to a phase; return the units that start then."""
        record = self.engine.record(f"ns/{name}")
        assert record is not None
        moved = changed(record.unit, record.version + 1, phase)
        self.workers.wake(self.engine.on_queue_unit(moved))
        return self.run()

    def reason(self, name: str) -> Reason:
        refusal = refusal_of_unit(self.engine, f"ns/{name}")
        assert refusal is not None
        return refusal.reason


@pytest.fixture
def cluster() -> StrictCluster:
    """Return a cluster whose unit high of priority 5 asks for nodes."""
    found = StrictCluster()
    assert found.add(build_unit("high", "a", priority=5)) == ["high"]
    (decision,) = found.decisions
    assert decision.to is Phase.SCHED_READY
    found.write(decision)
    return found


def test_only_strict_queues_ask_for_nodes(cluster: StrictCluster) -> None:
    assert cluster.add(build_unit("other", "b")) == ["other"]
    assert cluster.decisions[0].to is Phase.DEQUEUED


def test_a_unit_of_lower_priority_waits_for_the_verdict(cluster: StrictCluster) -> None:
    assert cluster.add(build_unit("low", "a", priority=4)) == []
    assert cluster.reason("low") is Reason.WAITING_FOR_NODES_OF_OTHERS
    queue = cluster.engine.queues.find("a")
    assert queue is not None
    assert count_by_reason(queue) == {Reason.WAITING_FOR_NODES_OF_OTHERS: 1}
    assert cluster.answer("high", "SchedSucceed") == ["low"]


@pytest.mark.parametrize("verdict", ["SchedSucceed", "SchedFailed", "TimeoutBackoff", "Succeed"])
def test_any_end_of_the_request_lets_others_go_on(cluster: StrictCluster, verdict: str) -> None:
    cluster.add(build_unit("low", "a", priority=4))
    assert cluster.answer("high", verdict) == ["low"]


def test_it_ends_with_the_unit(cluster: StrictCluster) -> None:
    cluster.add(build_unit("low", "a", priority=4))
    cluster.workers.wake(cluster.engine.on_queue_unit_gone(build_unit("high", "a")))
    assert cluster.run() == ["low"]


def test_a_unit_of_equal_or_higher_priority_asks_too(cluster: StrictCluster) -> None:
    assert cluster.add(build_unit("same", "a", priority=5, created=9)) == ["same"]
    assert cluster.add(build_unit("more", "a", priority=6)) == ["more"]
    assert cluster.add(build_unit("late", "a", priority=5, created=10)) == []


def test_it_begins_with_the_decision_and_ends_when_that_is_undone() -> None:
    cluster = StrictCluster()
    high, low = build_unit("high", "a", priority=5), build_unit("low", "a", priority=4)
    assert cluster.add(high, low) == ["high"]
    (decision,) = cluster.decisions
    conflict = WriteFailure.CONFLICT
    cluster.workers.wake(cluster.engine.on_write_failed(decision, conflict))
    assert cluster.run() == ["low"]


def test_it_is_found_again_after_a_restart_in_any_order_of_facts() -> None:
    asking = admitted(build_unit("high", "a", priority=5), 2, "SchedReady")
    for queue_first in (True, False):
        engine, _ = new_engine(strict=StrictMode(is_on=True))
        workers = Workers(engine)
        engine.on_quota(build_quota("a", cpu=8))
        if queue_first:
            engine.on_queue(build_queue("a"))
        for unit in (asking, build_unit("low", "a", priority=4)):
            engine.on_queue_unit(unit)
        if not queue_first:
            engine.on_queue(build_queue("a"))
        workers.wake(["a"])
        assert workers.run() == []
        engine.validate()


@pytest.mark.parametrize("policy", ["Priority", "Block", "FIFO"])
def test_in_every_policy_the_next_unit_waits(policy: str) -> None:
    cluster = StrictCluster(policy=policy)
    assert cluster.add(build_unit("high", "a", priority=5)) == ["high"]
    assert cluster.add(build_unit("low", "a", priority=4, created=1)) == []


@pytest.mark.parametrize("policy", ["Priority", "Block", "FIFO"])
def test_a_unit_of_another_quota_passes_a_waiting_one(policy: str) -> None:
    cluster = StrictCluster(policy=policy)
    shared = build_queue("a", policy, takes="b")
    cluster.workers.wake(cluster.engine.on_queue(shared))
    assert cluster.add(build_unit("asks", "a", queue="a", priority=5)) == ["asks"]
    assert cluster.add(build_unit("low", "a", queue="a", created=1)) == []
    assert cluster.add(build_unit("more", "b", queue="a", priority=9, created=2)) == ["more"]
    assert cluster.reason("low") is Reason.WAITING_FOR_NODES_OF_OTHERS


def test_a_queue_that_waits_for_nodes_holds_up_no_other_queue(cluster: StrictCluster) -> None:
    cluster.add(build_unit("low", "a", priority=4))
    assert cluster.add(build_unit("other", "b", priority=0)) == ["other"]


def test_a_small_unit_asks_for_no_nodes_and_waits_like_any_other() -> None:
    strict = StrictMode(is_on=True, small={"cpu": 2000})
    cluster = StrictCluster(strict)
    small, large = build_unit("small", "a", cpu=2), build_unit("large", "a", cpu=3, priority=5)
    assert cluster.add(small) == ["small"]
    assert cluster.goals() == [Phase.DEQUEUED]
    assert cluster.add(large) == ["large"]
    assert cluster.goals() == [Phase.SCHED_READY]
    assert cluster.add(build_unit("next", "a", cpu=1)) == []


def test_where_the_mode_is_off_a_leftover_request_holds_none_up() -> None:
    engine, _ = new_engine()
    workers = Workers(engine)
    engine.on_quota(build_quota("a", cpu=8))
    engine.on_queue(build_queue("a"))
    engine.on_queue_unit(admitted(build_unit("high", "a", priority=5), 2, "SchedReady"))
    workers.wake(engine.on_queue_unit(build_unit("low", "a", priority=4)))
    assert started(workers.run()) == ["low"]


def test_a_fork_asks_the_same(cluster: StrictCluster) -> None:
    cluster.add(build_unit("low", "a", priority=4))
    twin = cluster.engine.fork()
    twin.validate()
    workers = Workers(twin)
    workers.wake(["a"])
    assert workers.run() == []
    record = twin.record("ns/high")
    assert record is not None
    workers.wake(twin.on_queue_unit(changed(record.unit, record.version + 1, "SchedSucceed")))
    assert started(workers.run()) == ["low"]
    assert cluster.run() == []
