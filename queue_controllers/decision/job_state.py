"""The state of a job: one state machine for all kinds.

::

    held ──► released ──► starting ◄──► running ──► finished
     ▲                        │             │
     └────── stopping ◄───────┴─────────────┘        (deleted: deleting ──► gone)

- *held*: suspended, and stopped.
- *released*: the same, but its unit is admitted: only the switch is still off.
- *starting*: not suspended, not finished, and no pod of it runs: also after it ran (retries).
- *running*: the status says so, and a pod runs that is not being deleted.
- *stopping*: suspended, but a pod lives, or the operator has not said that it knows.
- *finished*: checked before anything else (operators leave the rest of a status as it was).
- *deleting*: deleted, and the object or a living pod of it is still there; then *gone*.

*Stopped* is what frees a booking: no living pod, and the operator says that it holds the job back.
What it said before the last release does not count, it may not have seen that yet. *Resumable* is
stopped with no pod object left that is being deleted: an operator that finds one after a resume
takes it for a failure (six kinds of six, recorded).

Nothing here is remembered: the same objects give the same state after a restart. What was seen
before, and how long an operator has been silent, comes in as an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec

from queue_controllers.job_families.gated_pods import is_held, is_opened
from queue_controllers.jobframework.generic_job import JobFacts
from queue_controllers.jobframework.pod_scheduling import Unschedulable, unschedulable_of
from shared_api.objects.meta import NO_UID, Uid
from shared_api.objects.pod import Pod, PodSpec
from shared_api.timestamps import read_time
from shared_api.well_known_labels import RELATED_QUEUE_UNIT, read_annotation


class State(StrEnum):
    """The state of a job."""

    HELD = "held"
    RELEASED = "released"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FINISHED = "finished"
    DELETING = "deleting"
    GONE = "gone"


class HeldPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that the queue's gate holds."""

    uid: Uid
    name: str
    pod_set: str
    spec: PodSpec


class PodCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of one job, counted.

    Those that are held by the queue's gate use nothing: they are in `held` alone.
    """

    total: int = 0
    """Pod objects, finished ones included."""
    living: int = 0
    """Neither Succeeded nor Failed: they hold their requests, also while they are deleted."""
    terminating: int = 0
    """Objects with a deletionTimestamp, in any phase."""
    running: int = 0
    """In phase Running, and not being deleted."""
    running_of_sets: dict[str, int] = {}
    """The same, by pod set; "" for those that do not name theirs."""
    pending: int = 0
    """Living, not running, and not being deleted."""
    pending_of_sets: dict[str, int] = {}
    """The same, by pod set."""
    failed: int = 0
    """In phase Failed, and not being deleted."""
    failed_of_sets: dict[str, int] = {}
    """The same, by pod set."""
    pending_since: str = ""
    """When the oldest pending pod was created; "" for none."""
    last_created: str = ""
    """When the newest of all was created; "" for none."""
    unschedulable: tuple[Unschedulable, ...] = ()
    """Why pending pods were refused by their scheduler; the one that was refused first leads."""
    bound: int = 0
    """Living, and with a node: they run, or are about to. Others have taken nothing yet."""
    bound_since: str = ""
    """When the oldest pod with a node that is not being deleted was created; "" for none."""
    held: tuple[HeldPod, ...] = ()
    """Held by the queue's gate, and not being deleted, in the order in which they start; filled by
    `count_gated`."""
    living_of_sets: dict[str, int] = {}
    """Living pods by pod set; counted by `count_gated`."""
    opened: int = 0
    """Living, and neither gated nor ever released: something else took their gate off; counted by
    `count_gated`."""
    children: tuple[Uid, ...] = ()
    """Controllers, other than the job, of living pods without the mark of its unit; sorted."""


NO_PODS = PodCounts()


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one job."""

    state: State
    stopped: bool = False
    resumable: bool = False
    unclear: bool = False
    """Suspended and without living pods; only the operator's confirmation is missing."""


def count_pods(
    pods: Iterable[Pod], pod_set_of: Callable[[Pod], str], job: Uid = NO_UID
) -> PodCounts:
    """Return the counts of a job's pods; `job`: its uid, if its children may have pods as well."""
    total = living = terminating = bound = 0
    pending_since = last_created = bound_since = ""
    children: set[Uid] = set()
    refused: list[Unschedulable] = []
    running: dict[str, int] = {}
    pending: dict[str, int] = {}
    failed: dict[str, int] = {}
    for pod in pods:
        created = pod.metadata.creation_timestamp
        last_created = max(last_created, created)
        total += 1
        living += pod.is_living
        if job and pod.is_living and (child := _unmarked_controller(pod)) not in {NO_UID, job}:
            children.add(child)
        if has_node(pod):
            bound += 1
            if not pod.is_terminating:
                bound_since = min(bound_since or created, created)
        if pod.is_terminating:
            terminating += 1
        elif pod.status.phase == "Running":
            _count(running, pod_set_of(pod))
        elif pod.is_living:
            _count(pending, pod_set_of(pod))
            pending_since = min(pending_since or created, created)
            if (refusal := unschedulable_of(pod)) is not None:
                refused.append(refusal)
        elif pod.status.phase == "Failed":
            _count(failed, pod_set_of(pod))
    return PodCounts(
        total=total,
        living=living,
        terminating=terminating,
        running=sum(running.values()),
        running_of_sets=running,
        pending=sum(pending.values()),
        pending_of_sets=pending,
        failed=sum(failed.values()),
        failed_of_sets=failed,
        pending_since=pending_since,
        last_created=last_created,
        unschedulable=tuple(sorted(refused)),
        bound=bound,
        bound_since=bound_since,
        children=tuple(sorted(children)),
    )


