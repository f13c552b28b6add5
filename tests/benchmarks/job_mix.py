"""Jobs of every kind for measurements: objects, pods, and the statuses of their operators.

Kinds with objects use the samples of `tests.cluster.kind_table`, played as there; jobs that consist
of pods are built here. All have full size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.benchmarks.full_size import fill_job, fill_templates
from tests.cluster.kind_table import BY_KEY, KindRow, manifest, set_at
from tests.cluster.played_operators import PARTS
from tests.cluster.played_pods import (
    Made,
    driver_of,
    executors_of,
    job_set_of_train_job,
    objects_of_wrapper,
    owner_of,
    pods_of_job_set,
    pods_of_mpi_job,
    pods_of_ray_child,
    pods_of_ray_cluster,
    pods_of_roles,
    pods_of_workflow,
    ray_cluster_of,
    submitter_of,
    template_of,
)
from tests.cluster.played_statuses import Stage, now
from tests.sample_jobs import open_crd

Json = dict[str, Any]

QUOTA_LABEL: Final = "quota.scheduling.koordinator.sh/name"
QUEUE_LABEL: Final = "koord-queue/queue-name"
GATE: Final = "koord-queue/admission"
GROUP_SIZE: Final = 4
"""The number of pods of a job that consists of pods."""

PRIORITY_CLASS: Final = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 1000,
}
"""The quota in the samples."""


@dataclass(frozen=True, kw_only=True)
class MixedKind:
    """A kind of job.

    Args:
        key: the key of the extension.
        row: the description of the kind's objects; None for kinds that consist of pods.
        pods: the number of pods per job.
        ends: whether such a job ends by itself.
    """

    key: str
    row: KindRow | None
    pods: int
    ends: bool

    @property
    def plural(self) -> str:
        """The plural of the kind's objects."""
        assert self.row is not None
        return self.row.api.rpartition("/")[2]


def kinds_of_objects() -> list[MixedKind]:
    """Return the kinds whose jobs are objects, batch Jobs first."""
    rows = [row for key, row in BY_KEY.items() if key != "widget"]
    return [MixedKind(key=r.key, row=r, pods=r.wanted_pods, ends=r.ends) for r in rows]


def kinds_of_pods() -> list[MixedKind]:
    """Return the kinds whose jobs are pods."""
    return [
        MixedKind(key="pod", row=None, pods=1, ends=True),
        MixedKind(key="podgroup", ends=True, row=None, pods=GROUP_SIZE),
        MixedKind(key="statefulset", ends=False, row=None, pods=GROUP_SIZE),
        MixedKind(key="leaderworkerset", ends=False, row=None, pods=GROUP_SIZE),
    ]


def batch_jobs(pods: int, *, ends: bool = True) -> MixedKind:
    """Return the kind of batch Jobs with this many pods."""
    return MixedKind(key="job", row=BY_KEY["job"], pods=pods, ends=ends)


def open_crds() -> list[Json]:
    """Return the CRDs of all kinds that have one, without schemas, which cost only the server."""
    kinds: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for each in kinds_of_objects():
        assert each.row is not None
        body = manifest(each.row, "x", {}, suspend=True)
        group, _, version = body["apiVersion"].partition("/")
        if group != "batch":
            kinds.setdefault((group, each.plural), (body["kind"], []))[1].append(version)
    kinds["leaderworkerset.x-k8s.io", "leaderworkersets"] = ("LeaderWorkerSet", ["v1"])
    return [
        open_crd(kind, plural, group, versions, status=True)
        for (group, plural), (kind, versions) in kinds.items()
    ]


# --- the objects --------------------------------------------------------------------------------


def job_body(kind: MixedKind, name: str, namespace: str, quota: str, *, suspend: bool) -> Json:
    """Return a full-size job of a kind that has objects."""
    assert kind.row is not None
    body = manifest(kind.row, name, {QUOTA_LABEL: quota}, suspend=suspend)
    set_at(body, kind.row.switch, suspend)
    body["metadata"]["namespace"] = namespace
    if kind.key == "job":
        body["spec"] |= {"parallelism": kind.pods, "completions": kind.pods}
    fill_job(body)
    return body


def status_of(kind: MixedKind, body: Json, stage: Stage) -> Json:
    """Return the operator's status of a job at a stage."""
    if kind.key == "job":
        return _status_of_batch_job(kind.pods, stage)
    say = PARTS[kind.key].say
    assert say is not None
    return say(body, stage)


def _status_of_batch_job(pods: int, stage: Stage) -> Json:
    words: dict[Stage, tuple[tuple[str, str], ...]] = {
        Stage.HELD: (("Suspended", "True"),),
        Stage.RUNNING: (("Suspended", "False"),),
        Stage.SUCCEEDED: (
            ("Suspended", "False"),
            ("SuccessCriteriaMet", "True"),
            ("Complete", "True"),
        ),
    }
    conditions = [
        {"type": name, "status": status, "lastTransitionTime": now(), "reason": "x", "message": "x"}
        for name, status in words[stage]
    ]
    more: Json = {}
    if stage is Stage.RUNNING:
        more = {"startTime": now(), "active": pods, "ready": pods}
    if stage is Stage.SUCCEEDED:
        more = {"completionTime": now(), "active": 0, "ready": 0, "succeeded": pods}
    return {"conditions": conditions, **more}


