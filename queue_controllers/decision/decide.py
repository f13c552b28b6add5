"""Decide what to do about one job: takes all that is known of it, returns a list of actions. Pure.

The order of the questions is the rule:

1. Is the job gone, finished or being deleted? Finished comes before anything else.
2. Does the queue manage it, and has it a unit? A job that is no longer managed is never touched,
   and what it runs stays charged for as long as it runs.
3. Does the unit still match the job?
4. Must it give its quota back? An eviction is announced first and carried out after that, so a
   crash between any two steps leaves objects from which the next reconcile continues.
5. If it is admitted, it is resumed, once, when nothing of an earlier run is left. If it is not, it
   stays suspended, whatever resumes it.

One decision has at most one write per object: the next reconcile sees its result.
"""

from __future__ import annotations

import msgspec

from queue_controllers.decision.actions import (
    Action,
    CreateUnit,
    DeleteUnit,
    EventType,
    PatchUnit,
    PatchUnitStatus,
    RecordJobEvent,
    SuspendJob,
)
from queue_controllers.decision.adoption import (
    adopt,
    adopt_opened_pods,
    has_pods,
    leave_running,
    ran_before,
    ran_before_its_unit,
)
from queue_controllers.decision.eviction import (
    follow_eviction,
    move_backoff_end,
    requeue_at_time_limit,
)
from queue_controllers.decision.job_annotations import has_own_backoff, settings_of_job
from queue_controllers.decision.job_marks import with_mark, without_mark
from queue_controllers.decision.job_ownership import may_use_quota
from queue_controllers.decision.job_state import JobState, State, judge_gates, judge_job
from queue_controllers.decision.job_view import LEFT_TO_ITS_OWNER, Decision, JobMemory, JobView
from queue_controllers.decision.job_warnings import warn_about_job
from queue_controllers.decision.pending import (
    SILENT_SECONDS,
    WAITING_PHASES,
    comes_late,
    find_blocking_reason,
    hold_with_owner,
    keep_place,
    suspend_again,
    suspend_job,
    wait_for_demand,
    wait_for_owner,
    wait_in_queue,
    wait_until_stopped,
    with_event_once,
)
from queue_controllers.decision.queue_unit_builder import (
    build_sync,
    build_unit,
    choose_unit_name,
    is_created_by_us,
    is_only_demand,
)
from queue_controllers.decision.release import let_run
from queue_controllers.decision.running import follow_job, wait_in_time
from queue_controllers.decision.unit_status_patches import OPERATOR_SILENT, move_unit
from queue_controllers.jobframework.generic_job import JobFacts, Outcome
from shared_api.objects.queue_unit import MAX_POD_SETS, QueueUnit
from shared_api.queue_unit_phases import (
    JOB_IS_DELETED,
    PODS_BEYOND_GRANT,
    RELEASED_PHASES,
    SUSPEND_CONTESTED,
    Phase,
    is_being_evicted,
    is_final,
    is_managed_by_controllers,
    occupies_quota,
    phase_of,
    was_evicted,
)
from shared_api.well_known_labels import MANAGED_BY, spellings


def decide(view: JobView) -> Decision:
    """Return what to do about one job, and what to remember of it."""
    job, unit, memory = view.job, view.unit, view.memory
    if job is None:
        return Decision(state=judge_job(None, view.pods, admitted=False, believed=False))
    if unit is None and not view.ownership.managed:
        return _leave_to_others(view, job)
    may_wait = unit is None and view.ownership.may_be_nested
    if may_wait and (decision := wait_for_owner(view)) is not None:
        return decision
    job, state, memory = _judge_state(view, job)
    settings = settings_of_job(job, view.settings)
    view = msgspec.structs.replace(view, job=job, memory=memory, settings=settings)
    if unit is None:
        decision = _decide_without_unit(view, job, state)
    elif is_final(unit) and not job.kind.has_object and job.status.outcome is None:
        # Pods have appeared under the name of a finished group: it begins anew.
        decision = Decision(actions=(DeleteUnit(unit=unit),), memory=memory)
    elif is_final(unit) or unit.metadata.deletion_timestamp is not None:
        decision = Decision(memory=memory)
    elif not view.ownership.managed:
        decision = _decide_unmanaged(view, job, unit, state)
    elif not is_managed_by_controllers(unit):
        decision = _take_over(view, job, unit)
    else:
        decision = _decide_with_unit(view, job, unit, state)
    decision = msgspec.structs.replace(decision, state=state)
    ended = job.status.outcome is not None or (unit is not None and is_final(unit))
    if view.ownership.managed and not ended:
        decision = with_mark(view, job, decision)
        decision = warn_about_job(view, job, decision)
    return decision


