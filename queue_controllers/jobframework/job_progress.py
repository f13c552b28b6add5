"""What a released job does, written into its unit: pods that run, work that is done, growth. Pure.

Few writes tell it: Running once, with the right counts, then what is given back for good. Counts of
running pods alone are corrected seldom, since nothing is decided by them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from queue_controllers.jobframework.actions import EventType, PatchUnit, PatchUnitStatus, TellUnit
from queue_controllers.jobframework.generic_job import JobFacts, parse_moment
from queue_controllers.jobframework.job_machine import JobState, State
from queue_controllers.jobframework.job_view import Decision, JobView
from queue_controllers.jobframework.queue_unit_builder import build_growth, build_reclaimable
from queue_controllers.jobframework.unit_status import (
    BACKOFF_TIMEOUT,
    OPERATOR_SILENT,
    SUSPEND_CONTESTED,
    counted_admissions,
    evict_unit,
    move_unit,
    running_timeout,
)
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import RELEASED_PHASES, Phase, phase_of

SETTLE_SECONDS: Final = 0.5
"""How long Running waits for the other pods after the first: one write with the right counts
instead of two. A job whose pods all run does not wait."""

COUNT_SECONDS: Final = 30.0
"""Least time between two writes that only correct the counts of a running unit."""

LATE: Final = "Backoff due to running timeout"
"""Upstream's message."""


def follow_job(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> Decision:
    """Write down what a released job does, and announce its eviction when it is late."""
    if growth := build_growth(job, unit):
        message = "The job has grown beyond its admission; nothing new is admitted for that"
        event = TellUnit(unit=unit, reason="Grown", message=message, type=EventType.WARNING)
        actions = (PatchUnit(unit=unit, body=growth), event)
        return Decision(actions=actions, memory=view.memory)
    late, look_again = _is_late(view, job, unit)
    if late is not None and state.state is State.STARTING:
        return _evict_late(view, unit, late)
    status: dict[str, object] = {}
    if given_back := build_reclaimable(job, unit):
        status["reclaimablePods"] = given_back
    if phase_of(unit) is Phase.RUNNING:
        return _follow_counts(view, unit, status)
    if state.state is not State.RUNNING:
        write = (PatchUnitStatus(unit=unit, status=status),) if status else ()
        # Since when one ran stays: of a job of short pods no look need find two that run.
        return Decision(actions=write, memory=view.memory, look_again_seconds=look_again)
    return _write_running(view, unit, status)


def wait_to_resume(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision:
    """Wait until the pods of an earlier run are gone, no longer than a start may take.

    Their going wakes us. One that has ended, and that somebody's finalizer keeps, may never go.
    """
    late, look_again = _is_late(view, job, unit)
    if late is not None:
        return _evict_late(view, unit, late)
    return Decision(memory=view.memory, look_again_seconds=look_again)


def _evict_late(view: JobView, unit: QueueUnit, late: PatchUnitStatus) -> Decision:
    event = TellUnit(unit=unit, reason="Evicted", message=LATE, type=EventType.WARNING)
    return Decision(actions=(late, event), memory=view.memory)


def _is_late(
    view: JobView, job: JobFacts, unit: QueueUnit
) -> tuple[PatchUnitStatus | None, float | None]:
    """Return the eviction of a job that has not come to run in time, or when that will be so."""
    if not view.ownership.managed:
        return None, None  # it is evicted by nobody, and so never late
    seconds, since = running_timeout(unit, view.settings), _may_run_since(job, unit)
    if not seconds or since is None or phase_of(unit) not in RELEASED_PHASES:
        return None, None
    if phase_of(unit) is Phase.RUNNING:
        return None, None  # it ran: what came after is a retry of its own
    rest = seconds - (view.moment.wall - since).total_seconds()
    if rest > 0:
        return None, rest
    return evict_unit(unit, BACKOFF_TIMEOUT, LATE, view.moment), None


def _may_run_since(job: JobFacts, unit: QueueUnit) -> datetime | None:
    """Return since when the job may run; somebody else may have resumed it after the admission."""
    moments = (job.released_at, parse_moment(unit.status.last_allocate_time or ""))
    return max((each for each in moments if each is not None), default=None)


def _write_running(view: JobView, unit: QueueUnit, status: dict[str, object]) -> Decision:
    """Move the unit to Running, with the counts that the next half second brings."""
    memory, now = view.memory, view.moment.monotonic
    since = now if memory.running_since is None else memory.running_since
    rest = since + SETTLE_SECONDS - now
    wanted = sum(each.count for each in unit.spec.pod_set)
    if view.pods.running < wanted and rest > 0:
        memory = msgspec.structs.replace(memory, running_since=since)
        return Decision(memory=memory, look_again_seconds=rest)
    if (admissions := counted_admissions(unit, view.pods)) is not None:
        status["admissions"] = admissions
    move = move_unit(
        unit,
        Phase.RUNNING,
        view.moment,
        message="Running",
        settled=(SUSPEND_CONTESTED, OPERATOR_SILENT),
        extra=status,
    )
    memory = msgspec.structs.replace(memory, running_since=None, counted_at=now)
    return Decision(actions=(move,), memory=memory, settled=True)


def _follow_counts(view: JobView, unit: QueueUnit, status: dict[str, object]) -> Decision:
    """Correct the counts of a running unit, seldom: nothing is decided by them."""
    memory, now = view.memory, view.moment.monotonic
    look_again: float | None = None
    if (admissions := counted_admissions(unit, view.pods)) is not None:
        since = memory.counted_at
        rest = 0.0 if since is None else since + COUNT_SECONDS - now
        if rest <= 0 or status:
            status["admissions"] = admissions
            memory = msgspec.structs.replace(memory, counted_at=now)
        else:
            look_again = rest
    write = (PatchUnitStatus(unit=unit, status=status),) if status else ()
    return Decision(actions=write, memory=memory, look_again_seconds=look_again)
