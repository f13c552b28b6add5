"""A queue's worker asks, hands over and rests; its thread lives as long as the queue."""

from __future__ import annotations

import pytest

from queue_scheduler.cycles.queue_worker import QueueWorker, QueueWorkers
from queue_scheduler.cycles.undecided_units import UndecidedUnits
from queue_scheduler.decision import Dequeue, Preempt, Refused, WriteFailure
from queue_scheduler.engine.engine import Engine
from shared_api.process.loop_thread import LoopThread, Step
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_scheduler.shell_kit import ShellKit


class Seen:
    """A `DecisionObserver` that keeps what it gets."""

    def __init__(self) -> None:
        self.decisions: list[tuple[str, type]] = []

    def on_decision(
        self, queue: str, decision: Dequeue | Refused | Preempt, seconds: float
    ) -> None:
        self.decisions.append((queue, type(decision)))


class Bench:
    """A worker of queue `team` and what it hands over."""

    def __init__(self, kit: ShellKit) -> None:
        self.kit = kit
        self.may_decide = True
        self.carried: list[Dequeue | Preempt] = []
        self.seen = Seen()
        self.worker = QueueWorker(
            "team",
            kit.shared,
            self.carried.append,
            lambda: self.may_decide,
            UndecidedUnits(kit.shared, kit.work_queue()),
            kit.clock,
            self.seen,
        )


@pytest.fixture
def bench(kit: ShellKit) -> Bench:
    return Bench(kit)


def test_it_decides_one_unit_a_step_and_rests_when_there_is_none(bench: Bench) -> None:
    bench.kit.add_unit("a")
    bench.kit.add_unit("big", cpu=9)
    assert bench.worker.step() == 0.0
    assert [each.unit for each in bench.carried] == ["default/a"]
    assert bench.worker.step() == 0.0
    assert bench.worker.step() is None
    assert bench.seen.decisions == [("team", Dequeue), ("team", Refused)]
    assert len(bench.carried) == 1


def test_it_decides_nothing_while_it_may_not(bench: Bench) -> None:
    bench.kit.add_unit("a")
    bench.may_decide = False
    assert bench.worker.step() is None
    assert bench.carried == []
    bench.may_decide = True
    assert bench.worker.step() == 0.0
    assert len(bench.carried) == 1


def test_after_a_refused_write_it_rests_until_the_queue_may_try_again(bench: Bench) -> None:
    bench.kit.add_unit("a")
    bench.worker.step()
    retry_at = bench.kit.clock.monotonic() + 5.0
    rejected, why = bench.carried[0], WriteFailure.REJECTED
    assert isinstance(rejected, Dequeue)
    bench.kit.shared.apply(Engine.on_write_failed, rejected, why, retry_at=retry_at)
    assert bench.worker.step() == pytest.approx(5.0)
    bench.kit.clock.advance(5.0)
    assert bench.worker.step() == 0.0
    assert len(bench.carried) == 2


class CountedThread(LoopThread):
    """A thread that does not run, and counts how often it was woken and stopped."""

    def __init__(self, name: str, step: Step) -> None:
        super().__init__(name, step, VirtualClock())
        self.wakes = 0
        self.stops = 0

    def wake(self) -> None:
        self.wakes += 1

    def stop(self, timeout_seconds: float = 0.0) -> bool:
        self.stops += 1
        return True


class Threads:
    """Starts the workers' threads."""

    def __init__(self) -> None:
        self.made: list[CountedThread] = []
        self.workers = QueueWorkers(self._build, self._start)

    def _build(self, queue: str) -> QueueWorker:
        kit = ShellKit()
        undecided = UndecidedUnits(kit.shared, kit.work_queue())
        return QueueWorker(
            queue, kit.shared, lambda _: None, lambda: True, undecided, kit.clock, Seen()
        )

    def _start(self, queue: str, worker: QueueWorker) -> LoopThread:
        thread = CountedThread(f"queue-{queue}", worker.step)
        self.made.append(thread)
        return thread


def test_every_queue_has_one_thread_while_it_exists() -> None:
    threads = Threads()
    workers = threads.workers
    workers.run_for("a")
    workers.run_for("a")
    workers.run_for("b")
    assert [thread.name for thread in workers.threads()] == ["queue-a", "queue-b"]
    workers.end_for("a")
    workers.end_for("never there")
    assert [thread.stops for thread in threads.made] == [1, 0]
    assert [thread.name for thread in workers.threads()] == ["queue-b"]
    workers.stop()
    assert [thread.stops for thread in threads.made] == [1, 1]
    assert workers.threads() == ()


def test_a_new_queue_is_asked_at_once_and_a_wake_reaches_named_queues() -> None:
    """A queue may be reported, and its units too, before its thread exists to be woken."""
    threads = Threads()
    for name in ("a", "b"):
        threads.workers.run_for(name)
    assert [thread.wakes for thread in threads.made] == [1, 1]
    threads.workers.wake(["a", "unknown"])
    assert [thread.wakes for thread in threads.made] == [2, 1]
    threads.workers.wake_all()
    assert [thread.wakes for thread in threads.made] == [3, 2]
