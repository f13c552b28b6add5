"""The view of all jobs: a visitor sees those of its own namespaces, of others their number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Final, NamedTuple

import msgspec

from queue_insight.debug_api.forecast_routes import Forecasts, Start
from queue_insight.page.job import Job
from queue_insight.page.queue_table import in_one_cell, write_table
from queue_scheduler.cycles.engine_reader import EngineReader
from queue_scheduler.debug_api.hiding import OfUnit, Owner
from queue_scheduler.debug_api.snapshots import BATCH
from queue_scheduler.debug_api.views import quantities
from queue_scheduler.decision import Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from shared_api.debug_api.views import View
from shared_api.lifecycle import PENDING, LifecycleState
from shared_api.timestamps import rfc3339


class Outlook(NamedTuple):
    """What is likely to become of a job.

    Attributes:
        start: When it starts, if it waits.
        end: When it ends, if it runs (RFC 3339); None: it does not, or that is not known.
    """

    start: Start = Start()
    end: str | None = None


OutlookOf = Callable[[Iterable[Job]], Iterator[Outlook]]
"""Returns what is likely to become of jobs, in their order."""


class JobRow(View):
    """One job.

    `state` is `waiting`, `reserved`, `starting`, `running`, `finished` or `on hold`; `phase` is
    upstream's, "" if the unit is gone. `result` is `succeeded`, `failed` or `deleted`, "" if it has
    not ended. `reason` is why it is pending, "" where it is not. `waited_seconds` is how long it
    waited until its pods ran, `ran_seconds` how long these ran; of a job that still does, until
    now. `starts` is when it starts by the last forecast (the median), and `no_start` says in a few
    words why none is told, if that is known. `ends` is when a running job ends, likewise. Null: it
    is not known, or not yet so.
    """

    namespace: Annotated[str, Owner()]
    name: str
    kind: str
    job: str
    state: str
    result: str
    reason: str
    phase: str
    queue: str
    quota: str
    user: str
    priority: int
    requests: dict[str, str]
    created: str | None
    started: str | None
    ended: str | None
    waited_seconds: int | None
    ran_seconds: int | None
    starts: str | None
    no_start: str
    ends: str | None


class JobsContent(View):
    """A page of all jobs, the newest first, or as `sort` says.

    `total` counts the jobs that the visitor may read and the filter lets through. `others` counts
    all pending and admitted units that it may not read: whatever the filter is, it tells nothing
    about these. Of the jobs whose units are gone, those that have ended since `ended_since` are
    there.
    """

    leader: bool
    state_at: datetime
    ended_since: datetime
    total: int
    offset: int
    limit: int
    units: Annotated[list[JobRow], OfUnit(counted="others")]
    others: int = 0


class FoundJobs(msgspec.Struct, frozen=True):
    """The jobs that a visitor may read and a filter lets through, in order.

    Attributes:
        jobs: The jobs.
        others: How many pending and admitted units it may not read.
    """

    jobs: list[Job]
    others: int


def outlook_of(shared: EngineReader, forecasts: Forecasts) -> OutlookOf:
    """Return what looks ahead."""

    def outlooks(jobs: Iterable[Job]) -> Iterator[Outlook]:
        rest = iter(jobs)
        while batch := tuple(islice(rest, BATCH)):
            waiting = [job.key for job in batch if _waits(job)]
            refusals = iter(shared.ask(_refusals_of, waiting))
            for job in batch:
                if _waits(job):
                    yield Outlook(forecasts.start_of(job.uid, next(refusals)))
                elif job.state is LifecycleState.RUNNING:
                    yield Outlook(end=forecasts.end_of(job.uid))
                else:
                    yield Outlook()

    return outlooks


def no_outlook(jobs: Iterable[Job]) -> Iterator[Outlook]:
    """Say nothing of what is to come: of another time nothing is forecast."""
    return (Outlook() for _ in jobs)


def _waits(job: Job) -> bool:
    return job.state in PENDING


def _refusals_of(engine: Engine, keys: list[str]) -> list[Refusal | None]:
    return [refusal_of_unit(engine, key) for key in keys]


def show_jobs(jobs: list[Job], ahead: OutlookOf, now: float) -> list[JobRow]:
    """Return rows; `now`: the time in seconds since the epoch."""
    return [
        JobRow(
            namespace=job.namespace,
            name=job.name,
            kind=job.kind,
            job=job.job,
            state=job.state.value,
            result=job.result,
            reason=job.reason,
            phase=job.phase,
            queue=job.queue,
            quota=job.quota,
            user=job.user,
            priority=job.priority,
            requests=quantities(job.requests),
            created=_moment(job.created),
            started=_moment(job.started),
            ended=_moment(job.ended),
            waited_seconds=_whole(job.waited(now)),
            ran_seconds=_whole(job.ran(now)),
            starts=likely.start.p50,
            no_start=likely.start.none,
            ends=likely.end,
        )
        for job, likely in zip(jobs, ahead(jobs), strict=True)
    ]


COLUMNS: Final = (
    "namespace",
    "name",
    "kind",
    "job",
    "state",
    "result",
    "reason",
    "phase",
    "queue",
    "quota",
    "user",
    "priority",
    "created",
    "started",
    "ended",
    "waited_seconds",
    "ran_seconds",
    "starts",
    "ends",
    "requests",
)


def encode_jobs(jobs: list[Job], ahead: OutlookOf, now: float) -> str:
    """Return jobs as CSV; `now`: the time in seconds since the epoch."""
    rows = (
        (
            job.namespace,
            job.name,
            job.kind,
            job.job,
            job.state.value,
            job.result,
            job.reason,
            job.phase,
            job.queue,
            job.quota,
            job.user,
            job.priority,
            _moment(job.created),
            _moment(job.started),
            _moment(job.ended),
            _whole(job.waited(now)),
            _whole(job.ran(now)),
            likely.start.p50 or likely.start.none,
            likely.end,
            in_one_cell(quantities(job.requests)),
        )
        for job, likely in zip(jobs, ahead(jobs), strict=True)
    )
    return write_table(COLUMNS, rows)


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else rfc3339(datetime.fromtimestamp(seconds, UTC))


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds)
