"""What a released job does, written into its unit: running pods, finished work, growth. Pure.

It takes few writes: Running once, with the right counts, then what is given back for good. Counts
of running pods alone are corrected seldom, since nothing urgent depends on them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from queue_controllers.decision.actions import (
    RELEASE_REFUSED,
    Action,
    EventType,
    PatchUnit,
    PatchUnitStatus,
    RecordJobEvent,
    ResizeJob,
    TouchJob,
)
from queue_controllers.decision.eviction import announce_eviction
from queue_controllers.decision.grants import (
    exceeds,
    given_back_counts,
    granted_counts,
    granted_size,
    grants_of,
    plan_resize,
    read_requests,
    was_released_already,
)
from queue_controllers.decision.job_state import JobState, PodCounts, State
from queue_controllers.decision.job_view import Decision, JobMemory, JobView, Moment
from queue_controllers.decision.pending import wait_for_old_pods
from queue_controllers.decision.pods_not_ready import judge_pods, wants_no_pods, with_refusal_event
from queue_controllers.decision.queue_unit_builder import (
    POD_SETS_HASH,
    body_of_demand,
    hash_of_pod_sets,
    pod_set_bodies,
)
from queue_controllers.decision.unit_status_patches import (
    OPERATOR_SILENT,
    last_past,
    move_unit,
    running_timeout,
)
from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet
from queue_controllers.jobframework.pod_set_names import MAX_COUNT
from shared_api.evictions import BACKOFF_TIMEOUT, RUNNING_TIMEOUT_MESSAGE
from shared_api.objects.meta import Condition, find_condition
from shared_api.objects.queue_unit import MAX_POD_OWNERS, Admission, QueueUnit
from shared_api.queue_unit_phases import (
    PODS_PENDING,
    PODS_READY,
    RELEASED_PHASES,
    SUSPEND_CONTESTED,
    Phase,
    admission_body,
    condition_body,
    is_adopted,
    is_being_evicted,
    phase_of,
    with_condition,
)
from shared_api.timestamps import read_time

SETTLE_SECONDS: Final = 0.5
"""How long Running waits for the other pods after the first: one write with the right counts
instead of two. A job whose pods all run does not wait."""

COUNT_SECONDS: Final = 30.0
"""Least time between two writes that only correct the counts of a running unit. Half of the
partial-running timeout, if that is less, since it depends on them. Also how long a pod that was
pending before its job ran is not reported: mostly that is over by then."""

STAYS_SECONDS: Final = 1.0
"""How long counts must differ before they are corrected: if the job ends, its end corrects them."""

PARTLY_LATE: Final = "Backoff due to partial running timeout"


def follow_job(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> Decision:
    """Write down what a released job does, and announce its eviction when it is late."""
    if growth := build_growth(job, unit):
        return _note_growth(view, unit, growth)
    if (more := _let_more_run(view, job, unit)) is not None:
        return Decision(actions=(more,), memory=view.memory)
    late, requeue_after = _is_late(view, job, unit, state)
    pods = judge_pods(view, job, unit, state)
    view = msgspec.structs.replace(view, memory=pods.memory)
    if late or pods.late:
        return announce_eviction(view, unit, BACKOFF_TIMEOUT, late or pods.late)
    if pods.needs_events:
        return Decision(memory=view.memory, needs_events=True)
    requeue_after = earliest(requeue_after, pods.requeue_after_seconds)
    status: dict[str, object] = {}
    # A pod that waits at its gate stands in for another, perhaps with other requests: it may be
    # replaced by one of the granted size.
    keeps = view.settings.keeps_grants
    if not view.pods.held and (given_back := build_reclaimable(job, unit, keeps_grants=keeps)):
        status["reclaimablePods"] = given_back
    status |= children_into_status(unit, view.pods)
    if phase_of(unit) is Phase.RUNNING:
        # The clock of the execution time comes last: if both write conditions, the other waits a
        # reconcile.
        status |= pods.status | _running_into_status(view, job, unit, state)
        followed = _follow_counts(view, unit, status, requeue_after)
        return with_refusal_event(followed, pods)
    if state.state is not State.RUNNING and not wants_no_pods(job):
        wake, wake_in = plan_operator_wakeup(view, job, state)
        if wake:
            return Decision(actions=wake, memory=view.memory)
        requeue_after = earliest(requeue_after, wake_in)
        status |= pods.status
        # Keep since when one ran: where pods are short, the next reconcile may find none that runs.
        followed = _follow_counts(view, unit, status, requeue_after, stays_seconds=COUNT_SECONDS)
        return with_refusal_event(followed, pods)
    return _write_running(view, job, unit, status)


def _note_growth(view: JobView, unit: QueueUnit, growth: dict[str, Any]) -> Decision:
    record = PatchUnit(unit=unit, body=growth)
    if not unit.spec.pod_set:  # made by hand, it only had a sum: nothing has grown
        return Decision(actions=(record,), memory=view.memory)
    until = "they run as far as koord-scheduler lets them"
    if view.job is not None and view.job.kind.held_by_gates:
        until = "they wait at their gates"
    message = (
        "It has grown beyond its admission: its new pods count at once, and are granted when"
        f" its quota has room for them; until then {until}"
    )
    grown = RecordJobEvent(reason="Grown", message=message)
    return Decision(actions=(record, grown), memory=view.memory)


def build_growth(job: JobFacts, unit: QueueUnit) -> dict[str, Any]:
    """Return the merge patch that records the growth of a released elastic job, or {}.

    Only counts grow; what was given back stays given back (`reclaimablePods` only grows).
    """
    given_back = given_back_counts(unit)
    known = {each.name: each.count for each in unit.spec.pod_set}
    grown = tuple(
        msgspec.structs.replace(each, count=max(known.get(each.name, 0), needed))
        for each in job.pod_sets
        for needed in (min(each.count + given_back.get(each.name, 0), MAX_COUNT),)
    )
    if all(each.count <= known.get(each.name, 0) for each in grown):
        return {}
    if job.kind.held_by_gates:
        return _growth_of_held(unit, grown)
    bodies = pod_set_bodies(grown)
    return {
        "metadata": {"annotations": {POD_SETS_HASH: hash_of_pod_sets(bodies)}},
        "spec": {"podSet": bodies},
    }


def _growth_of_held(unit: QueueUnit, grown: tuple[JobPodSet, ...]) -> dict[str, Any]:
    """Return the same for a job that is held by gates.

    Pods that are larger than what was granted for one wait until the unit is admitted anew: more of
    them are granted then, too. Granted now, nothing could use it.
    """
    grants = grants_of(unit)
    if any(
        exceeds(read_requests(each.template.spec), grants[each.name].per_pod)
        for each in grown
        if each.name in grants
    ):
        return {}
    return body_of_demand(grown, unit)


def build_reclaimable(
    job: JobFacts, unit: QueueUnit, *, keeps_grants: bool = False
) -> list[dict[str, Any]]:
    """Return the new `status.reclaimablePods` of a released job, or [] when nothing is new.

    Counts only grow, up to what was admitted: what the job has grown by was never charged. A larger
    count was edited, and is corrected. The last share of finished work is not written: the final
    condition releases it. That of a job that is scaled to zero is, since it may continue at any
    time. `keeps_grants`: what the job may have again without a decision is not given to others.
    """
    if all(each.is_done for each in job.pod_sets):
        return []
    granted, given_back = granted_counts(unit), given_back_counts(unit)
    needed = {
        each.name: _may_need(each, granted.get(each.name, 0)) if keeps_grants else each.count
        for each in job.pod_sets
    }
    after = {
        name: min(max(count - needed.get(name, 0), given_back[name]), MAX_COUNT)
        for name, count in granted.items()
    }
    reported = {each.name: each.count for each in unit.status.reclaimable_pods}
    if all(count == reported.get(name, 0) for name, count in after.items()):
        return []
    return [{"name": name, "count": count} for name, count in after.items() if count > 0]


def _may_need(pod_set: JobPodSet, granted: int) -> int:
    """Return how many pods a set may have without a new decision, if its job may not grow."""
    if not pod_set.is_sized:  # nothing keeps it from growing
        return pod_set.count
    most = granted if pod_set.work_left is None else min(granted, pod_set.work_left)
    return max(pod_set.count, most)


def _running_into_status(
    view: JobView, job: JobFacts, unit: QueueUnit, state: JobState
) -> dict[str, object]:
    """Return the part of the status that a Running unit's pods change."""
    status: dict[str, object] = {}
    if unit.status.requeue_state is not None and not _may_be_too_few(view, job, unit):
        status["requeueState"] = None
    if state.state is State.RUNNING:
        status |= pods_ready_into_status(unit, view.moment)
    return status


