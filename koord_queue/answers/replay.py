"""What a replay has shown, as `koord-queue replay --json` writes it. Times are in seconds."""

from __future__ import annotations

from typing import Any

from koord_queue.answers.decoding import Answer


class Waits(Answer, frozen=True):
    """How long jobs waited for their first admission, as far as they were admitted.

    Attributes:
        jobs: How many were admitted.
        waited: How many of them waited for a minute or longer.
        every5_percent: The quantiles 0, 5, ... 100 %, for a plot.
    """

    jobs: int = 0
    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    max: float = 0.0
    mean: float = 0.0
    total: float = 0.0
    waited: int = 0
    every5_percent: tuple[float, ...] = ()


class AllWaits(Answer, frozen=True):
    """The waits of all jobs, and by tenant, which is the quota."""

    all: Waits = Waits()
    by_tenant: dict[str, Waits] = {}


class Fairness(Answer, frozen=True):
    """How alike tenants are treated.

    Attributes:
        jain: Jain's index of the stretches: 1 if all are alike.
        stretch: By tenant: time from submission to end, divided by the time that its jobs ran.
    """

    jain: float = 1.0
    stretch: dict[str, float] = {}


class Users(Answer, frozen=True):
    """How users are treated.

    Attributes:
        count: How many there are.
        jain: Jain's index of the stretches of all of them.
        stretch: By user, as of tenants: of those that are named.
        waits: By user, of those whose p90 is longest in any of the replays.
    """

    count: int = 0
    jain: float = 1.0
    stretch: dict[str, float] = {}
    waits: dict[str, Waits] = {}


class Use(Answer, frozen=True):
    """One resource of one quota, in base units: thousandths of a core, bytes, pieces.

    Attributes:
        limit: Its max; None if it has none.
        used: The average of each step.
    """

    limit: int | None = None
    used: tuple[float, ...] = ()


class QueueLength(Answer, frozen=True):
    """How many jobs wait, as the average of each step."""

    total: tuple[float, ...] = ()
    by_quota: dict[str, tuple[float, ...]] = {}


class NeverStarted(Answer, frozen=True):
    """How many jobs never started, and why."""

    why: str = ""
    count: int = 0


class Bottleneck(Answer, frozen=True):
    """For how many hours, of all jobs together, jobs waited for something."""

    quota: str = ""
    resource: str = ""
    reason: str = ""
    job_hours: float = 0.0


class PlayedJob(Answer, frozen=True):
    """What became of one job.

    Attributes:
        name: As the trace says; "" without names.
        tenant: Its quota.
        submitted: Seconds since the first submission.
        wait: Until its first admission; None if it never started.
        finished: When it ended, in seconds since the first submission; None if it did not.
    """

    name: str = ""
    tenant: str = ""
    submitted: float = 0.0
    wait: float | None = None
    finished: float | None = None
    evictions: int = 0


class Run(Answer, frozen=True):
    """One replay: with one policy, or one set of quotas.

    Attributes:
        name: The policy, or `as configured`.
        finished: How many jobs ended.
        lost_seconds: Work that evictions have undone.
        seconds: When the last thing happened.
        step_seconds: Of the steps of `use` and `queue_length`.
        users: None if no job of the trace names its user.
        jobs: All of them, in order of submission.
    """

    name: str = ""
    finished: int = 0
    evictions: int = 0
    lost_seconds: float = 0.0
    seconds: float = 0.0
    step_seconds: int = 0
    waits: AllWaits = AllWaits()
    users: Users | None = None
    never_started: tuple[NeverStarted, ...] = ()
    use: dict[str, dict[str, Use]] = {}
    queue_length: QueueLength = QueueLength()
    fairness: Fairness = Fairness()
    bottlenecks: tuple[Bottleneck, ...] = ()
    jobs: tuple[PlayedJob, ...] = ()

    def job(self, name: str) -> PlayedJob:
        """Return the job of a name.

        Raises:
            KeyError: The trace names none so.
        """
        for each in self.jobs:
            if each.name == name:
                return each
        raise KeyError(name)


class Replay(Answer, frozen=True):
    """A trace, replayed once or several times; the others are compared with the first.

    Attributes:
        runs: The first is what was asked for, the others are those to compare with.
        report: All numbers, as `koord-queue replay --json` writes them.
    """

    runs: tuple[Run, ...] = ()
    report: dict[str, Any] = {}

    @property
    def first(self) -> Run:
        """The replay that was asked for."""
        return self.runs[0]

    def run(self, name: str) -> Run:
        """Return the run of a policy.

        Raises:
            KeyError: There is none.
        """
        for each in self.runs:
            if each.name == name:
                return each
        raise KeyError(name)
