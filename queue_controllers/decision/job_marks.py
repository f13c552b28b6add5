"""The mark of the queue on a job, by which the chart's policies know what is held. Pure.

The policies look up nothing: what a job is to the queue they read from the job and the labels of
its namespace. A job may be the queue's without a word of either, by its namespace's quota or its
unit. So each suspension and each release marks the job (annotation `koord-queue/marked-uid`), with
the number of pods that it was granted, in that same write. Only a job about which nothing else
tells the policies is marked by a write of its own.

The mark is the uid of the job. So whatever is copied from a job, or written into one before it is
created, is no mark; the policies refuse users to write the right one.
"""

from __future__ import annotations

import msgspec

from queue_controllers.decision.actions import JOB_WRITES, MARK_REFUSED, MarkJob
from queue_controllers.decision.grants import granted_size
from queue_controllers.decision.job_ownership import is_marked_queued
from queue_controllers.decision.job_view import Decision, JobView
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.queue_unit_phases import RELEASED_PHASES, phase_of


def with_mark(view: JobView, job: JobFacts, decision: Decision) -> Decision:
    """Return the decision about a managed job, with its mark if nothing else tells the policies.

    Last of the actions: where it is refused, nothing else is left undone.
    """
    if view.unit is None and job.why_not_suspendable:
        return without_mark(view, job, decision)  # it is left alone
    if job.marked or job.kind.held_by_gates or is_marked_queued(job.metadata, view.context):
        return decision
    granted, runs = None, False
    if not job.suspended and view.unit is not None and phase_of(view.unit) in RELEASED_PHASES:
        granted, runs = granted_size(job, view.unit), True
    if not (job.suspended or runs) or job.metadata.deletion_timestamp is not None:
        return decision
    return _write(view, decision, MarkJob(marked=True, granted=granted))


def without_mark(view: JobView, job: JobFacts, decision: Decision) -> Decision:
    """Return the decision about a job that the queue gives up, without its mark.

    Else who may not release what the queue holds, such as the operator of the job's owner, could
    never resume it.
    """
    if not job.marked or job.kind.held_by_gates:
        return decision
    return _write(view, decision, MarkJob(marked=False))


def _write(view: JobView, decision: Decision, mark: MarkJob) -> Decision:
    """Return the decision with the write of a mark, unless the job is written already."""
    if any(isinstance(each, JOB_WRITES) for each in decision.actions):
        return decision
    if MARK_REFUSED in view.memory.reported_events:
        return decision
    return msgspec.structs.replace(decision, actions=(*decision.actions, mark))
