"""Events that tell the owner of a job what it may not expect. Pure.

First, that it or its pods name another quota while it runs, which values of its annotations and
labels do not count, and that an owner of it does not. Then mistakes that are not errors anywhere: a
label or annotation that nothing reads, since it is misspelled; a job that names no queue or quota
although the others of its namespace do; and an admitted job that takes nothing of its quota, since
it requests nothing that the quota governs. The first is reported for managed jobs and for suspended
ones that nothing will resume; the second only where the setting `reportUnqueuedJobs` asks for it,
since such a job may be intended; the third in the words that the scheduler wrote into the unit.

All are recorded once per job and process.
"""

from __future__ import annotations

from typing import Final

import msgspec

from queue_controllers.decision.actions import EventType, RecordJobEvent
from queue_controllers.decision.eviction import where_else
from queue_controllers.decision.job_annotations import IGNORED_ANNOTATION, unreadable_annotations
from queue_controllers.decision.job_ownership import (
    NAMES_NOTHING,
    ClusterContext,
    quota_of_job,
    quota_of_template,
)
from queue_controllers.decision.job_state import JobState, State
from queue_controllers.decision.job_view import Decision, JobView
from queue_controllers.decision.pod_stamps import PREEMPTIBLE_LABELS, is_not_preemptible
from queue_controllers.decision.queue_unit_builder import (
    annotations_of_unit,
    is_created_by_us,
    labels_of_unit,
    why_other_priority,
)
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.key_spelling import explain_unread_keys
from shared_api.objects.meta import find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import (
    NOTHING_REQUESTED,
    PODS_ELSEWHERE,
    QUOTA_RESERVED,
    has_nothing_requested,
    is_being_evicted,
    occupies_quota,
)
from shared_api.well_known_labels import (
    ACTIVE,
    DELETE_LOST_PODS_AFTER,
    NOT_PREEMPTIBLE,
    QUEUE_NAME,
    QUOTA_NAME,
    read_queue_name,
    read_quota_name,
)

KEY_WITHOUT_EFFECT: Final = "KeyWithoutEffect"
NOT_QUEUED: Final = "NotQueued"
OWNER_IGNORED: Final = "OwnerIgnored"
ANNOTATION_IGNORED: Final = "IgnoredAnnotation"
QUOTA_DIFFERS: Final = "QuotaDiffers"
PREEMPTIBLE_IGNORED: Final = "PreemptibleIgnored"
"""Reasons of events on jobs."""

LABEL_NOTE: Final = "Its label "
"""How a report about a label begins."""

MOVE_NOTE: Final = "It names "
"""How a report about another quota or queue begins."""

LOST_PODS_STAY: Final = (
    f"{IGNORED_ANNOTATION}{DELETE_LOST_PODS_AFTER} is ignored: an administrator has to allow it "
    "(the controllers' setting deleteLostPods)"
)

MAX_SHOWN_KEYS: Final = 5
"""In one event, whose note may have 1,024 characters."""


def warn_about_job(view: JobView, job: JobFacts, decision: Decision) -> Decision:
    """Return the decision with a warning for each mistake that was not reported yet."""
    managed = view.ownership.managed
    if managed:
        if view.unit is not None and decision.state is not None:
            decision = _warn_of_move(view, job, view.unit, decision.state, decision)
        decision = _warn_of_values(view, job, decision)
    elif not _may_be_meant_for_the_queue(view, job):
        return decision
    if why := view.ownership.ignored_owner:
        message = f"{why}. It is queued as if it had no owner"
        decision = _with_event(decision, OWNER_IGNORED, message)
    if managed or job.suspended:
        decision = _warn_of_keys(job, decision, managed=managed)
    if managed and view.unit is not None:
        decision = _warn_of_requests(view.unit, decision)
        decision = _warn_of_pods_elsewhere(view.unit, decision)
    if view.has_queued_neighbors:
        decision = _warn_of_neighbors(job, decision)
    return decision


