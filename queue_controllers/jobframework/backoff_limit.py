"""A unit that was put back as often as it may be: made inactive, and active again. Pure.

The count and the condition stand in the status, `active` in the spec, so each way takes two writes.
Either can be the last of a process; what the first has left tells the next look to do the second:

    inactive:  the mark and `active: false`  ->  the condition, with which it is freed
    active:    count and condition go        ->  the mark goes, and `active: true`

The mark is an annotation on the unit, and holds what the job's `active` annotation said when the
limit was reached: "true" may have stood there all the time, and would undo the deactivation at the
next look. So only what it says later counts. Whoever sets `active` on the unit is heard as well.
The job is told what the condition says, by `obstacle`.
"""

from __future__ import annotations

from typing import Final

from queue_controllers.jobframework.actions import PatchUnit, PatchUnitStatus, TellJob
from queue_controllers.jobframework.generic_job import JobFacts
from queue_controllers.jobframework.job_annotations import read_active
from queue_controllers.jobframework.job_view import Decision, JobView
from queue_controllers.jobframework.unit_status import (
    backoffs_of,
    is_put_back_when_freed,
    limit_condition,
    set_condition,
)
from shared_api.objects.meta import Condition, is_condition_true
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import (
    BACKOFF_LIMIT_REACHED,
    is_being_evicted,
    is_booked,
)
from shared_api.well_known_labels import ACTIVE, LIMIT_REACHED

MAX_MARK_CHARS: Final = 16
"""Of the annotation's value: a truth value has five, and what is none need not be kept."""


def follow_limit(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Return what the backoff limit asks for, None for nothing."""
    mark = unit.metadata.annotations.get(LIMIT_REACHED)
    if mark is None:
        return _reach_limit(view, job, unit)
    if is_being_evicted(unit):
        return None  # once it is free
    said = _said(job)
    if unit.spec.active is not False or (said != mark and read_active(job)):
        return _activate(view, unit)
    if said != mark:
        noted = {"metadata": {"annotations": {LIMIT_REACHED: said}}}
        return Decision(actions=(PatchUnit(unit=unit, body=noted),), memory=view.memory)
    if is_booked(unit) or is_condition_true(unit.status.conditions, BACKOFF_LIMIT_REACHED):
        return None
    wanted = limit_condition(unit, backoffs_of(unit))
    write = set_condition(unit, wanted, view.moment, message=wanted.message)
    return Decision(actions=(write,), memory=view.memory)


def _reach_limit(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Deactivate a unit that waits, its limit having been lowered to where it is."""
    if is_booked(unit) or not _is_limit(view, backoffs_of(unit)):
        return None
    return _deactivate(view, job, unit)


def reach_limit_when_freed(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Deactivate a unit whose eviction would put it back once too often; None: it would not.

    Before it is freed, so that it is never free and active.
    """
    is_new = LIMIT_REACHED not in unit.metadata.annotations
    return _deactivate(view, job, unit) if is_new and reaches_limit(view, unit) else None


def reaches_limit(view: JobView, unit: QueueUnit) -> bool:
    """Say whether the eviction that is under way puts the unit back as often as it may be."""
    return is_put_back_when_freed(unit) and _is_limit(view, backoffs_of(unit) + 1)


def _is_limit(view: JobView, count: int) -> bool:
    limit = view.settings.backoff_limit
    return limit > 0 and count >= limit


def _deactivate(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision:
    body = {"metadata": {"annotations": {LIMIT_REACHED: _said(job)}}, "spec": {"active": False}}
    return Decision(actions=(PatchUnit(unit=unit, body=body),), memory=view.memory)


def _activate(view: JobView, unit: QueueUnit) -> Decision:
    status: dict[str, object] = {}
    if is_condition_true(unit.status.conditions, BACKOFF_LIMIT_REACHED):
        over = Condition(type=BACKOFF_LIMIT_REACHED, status="False", reason="Activated")
        status |= set_condition(unit, over, view.moment).status
    if unit.status.requeue_state is not None:
        status["requeueState"] = None
    if status:
        write = PatchUnitStatus(unit=unit, status=status)
        return Decision(actions=(write,), memory=view.memory)
    body = {"metadata": {"annotations": {LIMIT_REACHED: None}}, "spec": {"active": True}}
    message = "Active again: it waits for its turn, and its backoffs are counted anew"
    event = TellJob(reason="Activated", message=message)
    return Decision(actions=(PatchUnit(unit=unit, body=body), event), memory=view.memory)


def _said(job: JobFacts) -> str:
    return job.metadata.annotations.get(ACTIVE, "")[:MAX_MARK_CHARS]
