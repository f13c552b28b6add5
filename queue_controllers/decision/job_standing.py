"""The state of a job, with what the time and its unit say about it. Pure."""

from __future__ import annotations

import msgspec

from queue_controllers.decision.gates import judge_gates
from queue_controllers.decision.job_state import JobState, judge_job
from queue_controllers.decision.job_view import JobMemory, JobView
from queue_controllers.decision.pending import SILENT_SECONDS
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import RELEASED_PHASES, is_being_evicted, phase_of


def judge_standing(view: JobView, job: JobFacts) -> tuple[JobFacts, JobState, JobMemory]:
    """Return the facts, the job's state, and what to remember of it.

    An operator's report is believed if the operator was seen to let the job go; its silence counts
    as confirmation after a minute.
    """
    admitted = view.unit is not None and is_admitted(view.unit)
    if job.kind.held_by_gates:
        job = judge_gates(job, view.pods, admitted=admitted)
    memory = _note_acknowledgment(view.memory, job)
    believed = _resume_was_seen(memory, job) and _reports_suspended(job)
    state = judge_job(job, view.pods, admitted=admitted, believed=believed)
    if not state.unclear:
        return job, state, msgspec.structs.replace(memory, quiet_since=None)
    since = view.moment.monotonic if memory.quiet_since is None else memory.quiet_since
    memory = msgspec.structs.replace(memory, quiet_since=since)
    if view.moment.monotonic - since >= SILENT_SECONDS:
        state = judge_job(job, view.pods, admitted=admitted, believed=True)
    return job, state, memory


def _note_acknowledgment(memory: JobMemory, job: JobFacts) -> JobMemory:
    """Return the memory with what the operator reports while the job is not suspended."""
    if job.suspended:
        return memory
    said = job.status
    holds = said.suspended or said.is_at_odds or said.is_empty
    return msgspec.structs.replace(memory, let_go_of=None if holds else job.released_at)


def _resume_was_seen(memory: JobMemory, job: JobFacts) -> bool:
    return job.released_at is not None and memory.let_go_of == job.released_at


def _reports_suspended(job: JobFacts) -> bool:
    """Return whether the status says that the job is held back, whatever time it states."""
    return job.status.suspended and not job.status.pods


def is_admitted(unit: QueueUnit) -> bool:
    """Return whether the job may be resumed: admitted or adopted, and no eviction in progress."""
    if is_being_evicted(unit) or unit.spec.active is False:
        return False
    return phase_of(unit) in RELEASED_PHASES
