"""The release of an admitted job: what is written, and what delays or prevents it. Pure.

A released job may be suspended by others: then it is released again. A tool that does so again and
again (it applies the job as it was written, suspended) keeps quota that others wait for, and throws
away whatever runs. After five times within an hour the job gives its quota back, like one whose
pods do not run in time: it backs off, longer each time, and the backoff limit counts. The
counterpart is `suspend_conflict`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from queue_controllers.decision.actions import (
    Action,
    EventType,
    MarkPods,
    RecordJobEvent,
    ReleaseJob,
)
from queue_controllers.decision.gates import room_of
from queue_controllers.decision.grants import granted_counts, plan_resize
from queue_controllers.decision.job_ownership import quota_of_job
from queue_controllers.decision.job_view import Decision, JobView
from queue_controllers.decision.pending import with_event_once
from queue_controllers.decision.pod_set_updates import UpdateConflict, plan_updates
from queue_controllers.decision.pod_stamps import build_stamps
from queue_controllers.decision.pods_not_ready import first_requeue_seconds
from queue_controllers.decision.running import announce_eviction, first_release
from queue_controllers.decision.unit_status_patches import (
    JOB_CHANGED,
    PODS_REFUSED,
    running_timeout,
    was_released_already,
)
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.evictions import BACKOFF_TIMEOUT
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import POD_SET_UPDATES_CONFLICT
from shared_api.well_known_labels import ACTIVE, NOT_PREEMPTIBLE, SUSPEND

MAX_SUSPENSIONS: Final = 5
SUSPENSIONS_SECONDS: Final = 3600.0
"""So many suspensions by others within so long end a release: a tool that applies a manifest every
few minutes is found, a user who stops a job now and then is not."""

REST_SECONDS: Final = 60.0
"""How long a job may wait for pods that it was not admitted with and cannot do without: growth is
granted within seconds if there is capacity. A shorter time to run in is enough."""

REFUSED_SECONDS: Final = 5.0
"""How long an admitted job is held back whose pods would be refused, before it waits without quota:
an object that is created anew is away for less than a second."""

TOO_FEW: Final = "Evicted because it was admitted with fewer pods than its job can do with"

SUSPENDED_BY_OTHERS: Final = (
    f"Backoff since others suspended it {MAX_SUSPENSIONS} times within"
    f" {SUSPENSIONS_SECONDS / 60:g} minutes after its release. What applies it must leave its"
    f' suspend field to the queue; to stop it, annotate it {ACTIVE}: "false"'
)


def release_whole(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision:
    """Release a job of which nothing runs, if its grant is enough for it."""
    if job.pods_refused:
        return _wait_while_refused(view, job, unit)
    if not _may_run_with_what_it_got(job, unit):
        return _wait_for_the_rest(view, unit)
    return _release_again(view, job, unit) or release_job(view, job, unit)


def _wait_while_refused(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision:
    """Hold a job back whose pods would be refused; when that lasts, its unit gives its quota back.

    To change the value of a PriorityClass is to delete it and to create it again.
    """
    now = view.moment.monotonic
    since = now if view.memory.refused_since is None else view.memory.refused_since
    rest = since + REFUSED_SECONDS - now
    if rest <= 0:
        message = f"Evicted because its pods would be refused: {job.pods_refused}"
        return announce_eviction(view, unit, PODS_REFUSED, message)
    memory = msgspec.structs.replace(view.memory, refused_since=since)
    return Decision(memory=memory, requeue_after_seconds=rest)


def _wait_for_the_rest(view: JobView, unit: QueueUnit) -> Decision:
    """Wait until a job is granted what it cannot do without; when that takes long, evict it.

    Growth is granted only when no pending unit could take it, and a unit that waits for this one's
    pods may be the very one that could.
    """
    timeout, now = running_timeout(unit, view.settings), view.moment.monotonic
    patience = min(timeout, REST_SECONDS) if timeout else REST_SECONDS
    since = now if view.memory.short_since is None else view.memory.short_since
    if now - since >= patience:
        return announce_eviction(view, unit, JOB_CHANGED, TOO_FEW)
    memory = msgspec.structs.replace(view.memory, short_since=since)
    message = (
        "Admitted with fewer pods than it can do with: it is not resumed. Unless it is granted the"
        f" others within {patience:g} s it waits in the queue again, for all of them"
    )
    view = msgspec.structs.replace(view, memory=memory)
    decision = with_event_once(view, "PartialAdmission", message)
    return msgspec.structs.replace(decision, requeue_after_seconds=since + patience - now)


def _release_again(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Return the release of a job that was suspended by others, None if it was not."""
    if not was_released_already(job, unit) or job.kind.held_by_gates:
        return None
    now = view.moment.monotonic
    recent = (at for at in view.memory.suspended_at if now - at < SUSPENSIONS_SECONDS)
    suspended_at = (*recent, now)
    if len(suspended_at) >= MAX_SUSPENSIONS:
        memory = msgspec.structs.replace(view.memory, suspended_at=())
        view = msgspec.structs.replace(view, memory=memory)
        return announce_eviction(view, unit, BACKOFF_TIMEOUT, SUSPENDED_BY_OTHERS)
    memory = msgspec.structs.replace(view.memory, suspended_at=suspended_at)
    decision = release_job(msgspec.structs.replace(view, memory=memory), job, unit)
    if not any(isinstance(each, ReleaseJob) for each in decision.actions):
        return decision
    message = (
        "Resumed: it is admitted, and was suspended by others."
        f' To stop it, annotate it {ACTIVE}: "false"'
    )
    event = RecordJobEvent(reason="Resumed", message=message, type=EventType.WARNING)
    return msgspec.structs.replace(decision, actions=(*decision.actions, event))


