"""Facts about ray.io/v1 RayService.

Held by `spec.suspend` (KubeRay 1.7): the operator deletes the RayClusters and says `Suspended` when
they are gone; a resume makes one anew from the spec. An older operator has no such field, and the
API server drops it: there a RayService cannot be held, and its pods run.

While it changes over to a new RayCluster it has two. Only one is demanded; the other's pods count
as they live. It never ends.

No life of one is recorded: this follows the operator's source and its end-to-end tests.
Source: KubeRay v1.7.0, ray-operator/controllers/ray/rayservice_controller.go.
"""

from __future__ import annotations

from typing import ClassVar, Final

from queue_controllers.job_families.job_conditions import true_since
from queue_controllers.job_families.ray import (
    RayAdapter,
    RayClusterSpec,
    RayClusterStatus,
    most_of_cluster,
)
from queue_controllers.jobframework.generic_job import Child, JobKind, StatusFacts
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


_EMPTY: Final = RayServiceStatus()


class RayServiceAdapter(RayAdapter[RayService]):
    """The `GenericJob` of RayService."""

    kind = KIND
    object_type = RayService
    cluster_path = parse_path("spec.rayClusterConfig")

    def cluster_of(self, job: RayService) -> RayClusterSpec:
        """Return `spec.rayClusterConfig`."""
        return job.spec.ray_cluster_config

    makes: ClassVar[str] = "the RayClusters that its status names"

    def child_of(self, job: RayService, kind: str, name: str) -> Child | None:
        """Return a RayCluster: the one that serves, or the one that is about to."""
        if kind != "ray.io/RayCluster" or not name.startswith(f"{job.metadata.name}-"):
            return None
        services = (job.status.active_service_status, job.status.pending_service_status)
        return Child(
            pod_sets=most_of_cluster(job.spec.ray_cluster_config),
            # Written there before the RayCluster is made.
            is_named=name in {each.ray_cluster_name for each in services},
        )

    def status_of(self, job: RayService) -> StatusFacts:
        """Read conditions and counts; it runs when it is ready to serve."""
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
