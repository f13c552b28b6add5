"""The threads of the scheduler's parts, and the queues of keys that some of them work on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from shared_api.backoff import Backoff
from shared_api.process.loop_thread import LoopThread, Step
from shared_api.program import Host
from shared_api.work_queue import WorkQueue


class Threads:
    """Threads that start and are woken together; the workers of queues come and go by themselves.

    Iterates over the threads, in the order in which they were made.
    """

    def __init__(self, host: Host, backoff: Backoff) -> None:
        """Start without threads; `backoff`: between attempts of the same key."""
        self._host = host
        self._backoff = backoff
        self._threads: list[LoopThread] = []

    def __iter__(self) -> Iterator[LoopThread]:
        return iter(self._threads)

    def run(self, name: str, step: Step) -> LoopThread:
        """Return a new thread for a step; `start` starts it."""
        thread = self._host.spawn(name, step)
        self._threads.append(thread)
        return thread

    def work_queue(self, name: str) -> tuple[Callable[[Step], LoopThread], WorkQueue[Any]]:
        """Return a queue of keys, and a function that makes the thread that works on them."""
        threads: list[LoopThread] = []

        def wake() -> None:
            for thread in threads:
                thread.wake()

        queue: WorkQueue[Any] = WorkQueue(
            self._host.clock,
            backoff=lambda attempt: self._backoff.seconds(attempt, self._host.rng),
            observer=self._host.metrics.work_queues.of_queue(name),
            on_ready=wake,
        )

        def run(step: Step) -> LoopThread:
            threads.append(self.run(name, step))
            return threads[0]

        return run, queue

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Wake all threads."""
        for thread in self._threads:
            thread.wake()
