"""Why pods of a released job do not run, for the condition `PodsReady` of its unit. Pure.

Two things go wrong after a release that cannot be known before it. No pod is created at all: its
creation is refused, and the job's own event says why. Or pods exist and have no node: their
scheduler says why. The unit reports it once it has lasted, and takes it back when it is over. A
unit whose queue waits for its pods keeps the reason that says so (`WaitForPodsRunning`, by which
its time to run is counted), and has the rest in the message. One in Running keeps the status True,
by which its execution time is counted.

A job of a kind that creates its pods at once, and that has had none for minutes, will not get any:
it gives its quota back. The time is counted from what stands in objects: the release on the job,
and since when there has been no pod in the unit's condition.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from queue_controllers.decision.actions import EventType, RecordJobEvent
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_state import JobState, State
from queue_controllers.decision.job_view import Decision, JobMemory, JobView
from queue_controllers.decision.unit_status_patches import last_past, set_condition
from queue_controllers.jobframework.generic_job import JobFacts, JobKind
from queue_controllers.jobframework.pod_scheduling import UNSCHEDULABLE_SECONDS, NoNodeReason
from shared_api.objects.meta import Condition, find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import (
    NO_PODS,
    PODS_PENDING,
    PODS_READY,
    PODS_RUNNING,
    PODS_UNSCHEDULABLE,
    RUN,
    WAITED_FOR,
    Phase,
    is_adopted,
    phase_of,
)
from shared_api.timestamps import read_time

NO_PODS_SECONDS: Final = 10.0
"""How long a released job may have no pod before its unit reports it. A Job's controller creates
the first within a second, and reports at once if it may not."""

SLOW_NO_PODS_SECONDS: Final = 60.0
"""How long, in seconds, where something else is set up before the first pod."""

POD_CREATION_SECONDS: Final = 300.0
"""How long a job may have no pod before it gives its quota back, unless a setting says otherwise;
only of kinds that create their pods at once."""

REREAD_SECONDS: Final = 600.0
"""Between two reads of one job's events in one attempt, whatever changes: the server scans all
events of the namespace for it."""

NO_POD: Final = "No pod of it exists"
NO_EVENT: Final = "no event of it says why; those of what makes its pods may"
PENDING: Final = "Pods of the job do not run yet"
SEPARATOR: Final = "; "
"""Stands between why the queue waits for a unit and what is wrong with its pods; in no name."""

_REFUSED: Final = {
    NoNodeReason.QUOTA: "For more than a minute pods of it are refused by their quota",
    NoNodeReason.NODES: "For more than a minute pods of it fit no node",
    NoNodeReason.OTHER: "For more than a minute pods of it have no node",
}


class PodsTrouble(msgspec.Struct, frozen=True):
    """What is wrong."""

    reason: str
    words: str
    """The beginning of the message, unchanged while the same is wrong."""
    detail: str

    @property
    def message(self) -> str:
        """All of it, as the condition and the event have it."""
        return f"{self.words}: {self.detail}"


class PodsVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about a released job's pods that do not run."""

    memory: JobMemory
    status: dict[str, Any] = {}
    """The part of the unit's status that says so, {} if it does already."""
    refusal: PodsTrouble | None = None
    """What that part says of pods without a node, if no event has yet."""
    needs_events: bool = False
    """The job's events have to be read before the unit reports it."""
    late: str = ""
    """Why the job gives its quota back, "" if it does not."""
    requeue_after_seconds: float | None = None


def first_requeue_seconds(kind: JobKind) -> float | None:
    """Return how many seconds after its release a job is checked for pods, or None for never.

    Mostly the event of its first pod comes before that, and no reconcile is added.
    """
    if kind.held_by_gates:
        return None  # its pods exist before it does
    seconds = patience_with(kind)
    return seconds if kind.nudge_seconds is None else min(seconds, kind.nudge_seconds)


def patience_with(kind: JobKind) -> float:
    """Return how many seconds a released job may have no pod before its unit reports it."""
    return NO_PODS_SECONDS if kind.makes_pods_at_once else SLOW_NO_PODS_SECONDS


