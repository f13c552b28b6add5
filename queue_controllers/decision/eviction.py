"""Why an admitted unit must give its quota back, and how it does. Pure.

An eviction is requested by the condition `Evicted=True` with a reason. The scheduler writes it (to
preempt, to drain, for an admission check), or the controllers do, by `why_evict`. Every eviction is
carried out in the same way: the job is suspended, its pods go, and then the unit is freed. The
event on the job has the name of the reason.
"""

from __future__ import annotations

from typing import Final

import msgspec

from queue_controllers.decision.actions import EventType, RecordJobEvent, ResizeJob
from queue_controllers.decision.deactivation import (
    deactivate,
    mark_of,
    reach_limit_when_freed,
    reaches_limit,
)
from queue_controllers.decision.execution_time import seconds_left
from queue_controllers.decision.grants import outgrows, plan_restoration
from queue_controllers.decision.job_ownership import (
    ClusterContext,
    quota_of_job,
    quota_of_template,
)
from queue_controllers.decision.job_state import JobState
from queue_controllers.decision.job_view import Decision, JobView
from queue_controllers.decision.pending import is_silent, wait_until_stopped
from queue_controllers.decision.queue_unit_builder import (
    annotations_of_unit,
    is_created_by_us,
    labels_of_unit,
)
from queue_controllers.decision.suspend_conflict import suspend_again, suspend_job
from queue_controllers.decision.unit_status_patches import (
    DEACTIVATING,
    JOB_CHANGED,
    complete_eviction,
    eviction_ends_in_backoff,
    how_to_activate,
    was_released_already,
)
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.evictions import DEACTIVATED
from shared_api.objects.meta import Condition, find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.placement import as_admitted
from shared_api.queue_unit_phases import (
    EVICTED,
    MAXIMUM_EXECUTION_TIME_EXCEEDED,
    is_being_evicted,
    occupies_quota,
)
from shared_api.well_known_labels import ACTIVE, read_queue_name, read_quota_name

TIME_IS_UP: Final = "Evicted because the maximum execution time was exceeded"
"""Upstream's message."""

MOVED: Final = "It names "
"""How the report of such a change begins."""

MAX_REASON_CHARS: Final = 128
"""Limit of an event's reason: the API server refuses longer ones."""


def why_evict(
    view: JobView, job: JobFacts, unit: QueueUnit, state: JobState
) -> tuple[str, str] | None:
    """Return the reason and message for which an admitted unit must give its quota back."""
    if unit.spec.active is False:
        return DEACTIVATED, "Evicted because the queue unit is deactivated"
    left = seconds_left(unit, view.moment.wall)
    if left is not None and left <= 0:
        return MAXIMUM_EXECUTION_TIME_EXCEEDED, TIME_IS_UP
    if not state.stopped or job.unknown_demand:
        return None
    if moved := _where_else(job, unit, view.around):
        # Released now, its pods would be charged to one quota while the unit is charged to another,
        # or it would run out of a queue that its user has taken it from.
        return JOB_CHANGED, f"Evicted because the job names another {moved} than it was admitted in"
    if outgrows(job, unit, was_released=was_released_already(job, unit)):
        # Released now, it would run with more than was admitted.
        return JOB_CHANGED, "Evicted because the job asks for more than it was admitted with"
    return None


def _where_else(job: JobFacts, unit: QueueUnit, around: ClusterContext) -> str:
    """Return how the job's quota or queue now differs from its unit's, "" if it does not.

    The quota of a namespace is not a name that the job states: both programs look it up wherever it
    counts.
    """
    quota = quota_of_job(job, around)
    labels = labels_of_unit(job, quota)
    is_ours, unit = is_created_by_us(unit), as_admitted(unit)
    meta = unit.metadata
    if not is_ours:
        # A unit made by hand may name what its job does not. The mark of who made it can be edited.
        asked = read_quota_name(labels)
        return "quota" if asked and asked != read_quota_name(meta.labels) else ""
    if read_quota_name(labels) != read_quota_name(meta.labels):
        return "quota"
    named = read_queue_name(labels, annotations_of_unit(job))
    is_named_anew = named != read_queue_name(meta.labels, meta.annotations)
    return "queue" if is_named_anew and (named or quota) != unit.spec.queue else ""


def with_move_told(
    view: JobView, job: JobFacts, unit: QueueUnit, state: JobState, decision: Decision
) -> Decision:
    """Return the decision with an event on a running job whose quota label has changed.

    The job continues where it was admitted; nothing else would say so. Reported once for each new
    name.
    """
    if (
        not occupies_quota(unit)
        or is_being_evicted(unit)
        or state.stopped
        or not is_created_by_us(unit)
    ):
        return decision
    if job.status.outcome is not None or not view.ownership.managed or not _may_differ(job, unit):
        return decision
    message = _tell_move(job, unit, view.around)
    memory = decision.memory
    others = frozenset(each for each in memory.told if not each.startswith(MOVED))
    told = others | {message} if message else others
    if told == memory.told:
        return decision
    news = message and message not in memory.told
    event = RecordJobEvent(reason="LabelChangeIgnored", message=message, type=EventType.WARNING)
    return msgspec.structs.replace(
        decision,
        actions=(*decision.actions, event) if news else decision.actions,
        memory=msgspec.structs.replace(memory, told=told),
        settled=decision.settled or not decision.actions,
    )


