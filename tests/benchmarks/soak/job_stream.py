"""A steady number of Jobs: a new one is created whenever one is gone."""

from __future__ import annotations

import http.client
import random
import threading
import time
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self

from tests.cluster.queue_world import JOBS, QueueWorld
from tests.controlplane.api_client import ApiError
from tests.object_states import is_true

QUOTAS: Final = ("art", "bio", "law", "med")
QUOTA_CPU: Final = 8
"""Less than what the Jobs of a quota ask for, so that some wait."""
OPEN: Final = 40
"""Jobs that exist at a time."""
PAUSE_SECONDS: Final = 0.5
LIFE_SECONDS: Final = 5
"""How long a Job stays after its end."""


class JobStream:
    """Creates Jobs while the `with` block lasts, in a thread of its own.

    Attributes:
        created: How many there were.
        refused: Requests that failed, such as while the API server is down.
    """

    def __init__(self, world: QueueWorld, seed: int = 7) -> None:
        self._world = world
        self._rng = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jobs")
        self.created = 0
        self.refused = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(PAUSE_SECONDS):
            try:
                for _ in range(OPEN - len(unfinished(self._world))):
                    self._create()
            except (ApiError, OSError, http.client.HTTPException):
                self.refused += 1

    def _create(self) -> None:
        quota = self._rng.choice(QUOTAS)
        try:
            self._world.create_job(
                f"job-{self.created:06}",
                quota,
                cpu=self._rng.choice(("500m", "1", "2")),
                run_seconds=round(self._rng.uniform(1.0, 8.0), 2),
                ttlSecondsAfterFinished=LIFE_SECONDS,
                backoffLimit=0,
                parallelism=1 + (self.created % 3 == 0),
                completions=1 + (self.created % 3 == 0),
            )
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:  # it arrived, and only its answer was lost
                raise
        self.created += 1


def unfinished(world: QueueWorld) -> list[dict[str, Any]]:
    """Return the Jobs that have not ended."""
    jobs = world.api.request("GET", JOBS.format("default"))["items"]
    return [job for job in jobs if not (is_true(job, "Complete") or is_true(job, "Failed"))]


def await_all(world: QueueWorld, seconds: float) -> int:
    """Wait until all Jobs have ended and their units are gone; return how many units are left."""
    deadline = time.monotonic() + seconds
    while (left := len(world.units())) and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
    return left