def _judge_state(view: JobView, job: JobFacts) -> tuple[JobFacts, JobState, JobMemory]:
    """Return the facts, the job's state, and what to remember of it.

    An operator's report is believed if the operator was seen to let the job go; its silence counts
    as confirmation after a minute.
    """
    admitted = view.unit is not None and _is_admitted(view.unit)
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
    job_status = job.status
    holds = job_status.suspended or job_status.is_at_odds or job_status.is_empty
    return msgspec.structs.replace(memory, acknowledged_release=None if holds else job.released_at)


def _resume_was_seen(memory: JobMemory, job: JobFacts) -> bool:
    return job.released_at is not None and memory.acknowledged_release == job.released_at


def _reports_suspended(job: JobFacts) -> bool:
    """Return whether the status says that the job is held back, whatever time it states."""
    return job.status.suspended and not job.status.pods


def _is_admitted(unit: QueueUnit) -> bool:
    """Return whether the job may be resumed: admitted or adopted, and no eviction in progress."""
    if is_being_evicted(unit) or unit.spec.active is False:
        return False
    return phase_of(unit) in RELEASED_PHASES


def _leave_to_others(view: JobView, job: JobFacts) -> Decision:
    """Leave an unmanaged job alone, except one that runs while its owner is held."""
    memory = view.memory
    if view.ownership.held_by_owner:
        return without_mark(view, job, hold_with_owner(view, suspend_job(view, job)))
    was_nested = view.ownership.nested and (memory.arrived or memory.nested)
    memory = msgspec.structs.replace(memory, arrived=False, nested=was_nested, unproved_since=None)
    memory = LEFT_TO_ITS_OWNER if memory == LEFT_TO_ITS_OWNER else memory
    decision = without_mark(view, job, Decision(memory=memory))
    return warn_about_job(view, job, decision)


# --- no unit yet --------------------------------------------------------------------------------


def _decide_without_unit(view: JobView, job: JobFacts, state: JobState) -> Decision:
    if state.state in {State.FINISHED, State.DELETING}:
        return Decision(memory=view.memory)
    if job.why_not_suspendable:
        return _leave_alone(view, job)
    adopting = not state.stopped and ran_before(view, job, state)
    if job.unknown_demand:
        return wait_for_demand(view, job, () if adopting else _hold(view, job))
    if len(job.pod_sets) > MAX_POD_SETS:
        message = f"{len(job.pod_sets)} pod sets, at most {MAX_POD_SETS} can be queued"
        return with_event_once(view, "TooManyPodSets", message, _hold(view, job))
    if adopting and not may_use_quota(job, view.context):
        return leave_running(view, job)
    actions: list[Action] = [] if adopting else [*_hold(view, job)]
    name, cut = choose_unit_name(job, is_taken=view.name_is_taken)
    body = build_unit(job, view.context, name=name, runs=adopting)
    actions.append(CreateUnit(body=body))
    # The next reconcile writes the queue position of a unit that comes late.
    is_done = view.lost is None and not comes_late(job, view.moment.wall)
    is_complete = len(actions) == 1 and state.state is State.HELD and is_done
    if cut:
        message = f"Its queue unit is named {name}: the ordinary name is taken or too long"
        actions.append(RecordJobEvent(reason="NameCut", message=message))
    # The next reconcile proves an adoption, in the status of the unit that exists then.
    held = any(isinstance(each, SuspendJob) for each in actions) or _is_stopping(view, job)
    memory = msgspec.structs.replace(view.memory, adopting=adopting, held=held, place_kept=False)
    return Decision(actions=tuple(actions), memory=memory, is_complete=is_complete)


