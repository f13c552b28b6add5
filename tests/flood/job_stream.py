"""Jobs that are created at a steady rate, and seen to start: what the queue is there for.

Each is deleted when it has started, with its unit, as its owner and the garbage collector would.
"""

from __future__ import annotations

import queue
import random
import threading
import time
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

PATIENCE_SECONDS: Final = 60.0
WRITERS: Final = 3


class Start(NamedTuple):
    """A job that has started: when (monotonic), and how long after its creation."""

    at: float
    waited: float


class JobStream:
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
        self._informer: SharedInformer[Job] = SharedInformer(
            self._client,
            JOBS,
            clock=SystemClock(),
            rng=random.Random(),
            settings=InformerSettings(resync_seconds=0),
        )
        self._threads = [
            threading.Thread(target=self._create),
            *(threading.Thread(target=self._delete) for _ in range(WRITERS)),
        ]

    def __enter__(self) -> Self:
        """Begin."""
        self._informer.add_handler(self._on_change)
        self._informer.start()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._informer.has_synced():
            assert time.monotonic() < deadline, self._informer.check_synced()
            time.sleep(0.01)
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
        """Return the jobs that started in this time (monotonic)."""
        return [each for each in list(self.starts) if begin <= each.at < end]

    def _create(self) -> None:
        due, number = time.monotonic(), 0
        while not self._over.wait(max(0.0, due - time.monotonic())):
            # The rate is kept however slow the API server is.
            due += self._interval
            name, number = f"stream-{number:06}", number + 1
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
                self._client.delete(JOBS, self._name, name)
                # The unit of a Job has its name.
                self._client.delete(QUEUE_UNITS, self._name, name)
            except NotFound:
                pass  # the controllers were faster
            except ApiFailure as error:
                self.failures.append(str(error))
