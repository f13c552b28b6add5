"""All jobs: the units that the engine knows, and those that have ended and are gone.

A row is made anew only where its unit has changed, so a state of 50,000 units takes some
milliseconds.
"""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Final, cast

import msgspec

from queue_insight.page.ended_jobs import EndedJobs
from queue_insight.page.job import Job, job_of_record
from queue_insight.page.known_state import KnownStates
from queue_insight.page.sources import EngineAtTime, PageSources
from queue_scheduler.cache.known_units import units_by_key
from queue_scheduler.cache.unit_state import UnitState
from shared_api.lifecycle import LifecycleState

LATE_SECONDS: Final = 60.0
"""How long after the end of a unit its run may still be reported, at most."""


class JobTable(msgspec.Struct, frozen=True):
    """All jobs at one moment.

    Attributes:
        number: The number of the state of the engine.
        state_at: The time of that state.
        leader: Whether the replica decides.
        now: The time, for how long jobs wait and run.
        units: The jobs whose unit exists.
        gone: The jobs that have ended and whose unit is gone, the oldest end first.
        ended_since: Those that have ended since then are all there, in seconds since the epoch.
        by_record: Those of `units` that are the same as long as their record is, by the identity of
            that; each keeps its record, so no other one has its identity.
    """

    number: int
    state_at: datetime
    leader: bool
    now: datetime
    units: list[Job]
    gone: list[Job]
    ended_since: float
    by_record: dict[int, Job]


class JobTables:
    """Reads tables; callable from any thread.

    Args:
        sources: What is asked.
        states: What else is known: whoever is told of a state is shown no older one.
    """

    def __init__(self, sources: PageSources, states: KnownStates) -> None:
        self._sources = sources
        self._states = states
        self._lock = threading.Lock()  # guards the fields; held while one is read, for all callers
        self._last: JobTable | None = None
        self._read_at = 0.0

    def at(self, moment: datetime | None) -> JobTable:
        """Return the jobs of a time; None: of now, at most a second old.

        Raises:
            NoStateError: There is no state.
        """
        state = self._sources.at(moment)
        if moment is not None:
            return read_jobs(state, 0, self._sources.ended_jobs)
        with self._lock:
            now, last = self._sources.clock.monotonic(), self._last
            is_fresh = now < self._read_at + self._sources.kept_seconds
            if last is None or not is_fresh or self._states.looked_at > self._read_at:
                self._read_at, number = now, self._sources.number()
                last = self._last = read_jobs(state, number, self._sources.ended_jobs, last)
            return last


def read_jobs(
    state: EngineAtTime, number: int, ended: EndedJobs | None, before: JobTable | None = None
) -> JobTable:
    """Return all jobs of a state.

    Args:
        state: The state.
        number: Its number.
        ended: The jobs that have ended; None: they are not known.
        before: An earlier table, whose rows are used again.
    """
    now = state.now()
    until = now.timestamp()
    runs = {} if ended is None else ended.by_uid()
    records = units_by_key(state.shared.fork().units)
    known = {} if before is None else before.by_record
    # Without a loop in Python: as a rule nearly all rows are the same.
    identities = list(map(id, records.values()))
    rows = cast("list[Job]", list(map(known.get, identities)))  # those that are missing follow
    by_record = dict(zip(identities, rows, strict=True))
    if None in rows:
        for at, (key, record) in enumerate(records.items()):
            if identities[at] in known:
                continue
            run = runs.get(record.uid) if record.state is UnitState.ENDED else None
            row = rows[at] = by_record[id(record)] = job_of_record(key, record, run)
            if row.state is LifecycleState.FINISHED and run is None and _may_be_late(row, until):
                del by_record[id(record)]
    return JobTable(
        number=number,
        state_at=state.state_at,
        leader=state.is_leader,
        now=now,
        units=rows,
        gone=[
            job
            for job in runs.values()
            if ((of_name := records.get(job.key)) is None or of_name.uid != job.uid)
            and _has_ended(job, until)
        ],
        ended_since=until if ended is None else ended.since,
        by_record=by_record,
    )


def _may_be_late(row: Job, now: float) -> bool:
    return row.ended is None or row.ended > now - LATE_SECONDS


def _has_ended(job: Job, until: float) -> bool:
    return job.ended is not None and job.ended <= until