def pod_creation_timeout(job: JobFacts, settings: JobSettings) -> float:
    """Return after how many seconds without a pod a job gives its quota back; 0: never."""
    if settings.pod_creation_timeout_seconds is not None:
        return settings.pod_creation_timeout_seconds
    return POD_CREATION_SECONDS if job.kind.makes_pods_at_once else 0.0


def wants_no_pods(job: JobFacts) -> bool:
    """Return whether there is nothing to wait for: of a job scaled to zero, all pods run."""
    return bool(job.pod_sets) and not any(each.count for each in job.pod_sets)


def judge_pods(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> PodsVerdict:
    """Return what to do about the pods of a released job that is not suspended."""
    if _has_pods(view, job, state):
        return _judge_placement(view, unit, state)
    memory, since = _without_since(view, job, unit)
    view = msgspec.structs.replace(view, memory=memory)
    passed = (view.moment.wall - since).total_seconds()
    timeout = _timeout(view, job, unit)
    patience = patience_with(job.kind)
    patience = min(patience, timeout or patience)
    if passed < patience:
        status = _status_of(view, unit, None)
        return PodsVerdict(memory=memory, status=status, requeue_after_seconds=patience - passed)
    if not _has_reported(unit, NO_PODS, NO_POD):
        if _may_read_again(view, since):
            return PodsVerdict(memory=memory, needs_events=True)
        then = f". If none comes within {timeout:g} s, it gives its quota back" if timeout else ""
        trouble = PodsTrouble(NO_PODS, NO_POD, f"{memory.why or NO_EVENT}{then}")
        return PodsVerdict(memory=memory, status=_status_of(view, unit, trouble))
    if timeout and passed >= timeout:
        return PodsVerdict(memory=memory, late=_why_late(unit, timeout))
    rest = timeout - passed if timeout else None
    return PodsVerdict(memory=memory, requeue_after_seconds=rest)


def _timeout(view: JobView, job: JobFacts, unit: QueueUnit) -> float:
    """Return after how many seconds without a pod this unit is evicted; 0: never.

    If a unit in Running has no pod, that concerns only its job: what comes after is a retry.
    """
    may_evict = view.ownership.managed and not is_adopted(unit)
    if not may_evict or phase_of(unit) is Phase.RUNNING:
        return 0.0
    return pod_creation_timeout(job, view.settings)


def _has_pods(view: JobView, job: JobFacts, state: JobState) -> bool:
    """Return whether pods of the job exist, or none need to, as far as is known.

    Pods that its operator reports may not have reached the pod cache yet.
    """
    if view.pods.total or job.status.pods or state.state is not State.STARTING:
        return True
    return job.kind.held_by_gates or not job.pod_sets or wants_no_pods(job)


def _without_since(view: JobView, job: JobFacts, unit: QueueUnit) -> tuple[JobMemory, datetime]:
    """Return the memory, and since when there is no pod.

    Since the release, if this process has released the job and seen no pod since, or if the unit
    says that there was none. Otherwise, or when pods have gone, the count starts now.
    """
    memory, now = view.memory, view.moment.wall
    if memory.without_pods_since is not None:
        return memory, memory.without_pods_since
    since, is_known = now, _has_reported(unit, NO_PODS, NO_POD) or memory.first_release is not None
    if is_known and not memory.has_seen_pods:
        times = (job.released_at, read_time(unit.status.last_allocate_time))
        since = last_past(times, view.moment) or now
    memory = msgspec.structs.replace(
        memory, has_seen_pods=False, without_pods_since=since, reported_refusal=""
    )
    return memory, since


def _may_read_again(view: JobView, since: datetime) -> bool:
    """Return whether the job's events may be read: once per attempt, and seldom after that."""
    read_at = view.memory.events_read_at
    if read_at is None:
        return True
    passed = (view.moment.wall - read_at).total_seconds()
    return since > read_at and passed >= REREAD_SECONDS


def _why_late(unit: QueueUnit, timeout: float) -> str:
    condition = find_condition(unit.status.conditions, PODS_READY)
    text = "" if condition is None else condition.message
    _, separator, detail = text.partition(f"{NO_POD}: ")
    why = detail.partition(". If none comes within")[0] if separator else NO_EVENT
    return f"Backoff since no pod of it exists {timeout:g} s after its release: {why}"


# --- pods without a node ------------------------------------------------------------------------


def _judge_placement(view: JobView, unit: QueueUnit, state: JobState) -> PodsVerdict:
    is_starting = state.state is State.STARTING and phase_of(unit) is not Phase.RUNNING
    memory = msgspec.structs.replace(
        view.memory,
        has_seen_pods=is_starting and view.pods.total > 0,
        without_pods_since=None,
    )
    trouble, rest = _find_refusal(view)
    status = _status_of(view, unit, trouble)
    if trouble is None or not status:
        words = "" if trouble is None else trouble.words
        memory = msgspec.structs.replace(memory, reported_refusal=words)
        return PodsVerdict(memory=memory, status=status, requeue_after_seconds=rest)
    new_refusal = trouble if trouble.words != memory.reported_refusal else None
    return PodsVerdict(memory=memory, status=status, refusal=new_refusal)


def with_refusal_event(decision: Decision, pods: PodsVerdict) -> Decision:
    """Return a decision that writes the verdict's status, with the event that says the same.

    It comes after that write, which keeps another process from recording it again.
    """
    refusal = pods.refusal
    if refusal is None:
        return decision
    event = RecordJobEvent(reason=refusal.reason, message=refusal.message, type=EventType.WARNING)
    memory = msgspec.structs.replace(decision.memory, reported_refusal=refusal.words)
    return msgspec.structs.replace(decision, actions=(*decision.actions, event), memory=memory)


def _find_refusal(view: JobView) -> tuple[PodsTrouble | None, float | None]:
    """Return why a pod has had no node for too long, or in how many seconds that is too long."""
    for each in view.pods.unschedulable:
        since = read_time(each.since)
        if since is None:
            continue
        rest = UNSCHEDULABLE_SECONDS - (view.moment.wall - since).total_seconds()
        if rest > 0:
            return None, min(rest, UNSCHEDULABLE_SECONDS)
        return PodsTrouble(PODS_UNSCHEDULABLE, _REFUSED[each.why], each.message), None
    return None, None


# --- the condition ------------------------------------------------------------------------------


def _has_reported(unit: QueueUnit, reason: str, words: str) -> bool:
    """Return whether the unit says this of its pods already."""
    condition = find_condition(unit.status.conditions, PODS_READY)
    if condition is None:
        return False
    if condition.reason == WAITED_FOR and condition.status == "False":
        return condition.message.partition(SEPARATOR)[2].startswith(words)
    return condition.reason == reason and condition.message.startswith(words)


def _status_of(view: JobView, unit: QueueUnit, trouble: PodsTrouble | None) -> dict[str, Any]:
    """Return the part of a status that says what is wrong, or that nothing is any more."""
    wanted = _wanted_condition(unit, trouble)
    if wanted is None:
        return {}
    status = set_condition(unit, wanted, view.moment).status
    # That time says when the counts of pods were written: `missing_pods` depends on it.
    return {key: value for key, value in status.items() if key != "lastUpdateTime"}


def _wanted_condition(unit: QueueUnit, trouble: PodsTrouble | None) -> Condition | None:
    if trouble is not None and _has_reported(unit, trouble.reason, trouble.words):
        return None
    condition = find_condition(unit.status.conditions, PODS_READY)
    if condition is not None and condition.reason == WAITED_FOR and condition.status == "False":
        waits, _, before = condition.message.partition(SEPARATOR)
        if trouble is None and not before:
            return None
        message = waits if trouble is None else f"{waits}{SEPARATOR}{trouble.message}"
        return msgspec.structs.replace(condition, message=message)
    runs = phase_of(unit) is Phase.RUNNING
    status = "True" if runs else "False"
    if trouble is not None:
        return Condition(
            type=PODS_READY, status=status, reason=trouble.reason, message=trouble.message
        )
    if condition is None or condition.reason not in {NO_PODS, PODS_UNSCHEDULABLE}:
        return None
    reason, message = (PODS_RUNNING, RUN) if runs else (PODS_PENDING, PENDING)
    return Condition(type=PODS_READY, status=status, reason=reason, message=message)
