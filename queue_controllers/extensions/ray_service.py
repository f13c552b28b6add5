"""Facts about ray.io/v1 RayService.

Held by `spec.suspend` (KubeRay 1.7): the operator deletes the RayClusters and says `Suspended` when
they are gone; a resume makes one anew from the spec. An older operator has no such field, and the
API server drops it: there a RayService can not be held, and its pods run.

While it changes over to a new RayCluster it has two. Only one is demanded; the other's pods count
as they live. It never ends.

No life of one is recorded: this follows the operator's source and its end-to-end tests.
Source: KubeRay v1.7.0, ray-operator/controllers/ray/rayservice_controller.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from queue_controllers.jobframework.generic_job import (
    JobKind,
    JobPodSet,
    PodStamp,
    PrioritySource,
    StatusFacts,
)
from queue_controllers.jobframework.ray_pods import (
    CLUSTER,
    GROUP,
    NODE_TYPE,
    OPERATOR,
    OWNER_KIND,
    OWNER_NAME,
    RayClusterSpec,
    RayClusterStatus,
    cluster_patch,
    cluster_pod_sets,
    cluster_priority,
    owner_of_cluster,
    ray_pod_set_of,
    time_of,
    updates_of_stamps,
)
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import Condition, ObjectMeta, WireStruct, is_condition_true
from shared_api.objects.pod import Pod

KIND: Final = JobKind(
    key="rayservice",
    group="ray.io",
    version="v1",
    kind="RayService",
    plural="rayservices",
    name_suffix="rayservice-qu",
)

SUSPENDED: Final = ("Suspended", "RayServiceSuspended")
"""Names of the condition: the operator's, and one with the kind before it, as RayCluster's are."""


class RayServiceSpec(WireStruct, frozen=True):
    """`spec`."""

    suspend: bool | None = None
    managed_by: str | None = None
    ray_cluster_config: RayClusterSpec = RayClusterSpec()


class OneServiceStatus(WireStruct, frozen=True):
    """`activeServiceStatus` and `pendingServiceStatus`: one RayCluster each."""

    ray_cluster_status: RayClusterStatus = RayClusterStatus()


class RayServiceStatus(WireStruct, frozen=True):
    """`status`."""

    conditions: tuple[Condition, ...] = ()
    active_service_status: OneServiceStatus = OneServiceStatus()
    pending_service_status: OneServiceStatus = OneServiceStatus()


class RayService(WireStruct, frozen=True):
    """A RayService."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RayServiceSpec = RayServiceSpec()
    status: RayServiceStatus = RayServiceStatus()


_EMPTY: Final = RayServiceStatus()


class RayServiceAdapter:
    """The `GenericJob` of RayService."""

    kind = KIND
    object_type = RayService
    pod_labels = (CLUSTER, GROUP, NODE_TYPE, OWNER_NAME, OWNER_KIND)

    def is_suspended(self, job: RayService) -> bool:
        """Say whether `spec.suspend` is on."""
        return job.spec.suspend is True

    def why_not_hold(self, job: RayService) -> str:
        """Every RayService survives being suspended."""
        return ""

    def foreign_manager(self, job: RayService) -> str:
        """Return `spec.managedBy` unless it is the operator."""
        manager = job.spec.managed_by or ""
        return "" if manager == OPERATOR else manager

    def status_of(self, job: RayService) -> StatusFacts:
        """Read conditions and counts; it runs when it is ready to serve."""
        status = job.status
        suspended_since = time_of(status.conditions, SUSPENDED)
        services = (status.active_service_status, status.pending_service_status)
        return StatusFacts(
            is_empty=status == _EMPTY,
            suspended=suspended_since is not None,
            suspended_since=suspended_since,
            running=is_condition_true(status.conditions, "Ready"),
            pods=sum(each.ray_cluster_status.pods for each in services),
        )

    def pod_sets(self, job: RayService) -> tuple[JobPodSet, ...]:
        """The head, then the worker groups."""
        return cluster_pod_sets(job.spec.ray_cluster_config)

    def priority_of(self, job: RayService) -> PrioritySource:
        """The head's template, else the first group's that has one."""
        return cluster_priority(job.spec.ray_cluster_config)

    def suspend_patch(self, job: RayService) -> dict[str, Any]:
        """Turn `spec.suspend` on."""
        return {"spec": {"suspend": True}}

    def release_patch(self, job: RayService, stamps: Mapping[str, PodStamp]) -> dict[str, Any]:
        """Turn `spec.suspend` off and stamp the templates of the cluster that is to be made."""
        patch = cluster_patch(job.spec.ray_cluster_config, updates_of_stamps(stamps))
        config = {"rayClusterConfig": patch} if patch else {}
        return {"spec": {"suspend": False, **config}}

    def update_patch(
        self, job: RayService, updates: Mapping[str, TemplateUpdate]
    ) -> dict[str, Any]:
        """Change the templates."""
        patch = cluster_patch(job.spec.ray_cluster_config, updates)
        return {"spec": {"rayClusterConfig": patch}} if patch else {}

    def pod_set_of(self, pod: Pod) -> str:
        """Go by role and group."""
        return ray_pod_set_of(pod)

    def job_name_of(self, labels: Mapping[str, str]) -> str:
        """Return what the name of the RayCluster was made of."""
        return owner_of_cluster(labels, KIND.kind)