def _may_differ(job: JobFacts, unit: QueueUnit) -> bool:
    """Return whether a closer look is worthwhile; asked at every reconcile of a running job."""
    of_job, of_unit = job.metadata, unit.metadata
    of_sets = (quota_of_template(each.template.metadata) for each in job.pod_sets)
    named = next(filter(None, of_sets), "") or read_quota_name(of_job.labels)
    if named != read_quota_name(of_unit.labels):
        return True
    return read_queue_name(of_job.labels, of_job.annotations) != read_queue_name(
        of_unit.labels, of_unit.annotations
    )


def _tell_move(job: JobFacts, unit: QueueUnit, around: ClusterContext) -> str:
    what = _where_else(job, unit, around)
    if not what:
        return ""
    labels = labels_of_unit(job, quota_of_job(job, around))
    if what == "quota":
        named = read_quota_name(labels)
        before = read_quota_name(unit.metadata.labels)
        stays = f"is charged to {f'quota {before}' if before else 'the quota of its namespace'}"
    else:
        named = read_queue_name(labels, annotations_of_unit(job))
        stays = f"counts in queue {unit.spec.queue}"
    now = f"{what} {named}" if named else f"no {what} any more"
    return (
        f"{MOVED}{now}, and {stays}, where it was admitted, until it waits in its queue again."
        f' To move it, annotate it {ACTIVE}: "false", and "true" once it has stopped'
    )


def carry_out_eviction(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> Decision:
    """Stop the job, and free its unit when it is stopped."""
    mark = DEACTIVATING.get(_evicted(unit).reason)
    if mark is not None and not mark_of(unit):
        return deactivate(view, job, unit, mark)  # so that the unit is never free and active
    if not job.suspended:
        if view.memory.evicting:
            return suspend_again(view, job, unit)
        if job.status.is_ending:
            return Decision(memory=view.memory)  # the watch event of its end triggers a reconcile
        memory = msgspec.structs.replace(view.memory, evicting=True)
        return Decision(
            actions=(suspend_job(view, job), _tell_eviction(view, job, unit)), memory=memory
        )
    if not state.stopped:
        return wait_until_stopped(view, state)
    if (decision := reach_limit_when_freed(view, job, unit)) is not None:
        return decision
    silent = is_silent(view, state)
    freed = complete_eviction(unit, view.settings, view.moment, jitter=view.jitter, silent=silent)
    # A job that was suspended when its eviction was requested has no event about it yet.
    told = () if view.memory.evicting else (_tell_eviction(view, job, unit),)
    # Nor has it got the pods back that its release did not let run.
    resize = plan_restoration(job)
    restored = () if resize is None else (ResizeJob(resize=resize),)
    return Decision(actions=(*restored, freed, *told), memory=view.memory)


def requeue_at_time_limit(view: JobView, unit: QueueUnit, decision: Decision) -> Decision:
    """Return the decision with a reconcile at the moment when the job's time is used up."""
    left = seconds_left(unit, view.moment.wall)
    if left is None or is_being_evicted(unit):
        return decision
    rests = [each for each in (left, decision.requeue_after_seconds) if each is not None]
    return msgspec.structs.replace(decision, requeue_after_seconds=max(min(rests), 0.0))


def _evicted(unit: QueueUnit) -> Condition:
    evicted = find_condition(unit.status.conditions, EVICTED)
    assert evicted is not None, "carried out without having been asked for"
    return evicted


def _tell_eviction(view: JobView, job: JobFacts, unit: QueueUnit) -> RecordJobEvent:
    """Return the event that says why the job is stopped, and how it continues."""
    evicted = _evicted(unit)
    it = "It" if job.suspended else "It keeps its quota until its pods are gone, then it"
    if unit.spec.active is False:
        then = f"It stays suspended. To have it wait in the queue again, {how_to_activate(unit)}"
    elif job.kind.held_by_gates:
        then = "Its pods are deleted; those that are made in their stead wait in the queue again"
    elif reaches_limit(view, unit):
        then = f"{it} stays suspended: that was its last try, by its backoff limit"
    elif eviction_ends_in_backoff(unit):
        when = f"from the time that its queue unit {unit.metadata.name} names"
        then = f"{it} waits in the queue again, {when}"
    else:
        then = f"{it} waits in the queue again"
    why = evicted.message or evicted.reason
    said = why if why.startswith("Evicted") else f"Evicted: {why}"
    reason = evicted.reason[:MAX_REASON_CHARS] or "Evicted"
    return RecordJobEvent(reason=reason, message=f"{said}. {then}", type=EventType.WARNING)
