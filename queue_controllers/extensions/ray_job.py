"""Facts about ray.io/v1 RayJob.

It is suspended by `spec.suspend`, only with `shutdownAfterJobFinishes` and without
`clusterSelector`: the operator deletes the RayCluster and the submitter's Job and sets `Suspended`
at once; the pods end later. Each resume makes a new RayCluster from the spec, so the templates may
have changed. The operator drops `suspend: false`.

A missing `jobDeploymentStatus` means that it initializes. Only `Complete` and `Failed` are final:
`jobStatus` FAILED shows for some 30 s while the submission is retried. If suspended in that time,
it loses its result and runs once more.

Source: KubeRay v1.7.0; the behavior of the real operator is recorded in tests/data/recordings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from queue_controllers.job_families.ray import (
    CLUSTER,
    MANAGED_BY,
    OWNER_KIND,
    POD_LABELS,
    SUBMITTER,
    RayClusterSpec,
    RayClusterStatus,
    cluster_patch,
    cluster_pod_sets,
    cluster_priority,
    image_of,
    most_of_cluster,
    owner_of_cluster,
    ray_pod_set_of,
)
from queue_controllers.job_families.suspend_field import SPEC_SUSPEND, release_by_spec_suspend
from queue_controllers.jobframework.generic_job import (
    Child,
    JobKind,
    JobPodSet,
    Outcome,
    PrioritySource,
    StatusFacts,
)
from queue_controllers.jobframework.list_patches import BY_POSITION
from queue_controllers.jobframework.pod_template import (
    ScheduledContainer,
    ScheduledPodSpec,
    ScheduledPodTemplate,
)
from queue_controllers.jobframework.template_updates import TemplateUpdate, update_body
from shared_api.objects.meta import ObjectMeta, Timestamp, WireStruct
from shared_api.objects.pod import Pod, ResourceRequirements
from shared_api.timestamps import end_of_second

KIND: Final = JobKind(
    key="rayjob",
    group="ray.io",
    version="v1",
    kind="RayJob",
    plural="rayjobs",
    name_suffix="ray-qu",
)

K8S_JOB_MODE: Final = "K8sJobMode"
SIDECAR_MODE: Final = "SidecarMode"
"""Values of `spec.submissionMode`, the first if absent; others submit nothing in the cluster."""

SUBMITTER_CONTAINER: Final = ScheduledContainer(
    name="ray-job-submitter",
    resources=ResourceRequirements(
        requests={"cpu": "500m", "memory": "200Mi"}, limits={"cpu": "1", "memory": "1Gi"}
    ),
)
"""What submits, unless `submitterPodTemplate` says otherwise."""

_LOST: Final = frozenset({"FAILED", "STOPPED"})
_ENDED: Final = _LOST | {"SUCCEEDED"}
"""Values of `status.jobStatus` of a job that has ended."""


class RayJobSpec(WireStruct, frozen=True):
    """`spec`."""

    suspend: bool | None = None
    managed_by: str | None = None
    shutdown_after_job_finishes: bool | None = None
    cluster_selector: dict[str, str] | None = None
    submission_mode: str | None = None
    submitter_pod_template: ScheduledPodTemplate | None = None
    ray_cluster_spec: RayClusterSpec | None = None


class RayJobStatus(WireStruct, frozen=True):
    """`status`."""

    job_status: str = ""
    job_deployment_status: str = ""
    message: str = ""
    ray_cluster_name: str = ""
    start_time: Timestamp | None = None
    ray_cluster_status: RayClusterStatus = RayClusterStatus()


class RayJob(WireStruct, frozen=True):
    """A RayJob."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RayJobSpec = RayJobSpec()
    status: RayJobStatus = RayJobStatus()


_EMPTY: Final = RayJobStatus()


