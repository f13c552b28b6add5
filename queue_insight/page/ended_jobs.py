"""The jobs that have ended, as the record has them: the newest, kept in memory.

Each answer about all jobs needs them, and to read them from the record takes longer than the rest
of the answer.
"""

from __future__ import annotations

from typing import Final

from queue_insight.insight.finished_run import FinishedRun
from queue_insight.page.job import Job, job_of_run

MAX_ENDED: Final = 20_000
"""Jobs that are kept, at some 900 bytes: two weeks of 1,400 jobs a day."""


class EndedJobs:
    """Keeps the newest jobs that have ended. One thread adds; any may read.

    Attributes:
        since: All jobs that have ended since then are kept, in seconds since the epoch.

    Args:
        since: From when on it is told of all.
        most: How many are kept.
    """

    def __init__(self, since: float, most: int = MAX_ENDED) -> None:
        self.since = since
        self._most = most
        self._jobs: dict[str, Job] = {}

    def add(self, run: FinishedRun) -> None:
        """Take a run that has ended, in the order of their ends."""
        job = job_of_run(run)
        if job is None:
            return
        self._jobs.pop(run.uid, None)
        self._jobs[run.uid] = job
        if len(self._jobs) > self._most:
            oldest = self._jobs.pop(next(iter(self._jobs)))
            self.since = max(self.since, oldest.ended or 0.0)

    def find(self, uid: str) -> Job | None:
        """Return the job of a unit; None: it has not ended, or is not known."""
        return self._jobs.get(uid)

    def by_uid(self) -> dict[str, Job]:
        """Return all of them, the oldest end first."""
        return self._jobs.copy()  # at once, whatever the other thread does
