"""Facts about ray.io/v1 RayService.

It is suspended by `spec.suspend` (KubeRay 1.7): the operator deletes the RayClusters and sets
`Suspended` when they are gone; a resume makes a new one from the spec. An older operator does not
have the field, and the API server drops it: then a RayService cannot be suspended, and its pods
run.

During an upgrade to a new RayCluster it has two. The demand includes only one; the pods of the
other count while they live. It never ends.

There is no recording of it: this follows the operator's source and its end-to-end tests.
Source: KubeRay v1.7.0, ray-operator/controllers/ray/rayservice_controller.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import ClassVar, Final

from queue_controllers.job_families.job_conditions import true_since
from queue_controllers.job_families.ray import (
    MANAGED_BY,
    POD_LABELS,
    ClusterSpecField,
    RayClusterSpec,
    RayClusterStatus,
    most_of_cluster,
    owner_of_cluster,
    ray_pod_set_of,
)
from queue_controllers.job_families.suspend_field import SPEC_SUSPEND, release_by_spec_suspend
from queue_controllers.jobframework.generic_job import Child, JobKind, StatusFacts
from queue_controllers.jobframework.list_patches import BY_POSITION
from shared_api.field_path import parse_path
from shared_api.objects.meta import Condition, ObjectMeta, WireStruct, is_condition_true

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

    ray_cluster_name: str = ""
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


CLUSTER_SPEC: Final = ClusterSpecField(
    parse_path(".spec.rayClusterConfig"), attrgetter("spec.ray_cluster_config")
)

_EMPTY: Final = RayServiceStatus()


class RayServiceAdapter:
    """The `GenericJob` of RayService."""

    kind = KIND
    object_type = RayService
    pod_labels = POD_LABELS
    list_keys: Mapping[str, str] = {"spec.rayClusterConfig.workerGroupSpecs": BY_POSITION}
    is_suspended = SPEC_SUSPEND.is_suspended
    why_not_suspendable = SPEC_SUSPEND.why_not_suspendable
    suspend_patch = SPEC_SUSPEND.suspend_patch
    release_patch = release_by_spec_suspend
    foreign_manager = MANAGED_BY.foreign_manager
    pod_sets = CLUSTER_SPEC.pod_sets
    priority_of = CLUSTER_SPEC.priority_of
    update_patch = CLUSTER_SPEC.update_patch
    pod_set_of = staticmethod(ray_pod_set_of)

    makes: ClassVar[str] = "the RayClusters that its status names"

    def child_of(self, job: RayService, kind: str, name: str) -> Child | None:
        """Return a RayCluster: the one that serves, or the one that is about to."""
        if kind != "ray.io/RayCluster" or not name.startswith(f"{job.metadata.name}-"):
            return None
        services = (job.status.active_service_status, job.status.pending_service_status)
        return Child(
            pod_sets=most_of_cluster(job.spec.ray_cluster_config),
            # Written there before the RayCluster is created.
            is_named=name in {each.ray_cluster_name for each in services},
        )

    def status_of(self, job: RayService) -> StatusFacts:
        """Return what conditions and counts say; it runs when it is ready to serve."""
        status = job.status
        suspended_since = true_since(status.conditions, *SUSPENDED)
        services = (status.active_service_status, status.pending_service_status)
        return StatusFacts(
            is_empty=status == _EMPTY,
            suspended=suspended_since is not None,
            suspended_since=suspended_since,
            running=is_condition_true(status.conditions, "Ready"),
            pods=sum(each.ray_cluster_status.pods for each in services),
        )

    def job_name_of(self, labels: Mapping[str, str]) -> str:
        """Return the name that the pod has, or that its RayCluster's name is made of."""
        return owner_of_cluster(labels, KIND.kind)