def has_node(pod: Pod) -> bool:
    """Return whether a living pod has a node, or its phase says so: only a kubelet writes that."""
    return pod.is_living and (pod.is_bound or pod.status.phase == "Running")


def _unmarked_controller(pod: Pod) -> Uid:
    owner = pod.metadata.controller_owner
    is_marked = read_annotation(pod.metadata.annotations, RELATED_QUEUE_UNIT)
    return NO_UID if owner is None or is_marked else owner.uid


def _count(of_sets: dict[str, int], name: str) -> None:
    of_sets[name] = of_sets.get(name, 0) + 1


def judge_job(job: JobFacts | None, pods: PodCounts, *, admitted: bool, believed: bool) -> JobState:
    """Return the state of a job.

    Args:
        job: None when the object does not exist (any more).
        pods: Its pods.
        admitted: Its unit is admitted, and no eviction of it is in progress.
        believed: The operator need not confirm the suspension by its timestamp: it was seen to let
            the job go before, or has had all the time that it gets.
    """
    if job is None:
        return JobState(state=State.DELETING if pods.living else State.GONE)
    if job.status.outcome is not None:
        return JobState(state=State.FINISHED)
    if job.metadata.deletion_timestamp is not None:
        return JobState(state=State.DELETING)
    if not job.suspended:
        runs = job.status.running and pods.running > 0
        return JobState(state=State.RUNNING if runs else State.STARTING)
    if pods.living:
        return JobState(state=State.STOPPING)
    if not (_operator_confirms(job, pods) or believed):
        return JobState(state=State.STOPPING, unclear=True)
    return JobState(
        state=State.RELEASED if admitted else State.HELD,
        stopped=True,
        resumable=not pods.terminating,
    )


def _operator_confirms(job: JobFacts, pods: PodCounts) -> bool:
    """Return whether the operator has said, since the last release, that it holds the job back."""
    status, released_at = job.status, job.released_at
    if job.kind.held_by_gates:
        return True  # no operator stands between the queue and the pods
    if status.pods:
        return False  # it speaks of pods that the cache does not have yet
    if released_at is None and status.is_empty and not pods.total:
        return True  # nothing has ever happened to it
    if not status.suspended:
        return False
    if released_at is None:
        return True
    # Conditions have whole seconds, truncated. One of the very second of the release may be from
    # before it: that is unclear, unless the operator was seen to let the job go in between. It is
    # clear with a later report, or when the operator's time is up.
    since = read_time(status.suspended_since)
    return since is not None and since > released_at


# --- jobs that are held by the gates of their pods ------------------------------------------------
# A gate suspends one pod. While such a job is not admitted, it counts as suspended if none of its
# pods lives without a gate; while it is admitted, if all of them are gated. So it has the same
# states as every other job, and pods that come later, as those of a StatefulSet do, start one by
# one within the admission.
#
# Some pods of a job that is not admitted may live without a gate all the same: others took their
# gate off, or the unit was created anew. They are charged while they live, and the gated ones wait.
# If all pods live without a gate, nothing is left to decide.


def count_gated(pods: Iterable[Pod], pod_set_of: Callable[[Pod], str]) -> PodCounts:
    """Return the counts of a job's pods: those that are gated, and per set those that live."""
    others = []
    held: list[HeldPod] = []
    living: dict[str, int] = {}
    for pod in pods:
        name = pod_set_of(pod)
        if not is_held(pod):
            others.append(pod)
            living[name] = living.get(name, 0) + pod.is_living
        elif not pod.is_terminating:
            meta = pod.metadata
            held.append(HeldPod(uid=meta.uid, name=meta.name, pod_set=name, spec=pod.spec))
    return msgspec.structs.replace(
        count_pods(others, pod_set_of),
        held=tuple(held),
        living_of_sets=living,
        opened=sum(map(is_opened, others)),
    )


def judge_gates(job: JobFacts, pods: PodCounts, *, admitted: bool) -> JobFacts:
    """Return the facts with `suspended` derived from the gates of the pods.

    Args:
        job: What the adapter reports.
        pods: From `count_gated`.
        admitted: Whether its unit is admitted and not being evicted.
    """
    runs = pods.running + pods.pending > 0
    suspended = bool(pods.held) and not runs if admitted else not runs
    return msgspec.structs.replace(job, suspended=suspended)


def runs_whole(job: JobFacts, pods: PodCounts) -> bool:
    """Return whether all pods that the job needs live, so that nothing of it is left to start."""
    return all(pods.living_of_sets.get(each.name, 0) >= each.count for each in job.pod_sets)
