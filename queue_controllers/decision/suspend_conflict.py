"""A job is resumed against the queue: it is suspended again, for as long as that goes on. Pure.

The queue never yields. It writes at most once a second per job, and records an event once a minute.
The third time within a minute the unit moves to the end of its queue, at most once a minute, by a
condition whose time the scheduler orders by, so that it survives a restart. What the job runs in
the meantime is charged: its living pods count, whatever its unit's phase.
"""

from __future__ import annotations

from typing import Final

import msgspec

from queue_controllers.decision.actions import (
    EventType,
    PatchUnitStatus,
    RecordJobEvent,
    SuspendJob,
)
from queue_controllers.decision.grants import plan_restoration
from queue_controllers.decision.job_view import (
    Decision,
    JobMemory,
    JobView,
    LostUnit,
    Moment,
)
from queue_controllers.decision.unit_status_patches import how_to_activate, set_condition
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.objects.meta import Condition, find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import (
    SUSPEND_CONTESTED,
    condition_body,
    contested_since,
    is_being_evicted,
    is_final,
    occupies_quota,
)

LEAST_PAUSE_SECONDS: Final = 1.0
"""Between two suspensions of one job: a tool that resumes it at once costs a write a second."""

CONTEST_SECONDS: Final = 60.0
MAX_RESUMES: Final = 3
"""So many times within so long, and the unit moves to the end of its queue. Also how often events
report a conflict that continues."""

OUT_OF_TURN: Final = "UnsuspendedByOthers"
AGAINST_EVICTION: Final = "EvictionContested"
"""Reasons of `SuspendContested`: what it is about."""


def suspend_job(view: JobView, job: JobFacts) -> SuspendJob:
    """Return the action that suspends the job."""
    by_annotation = view.settings.held_by_annotation or not job.kind.has_switch
    annotate = by_annotation or bool(job.suspend_annotation)
    return SuspendJob(annotate=annotate, resize=plan_restoration(job))


def suspend_again(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision:
    """Suspend a job that was resumed against the queue; too often, and its unit loses its place."""
    memory, now = view.memory, view.moment.monotonic
    if memory.unsuspended_at:
        rest = memory.unsuspended_at[-1] + LEAST_PAUSE_SECONDS - now
        if rest > 0:
            return Decision(memory=memory, requeue_after_seconds=rest)
    recent = tuple(at for at in memory.unsuspended_at if now - at < CONTEST_SECONDS)
    memory = msgspec.structs.replace(memory, unsuspended_at=(*recent, now)[-MAX_RESUMES:])
    if len(recent) + 1 >= MAX_RESUMES and not _is_recent(memory.displaced_at, now):
        return _displace(view, job, unit, memory)
    if _is_recent(memory.contest_told_at, now):
        return Decision(actions=(suspend_job(view, job),), memory=memory)
    message = f"Suspended again: {_why_not(unit)}"
    event = RecordJobEvent(reason="SuspendedAgain", message=message, type=EventType.WARNING)
    memory = msgspec.structs.replace(memory, contest_told_at=now)
    return Decision(actions=(suspend_job(view, job), event), memory=memory)


def _is_recent(at: float | None, now: float) -> bool:
    return at is not None and now - at < CONTEST_SECONDS


def _why_not(unit: QueueUnit) -> str:
    """Return why the job may not run, and what makes it run."""
    if unit.spec.active is False:
        return f"its queue unit is not active. To have it run, {how_to_activate(unit)}"
    queue = f"queue {unit.spec.queue}" if unit.spec.queue else "the queue"
    why = "it is being evicted" if is_being_evicted(unit) else f"{queue} has not admitted it yet"
    return f"{why}. When it is its turn, the queue resumes it"


def _displace(view: JobView, job: JobFacts, unit: QueueUnit, memory: JobMemory) -> Decision:
    """Suspend it, and move its unit to the end of its queue."""
    reason, where = OUT_OF_TURN, "it has gone to the end of its queue"
    if is_being_evicted(unit):
        reason, where = AGAINST_EVICTION, "once it has stopped it waits at the end of its queue"
    message = (
        f"Resumed {MAX_RESUMES} times within {CONTEST_SECONDS:g} s by others: it is"
        f" suspended again each time, and {where}. What applies it must leave its suspend"
        " field to the queue"
    )
    contested = Condition(type=SUSPEND_CONTESTED, status="True", reason=reason, message=message)
    event = RecordJobEvent(reason=SUSPEND_CONTESTED, message=message, type=EventType.WARNING)
    now = view.moment.monotonic
    return Decision(
        # First what stops the job: a status write that is refused, or meets a newer version, is
        # repeated by the next reconcile, since only a successful write is remembered.
        actions=(suspend_job(view, job), to_the_end(unit, contested, view.moment), event),
        memory=msgspec.structs.replace(memory, displaced_at=now, contest_told_at=now),
    )


def to_the_end(unit: QueueUnit, contested: Condition, moment: Moment) -> PatchUnitStatus:
    """Return the write that moves a unit to the end of its queue.

    The condition's time is that of the last such move, so it changes though the status stays True.
    """
    others = tuple(each for each in unit.status.conditions if each.type != SUSPEND_CONTESTED)
    status = msgspec.structs.replace(unit.status, conditions=others)
    without = msgspec.structs.replace(unit, status=status)
    return set_condition(without, contested, moment)


def read_lost(unit: QueueUnit) -> LostUnit | None:
    """Return what of a deleted unit counts against its job's next one, None: nothing."""
    if is_final(unit):
        return None
    said = find_condition(unit.status.conditions, SUSPEND_CONTESTED)
    contested = said if contested_since(unit) else None
    lost = LostUnit(waited=not occupies_quota(unit), contested=contested)
    return None if lost == LostUnit() else lost


def restore_contest(view: JobView, unit: QueueUnit) -> PatchUnitStatus | None:
    """Return the write that puts a unit where the one before it stood, None: it may stay.

    That one was at the end of its queue, and was deleted.
    """
    contested = None if view.lost is None else view.lost.contested
    conditions = unit.status.conditions
    if contested is None or find_condition(conditions, SUSPEND_CONTESTED) is not None:
        return None
    status = {
        "conditions": [condition_body(each) for each in (*conditions, contested)],
        "lastUpdateTime": view.moment.stamp,
    }
    return PatchUnitStatus(unit=unit, status=status)
