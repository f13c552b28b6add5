"""One queue's thread: ask for the next decision, hand it over, rest when there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.cycles.undecided_units import UndecidedUnits
from queue_scheduler.decision import Dequeue, Preempt, Refused, Rest, UndecidedError
from shared_api.process.clock import Clock
from shared_api.process.loop_thread import LoopThread


class DecisionObserver(Protocol):
    """Counts what was decided."""

    def on_decision(
        self, queue: str, decision: Dequeue | Refused | Preempt, seconds: float
    ) -> None:
        """Count one decision, with the seconds that it took the engine."""


class QueueWorker:
    """Decides the units of one queue, one per step.

    Args:
        queue: Name of the queue.
        shared: The engine.
        carry_out: Takes a Dequeue or Preempt and returns at once; the writes go on elsewhere.
        may_decide: False while this process does not lead, its caches are not complete, or too many
            writes are in flight. What makes it True again must wake the workers.
        undecided: Takes units at which something raises.
    """

    def __init__(
        self,
        queue: str,
        shared: SharedEngine,
        carry_out: Callable[[Dequeue | Preempt], None],
        may_decide: Callable[[], bool],
        undecided: UndecidedUnits,
        clock: Clock,
        observer: DecisionObserver,
    ) -> None:
        self._queue = queue
        self._shared = shared
        self._carry_out = carry_out
        self._may_decide = may_decide
        self._undecided = undecided
        self._clock = clock
        self._observer = observer

    def step(self) -> float | None:
        """Decide one unit; return the seconds to rest, or None to rest until woken."""
        if not self._may_decide():
            return None
        started = self._clock.monotonic()
        try:
            decision = self._shared.decide_next(self._queue, started, self._clock.now())
        except UndecidedError as failed:
            cause = failed.__cause__
            assert isinstance(cause, Exception), "it is raised from what was raised"
            self._undecided.set_aside(failed.unit, cause)
            return 0.0
        if isinstance(decision, Rest):
            if decision.until is None:
                return None
            return max(0.0, decision.until - self._clock.monotonic())
        if not isinstance(decision, Dequeue | Preempt) or self._can_carry_out(decision):
            self._undecided.note_decided(decision.unit)
        self._observer.on_decision(self._queue, decision, self._clock.monotonic() - started)
        return 0.0

    def _can_carry_out(self, decision: Dequeue | Preempt) -> bool:
        """Hand a decision over; return False if that raises: the unit was set aside."""
        try:
            self._carry_out(decision)
        except Exception as error:  # noqa: BLE001 - it costs this unit a pause, and not its queue
            self._undecided.set_aside(decision.unit, error)
            return False
        return True


class QueueWorkers:
    """The threads, one per queue. `run_for`, `end_for` and `stop` are called by one thread only."""

    def __init__(
        self,
        build: Callable[[str], QueueWorker],
        start_thread: Callable[[str, QueueWorker], LoopThread],
    ) -> None:
        self._build = build
        self._start_thread = start_thread
        # Replaced whole, never changed in place: `wake` reads it from any thread.
        self._threads: dict[str, LoopThread] = {}

    def run_for(self, queue: str) -> None:
        """Make sure that the queue has its thread."""
        if queue not in self._threads:
            thread = self._start_thread(queue, self._build(queue))
            self._threads = {**self._threads, queue: thread}
            thread.wake()

    def end_for(self, queue: str) -> None:
        """End the thread of a queue that is gone."""
        threads = dict(self._threads)
        thread = threads.pop(queue, None)
        self._threads = threads
        if thread is not None:
            thread.stop()

    def wake(self, queues: Iterable[str]) -> None:
        """Wake the workers of these queues, so that they ask the engine again."""
        threads = self._threads
        for queue in queues:
            thread = threads.get(queue)
            if thread is not None:
                thread.wake()

    def wake_all(self) -> None:
        """Wake every worker."""
        self.wake(self._threads)

    def stop(self) -> None:
        """End all threads."""
        for queue in list(self._threads):
            self.end_for(queue)

    def threads(self) -> tuple[LoopThread, ...]:
        """Return the threads, for liveness checks."""
        return tuple(self._threads.values())
