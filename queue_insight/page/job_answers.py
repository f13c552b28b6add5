"""Answers about all jobs, computed once for all visitors who may read the same namespaces."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import chain
from typing import Final

from queue_insight.page.job import Job
from queue_insight.page.job_filter import filter_jobs, sort_jobs
from queue_insight.page.job_list import (
    FoundJobs,
    JobsContent,
    OutlookOf,
    encode_jobs,
    no_outlook,
    outlook_of,
    show_jobs,
)
from queue_insight.page.job_table import JobTable, JobTables
from queue_insight.page.known_state import KnownStates
from queue_insight.page.queue_view import UnitQuery
from queue_insight.page.shared_answers import SharedAnswers
from queue_insight.page.sources import PageSources
from queue_insight.page.visitors import Visitor
from queue_scheduler.debug_api.hiding import hide
from shared_api.lifecycle import LifecycleState

MAX_FOUND: Final = 400_000
"""Jobs in lists that are kept for their next page, 8 bytes each: six of 50,000 units, and 20,000
that have ended."""
LEAST_FOUND: Final = 1_000
"""What a list counts as at least, so that there are not many short ones."""
MAX_ENCODED: Final = 4_000_000
"""Bytes of pages that are kept for other visitors: one of 200 jobs takes 100,000."""

_Readable = frozenset[str] | None
"""The namespaces that a visitor may read; None: all."""


class JobAnswers:
    """Builds the answers; callable from any thread.

    Args:
        sources: What they are built from.
        states: What else is known.
    """

    def __init__(self, sources: PageSources, states: KnownStates) -> None:
        self._sources = sources
        self._tables = JobTables(sources, states)
        clock, seconds = sources.clock, sources.kept_seconds
        self._found: SharedAnswers[FoundJobs] = SharedAnswers(
            clock, seconds, MAX_FOUND, lambda found: max(LEAST_FOUND, len(found.jobs))
        )
        self._encoded: SharedAnswers[bytes] = SharedAnswers(clock, seconds, MAX_ENCODED, len)

    def page(self, visitor: Visitor, query: UnitQuery, at: datetime | None) -> bytes:
        """Return a page of all jobs, as JSON.

        Raises:
            QuestionError: INVALID_ARGUMENT: the filter or the order names an unknown field.
            NoStateError: There is no state of that time.
        """
        table = self._tables.at(at)
        readable = _readable(table, visitor)

        def encoded() -> bytes:
            answer = self._content(table, readable, query, at)
            return hide(answer, visitor.may_read).model_dump_json(by_alias=True).encode()

        return encoded() if at is not None else self._encoded.get(table, (readable, query), encoded)

    def table(self, visitor: Visitor, query: UnitQuery, at: datetime | None) -> str:
        """Return the jobs that a filter lets through, as CSV; the errors are those of `page`."""
        table = self._tables.at(at)
        jobs = self._find(table, _readable(table, visitor), query, at).jobs[: query.limit]
        return encode_jobs(jobs, self._ahead(at), table.now.timestamp())

    def _content(
        self, table: JobTable, readable: _Readable, query: UnitQuery, at: datetime | None
    ) -> JobsContent:
        found = self._find(table, readable, query, at)
        page = found.jobs[query.offset : query.offset + query.limit]
        return JobsContent(
            leader=table.leader,
            state_at=table.state_at,
            ended_since=datetime.fromtimestamp(table.ended_since, UTC),
            total=len(found.jobs),
            offset=query.offset,
            limit=query.limit,
            units=show_jobs(page, self._ahead(at), table.now.timestamp()),
            others=found.others,
        )

    def _find(
        self, table: JobTable, readable: _Readable, query: UnitQuery, at: datetime | None
    ) -> FoundJobs:
        def find() -> FoundJobs:
            return find_jobs(table, readable, query)

        key = (readable, query.filter, query.sort)
        return find() if at is not None else self._found.get(table, key, find)

    def _ahead(self, at: datetime | None) -> OutlookOf:
        if at is not None:
            return no_outlook
        return outlook_of(self._sources.at(None).shared, self._sources.forecasts)


def _readable(table: JobTable, visitor: Visitor) -> _Readable:
    if visitor.reads_all:
        return None
    # A request reviews the rights to some namespaces only. So first those that have units: of gone
    # jobs there may be thousands, if each run makes a namespace of its own.
    existing = sorted({job.namespace for job in table.units})
    of_gone = dict.fromkeys(job.namespace for job in reversed(table.gone))
    spaces = dict.fromkeys(chain(existing, of_gone))
    return frozenset(each for each in spaces if visitor.may_read(each))


def find_jobs(table: JobTable, readable: _Readable, query: UnitQuery) -> FoundJobs:
    """Return the jobs that are asked for, in order.

    Nothing that may not be read is filtered or sorted: neither a number nor a time depends on it.

    Args:
        table: All jobs.
        readable: The namespaces that may be read; None: all.
        query: The filter and the order; offset and limit are not looked at.

    Raises:
        QuestionError: INVALID_ARGUMENT: the filter or the order names an unknown field.
    """
    jobs: list[Job] = [*table.units, *table.gone]
    others = 0
    if readable is not None:
        hidden = [job.state for job in table.units if job.namespace not in readable]
        others = len(hidden) - hidden.count(LifecycleState.FINISHED)
        jobs = [job for job in jobs if job.namespace in readable]
    found = filter_jobs(jobs, query.filter)
    return FoundJobs(sort_jobs(found, query.sort, table.now.timestamp()), others)
