"""Facts about ray.io/v1 RayCluster.

Held by `spec.suspend` (KubeRay 1.1): the operator deletes the pods, and reports
`RayClusterSuspended` when they are gone. The template may change at any time, and new pods follow
it. It never ends. `status.state` is not read: it stays `ready` while the cluster is suspended and
when its head has failed, and `suspended` until the resumed one is ready.

Resumed soon after it was suspended, the operator may create no pods for up to five minutes, until
the object changes: hence `nudge_seconds`.

Source: KubeRay v1.7.0; what the real operator did is in tests/data/recordings.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import ClassVar, Final

from queue_controllers.job_families.job_conditions import true_since
from queue_controllers.job_families.ray import (
    CLUSTER,
    GROUP,
    MANAGED_BY,
    NODE_TYPE,
    ClusterSpecField,
    RayClusterSpec,
    RayClusterStatus,
    clean_up_template,
    ray_pod_set_of,
)
from queue_controllers.job_families.suspend_field import SPEC_SUSPEND, release_by_spec_suspend
from queue_controllers.jobframework.generic_job import Child, JobKind, JobPodSet, StatusFacts
from queue_controllers.jobframework.list_patches import BY_POSITION
from shared_api.field_path import parse_path
from shared_api.objects.meta import ObjectMeta, WireStruct, is_condition_true

KIND: Final = JobKind(
    key="raycluster",
    group="ray.io",
    version="v1",
    kind="RayCluster",
    plural="rayclusters",
    name_suffix="raycluster-qu",
    owns_pods=True,
    makes_pods_at_once=True,
    # The operator waits so long for pods that it believes to have created: touched after 12 s it
    # did nothing, after 35 s it continued at once (recorded).
    nudge_seconds=30.0,
)


class RayCluster(WireStruct, frozen=True):
    """A RayCluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RayClusterSpec = RayClusterSpec()
    status: RayClusterStatus = RayClusterStatus()


MAX_NAME_CHARS: Final = 63
"""The length to which the operator cuts the names of Jobs, from the left."""

CLUSTER_SPEC: Final = ClusterSpecField(parse_path(".spec"), attrgetter("spec"))

_EMPTY: Final = RayClusterStatus()


class RayClusterAdapter:
    """The `GenericJob` of RayCluster."""

    kind = KIND
    object_type = RayCluster
    pod_labels = (CLUSTER, GROUP, NODE_TYPE)
    list_keys: Mapping[str, str] = {"spec.workerGroupSpecs": BY_POSITION}
    is_suspended = SPEC_SUSPEND.is_suspended
    why_not_suspendable = SPEC_SUSPEND.why_not_suspendable
    suspend_patch = SPEC_SUSPEND.suspend_patch
    release_patch = release_by_spec_suspend
    foreign_manager = MANAGED_BY.foreign_manager
    pod_sets = CLUSTER_SPEC.pod_sets
    priority_of = CLUSTER_SPEC.priority_of
    update_patch = CLUSTER_SPEC.update_patch
    pod_set_of = staticmethod(ray_pod_set_of)

    makes: ClassVar[str] = "one Job, named RAYCLUSTER-redis-cleanup"

    def child_of(self, job: RayCluster, kind: str, name: str) -> Child | None:
        """Return the Job that empties its Redis when it is deleted."""
        if kind != "batch/Job" or name != f"{job.metadata.name}-redis-cleanup"[-MAX_NAME_CHARS:]:
            return None
        pod = JobPodSet(name="redis-cleanup", count=1, template=clean_up_template(job.spec))
        return Child(pod_sets=(pod,), outlives=True)

    def status_of(self, job: RayCluster) -> StatusFacts:
        """Return what conditions and counts say; it runs if the head and all workers are ready."""
        status = job.status
        suspended_since = true_since(status.conditions, "RayClusterSuspended")
        wanted = sum(group.count for group in job.spec.worker_group_specs)
        return StatusFacts(
            is_empty=status == _EMPTY,
            suspended=suspended_since is not None,
            suspended_since=suspended_since,
            running=(
                is_condition_true(status.conditions, "HeadPodReady")
                and not is_condition_true(status.conditions, "RayClusterSuspending")
                and status.ready_worker_replicas >= wanted
            ),
            pods=status.pods,
        )

    def job_name_of(self, labels: Mapping[str, str]) -> str:
        """Return the name that the operator writes on each pod."""
        return labels.get(CLUSTER, "")
