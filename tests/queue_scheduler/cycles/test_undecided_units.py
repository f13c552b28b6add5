"""A unit at which something raises is set aside, and others of its queue start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.cycles.queue_worker import QueueWorker
from queue_scheduler.cycles.undecided_units import UndecidedUnits
from queue_scheduler.decision import Dequeue, Preempt
from queue_scheduler.engine.engine import Engine
from shared_api.work_queue import WorkQueue
from tests.queue_scheduler.fault_kit import PluginError
from tests.queue_scheduler.shell_kit import ShellKit


class Unseen:
    """A `DecisionObserver` that keeps nothing."""

    def on_decision(self, queue: str, decision: object, seconds: float) -> None: ...


class Bench:
    """A worker of queue `team`, a plugin that raises at some units, and what is handed over."""

    def __init__(self, kit: ShellKit, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kit = kit
        self.bad = {"default/bad"}
        self.unsendable: set[str] = set()
        self.carried: list[str] = []
        self.due: WorkQueue[Any] = kit.work_queue()
        self.undecided = UndecidedUnits(kit.shared, self.due)
        self.worker = QueueWorker(
            "team", kit.shared, self.carry_out, lambda: True, self.undecided, kit.clock, Unseen()
        )
        plugin: Any = next(iter(kit.engine.plugins))
        real = plugin.check

        def check(info: Any) -> Any:
            if info.key in self.bad:
                raise PluginError(info.key)
            return real(info)

        monkeypatch.setattr(plugin, "check", check)

    def carry_out(self, decision: Dequeue | Preempt) -> None:
        if decision.unit in self.unsendable:
            raise PluginError(decision.unit)
        self.carried.append(decision.unit)

    def work(self) -> None:
        """Let both threads work until they rest."""
        for _ in range(20):
            if self.worker.step() != 0.0 and self.undecided.step() != 0.0:
                return
        raise AssertionError("it does not come to rest")

    def state(self, key: str) -> UnitState:
        record = self.kit.engine.record(key)
        assert record is not None
        return record.state

    def notes(self) -> list[tuple[str, str]]:
        return [(each.key, each.note) for each in self.kit.engine.take_notices()]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Tracebacks that are written for a terminal take longer than all the rest."""
    with structlog.testing.capture_logs():
        yield


@pytest.fixture
def bench(kit: ShellKit, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(kit, monkeypatch)


def test_others_start_although_a_plugin_raises_at_the_first(bench: Bench) -> None:
    bench.kit.add_unit("bad", priority=9)
    bench.kit.add_unit("good")
    bench.work()
    assert bench.carried == ["default/good"]
    assert bench.state("default/bad") is UnitState.CONFLICT
    ((key, note),) = bench.notes()
    assert key == "default/bad"
    assert note.startswith("It cannot be decided, and others are decided first: PluginError:")
    bench.kit.engine.validate()


def test_it_is_tried_again_and_told_once(bench: Bench) -> None:
    bench.kit.add_unit("bad")
    for _ in range(3):
        bench.work()
        bench.kit.clock.advance(1.0)
    assert (len(bench.notes()), bench.due.retries("default/bad")) == (1, 3)
    bench.bad.clear()
    bench.work()
    assert bench.carried == ["default/bad"]
    assert bench.due.retries("default/bad") == 0


def test_its_new_object_is_decided_at_once(bench: Bench) -> None:
    bench.kit.add_unit("bad")
    bench.work()
    bench.bad.clear()
    bench.kit.direct.patch("queueunits", "bad", {"spec": {"priority": 1}}, namespace="default")
    bench.kit.learn("bad")
    bench.work()
    assert bench.carried == ["default/bad"]
    bench.kit.clock.advance(1.0)
    bench.work()
    assert bench.carried == ["default/bad"], "its pause is over, and says nothing more"


def test_a_decision_that_cannot_be_handed_over_does_not_stop_its_queue(bench: Bench) -> None:
    bench.bad.clear()
    bench.unsendable = {"default/odd"}
    bench.kit.add_unit("odd", priority=9)
    bench.kit.add_unit("good")
    assert bench.worker.step() == 0.0
    bench.kit.engine.validate()


def test_a_unit_that_is_deleted_meanwhile_is_forgotten(bench: Bench) -> None:
    bench.kit.add_unit("bad")
    bench.work()
    record = bench.kit.engine.record("default/bad")
    assert record is not None
    bench.kit.shared.apply(Engine.on_queue_unit_gone, record.unit)
    bench.kit.clock.advance(1.0)
    bench.work()
    assert bench.due.retries("default/bad") == 0
    assert bench.due.seconds_until_ready() is None


def test_a_unit_that_ends_undecided_is_forgotten(bench: Bench) -> None:
    bench.kit.add_unit("bad")
    bench.work()
    body = {"status": {"phase": "Failed"}}
    bench.kit.direct.patch("queueunits", "bad", body, namespace="default", subresource="status")
    bench.kit.learn("bad")
    bench.kit.clock.advance(1.0)
    bench.work()
    assert bench.due.retries("default/bad") == 0
    assert bench.due.seconds_until_ready() is None