class RayJobAdapter:
    """The `GenericJob` of RayJob."""

    kind = KIND
    object_type = RayJob
    pod_labels = POD_LABELS
    list_keys: Mapping[str, str] = {"spec.rayClusterSpec.workerGroupSpecs": BY_POSITION}
    is_suspended = SPEC_SUSPEND.is_suspended
    suspend_patch = SPEC_SUSPEND.suspend_patch
    release_patch = release_by_spec_suspend
    foreign_manager = MANAGED_BY.foreign_manager

    def why_not_suspendable(self, job: RayJob) -> str:
        """Return what the operator rejects as invalid together with `suspend`."""
        if job.spec.cluster_selector:
            return "spec.clusterSelector: it runs on a RayCluster that is not its own"
        if not job.spec.shutdown_after_job_finishes:
            return "spec.shutdownAfterJobFinishes is not true: the operator refuses to suspend it"
        return ""

    def status_of(self, job: RayJob) -> StatusFacts:
        """Return what `jobDeploymentStatus` and the state of the RayCluster say."""
        status = job.status
        stage, cluster = status.job_deployment_status, status.ray_cluster_status
        return StatusFacts(
            is_empty=status == _EMPTY,
            suspended=stage == "Suspended",
            suspended_since=_suspended_since(job) if stage == "Suspended" else None,
            running=stage == "Running" and cluster.state == "ready",
            outcome=_outcome_of(status),
            is_ending=stage == "Running" and status.job_status in _ENDED,
            pods=cluster.pods,
        )

    makes: ClassVar[str] = (
        "the RayCluster that status.rayClusterName names, and a Job of its own name that submits"
    )

    def child_of(self, job: RayJob, kind: str, name: str) -> Child | None:
        """Return the RayCluster of the run, or what submits."""
        spec = job.spec
        if kind == "batch/Job":
            sets = tuple(each for each in self.pod_sets(job) if each.name == SUBMITTER)
            return Child(pod_sets=sets) if sets and name == job.metadata.name else None
        if kind != "ray.io/RayCluster" or spec.ray_cluster_spec is None or spec.cluster_selector:
            return None
        if not name.startswith(f"{job.metadata.name}-"):
            return None
        beside = self._beside_head(job)
        return Child(
            pod_sets=most_of_cluster(spec.ray_cluster_spec, beside_head=beside),
            # The operator writes it there before it creates the RayCluster, and removes it when it
            # suspends the job.
            is_named=name == job.status.ray_cluster_name,
            outlives=True,
        )

    def pod_sets(self, job: RayJob) -> tuple[JobPodSet, ...]:
        """Return the head, the worker groups, then the pod that submits."""
        spec = job.spec
        cluster = spec.ray_cluster_spec
        if cluster is None:
            return ()
        sets = cluster_pod_sets(cluster, beside_head=self._beside_head(job))
        if (spec.submission_mode or K8S_JOB_MODE) != K8S_JOB_MODE:
            return sets
        own = spec.submitter_pod_template
        submitter = JobPodSet(
            name=SUBMITTER,
            count=1,
            template=own or _default_submitter(cluster),
            has_template=own is not None,
        )
        return (*sets, submitter)

    def _beside_head(self, job: RayJob) -> tuple[ScheduledContainer, ...]:
        return (SUBMITTER_CONTAINER,) if job.spec.submission_mode == SIDECAR_MODE else ()

    def priority_of(self, job: RayJob) -> PrioritySource:
        """Return the head template's priority, else that of the first group that has one."""
        cluster = job.spec.ray_cluster_spec
        return PrioritySource() if cluster is None else cluster_priority(cluster)

    def update_patch(self, job: RayJob, updates: Mapping[str, TemplateUpdate]) -> dict[str, Any]:
        """Return the patch of the templates; a submitter without one is known by its labels."""
        spec = job.spec
        patch: dict[str, Any] = {}
        if spec.ray_cluster_spec is not None:
            cluster = cluster_patch(spec.ray_cluster_spec, updates)
            patch = {"rayClusterSpec": cluster} if cluster else {}
        if spec.submitter_pod_template is not None and SUBMITTER in updates:
            patch["submitterPodTemplate"] = update_body(updates[SUBMITTER])
        return {"spec": patch} if patch else {}

    def pod_set_of(self, pod: Pod) -> str:
        """Return the pod set by role and group; the submitter has neither."""
        if pod.metadata.labels.get(OWNER_KIND) == KIND.kind and CLUSTER not in pod.metadata.labels:
            return SUBMITTER
        return ray_pod_set_of(pod)

    def job_name_of(self, labels: Mapping[str, str]) -> str:
        """Return the name that the pod has, or that its RayCluster's name is made of."""
        return owner_of_cluster(labels, KIND.kind)


def _suspended_since(job: RayJob) -> Timestamp | None:
    """Return a time after the start of the run that the suspension has ended.

    The status does not say when it was suspended, but each run sets `startTime`, truncated to
    seconds. A run lasts into the next second, if only because its pods have to go. A RayJob that
    was created suspended has the time of its creation there, which does not count.
    """
    started = job.status.start_time
    if started is None or started <= job.metadata.creation_timestamp:
        return started
    return end_of_second(started)


def _outcome_of(status: RayJobStatus) -> Outcome | None:
    match status.job_deployment_status:
        case "Complete":
            succeeded = status.job_status not in _LOST
        case "Failed":
            succeeded = False
        case _:
            return None
    return Outcome(succeeded=succeeded, message="" if succeeded else status.message)


def _default_submitter(cluster: RayClusterSpec) -> ScheduledPodTemplate:
    head = cluster.head_group_spec.template
    container = ScheduledContainer(
        name=SUBMITTER_CONTAINER.name,
        image=image_of(head),
        resources=SUBMITTER_CONTAINER.resources,
    )
    spec = ScheduledPodSpec(containers=(container,), restart_policy="Never")
    return ScheduledPodTemplate(spec=spec)
