"""Jobs that are created at a steady rate, and seen to start: what the queue is there for.

Each is deleted when it has started, with its unit, as its owner and the garbage collector would.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from shared_api.client.errors import ApiFailure, NotFound
from shared_api.client.resource_types import JOBS, QUEUE_UNITS
from shared_api.informer.shared_informer import InformerSettings, SharedInformer
from shared_api.objects.job import Job
from shared_api.process.clock import SystemClock
from shared_api.testing.object_builders import job_body
from tests.benchmarks.cluster_world import connect
from tests.waiting import within

PATIENCE_SECONDS: Final = 60.0
WRITERS: Final = 4
"""Threads that create, and as many that delete: one would wait too long for a busy API server."""
GRACE_SECONDS: Final = 2.0
"""So long before the end of a time a job may be created that is to start within it."""


class Start(NamedTuple):
    """A job that has started: when (monotonic), and how long after its creation."""

    at: float
    waited: float


class SteadyJobs:
    """Creates jobs between `__enter__` and `__exit__`.

    Args:
        kubeconfig: Of the API server.
        name: The namespace, and the quota.
        per_second: How many.
    """

    def __init__(self, kubeconfig: Path, name: str, per_second: float) -> None:
        self._name = name
        self._interval = 1.0 / per_second
        self._client, self._close = connect(kubeconfig)
        self._created_at: dict[str, float] = {}
        self.starts: list[Start] = []
        """Appended to by one thread."""
        self.failures: list[str] = []
        """What the API server has refused."""
        self._gone: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._over = threading.Event()
        self._began = 0.0
        self._numbers = count()
        """Of jobs; each is taken by one of the threads, in one step of the interpreter."""
        self._informer: SharedInformer[Job] = SharedInformer(
            self._client,
            JOBS,
            clock=SystemClock(),
            rng=random.Random(),
            settings=InformerSettings(resync_seconds=0),
        )
        self._threads = [
            threading.Thread(target=each)
            for each in (self._create, self._delete)
            for _ in range(WRITERS)
        ]

    def __enter__(self) -> Self:
        """Begin."""
        self._informer.add_handler(self._on_change)
        self._informer.start()
        assert within(PATIENCE_SECONDS, self._informer.has_synced), self._informer.check_synced()
        self._began = time.monotonic()
        for each in self._threads:
            each.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""
        self._over.set()
        for _ in range(WRITERS):
            self._gone.put(None)
        for each in self._threads:
            each.join()
        self._informer.stop()
        self._close()

    def between(self, begin: float, end: float) -> list[Start]:
        """Return the jobs that have started of those that should in this time (monotonic).

        Each has `GRACE_SECONDS` to start, so that their number does not depend on what the
        time happens to begin and to end with.
        """
        first, last = (each - GRACE_SECONDS for each in (begin, end))
        starts = [each for each in list(self.starts) if each.at < end]
        return [each for each in starts if first <= each.at - each.waited < last]

    def _create(self) -> None:
        for number in self._numbers:
            due = self._began + number * self._interval
            if self._over.wait(max(0.0, due - time.monotonic())):
                return
            name = f"stream-{number:06}"
            self._created_at[name] = time.monotonic()
            body = job_body(name, namespace=self._name, quota=self._name, requests={"cpu": 1})
            try:
                self._client.create(JOBS, self._name, body)
            except ApiFailure as error:
                self.failures.append(str(error))

    def _on_change(self, old: Job | None, new: Job | None) -> None:
        if new is None or new.spec.suspend or (old is not None and not old.spec.suspend):
            return
        created = self._created_at.pop(new.metadata.name, None)
        if created is not None:
            now = time.monotonic()
            self.starts.append(Start(now, now - created))
            self._gone.put(new.metadata.name)

    def _delete(self) -> None:
        while (name := self._gone.get()) is not None:
            try:
                # By default an API server keeps a Job until a garbage collector, of which there is
                # none here, has orphaned its pods.
                self._client.delete(JOBS, self._name, name, propagation="Background")
                # The unit of a Job has its name.
                self._client.delete(QUEUE_UNITS, self._name, name)
            except NotFound:
                pass  # the controllers were faster
            except ApiFailure as error:
                self.failures.append(str(error))