def companions_of(kind: MixedKind, body: Json) -> list[Json]:
    """Return the objects that the operator creates for a held job, if the controllers need them."""
    if kind.key != "trainjob":
        return []
    made = job_set_of_train_job(body)
    made["metadata"]["namespace"] = body["metadata"]["namespace"]
    fill_templates(made)
    return [made]


# --- their pods ---------------------------------------------------------------------------------


def pods_of(kind: MixedKind, body: Json) -> list[Json]:
    """Return the full-size pods that the operator creates for a released job.

    Objects between them and the job are their owners, but do not exist themselves.
    """
    meta = body["metadata"]
    pods: list[Json] = []
    for number, pod in enumerate(_pods_of_all(_MAKERS[kind.key](body))):
        pod["metadata"] |= {"namespace": meta["namespace"], "name": f"{meta['name']}-{number}"}
        fill_templates(pod)
        pods.append(pod)
    return pods


def _pods_of_all(made: list[Made]) -> list[Json]:
    pods: list[Json] = []
    for each in made:
        if each.path == "pods":
            pods.append(each.body)
        else:
            child = _with_uid(each.body)
            spec = child["spec"]
            pods += [_pod(spec["template"], owner_of(child)) for _ in range(spec["parallelism"])]
    return pods


def _pod(template: Json, owner: Json) -> Json:
    meta = {**template["metadata"], "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**template["spec"]}}


def _with_uid(body: Json) -> Json:
    body["metadata"].setdefault("uid", f"uid-of-{body['kind']}-{body['metadata']['name']}")
    return body


def _of_batch_job(body: Json) -> list[Made]:
    marked = template_of(body, body["spec"]["template"])
    return [Made("pods", _pod(marked, owner_of(body))) for _ in range(body["spec"]["parallelism"])]


def _of_ray_job(body: Json) -> list[Made]:
    return [*_of_ray_child("rayClusterSpec")(body), submitter_of(body)]


def _of_ray_child(field: str) -> Callable[[Json], list[Made]]:
    def make(body: Json) -> list[Made]:
        cluster = _with_uid(ray_cluster_of(body, body["spec"][field]))
        return pods_of_ray_child(body, cluster)

    return make


def _of_spark(body: Json) -> list[Made]:
    driver = driver_of(body)
    return [driver, *executors_of(body, _with_uid(driver.body))]


_MAKERS: Final[dict[str, Callable[[Json], list[Made]]]] = {
    "job": _of_batch_job,
    **dict.fromkeys(
        ("tfjob", "pytorchjob", "xgboostjob", "paddlejob", "jaxjob", "mpijobv1"), pods_of_roles
    ),
    "mpijob": pods_of_mpi_job,
    "jobset": pods_of_job_set,
    "trainjob": lambda body: pods_of_job_set(_with_uid(job_set_of_train_job(body))),
    "rayjob": _of_ray_job,
    "raycluster": pods_of_ray_cluster,
    "rayservice": _of_ray_child("rayClusterConfig"),
    "sparkapp": _of_spark,
    "workflow": pods_of_workflow,
    "appwrapper": objects_of_wrapper,
}


# --- jobs that are pods -------------------------------------------------------------------------


def gated_pods(kind: MixedKind, name: str, namespace: str, quota: str) -> list[Json]:
    """Return the objects of a job that consists of pods; its owner, if any, comes first."""
    owners = _owner_of_group(kind.key, name, namespace)
    references = [owner_of(_with_uid(each)) for each in owners]
    labels, annotations = _marks_of_group(kind.key, name)
    pods = []
    for number in range(kind.pods):
        of_pod = {**labels, QUEUE_LABEL: quota, "app": name}
        if kind.key == "leaderworkerset":
            of_pod["leaderworkerset.sigs.k8s.io/worker-index"] = str(number)
        container = {
            "name": "main",
            "image": "registry.example/train:1",
            "resources": {"requests": {"cpu": "1"}},
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{number}" if kind.pods > 1 else name,
                "namespace": namespace,
                "labels": of_pod,
                "annotations": dict(annotations),
                "ownerReferences": references,
            },
            "spec": {
                "restartPolicy": "Never",
                "containers": [container],
                "schedulingGates": [{"name": GATE}],
            },
        }
        fill_templates(pod)
        pods.append(pod)
    return [*owners, *pods]


def _owner_of_group(key: str, name: str, namespace: str) -> list[Json]:
    meta = {"name": name, "namespace": namespace}
    if key == "statefulset":
        spec: Json = {"replicas": GROUP_SIZE, "serviceName": name, "selector": {}, "template": {}}
        return [{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}]
    return []


def _marks_of_group(key: str, name: str) -> tuple[Json, Json]:
    if key == "podgroup":
        count = {"kueue.x-k8s.io/pod-group-total-count": str(GROUP_SIZE)}
        return {"kueue.x-k8s.io/pod-group-name": name}, count
    if key == "leaderworkerset":
        prefix = "leaderworkerset.sigs.k8s.io"
        labels = {f"{prefix}/name": name, f"{prefix}/group-index": "0"}
        return labels, {f"{prefix}/size": str(GROUP_SIZE)}
    return {}, {}
