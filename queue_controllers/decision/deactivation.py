"""Units that the controllers have made inactive, and how they become active again. Pure.

A unit is deactivated for one of three reasons: it reached its backoff limit, its
pods have run for as long as they may (`execution_time`), or its admission checks contradict each
other (`pod_set_updates`). The reason stands in the status, `active` in the spec, so each way takes
two writes. The process may end between them; what the first has written makes the next reconcile do
the second:

    inactive:  the mark and `active: false`  ->  the condition, with which it is freed
    active:    count and condition go        ->  the mark goes, and `active: true`

The mark is an annotation on the unit, one for each reason. Its value is what the job's `active`
annotation was then: "true" may have stood there all the time, and would undo the deactivation at
the next reconcile. So only a later change of it counts. Setting `active` on the unit works, too.
`pending` reports the condition on the job.
"""

from __future__ import annotations

from typing import Final

from queue_controllers.decision.actions import PatchUnit, PatchUnitStatus, RecordJobEvent
from queue_controllers.decision.job_annotations import read_active
from queue_controllers.decision.job_view import Decision, JobView
from queue_controllers.decision.unit_status_patches import (
    DEACTIVATING,
    deactivated_condition,
    eviction_ends_in_backoff,
    limit_condition,
    set_condition,
)
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.evictions import backoffs_of
from shared_api.objects.meta import Condition, is_condition_true
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import DEACTIVATION_CONDITIONS, is_being_evicted, occupies_quota
from shared_api.well_known_labels import ACTIVE, DEACTIVATION_MARKS, LIMIT_REACHED, TIME_EXCEEDED

MAX_MARK_CHARS: Final = 16
"""Of the annotation's value: a truth value has at most five, and anything else need not be kept."""

_REASONS: Final = {mark: reason for reason, mark in DEACTIVATING.items()}
_COUNTED_ANEW: Final = {
    LIMIT_REACHED: ", and its backoffs are counted from zero",
    TIME_EXCEEDED: ", and the time that it runs is counted from zero",
}


def deactivate(view: JobView, job: JobFacts, unit: QueueUnit, mark: str) -> Decision:
    """Make a unit inactive for the reason that the mark names."""
    body = {"metadata": {"annotations": {mark: _said(job)}}, "spec": {"active": False}}
    return Decision(actions=(PatchUnit(unit=unit, body=body),), memory=view.memory)


def follow_deactivation(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Return what to do about a deactivated unit, None for nothing."""
    mark = mark_of(unit)
    if not mark or is_being_evicted(unit):
        return None  # return to this when it is free
    before, said = unit.metadata.annotations[mark], _said(job)
    if unit.spec.active is not False or (said != before and read_active(job)):
        return _activate(view, unit, mark)
    if said != before:
        noted = {"metadata": {"annotations": {mark: said}}}
        return Decision(actions=(PatchUnit(unit=unit, body=noted),), memory=view.memory)
    if occupies_quota(unit) or _conditions_of(unit):
        return None
    wanted = limit_condition(unit, backoffs_of(unit))
    if (reason := _REASONS.get(mark)) is not None:
        wanted = deactivated_condition(unit, reason)
    write = set_condition(unit, wanted, view.moment, message=wanted.message)
    return Decision(actions=(write,), memory=view.memory)


def mark_of(unit: QueueUnit) -> str:
    """Return the annotation that says why the controllers deactivated the unit, or ""."""
    annotations = unit.metadata.annotations
    return next((each for each in DEACTIVATION_MARKS if each in annotations), "")


def _conditions_of(unit: QueueUnit) -> list[str]:
    conditions = unit.status.conditions
    return [each for each in DEACTIVATION_CONDITIONS if is_condition_true(conditions, each)]


def _activate(view: JobView, unit: QueueUnit, mark: str) -> Decision:
    status: dict[str, object] = {}
    for condition_type in _conditions_of(unit):  # at most one: a unit has one mark
        over = Condition(type=condition_type, status="False", reason="Activated")
        status |= set_condition(unit, over, view.moment).status
    if unit.status.requeue_state is not None:
        status["requeueState"] = None
    if status:
        write = PatchUnitStatus(unit=unit, status=status)
        return Decision(actions=(write,), memory=view.memory)
    body = {"metadata": {"annotations": {mark: None}}, "spec": {"active": True}}
    message = f"Active again: it waits for its turn{_COUNTED_ANEW.get(mark, '')}"
    event = RecordJobEvent(reason="Activated", message=message)
    return Decision(actions=(PatchUnit(unit=unit, body=body), event), memory=view.memory)


def _said(job: JobFacts) -> str:
    return job.metadata.annotations.get(ACTIVE, "")[:MAX_MARK_CHARS]


# --- the backoff limit ----------------------------------------------------------------------------
# When a unit reaches its backoff limit, and how it becomes inactive then.


def reach_limit(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Deactivate a pending unit whose limit was lowered to its count of requeues; else None."""
    if mark_of(unit) or occupies_quota(unit) or not _is_limit(view, backoffs_of(unit)):
        return None
    return deactivate(view, job, unit, LIMIT_REACHED)


def reach_limit_when_freed(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Deactivate a unit whose eviction would requeue it once too often; None if it would not.

    This comes before the unit is freed, so that it is never free and active.
    """
    is_new = not mark_of(unit) and reaches_limit(view, unit)
    return deactivate(view, job, unit, LIMIT_REACHED) if is_new else None


def reaches_limit(view: JobView, unit: QueueUnit) -> bool:
    """Return whether the eviction in progress brings the unit to its backoff limit."""
    return eviction_ends_in_backoff(unit) and _is_limit(view, backoffs_of(unit) + 1)


def _is_limit(view: JobView, count: int) -> bool:
    limit = view.settings.backoff_limit
    return limit > 0 and count >= limit
