"""What the Job controller does for one job, as a pure function of the job and its pods.

The statuses are those of the real controller (`tests/data/recordings/job-*`): a suspended job
has its condition at once and counts the pods that still terminate; a resumed one gets a new start
time; the end is two writes, SuccessCriteriaMet before Complete, and the second one follows whatever
happens in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.demo.json_api import Json

_COMPLETED: Final = ("CompletionsReached", "Reached expected number of succeeded pods")
_EXHAUSTED: Final = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")

_SUCCEEDS: Final = ("SuccessCriteriaMet", "Complete", _COMPLETED)
_FAILS: Final = ("FailureTarget", "Failed", _EXHAUSTED)
"""The condition that announces an end, the final condition, and its reason and message."""


@dataclass(frozen=True, kw_only=True)
class JobMoves:
    """The actions that are due.

    Attributes:
        create: the number of missing pods.
        delete: the names of pods to delete.
        status: a merge patch of `status`; empty without changes.
    """

    create: int = 0
    delete: tuple[str, ...] = ()
    status: Json = field(default_factory=dict)


@dataclass(frozen=True)
class _Counts:
    living: tuple[str, ...]
    ready: int
    succeeded: int
    failed: int
    terminating: int


def plan_moves(job: Json, pods: Sequence[Json], now: str) -> JobMoves:
    """Return the actions for a job; none once it has ended or is being deleted.

    Args:
        job: the current Job.
        pods: all pods that it controls.
        now: the time in the format of Kubernetes.
    """
    status = job.get("status") or {}
    if job["metadata"].get("deletionTimestamp") or _has(status, "Complete", "Failed"):
        return JobMoves()
    counts = _count(pods, status)
    if job["spec"].get("suspend") and not _has(status, "SuccessCriteriaMet", "FailureTarget"):
        wanted = _suspended_status(status, counts, now)
        return JobMoves(delete=counts.living, status=_changes(status, wanted))
    need = _pods_needed(job["spec"], counts)
    wanted = _running_status(job, counts, now)
    is_over = _has(wanted, "SuccessCriteriaMet", "FailureTarget")
    return JobMoves(
        create=0 if is_over else max(need - len(counts.living), 0),
        delete=counts.living if is_over else (),
        status=_changes(status, wanted),
    )


def _count(pods: Sequence[Json], status: Json) -> _Counts:
    """Count the pods; ended ones in the status stay counted when their objects are gone."""
    living, ready, succeeded, failed, terminating = [], 0, 0, 0, 0
    for pod in pods:
        phase = pod.get("status", {}).get("phase")
        if phase == "Succeeded":
            succeeded += 1
        elif phase == "Failed":
            failed += 1
        elif pod["metadata"].get("deletionTimestamp"):
            terminating += 1
        else:
            living.append(pod["metadata"]["name"])
            ready += phase == "Running"
    succeeded = max(succeeded, status.get("succeeded", 0))
    failed = max(failed, status.get("failed", 0))
    return _Counts(tuple(living), ready, succeeded, failed, terminating)


def _pods_needed(spec: Json, counts: _Counts) -> int:
    parallelism: int = spec.get("parallelism", 1)
    return min(parallelism, max(_completions(spec) - counts.succeeded, 0))


def _completions(spec: Json) -> int:
    completions: int = spec.get("completions") or spec.get("parallelism", 1)
    return completions


def _suspended_status(status: Json, counts: _Counts, now: str) -> Json:
    terminating = counts.terminating + len(counts.living)
    wanted = {**status, "ready": 0, "terminating": terminating, "uncountedTerminatedPods": {}}
    for gone in ("startTime", "active"):
        wanted.pop(gone, None)
    if counts.succeeded:
        wanted["succeeded"] = counts.succeeded
    wanted["conditions"] = _with_condition(
        status, "Suspended", now, value="True", reason="JobSuspended", message="Job suspended"
    )
    return wanted


def _running_status(job: Json, counts: _Counts, now: str) -> Json:
    status = job.get("status") or {}
    wanted: Json = {**status, "terminating": counts.terminating, "uncountedTerminatedPods": {}}
    wanted.setdefault("startTime", now)
    if _has(status, "Suspended"):
        wanted["conditions"] = _with_condition(
            status, "Suspended", now, value="False", reason="JobResumed", message="Job resumed"
        )
    ended = _ended(job["spec"], status, counts)
    if ended is None:
        active = _pods_needed(job["spec"], counts)
        wanted |= {"active": active, "ready": counts.ready}
        return wanted | {name: n for name, n in _ended_pods(counts).items() if n}
    wanted |= {"ready": 0}
    wanted.pop("active", None)
    before, after, (reason, message) = ended
    condition = before
    if _has(status, before):
        condition = after
        wanted |= {name: n for name, n in _ended_pods(counts).items() if n}
        if after == "Complete":
            wanted["completionTime"] = now
    wanted["conditions"] = _with_condition(
        wanted, condition, now, value="True", reason=reason, message=message
    )
    return wanted


def _ended_pods(counts: _Counts) -> dict[str, int]:
    return {"succeeded": counts.succeeded, "failed": counts.failed}


def _ended(spec: Json, status: Json, counts: _Counts) -> tuple[str, str, tuple[str, str]] | None:
    """Return how a job ends; an announced end is not judged again."""
    for announced in (_SUCCEEDS, _FAILS):
        if _has(status, announced[0]):
            return announced
    if counts.succeeded >= _completions(spec):
        return _SUCCEEDS
    return _FAILS if counts.failed > spec.get("backoffLimit", 6) else None


def _with_condition(
    status: Json, kind: str, now: str, *, value: str, reason: str, message: str
) -> list[Json]:
    conditions = list(status.get("conditions") or ())
    times = {"lastProbeTime": now, "lastTransitionTime": now}
    made = {"type": kind, "status": value, **times, "reason": reason, "message": message}
    for place, found in enumerate(conditions):
        if found["type"] == kind:
            if found["status"] != value:
                conditions[place] = made
            return conditions
    return [*conditions, made]


def _has(status: Mapping[str, Any], *kinds: str) -> bool:
    """Return whether one of these conditions is True."""
    return any(
        condition["type"] in kinds and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )


def _changes(old: Json, new: Json) -> Json:
    """Return the merge patch from one status to the other."""
    changed = {key: value for key, value in new.items() if old.get(key) != value or key not in old}
    return changed | {key: None for key in old if key not in new}


# --- pods ---------------------------------------------------------------------------------------


def build_pod(job: Json, name: str, node: str) -> Json:
    """Return a pod of a job that is bound to a node from its creation."""
    template = job["spec"]["template"]
    metadata = template.get("metadata") or {}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": job["metadata"]["namespace"],
            "labels": metadata.get("labels") or {},
            "annotations": metadata.get("annotations") or {},
            "ownerReferences": [owner],
        },
        "spec": {**template["spec"], "nodeName": node},
    }


def choose_node(free: Mapping[str, Mapping[str, int]], requests: Mapping[str, int]) -> str | None:
    """Return the node on which these requests leave the least room; None if they fit nowhere."""
    fitting = [
        (sum(room[name] - amount for name, amount in sorted(requests.items())), node)
        for node, room in free.items()
        if all(room.get(name, 0) >= amount for name, amount in requests.items())
    ]
    return min(fitting)[1] if fitting else None
