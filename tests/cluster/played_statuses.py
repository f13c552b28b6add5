"""What operators say in the status of their jobs, one function for each shape of status.

As the recorded lives in tests/data/recordings have it; RayService and AppWrapper, which nobody has
recorded, as their operators' sources do.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any, Final

Json = dict[str, Any]


class Stage(Enum):
    """How far a job is, in the eyes of its operator."""

    HELD = auto()
    """Seen suspended, and never run."""
    RUNNING = auto()
    SUSPENDED = auto()
    """Stopped after it ran; of most kinds before its pods are gone."""
    SUCCEEDED = auto()
    FAILED = auto()


def now() -> str:
    """Return the time as operators write it: in whole seconds, cut off."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def conditions_of(body: Json, wanted: Mapping[str, bool], **more: str) -> list[Json]:
    """Return the conditions of an object, these as wanted; times move where one changes."""
    known = {each["type"]: each for each in body.get("status", {}).get("conditions", [])}
    for name, is_true in wanted.items():
        status = "True" if is_true else "False"
        if known.get(name, {}).get("status") != status:
            said = {"type": name, "status": status, "reason": name, "message": f"it is {name}"}
            times = {"lastTransitionTime": now(), **{key: now() for key in more}}
            known[name] = {**said, **times}
    return list(known.values())


# --- Kubeflow -----------------------------------------------------------------------------------

_ROLE_CONDITIONS: Final[Mapping[Stage, Mapping[str, bool]]] = {
    Stage.HELD: {"Created": True, "Suspended": True},
    Stage.RUNNING: {"Suspended": False, "Running": True},
    Stage.SUSPENDED: {"Running": False, "Suspended": True},
    Stage.SUCCEEDED: {"Running": False, "Succeeded": True},
    Stage.FAILED: {"Running": False, "Failed": True},
}


def status_of_roles(body: Json, stage: Stage) -> Json:
    """The kinds of kubeflow.org; `startTime` stays while a job is suspended."""
    field = next(each for each in body["spec"] if each.endswith("ReplicaSpecs"))
    word = {Stage.RUNNING: "active", Stage.SUCCEEDED: "succeeded"}.get(stage)
    counts = {
        role: {word: spec.get("replicas", 1)} if word else {}
        for role, spec in body["spec"][field].items()
    }
    started = now() if stage is Stage.RUNNING else body.get("status", {}).get("startTime")
    return {
        "conditions": conditions_of(body, _ROLE_CONDITIONS[stage], lastUpdateTime=""),
        **({} if stage is Stage.HELD else {"replicaStatuses": counts}),
        **({"startTime": started} if started else {}),
        **({"completionTime": now()} if stage is Stage.SUCCEEDED else {}),
    }


def _job_counts(replicated_jobs: list[Json], stage: Stage) -> list[Json]:
    """Count Jobs, not pods."""
    none = {"active": 0, "failed": 0, "ready": 0, "succeeded": 0, "suspended": 0}
    words = {
        Stage.HELD: ("suspended",),
        Stage.SUSPENDED: ("suspended",),
        Stage.RUNNING: ("active", "ready"),
        Stage.SUCCEEDED: ("succeeded",),
        Stage.FAILED: ("failed",),
    }[stage]
    return [
        {"name": each["name"], **none, **dict.fromkeys(words, each.get("replicas", 1))}
        for each in replicated_jobs
    ]


def status_of_job_set(body: Json, stage: Stage) -> Json:
    """JobSet."""
    wanted = {
        Stage.HELD: {"Suspended": True},
        Stage.RUNNING: {"Suspended": False},
        Stage.SUSPENDED: {"Suspended": True},
        Stage.SUCCEEDED: {"Completed": True},
        Stage.FAILED: {"Failed": True},
    }[stage]
    return {
        "conditions": conditions_of(body, wanted),
        "replicatedJobsStatus": _job_counts(body["spec"]["replicatedJobs"], stage),
        "restarts": 0,
    }


def status_of_train_job(body: Json, stage: Stage) -> Json:
    """TrainJob; its one node is a replicated job of as many pods as it says."""
    wanted = {
        Stage.HELD: {"Suspended": True},
        Stage.RUNNING: {"Suspended": False},
        Stage.SUSPENDED: {"Suspended": True},
        Stage.SUCCEEDED: {"Complete": True},
        Stage.FAILED: {"Failed": True},
    }[stage]
    counts = _job_counts([{"name": "node"}], stage)
    return {"conditions": conditions_of(body, wanted), "jobsStatus": counts}


# --- Ray ----------------------------------------------------------------------------------------


def _workers_of(cluster: Json) -> int:
    groups = cluster.get("workerGroupSpecs", [])
    return sum(each.get("replicas", 0) * each.get("numOfHosts", 1) for each in groups)


def _counts_of_cluster(cluster: Json, stage: Stage) -> Json:
    workers = _workers_of(cluster)
    if stage is not Stage.RUNNING:
        return {"desiredWorkerReplicas": workers, "head": {}}
    return {
        "desiredWorkerReplicas": workers,
        "availableWorkerReplicas": workers,
        "readyWorkerReplicas": workers,
        "head": {"podName": "head"},
    }