def _warn_of_move(
    view: JobView, job: JobFacts, unit: QueueUnit, state: JobState, decision: Decision
) -> Decision:
    """Warn of a quota label that has changed while the job runs, once for each new name.

    The job continues where it was admitted; nothing else would say so.
    """
    is_leaving = state.state is State.DELETING or is_being_evicted(unit)
    if state.stopped or is_leaving or not occupies_quota(unit) or not is_created_by_us(unit):
        return decision
    if unit.metadata.deletion_timestamp is not None or not _may_differ(job, unit):
        return decision
    message = _describe_move(job, unit, view.context)
    memory = decision.memory
    others = frozenset(each for each in memory.reported_events if not each.startswith(MOVE_NOTE))
    reported = others | {message} if message else others
    if reported == memory.reported_events:
        return decision
    news = message and message not in memory.reported_events
    event = RecordJobEvent(reason="LabelChangeIgnored", message=message, type=EventType.WARNING)
    return msgspec.structs.replace(
        decision,
        actions=(*decision.actions, event) if news else decision.actions,
        memory=msgspec.structs.replace(memory, reported_events=reported),
        is_complete=decision.is_complete or not decision.actions,
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


def _describe_move(job: JobFacts, unit: QueueUnit, context: ClusterContext) -> str:
    what = where_else(job, unit, context)
    if not what:
        return ""
    labels = labels_of_unit(job, quota_of_job(job, context))
    if what == "quota":
        named = read_quota_name(labels)
        if named and job.kind.held_by_gates:
            return ""  # that label moves the charge of a pod: `_warn_of_pods_elsewhere` says so
        before = read_quota_name(unit.metadata.labels)
        stays = f"is charged to {f'quota {before}' if before else 'the quota of its namespace'}"
    else:
        named = read_queue_name(labels, annotations_of_unit(job))
        stays = f"counts in queue {unit.spec.queue}"
    now = f"{what} {named}" if named else f"no {what} any more"
    return (
        f"{MOVE_NOTE}{now}, and {stays}, where it was admitted, until it waits in its queue again."
        f' To move it, annotate it {ACTIVE}: "false", and "true" once it has stopped'
    )


def _may_be_meant_for_the_queue(view: JobView, job: JobFacts) -> bool:
    """Return whether an unmanaged job would be managed if it named a queue or quota."""
    is_nobodys = view.ownership.reason == NAMES_NOTHING and job.metadata.controller_owner is None
    return is_nobodys and job.status.outcome is None


def _warn_of_values(view: JobView, job: JobFacts, decision: Decision) -> Decision:
    """Warn of each annotation or label whose value does not count; again, once it has changed."""
    reasons = dict.fromkeys(unreadable_annotations(job).values(), ANNOTATION_IGNORED)
    if lower := why_other_priority(job, view.context):
        reasons[lower] = ANNOTATION_IGNORED
    if not view.settings.deletes_lost_pods and DELETE_LOST_PODS_AFTER in job.metadata.annotations:
        reasons[LOST_PODS_STAY] = ANNOTATION_IGNORED
    reasons |= label_notes(job)
    troubles, memory = frozenset(reasons), decision.memory
    begins = (IGNORED_ANNOTATION, LABEL_NOTE)
    reported = frozenset(each for each in memory.reported_events if each.startswith(begins))
    others = memory.reported_events - reported
    if troubles == reported:
        return decision
    warnings = [
        RecordJobEvent(reason=reasons[each], message=each, type=EventType.WARNING)
        for each in sorted(troubles - reported)
    ]
    return msgspec.structs.replace(
        decision,
        actions=(*decision.actions, *warnings),
        memory=msgspec.structs.replace(memory, reported_events=troubles | others),
        is_complete=decision.is_complete or not decision.actions,
    )


def label_notes(job: JobFacts) -> dict[str, str]:
    """Return what the job's owner should know of its labels, each with the reason of its event."""
    if job.kind.held_by_gates or not job.pod_sets:
        return {}
    notes = {}
    wanted = read_quota_name(job.metadata.labels)
    for each in job.pod_sets:
        named = quota_of_template(each.template.metadata)
        if wanted and named and named != wanted:
            message = (
                f"{LABEL_NOTE}names quota {wanted}, and its pod template (pod set {each.name})"
                f" quota {named}: {named} counts, since koord-scheduler charges its pods to that."
                " Name one quota in both"
            )
            notes[message] = QUOTA_DIFFERS
            break
    for key in PREEMPTIBLE_LABELS:
        if job.metadata.labels.get(key) == NOT_PREEMPTIBLE and not is_not_preemptible(job, key):
            message = (
                f'{LABEL_NOTE}{key}: "{NOT_PREEMPTIBLE}" does not count: its pods do not have it,'
                " and the queue cannot write it into their template. Put it on the pod template"
            )
            notes[message] = PREEMPTIBLE_IGNORED
    return notes


def _warn_of_keys(job: JobFacts, decision: Decision, *, managed: bool) -> Decision:
    if KEY_WITHOUT_EFFECT in decision.memory.reported_events:
        return decision  # before the keys are compared, which would be done at every reconcile
    sentences = explain_unread_keys(job.metadata.labels, job.metadata.annotations)
    if not sentences:
        return decision
    shown = sentences[:MAX_SHOWN_KEYS]
    if len(sentences) > len(shown):
        shown.append(f"And {len(sentences) - len(shown)} more.")
    if not managed:
        shown.append("The job is suspended, and no queue will resume it.")
    return _with_event(decision, KEY_WITHOUT_EFFECT, " ".join(shown))


def _warn_of_requests(unit: QueueUnit, decision: Decision) -> Decision:
    reserved = find_condition(unit.status.conditions, QUOTA_RESERVED)
    if reserved is None or not has_nothing_requested(unit.status.conditions):
        return decision
    way_out = "To have its pods counted, set resources.requests of their containers"
    return _with_event(decision, NOTHING_REQUESTED, f"{reserved.message}. {way_out}")


def _warn_of_pods_elsewhere(unit: QueueUnit, decision: Decision) -> Decision:
    """Warn of living pods that name another quota, in the scheduler's words; again, once changed.

    The scheduler knows where each pod is charged; here only a part of their labels is kept.
    """
    moved = find_condition(unit.status.conditions, PODS_ELSEWHERE)
    message = moved.message if moved is not None and moved.status == "True" else ""
    memory = decision.memory
    others = frozenset(
        each for each in memory.reported_events if not each.startswith(PODS_ELSEWHERE)
    )
    reported = others | {f"{PODS_ELSEWHERE}: {message}"} if message else others
    if reported == memory.reported_events:
        return decision
    event = RecordJobEvent(reason=PODS_ELSEWHERE, message=message, type=EventType.WARNING)
    return msgspec.structs.replace(
        decision,
        actions=(*decision.actions, event) if message else decision.actions,
        memory=msgspec.structs.replace(memory, reported_events=reported),
        is_complete=decision.is_complete or not decision.actions,
    )


def _warn_of_neighbors(job: JobFacts, decision: Decision) -> Decision:
    state = "stays suspended" if job.suspended else "runs at once"
    message = (
        f"Other jobs of this namespace are queued; this one {state}, since it names no queue or"
        f" quota. To have it queued, set the label {QUOTA_NAME} or {QUEUE_NAME}"
    )
    return _with_event(decision, NOT_QUEUED, message)


def _with_event(
    decision: Decision, reason: str, message: str, event_type: EventType = EventType.WARNING
) -> Decision:
    """Return the decision with one more event, unless it was recorded already.

    An event changes nothing about the job, so it alone is no reason to reconcile again.
    """
    if reason in decision.memory.reported_events:
        return decision
    event = RecordJobEvent(reason=reason, message=message, type=event_type)
    return msgspec.structs.replace(
        decision,
        actions=(*decision.actions, event),
        memory=decision.memory.with_reported(reason),
        is_complete=decision.is_complete or not decision.actions,
    )
