"""What to do about a job at which the decision itself fails. Pure.

Something about the job makes the code raise that reads or judges it: what it asks for is not known,
and no unit is created for it. Where no admission policy holds new jobs it would start all the same,
in no quota. So a job that the queue manages and that runs nothing is suspended. One that runs, or
that was admitted, is left alone: the failure must not stop it. Its owner is told either way.
"""

from __future__ import annotations

from typing import Final

import msgspec

from queue_controllers.decision.actions import Action, EventType, RecordJobEvent, SuspendJob
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_view import Decision, JobMemory
from queue_controllers.jobframework.generic_job import JobKind
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import occupies_quota
from shared_api.well_known_labels import SUSPEND

CANNOT_BE_JUDGED: Final = "CannotBeJudged"
"""Reason of the event on the job."""


class UnjudgedJob(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a job without judging it."""

    kind: JobKind
    metadata: ObjectMeta
    suspended: bool
    """Whether its suspend field, or the annotation in place of one, suspends it."""
    must_run: str = ""
    """The field because of which it would not survive being suspended; "" for none."""
    is_queued: bool
    """Its labels make the queue manage it, and no owner or other manager does; or it has a unit."""
    has_ended: bool
    unit: QueueUnit | None
    runs: bool
    """It has a pod with a node, or, of pods that are not seen, a ready one."""


def decide_unjudged(
    job: UnjudgedJob, settings: JobSettings, memory: JobMemory, why: str
) -> Decision:
    """Return what to do about a job that cannot be judged, and what to remember.

    Args:
        job: What is known of it.
        settings: Those of its extension.
        memory: What was remembered of it.
        why: What was raised, in a few words.
    """
    if not job.is_queued or job.has_ended or job.metadata.deletion_timestamp is not None:
        return Decision(memory=memory)
    holds = not job.suspended and _may_be_held(job)
    actions: list[Action] = []
    if CANNOT_BE_JUDGED not in memory.reported_events:
        memory = memory.with_reported(CANNOT_BE_JUDGED)
        is_held = holds or job.suspended
        state = "It is held" if is_held else "It is left alone"
        message = f"The queue fails at this job, and tries again: {why}. {state} until then"
        actions.append(
            RecordJobEvent(reason=CANNOT_BE_JUDGED, message=message, type=EventType.WARNING)
        )
    if holds:  # after the event: its owner is told also if this is refused
        by_annotation = settings.suspends_by_annotation(job.kind)
        actions.append(
            SuspendJob(annotate=by_annotation or bool(job.metadata.annotations.get(SUSPEND)))
        )
    return Decision(actions=tuple(actions), memory=memory)


def without_annotations(action: SuspendJob, job: UnjudgedJob, settings: JobSettings) -> SuspendJob:
    """Return the action with no annotation but one that alone stops the job."""
    annotate = settings.suspends_by_annotation(job.kind)
    return msgspec.structs.replace(action, mark=False, annotate=annotate)


def _may_be_held(job: UnjudgedJob) -> bool:
    """Return whether suspending a job stops nothing that runs, or that was admitted."""
    kind = job.kind
    if kind.held_by_gates or kind.held_only_at_creation or job.must_run:
        return False
    return not job.runs and (job.unit is None or not occupies_quota(job.unit))