def status_of_ray_cluster(body: Json, stage: Stage) -> Json:
    """RayCluster; the only one whose word waits for its pods."""
    runs = stage is Stage.RUNNING
    wanted = {
        "HeadPodReady": runs,
        "RayClusterSuspended": not runs,
        "RayClusterSuspending": False,
    }
    return {
        **_counts_of_cluster(body["spec"], stage),
        "conditions": conditions_of(body, wanted),
        "state": "ready" if runs else "suspended",
    }


def status_of_ray_job(body: Json, stage: Stage) -> Json:
    """RayJob; `startTime` is there from its creation on."""
    runs = stage is Stage.RUNNING
    word, of_job = {
        Stage.HELD: ("Suspended", ""),
        Stage.SUSPENDED: ("Suspended", ""),
        Stage.RUNNING: ("Running", "RUNNING"),
        Stage.SUCCEEDED: ("Complete", "SUCCEEDED"),
        Stage.FAILED: ("Failed", "FAILED"),
    }[stage]
    cluster = _counts_of_cluster(body["spec"]["rayClusterSpec"], stage)
    started = now() if runs else body.get("status", {}).get("startTime", now())
    return {
        "jobDeploymentStatus": word,
        **({"jobStatus": of_job} if of_job else {}),
        **({"rayClusterName": cluster_name(body)} if runs else {}),
        "rayClusterStatus": {**cluster, **({"state": "ready"} if runs else {})},
        "startTime": started,
        "message": "it is over" if stage is Stage.FAILED else "",
    }


def status_of_ray_service(body: Json, stage: Stage) -> Json:
    """RayService."""
    runs = stage is Stage.RUNNING
    cluster = _counts_of_cluster(body["spec"]["rayClusterConfig"], stage)
    active = {"rayClusterName": cluster_name(body), "rayClusterStatus": cluster}
    return {
        "conditions": conditions_of(body, {"Ready": runs, "Suspended": not runs}),
        **({"activeServiceStatus": active} if runs else {}),
    }


def cluster_name(body: Json) -> str:
    """Return what the operator calls the RayCluster that it makes."""
    return f"{body['metadata']['name']}-abcde"


# --- others -------------------------------------------------------------------------------------


def status_of_spark(body: Json, stage: Stage) -> Json:
    """SparkApplication: no times but that of its last submission."""
    state = {
        Stage.HELD: "SUSPENDED",
        Stage.RUNNING: "RUNNING",
        Stage.SUSPENDED: "SUSPENDED",
        Stage.SUCCEEDED: "COMPLETED",
        Stage.FAILED: "FAILED",
    }[stage]
    name, runs = body["metadata"]["name"], stage is Stage.RUNNING
    before = body.get("status", {}).get("lastSubmissionAttemptTime")
    executors = range(1, body["spec"]["executor"]["instances"] + 1)
    running = {f"{name}-driver-exec-{number}": "RUNNING" for number in executors}
    ended = stage in {Stage.SUCCEEDED, Stage.FAILED}
    return {
        "applicationState": {"state": state, "errorMessage": "exit code 1" if ended else ""},
        "driverInfo": {"podName": f"{name}-driver"} if runs or ended else {},
        **({"executorState": running} if runs else {}),
        "lastSubmissionAttemptTime": now() if runs else before,
        "terminationTime": now() if ended else None,
    }


def status_of_workflow(body: Json, stage: Stage) -> Json:
    """Workflow: Running from the first look on, and no word of being held."""
    name = body["metadata"]["name"]
    phase, node = {
        Stage.HELD: ("Running", ""),
        Stage.RUNNING: ("Running", "Running"),
        Stage.SUSPENDED: ("Running", "Succeeded"),
        Stage.SUCCEEDED: ("Succeeded", "Succeeded"),
        Stage.FAILED: ("Failed", "Failed"),
    }[stage]
    nodes = {
        f"{name}-{step}": {"id": step, "name": step, "type": "Pod", "phase": node}
        for step in ("left", "right")
        if node
    }
    return {
        "phase": phase,
        "startedAt": now(),
        "finishedAt": None,
        **({"nodes": nodes} if nodes else {}),
    }


def status_of_wrapper(body: Json, stage: Stage) -> Json:
    """AppWrapper; its condition QuotaReserved is how it tells since when it is suspended."""
    runs = stage is Stage.RUNNING
    phase = {
        Stage.HELD: "Suspended",
        Stage.RUNNING: "Running",
        Stage.SUSPENDED: "Suspended",
        Stage.SUCCEEDED: "Succeeded",
        Stage.FAILED: "Failed",
    }[stage]
    wanted = {"QuotaReserved": runs, "ResourcesDeployed": runs}
    return {"phase": phase, "conditions": conditions_of(body, wanted)}


def status_of_widget(body: Json, stage: Stage) -> Json:
    """The declared kind of these tests: one word."""
    del body
    return {
        "phase": {
            Stage.HELD: "Suspended",
            Stage.RUNNING: "Running",
            Stage.SUSPENDED: "Suspended",
            Stage.SUCCEEDED: "Done",
            Stage.FAILED: "Failed",
        }[stage]
    }
