"""Jobs with the labels of Kueue, and the patch with which they are queued or adopted here. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from koord_queue.importing.kueue_objects import KueueObjects
from koord_queue.importing.plan import Json, Lost
from shared_api.well_known_kinds import KNOWN_JOB_KINDS
from shared_api.well_known_labels import KUEUE_QUEUE_NAME, MAX_EXEC_TIME, PRIORITY, QUOTA_NAME

PRIORITY_CLASS: Final = "kueue.x-k8s.io/priority-class"
"""Label on jobs: their WorkloadPriorityClass."""
KUEUE_MAX_EXEC_TIME: Final = "kueue.x-k8s.io/max-exec-time-seconds"
"""Label on jobs: how many seconds they may run."""

SUSPENDED: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("batch/v1", "Job"): ("spec", "suspend"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): ("spec", "suspend"),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): ("spec", "suspend"),
    ("ray.io/v1", "RayJob"): ("spec", "suspend"),
    ("ray.io/v1", "RayCluster"): ("spec", "suspend"),
    ("ray.io/v1", "RayService"): ("spec", "suspend"),
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication"): ("spec", "suspend"),
    ("workload.codeflare.dev/v1beta2", "AppWrapper"): ("spec", "suspend"),
    ("argoproj.io/v1alpha1", "Workflow"): ("spec", "suspend"),
    ("kubeflow.org/v1", "TFJob"): ("spec", "runPolicy", "suspend"),
    ("kubeflow.org/v1", "PyTorchJob"): ("spec", "runPolicy", "suspend"),
    ("kubeflow.org/v1", "XGBoostJob"): ("spec", "runPolicy", "suspend"),
    ("kubeflow.org/v1", "PaddleJob"): ("spec", "runPolicy", "suspend"),
    ("kubeflow.org/v1", "JAXJob"): ("spec", "runPolicy", "suspend"),
    ("kubeflow.org/v1", "MPIJob"): ("spec", "runPolicy", "suspend"),
    ("kubeflow.org/v2beta1", "MPIJob"): ("spec", "runPolicy", "suspend"),
}
"""Kinds of jobs that both queues hold by a field, and the path of that."""

BY_HAND: Final = (
    ("v1", "Pod"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
)
"""Kinds whose pods Kueue holds by a gate that only it opens."""

_ENDED: Final = frozenset({"Complete", "Completed", "Succeeded", "Failed", "Finished"})


class MovedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is taken over.

    Attributes:
        state: `runs` or `waits`.
        quota: That it gets.
        patch: The JSON merge patch.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    state: str
    quota: str
    patch: Json

    @property
    def source(self) -> str:
        """Kind and name."""
        return f"{self.kind} {self.namespace}/{self.name}"


def move_job(body: Json, objects: KueueObjects, quotas: frozenset[str]) -> MovedJob | Lost | None:
    """Return how a job is taken over, why not, or None if nothing is to be done.

    A job that has ended is left alone, as is one that another job has made. So is a job with a
    reference that leads nowhere: Kueue admits it neither, and the quota of a lost ClusterQueue's
    name may be another team's.

    Args:
        body: The job, with apiVersion and kind.
        objects: Kueue's.
        quotas: Names of the quotas that ClusterQueues become.
    """
    metadata = body["metadata"]
    labels: dict[str, str] = metadata.get("labels") or {}
    local = labels.get(KUEUE_QUEUE_NAME)
    if not local or _has_ended(body) or _is_made_by_job(metadata):
        return None
    api_version, kind = body["apiVersion"], body["kind"]
    path = SUSPENDED.get((api_version, kind))
    if path is None:
        why = "its pods wait for a gate that only Kueue opens: create it again with our labels"
        return _left(body, KUEUE_QUEUE_NAME, why)
    quota = objects.cluster_queue_of(metadata["namespace"], local)
    if quota is None:
        return _left(body, KUEUE_QUEUE_NAME, f"there is no LocalQueue {local} in its namespace")
    if quota not in quotas:
        why = f"its LocalQueue {local} names ClusterQueue {quota}, {_why_no_quota(quota, objects)}"
        return _left(body, KUEUE_QUEUE_NAME, why)
    named = labels.get(PRIORITY_CLASS)
    if named and objects.priority_class(named) is None:
        why = f"there is no WorkloadPriorityClass {named}: create it, or take the label away"
        return _left(body, PRIORITY_CLASS, why)
    return MovedJob(
        api_version=api_version,
        kind=kind,
        namespace=metadata["namespace"],
        name=metadata["name"],
        state="waits" if _at(body, path) is True else "runs",
        quota=quota,
        patch={"metadata": _metadata(labels, quota, objects)},
    )


def _left(body: Json, label: str, why: str) -> Lost:
    metadata = body["metadata"]
    source = f"{body['kind']} {metadata['namespace']}/{metadata['name']}"
    return Lost(source, f"metadata.labels[{label}]", why)


def _why_no_quota(cluster_queue: str, objects: KueueObjects) -> str:
    """Return why a ClusterQueue becomes no quota, as the end of a sentence."""
    exists = any(each.metadata.name == cluster_queue for each in objects.cluster_queues)
    return "which becomes no quota" if exists else "which does not exist"


def runs_in(body: Json, quotas: frozenset[str]) -> MovedJob | None:
    """Return a job that runs and is in one of these quotas already; None if it is not one.

    An earlier import may have taken it over, without seeing that it was adopted.
    """
    metadata = body["metadata"]
    labels: dict[str, str] = metadata.get("labels") or {}
    quota = labels.get(QUOTA_NAME, "")
    if quota not in quotas or labels.get(KUEUE_QUEUE_NAME):
        return None
    path = SUSPENDED[body["apiVersion"], body["kind"]]
    if _at(body, path) is True or _has_ended(body) or _is_made_by_job(metadata):
        return None
    return MovedJob(
        api_version=body["apiVersion"],
        kind=body["kind"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        state="runs",
        quota=quota,
        patch={},
    )


def _metadata(labels: Mapping[str, str], quota: str, objects: KueueObjects) -> Json:
    annotations: dict[str, str] = {}
    found = objects.priority_class(labels.get(PRIORITY_CLASS, ""))
    if found is not None:
        annotations[PRIORITY] = str(found.value)
    if KUEUE_MAX_EXEC_TIME in labels:
        annotations[MAX_EXEC_TIME] = labels[KUEUE_MAX_EXEC_TIME]
    gone = (KUEUE_QUEUE_NAME, PRIORITY_CLASS, KUEUE_MAX_EXEC_TIME)
    patch: Json = {"labels": {QUOTA_NAME: quota, **dict.fromkeys(labels.keys() & set(gone))}}
    return patch | ({"annotations": annotations} if annotations else {})


def _has_ended(body: Json) -> bool:
    status = body.get("status") or {}
    conditions: list[Json] = status.get("conditions") or []
    return status.get("phase") in _ENDED or any(
        each.get("type") in _ENDED and each.get("status") == "True" for each in conditions
    )


def _is_made_by_job(metadata: Json) -> bool:
    return any(_owns(each) for each in metadata.get("ownerReferences") or ())


def _owns(owner: Json) -> bool:
    return bool(owner.get("controller")) and owner.get("kind") in KNOWN_JOB_KINDS


def _at(value: Any, path: tuple[str, ...]) -> Any:  # noqa: ANN401 - decoded JSON
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def cron_jobs_by_hand(bodies: list[Json]) -> Iterator[Lost]:
    """Yield CronJobs whose jobs will name a LocalQueue: their template is the user's to change."""
    for body in bodies:
        metadata = body["metadata"]
        if _at(body, ("spec", "jobTemplate", "metadata", "labels", KUEUE_QUEUE_NAME)):
            source = f"CronJob {metadata['namespace']}/{metadata['name']}"
            why = f"write the label {QUOTA_NAME} there in its place"
            yield Lost(source, f"spec.jobTemplate.metadata.labels[{KUEUE_QUEUE_NAME}]", why)