def mark_opened(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision:
    """Mark the pods that were ungated by others with their unit."""
    stamps = build_stamps(job, unit, quota_of_job(job, view.around))
    mark = MarkPods(released_at=view.moment.exact_stamp, stamps=stamps)
    return Decision(actions=(mark,), memory=view.memory)


def release_job(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision:
    """Resume a job, or take the gates off as many of its pods as were granted."""
    quota = quota_of_job(job, view.around)
    wanted = build_stamps(job, unit, quota)
    stamps = {} if view.memory.stamp_refused else wanted
    plan = plan_updates(job, unit, stamps)
    if isinstance(plan, UpdateConflict):
        return announce_eviction(view, unit, POD_SET_UPDATES_CONFLICT, plan.message)
    release = ReleaseJob(
        released_at=view.moment.exact_stamp,
        stamps=stamps,
        updates=plan.updates,
        updates_note=plan.note,
        resize=plan_resize(job, unit),
        room=room_of(unit, view.pods),
        annotation=_released_annotation(job),
    )
    actions: tuple[Action, ...] = (release,)
    if view.memory.stamp_refused:
        message = (
            "Resumed without the queue's stamp, which its pod template does not take:"
            " its pods are charged to the quota that they or their namespace name"
        )
        if any(NOT_PREEMPTIBLE in each.labels.values() for each in wanted.values()):
            message += ", and are preemptible, whatever the job's label says"
        event = RecordJobEvent(reason="NotStamped", message=message, type=EventType.WARNING)
        actions = (*actions, event)
    if plan.left_out:
        event = RecordJobEvent(
            reason="UpdatesNotTaken", message=plan.left_out, type=EventType.WARNING
        )
        actions = (*actions, event)
    # If its time to run in is limited, a reconcile of the released job says when that is over.
    settled = not running_timeout(unit, view.settings)
    memory = msgspec.structs.replace(
        view.memory,
        first_release=first_release(view, unit) or view.moment.wall,
        has_seen_pods=False,
        without_pods_since=None,
        running_since=None,
        miscounted_since=None,
        stamp_refused=False,
        old_pods_since=None,
        short_since=None,
        refused_since=None,
    )
    return Decision(
        actions=actions,
        memory=memory,
        settled=settled,
        requeue_after_seconds=first_requeue_seconds(job.kind),
    )


def _may_run_with_what_it_got(job: JobFacts, unit: QueueUnit) -> bool:
    """Return whether the job was granted at least the pods that it can do with.

    Units that list nothing were not split. What the job can do with is its own word: the unit may
    have been admitted with a minimum that the job no longer has, or that was edited into it.
    """
    granted = granted_counts(unit)
    return all(
        granted.get(each.name, each.count)
        >= (each.count if each.min_count is None else each.min_count)
        for each in job.pod_sets
    )


def _released_annotation(job: JobFacts) -> str | None:
    """Return what the suspend annotation becomes at the release."""
    if job.metadata.annotations.get(SUSPEND) is None:
        return None
    return "" if job.kind.releases_on_absence else "false"