def _let_more_run(view: JobView, job: JobFacts, unit: QueueUnit) -> ResizeJob | None:
    """Return the write that lets a job run what its unit has been granted since its release."""
    granted = granted_counts(unit)
    running = {each.name: each.released_parallelism for each in job.pod_sets}
    has_more = any(
        count is not None and granted.get(name, 0) > count for name, count in running.items()
    )
    resize = plan_resize(job, unit) if has_more and view.ownership.managed else None
    return None if resize is None else ResizeJob(resize=resize, granted=granted_size(job, unit))


def wait_to_resume(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> Decision:
    """Wait until the pods of an earlier run are gone, no longer than a start may take.

    A finished pod that is kept by a finalizer may never go.
    """
    return wait_in_time(view, job, unit, wait_for_old_pods(view, state))


def wait_in_time(view: JobView, job: JobFacts, unit: QueueUnit, decision: Decision) -> Decision:
    """Return a decision to wait, no longer than a start may take: then it is an eviction."""
    late, rest = _is_start_late(view, job, unit)
    if late:
        return announce_eviction(view, unit, BACKOFF_TIMEOUT, late)
    rest = earliest(rest, decision.requeue_after_seconds)
    return msgspec.structs.replace(decision, requeue_after_seconds=rest)


def earliest(*rests: float | None) -> float | None:
    """Return the shortest of these times in seconds; None if there is none."""
    return min((rest for rest in rests if rest is not None), default=None)


def give_up_late(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Evict a job that could not be resumed, or kept so, in its time to start; None: try again.

    A job that is late because no controllers ran to resume it is not evicted.
    """
    if RELEASE_REFUSED not in view.memory.reported_events and first_release(view, unit) is None:
        return None
    late, _ = _is_start_late(view, job, unit)
    return announce_eviction(view, unit, BACKOFF_TIMEOUT, late) if late else None


def first_release(view: JobView, unit: QueueUnit) -> datetime | None:
    """Return when the job was first released in this admission, as far as this process knows."""
    first, admitted_at = view.memory.first_release, read_time(unit.status.last_allocate_time)
    is_earlier = first is not None and admitted_at is not None and first < admitted_at
    return None if is_earlier else first


def _is_late(
    view: JobView, job: JobFacts, unit: QueueUnit, state: JobState
) -> tuple[str, float | None]:
    """Return why a released job has to be evicted, "" if it has not, and when it may have to be."""
    if state.state is State.STARTING and not wants_no_pods(job):
        return _is_start_late(view, job, unit)
    seconds = view.settings.partial_running_timeout_seconds
    is_so = phase_of(unit) is Phase.RUNNING and state.state is State.RUNNING
    if not (seconds and is_so) or is_adopted(unit):
        return "", None
    return _is_over(view, PARTLY_LATE, seconds, partial_since(job, unit, view.pods))


def _is_start_late(view: JobView, job: JobFacts, unit: QueueUnit) -> tuple[str, float | None]:
    phase = phase_of(unit)
    # That a unit in Running runs no pod concerns only its job: what comes after is a retry.
    if phase not in RELEASED_PHASES or phase is Phase.RUNNING:
        return "", None
    seconds = running_timeout(unit, view.settings)
    return _is_over(view, RUNNING_TIMEOUT_MESSAGE, seconds, _may_run_since(view, job, unit))


def _is_over(
    view: JobView, why: str, seconds: float, since: datetime | None
) -> tuple[str, float | None]:
    """Return the reason if so many seconds have passed (0: never), or else when they will have."""
    # A job that is not managed is never evicted, and so never late.
    if not seconds or since is None or not view.ownership.managed:
        return "", None
    rest = seconds - (view.moment.wall - since).total_seconds()
    return ("", rest) if rest > 0 else (why, None)


def _may_be_too_few(view: JobView, job: JobFacts, unit: QueueUnit) -> bool:
    """Return whether the job may yet be evicted because only some of its pods run.

    Until all do, its backoffs are not reset: else every one would be the first.
    """
    has_timeout = view.settings.partial_running_timeout_seconds > 0 and view.ownership.managed
    return has_timeout and missing_pods(job, unit, view.pods) > 0


def _may_run_since(view: JobView, job: JobFacts, unit: QueueUnit) -> datetime | None:
    """Return since when the job may run; others may have resumed it after the admission.

    Suspending it and having it released again does not renew that time. In strict mode it begins
    when the nodes are reserved, since the search for them is not the job's time: that is
    `lastUpdateTime`, until counts of pods are written after the release.
    """
    status = unit.status
    is_strict = phase_of(unit) is Phase.SCHED_SUCCEED and not was_released_already(job, unit)
    released_at = first_release(view, unit) or job.released_at
    reserved_at = read_time(status.last_update_time if is_strict else None)
    known = (released_at, read_time(status.last_allocate_time), reserved_at)
    return last_past(known, view.moment)


def _write_running(
    view: JobView,
    job: JobFacts,
    unit: QueueUnit,
    status: dict[str, object],
) -> Decision:
    """Move the unit to Running, with the counts that the next half second brings."""
    memory, now = view.memory, view.moment.monotonic
    since = now if memory.running_since is None else memory.running_since
    rest = since + SETTLE_SECONDS - now
    wanted = sum(granted_counts(unit).values())
    if view.pods.running < wanted and rest > 0:
        memory = msgspec.structs.replace(memory, running_since=since)
        return Decision(memory=memory, requeue_after_seconds=rest)
    status |= count_into_status(unit, view.pods)
    too_few, requeue = _may_be_too_few(view, job, unit), unit.status.requeue_state
    if too_few and requeue is not None:
        status["requeueState"] = {"count": requeue.count}
    move = move_unit(
        unit,
        Phase.RUNNING,
        view.moment,
        message="Running",
        cleared=(SUSPEND_CONTESTED, OPERATOR_SILENT),
        extra=status,
    )
    memory = msgspec.structs.replace(
        memory, running_since=None, counted_at=now, miscounted_since=None, first_release=None
    )
    # The next reconcile says when that has lasted too long.
    has_end = too_few or unit.spec.maximum_execution_time_seconds is not None
    return Decision(actions=(move,), memory=memory, is_complete=not has_end)


def _least_pause(view: JobView) -> float:
    """Return the least number of seconds between two writes of counts."""
    timeout = view.settings.partial_running_timeout_seconds
    return min(COUNT_SECONDS, timeout / 2) if timeout else COUNT_SECONDS


def _follow_counts(
    view: JobView,
    unit: QueueUnit,
    status: dict[str, object],
    requeue_after: float | None,
    *,
    stays_seconds: float = STAYS_SECONDS,
) -> Decision:
    """Correct the counts of a released unit, seldom, and say since when they are right."""
    memory, now = view.memory, view.moment.monotonic
    counts = count_into_status(unit, view.pods)
    since = now if memory.miscounted_since is None else memory.miscounted_since
    memory = msgspec.structs.replace(memory, miscounted_since=since if counts else None)
    if counts:
        due = since + stays_seconds
        if memory.counted_at is not None:
            due = max(due, memory.counted_at + _least_pause(view))
        if due <= now or status:
            status |= {**counts, "lastUpdateTime": view.moment.stamp}
            memory = msgspec.structs.replace(memory, counted_at=now, miscounted_since=None)
        else:
            requeue_after = due - now if requeue_after is None else min(due - now, requeue_after)
    write = (PatchUnitStatus(unit=unit, status=status),) if status else ()
    return Decision(actions=write, memory=memory, requeue_after_seconds=requeue_after)


def counts_due(view: JobView, unit: QueueUnit, memory: JobMemory) -> float | None:
    """Return from when on the counts of a job's pods may be corrected (monotonic).

    None if more than the counts may depend on the success of a pod. While a managed job runs, only
    the counts do: its operator reports its end.

    Args:
        view: What was decided by.
        unit: The unit after what was decided.
        memory: The memory after it.
    """
    job = view.job
    if job is None or not (job.kind.owns_pods and view.ownership.managed) or job.suspended:
        return None
    if job.status.outcome is not None or job.metadata.deletion_timestamp is not None:
        return None
    if unit.metadata.deletion_timestamp is not None or unit.spec.active is False:
        return None
    if phase_of(unit) is not Phase.RUNNING or is_being_evicted(unit):
        return None
    # When too few run, an eviction depends on it.
    if memory.counted_at is None or view.settings.partial_running_timeout_seconds:
        return None
    return memory.counted_at + COUNT_SECONDS


# --- missing pods ---------------------------------------------------------------------------------
# Since when some pods of a job are missing while others run, as the objects have it.
#
# A missing pod is *pending*, or does not exist (its creation is refused, or a failed one is not
# retried yet). A pending pod has been missing since it was created. For one that does not exist,
# the unit's count of running pods tells: when it was last written, as many ran as now; and none was
# created after the newest of the pods. While that count differs from the pods, or the job's
# operator reports other numbers than are seen, something is changing just now.
#
# So a job of short pods that follow each other is never late, though all of them seldom run at
# once: none of them is pending for long. Pods that have finished their work are not missing (the
# job's counts leave them out), nor is what a job has grown by or given back.


def missing_pods(job: JobFacts, unit: QueueUnit, pods: PodCounts) -> int:
    """Return how many of the pods that the job needs and was admitted with do not run.

    A set that states a minimum needs no more than that.
    """
    wanted = _wanted_pods(job, unit)
    if len(wanted) == 1 or "" in pods.running_of_sets:  # the set of some pods is unknown
        return max(sum(wanted.values()) - pods.running, 0)
    running = pods.running_of_sets
    return sum(max(count - running.get(name, 0), 0) for name, count in wanted.items())


def _wanted_pods(job: JobFacts, unit: QueueUnit) -> dict[str, int]:
    granted = granted_counts(unit)
    given_back = given_back_counts(unit)
    wanted = {}
    for each in job.pod_sets:
        allowed = granted.get(each.name, each.count) - given_back.get(each.name, 0)
        needed = each.count if each.min_count is None else min(each.min_count, each.count)
        wanted[each.name] = max(min(needed, allowed), 0)
    return wanted


def partial_since(job: JobFacts, unit: QueueUnit, pods: PodCounts) -> datetime | None:
    """Return since when at least one pod is missing of a running unit, while others run.

    None if none is missing, none runs, or it is not known (yet).
    """
    missing = missing_pods(job, unit, pods)
    ready = find_condition(unit.status.conditions, PODS_READY)
    if not missing or not pods.running or ready is None or ready.status != "True":
        return None
    some_run_since = read_time(ready.last_transition_time)
    pending_since = read_time(pods.pending_since) if pods.pending else None
    none_since = _uncreated_since(job, unit, pods) if missing > pods.pending else None
    known = [each for each in (pending_since, none_since) if each is not None]
    if some_run_since is None or not known:
        return None
    return max(some_run_since, min(known))


def _uncreated_since(job: JobFacts, unit: QueueUnit, pods: PodCounts) -> datetime | None:
    """Return since when there are just these pods; None while that may be changing."""
    seen_by_operator = job.status.pods in {0, pods.living}
    is_counted = bool(unit.status.admissions) and not count_into_status(unit, pods)
    if not (seen_by_operator and is_counted):
        return None
    counted = read_time(unit.status.last_update_time)
    created = read_time(pods.last_created)
    return counted if created is None or counted is None else max(counted, created)


# --- operators that have not noticed a release ----------------------------------------------------
# When to wake an operator that does not act on a released job.
#
# Some operators wait for events of pods that they believe to have created, and reconcile again only
# after minutes; any change of the object makes them reconcile at once. So a released job without
# pods is touched: an annotation says when. The first time after its kind's `nudge_seconds`, then
# after twice as long each time, at most every ten minutes; an operator that is down is not hurried.
#
# When to touch again follows from the times of the release and of the last touch, which stand on
# the job. So a restart neither forgets nor repeats one.

MAX_PAUSE_SECONDS: Final = 600.0
"""Between two touches: twice as long as KubeRay takes to reconcile by itself."""


def plan_operator_wakeup(
    view: JobView, job: JobFacts, state: JobState
) -> tuple[tuple[Action, ...], float | None]:
    """Return the touch if it is due, and in how many seconds the next one is; None: no next one.

    `job` has been released, and its unit is not in Running.
    """
    seconds, released_at = job.kind.nudge_seconds, job.released_at
    is_waiting = state.state is State.STARTING and not view.pods.total and view.ownership.managed
    if seconds is None or released_at is None or not is_waiting:
        return (), None
    touched_at = job.touched_at
    if touched_at is None or touched_at < released_at:
        due, is_first = seconds, True
    else:
        # 30, 90, 210 s ... after the release: each pause is as long as all before, and one more.
        passed = (touched_at - released_at).total_seconds()
        due, is_first = passed + min(passed + seconds, MAX_PAUSE_SECONDS), False
    rest = due - (view.moment.wall - released_at).total_seconds()
    if rest > 0:
        return (), rest
    touch = TouchJob(touched_at=view.moment.exact_stamp)
    if not is_first:
        return (touch,), None
    message = (
        f"Resumed {seconds:g} s ago, it has no pod yet: it is touched, so that its operator looks"
        " at it again"
    )
    return (
        touch,
        RecordJobEvent(reason="NoPodsYet", message=message, type=EventType.WARNING),
    ), None


# --- counts of pods -------------------------------------------------------------------------------


def count_into_status(unit: QueueUnit, pods: PodCounts) -> dict[str, Any]:
    """Return the part of a status that has the current pods, {} when the unit says so already.

    The list of admissions is the scheduler's except for the counts, so all of it is carried over: a
    merge patch replaces whole lists, and the guard makes sure that this is the newest.
    """
    admissions = unit.status.admissions
    counts = _counts_of(unit, pods)
    if all(map(_has_counts, admissions, counts)):
        return {}
    return {
        "admissions": [admission_body(each) for each in map(_with_counts, admissions, counts)],
        "podState": {"running": pods.running, "pending": pods.pending},
    }


def pods_ready_into_status(unit: QueueUnit, moment: Moment) -> dict[str, Any]:
    """Return the part of a status that says that pods run, of a unit adopted before any ran."""
    ready = find_condition(unit.status.conditions, PODS_READY)
    if ready is None or ready.status == "True" or ready.reason != PODS_PENDING:
        return {}
    runs = Condition(
        type=PODS_READY, status="True", reason="PodsRunning", message="Pods of the job run"
    )
    conditions = with_condition(unit.status.conditions, runs, now=moment.stamp)
    return {"conditions": [condition_body(each) for each in conditions]}


def children_into_status(unit: QueueUnit, pods: PodCounts) -> dict[str, Any]:
    """Return the part of a status that lists controllers of the job's pods, {} if unchanged.

    Without it the scheduler takes pods without the mark of the unit for foreign pods.
    """
    children = pods.children[:MAX_POD_OWNERS]
    return {} if set(unit.status.pod_owners).issuperset(children) else {"podOwners": [*children]}


class _Counts(msgspec.Struct, frozen=True):
    """The pods of one set."""

    running: int
    pending: int
    failed: int


def _counts_of(unit: QueueUnit, pods: PodCounts) -> list[_Counts]:
    """Return the pods of each admission. If there is only one, it has them all."""
    names = [each.name for each in unit.status.admissions]
    if len(names) == 1:
        return [_Counts(pods.running, pods.pending, pods.failed)]
    return [
        _Counts(
            pods.running_of_sets.get(name, 0),
            pods.pending_of_sets.get(name, 0),
            pods.failed_of_sets.get(name, 0),
        )
        for name in names
    ]


def _has_counts(admission: Admission, counts: _Counts) -> bool:
    reported = (admission.running, admission.pending or 0, admission.failed or 0)
    return reported == (counts.running, counts.pending, counts.failed)


def _with_counts(admission: Admission, counts: _Counts) -> Admission:
    return msgspec.structs.replace(
        admission,
        running=counts.running,
        pending=counts.pending or None,
        failed=counts.failed or None,
    )