def _take_over(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision:
    """Take over a unit that something else created for this very job: a user, or another version.

    Whether the job ran before it is decided by the next reconcile.
    """
    body = build_sync(job, unit, view.context, waiting=False)
    return Decision(actions=(PatchUnit(unit=unit, body=body),), memory=view.memory)


def _hold(view: JobView, job: JobFacts) -> tuple[Action, ...]:
    """Suspend the job unless it is suspended. Not with gates: ungated pods would be deleted."""
    return () if job.suspended or job.kind.held_by_gates else (suspend_job(view, job),)


def _is_stopping(view: JobView, job: JobFacts) -> bool:
    """Return whether something else has suspended the job, and its pods have not gone yet."""
    return job.suspended and has_pods(view, job)


def _leave_alone(view: JobView, job: JobFacts) -> Decision:
    message = f"It cannot be queued and is left alone: {job.why_not_suspendable}"
    return with_event_once(view, "CanNotBeHeld", message)


# --- with a unit --------------------------------------------------------------------------------


def _decide_with_unit(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> Decision:
    evicting = view.memory.evicting and is_being_evicted(unit)
    blocking_message = view.memory.blocking_message
    if blocking_message and find_blocking_reason(unit) is None:
        blocking_message = ""
    is_to_start = job.suspended and _is_admitted(unit)
    memory = view.memory if _is_admitted(unit) else _without_attempt(view.memory)
    memory = msgspec.structs.replace(
        memory,
        arrived=False,
        nested=False,
        unproved_since=None,
        adopting=view.memory.adopting and not job.suspended,
        held=view.memory.held and not _is_admitted(unit),
        evicting=evicting,
        blocking_message=blocking_message,
        old_pods_since=view.memory.old_pods_since if is_to_start else None,
        short_since=view.memory.short_since if is_to_start else None,
        refused_since=view.memory.refused_since if is_to_start and job.pods_refused else None,
    )
    view = msgspec.structs.replace(view, memory=memory)
    if job.status.outcome is not None:
        finish = _finish(view, unit, job.status.outcome)
        return Decision(actions=(finish,), memory=memory, is_complete=True)
    if state.state is State.DELETING:
        return _end_deleted(view, unit)
    is_free = not occupies_quota(unit)
    if is_free and not state.stopped and ran_before_its_unit(view, job, unit, state):
        return adopt(view, job, unit)
    decision = _follow_unit(view, job, unit, state)
    if unit.spec.maximum_execution_time_seconds is None:
        return decision
    return requeue_at_time_limit(view, unit, decision)


def _without_attempt(memory: JobMemory) -> JobMemory:
    """Return the memory without what belongs to one admission."""
    return msgspec.structs.replace(
        memory,
        first_release=None,
        has_seen_pods=False,
        without_pods_since=None,
        events_read_at=None,
        why="",
        beyond_since=None,
    )


def _follow_unit(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> Decision:
    # Restore what was edited by hand before the unit waits again: freed with another demand than
    # its job's, or in another quota, it would be admitted for that, again and again.
    phase = phase_of(unit)
    waits = phase in WAITING_PHASES or is_being_evicted(unit)
    # Pods state themselves what they ask for, whichever of them run.
    is_clear = state.stopped or (job.kind.held_by_gates and phase in WAITING_PHASES)
    is_judged = is_clear and not job.unknown_demand
    may_move = waits and is_judged
    if body := build_sync(job, unit, view.context, waiting=may_move, stopped=is_judged):
        is_urgent = was_evicted(unit) or is_being_evicted(unit) or not is_only_demand(body)
        write = PatchUnit(unit=unit, body=body, is_urgent=is_urgent)
        return Decision(actions=(write,), memory=view.memory)
    if (decision := follow_eviction(view, job, unit, state)) is not None:
        return decision
    if job.unknown_demand:
        return _await_demand(view, job, unit, state)
    if _is_admitted(unit):
        return let_run(view, job, unit, state)
    return _keep_held(view, job, unit, state)


def _await_demand(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> Decision:
    """Leave a unit as it is until its job's pods are known; a starting job keeps its timeout."""
    if not _is_admitted(unit):
        return wait_for_demand(view, job, _hold(view, job))
    waits = wait_for_demand(view, job)
    return waits if state.state is State.RUNNING else wait_in_time(view, job, unit, waits)


def _finish(view: JobView, unit: QueueUnit, outcome: Outcome) -> PatchUnitStatus:
    to, word = (Phase.SUCCEED, "Succeeded") if outcome.succeeded else (Phase.FAILED, "Failed")
    message = f"{word}: {outcome.message}" if outcome.message else word
    cleared = (SUSPEND_CONTESTED, OPERATOR_SILENT, PODS_BEYOND_GRANT)
    return move_unit(unit, to, view.moment, message=message, cleared=cleared)


def _end_deleted(view: JobView, unit: QueueUnit) -> Decision:
    """End a unit whose job is deleted and runs nothing.

    Finalizers may keep the object for as long as they like: the unit's quota, or its place in the
    queue, is freed at once. If no finalizer keeps the job, the unit is garbage-collected with it;
    no write is needed.
    """
    if view.pods.living:
        return Decision(memory=view.memory)
    cleared = (PODS_BEYOND_GRANT,)
    failed = move_unit(unit, Phase.FAILED, view.moment, message=JOB_IS_DELETED, cleared=cleared)
    return Decision(actions=(failed,), memory=view.memory, is_complete=True)


# --- not managed by the queue (any more) ---------------------------------------------------------


def _decide_unmanaged(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> Decision:
    """Keep the unit of a job that is no longer managed until it runs nothing, then drop it."""
    memory = msgspec.structs.replace(view.memory, arrived=False, evicting=False)
    view = msgspec.structs.replace(view, memory=memory)
    if not is_managed_by_controllers(unit):
        return Decision(memory=memory)
    if state.state is State.DELETING:
        return _end_deleted(view, unit)
    if job.status.outcome is not None:
        finish = _finish(view, unit, job.status.outcome)
        return Decision(actions=(finish,), memory=memory, is_complete=True)
    whose = f"It is not the queue's: {view.ownership.reason}"
    if occupies_quota(unit) and not state.stopped:
        if "NotManaged" not in memory.reported_events:
            message = f"{whose}. What it runs stays charged until it has stopped or ended"
            return with_event_once(view, "NotManaged", message)
        return _watch_unmanaged(view, job, unit, state)
    message = f"{whose}. Its queue unit is deleted, its suspend field is left unchanged"
    return without_mark(view, job, _drop_unit(view, unit, message))


def _watch_unmanaged(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> Decision:
    if state.state is State.STOPPING or not _is_admitted(unit):
        return wait_until_stopped(view, state)
    return follow_job(view, job, unit, state)


def _drop_unit(view: JobView, unit: QueueUnit, message: str) -> Decision:
    """Delete a unit that this program created; hand one that was made by hand back."""
    give_up: Action = DeleteUnit(unit=unit)
    if not is_created_by_us(unit):
        mark = {key: None for key in spellings(MANAGED_BY) if key in unit.metadata.annotations}
        give_up = PatchUnit(unit=unit, body={"metadata": {"annotations": mark}})
    event = RecordJobEvent(reason="NotManaged", message=message, type=EventType.WARNING)
    return Decision(actions=(give_up, event), memory=view.memory, is_complete=True)


# --- not admitted -------------------------------------------------------------------------------


def _keep_held(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> Decision:
    if not job.suspended:
        if not job.kind.held_by_gates:
            return suspend_again(view, job, unit)
        if (decision := adopt_opened_pods(view, job, unit)) is not None:
            return decision
    if (kept := keep_place(view, job, unit)) is not None:
        return kept
    if has_own_backoff(job):
        moved = move_backoff_end(unit, view.settings, view.moment, view.jitter)
        if moved is not None:
            return Decision(actions=(moved,), memory=view.memory)
    return wait_in_queue(view, job, unit, state)
