"""Somebody else keeps turning a job's switch off: how long the queue turns it on again. Pure.

Three times within a minute, and it stops fighting: it writes what the contest was about into the
unit and leaves the job running. A job that ran out of turn is contested no more once it is
admitted, so an eviction after that is carried out like any other; one whose eviction is contested
keeps its quota until it ends or is suspended.
"""

from __future__ import annotations

from typing import Final

import msgspec

from queue_controllers.jobframework.actions import EventType, SuspendJob, TellJob
from queue_controllers.jobframework.generic_job import JobFacts
from queue_controllers.jobframework.job_view import Decision, JobMemory, JobView
from queue_controllers.jobframework.queue_unit_builder import plan_restoration
from queue_controllers.jobframework.unit_status import (
    SUSPEND_CONTESTED,
    how_to_activate,
    set_condition,
)
from shared_api.objects.meta import Condition, find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import is_being_evicted

FIGHT_SECONDS: Final = 60.0
MAX_FIGHTS: Final = 3
"""Un-suspends by somebody else within a minute after which the queue stops fighting."""

OUT_OF_TURN: Final = "UnsuspendedByOthers"
AGAINST_EVICTION: Final = "EvictionContested"
"""Reasons of `SuspendContested`: what it was about."""


def suspend_job(view: JobView, job: JobFacts) -> SuspendJob:
    """Return the action that turns the switch on."""
    by_annotation = view.settings.held_by_annotation or not job.kind.has_switch
    annotate = by_annotation or bool(job.suspend_annotation)
    return SuspendJob(annotate=annotate, resize=plan_restoration(job))


def is_contested_for(unit: QueueUnit, reason: str) -> bool:
    """Say whether the queue has stopped fighting for the job, and about this."""
    contested = find_condition(unit.status.conditions, SUSPEND_CONTESTED)
    return contested is not None and (contested.status, contested.reason) == ("True", reason)


def fight(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision:
    """Suspend a job again that somebody un-suspended, unless that goes on and on."""
    memory = _note_fight(view)
    if len(memory.unsuspended_at) >= MAX_FIGHTS:
        return _give_up(view, unit, memory)
    message = f"Suspended again: {_why_not(unit)}"
    event = TellJob(reason="SuspendedAgain", message=message, type=EventType.WARNING)
    return Decision(actions=(suspend_job(view, job), event), memory=memory)


def _why_not(unit: QueueUnit) -> str:
    """Return why the job may not run, and what makes it run."""
    if unit.spec.active is False:
        return f"its queue unit is not active. To have it run, {how_to_activate(unit)}"
    queue = f"queue {unit.spec.queue}" if unit.spec.queue else "the queue"
    why = "it is being evicted" if is_being_evicted(unit) else f"{queue} has not admitted it yet"
    return f"{why}. When it is its turn, the queue resumes it"


def _give_up(view: JobView, unit: QueueUnit, memory: JobMemory) -> Decision:
    reason = OUT_OF_TURN
    outcome = "runs without having been admitted. To put it back in line, suspend it"
    if is_being_evicted(unit):
        reason, outcome = AGAINST_EVICTION, "keeps its quota until it ends or is suspended"
    message = (
        f"Un-suspended {MAX_FIGHTS} times within {FIGHT_SECONDS:g} s by somebody else:"
        f" it is not suspended again, and {outcome}"
    )
    given_up = Condition(type=SUSPEND_CONTESTED, status="True", reason=reason, message=message)
    event = TellJob(reason="SuspendContested", message=message, type=EventType.WARNING)
    return Decision(
        actions=(set_condition(unit, given_up, view.moment), event),
        memory=msgspec.structs.replace(memory, unsuspended_at=()),
    )


def _note_fight(view: JobView) -> JobMemory:
    now = view.moment.monotonic
    recent = (at for at in view.memory.unsuspended_at if now - at < FIGHT_SECONDS)
    return msgspec.structs.replace(view.memory, unsuspended_at=(*recent, now))
