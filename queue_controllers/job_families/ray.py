"""The pods that a RayCluster's spec asks for, wherever it stands, and what its status says. Pure.

RayJob and RayService hold the same spec as RayCluster: one head, and groups of workers. The
operator adds what no template has: an autoscaler and a collector as sidecars, and an init container
in each worker that waits for the head.

Worker groups are a list without keys: patches hold one item for each, empty if it is unchanged.

Source: KubeRay v1.7.0, ray-operator/controllers/ray: common/pod.go, common/job.go, utils/util.go.
What the real operator did is in tests/data/recordings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from queue_controllers.job_families.suspend_field import ManagedByField
from queue_controllers.jobframework.generic_job import (
    ApiJob,
    JobPodSet,
    PrioritySource,
    priority_of_templates,
)
from queue_controllers.jobframework.pod_set_names import (
    MAX_COUNT,
    MAX_POD_SET_NAME_CHARS,
    pod_set_name,
)
from queue_controllers.jobframework.pod_template import ScheduledContainer, ScheduledPodTemplate
from queue_controllers.jobframework.template_updates import TemplateUpdate, update_body
from shared_api.field_path import FieldPath
from shared_api.objects.meta import Condition, WireStruct, is_condition_true
from shared_api.objects.pod import Pod, ResourceQuantities, ResourceRequirements

HEAD: Final = "head"
SUBMITTER: Final = "submitter"
"""Pod sets that are no worker group."""

CLUSTER: Final = "ray.io/cluster"
GROUP: Final = "ray.io/group"
NODE_TYPE: Final = "ray.io/node-type"
OWNER_NAME: Final = "ray.io/originated-from-cr-name"
OWNER_KIND: Final = "ray.io/originated-from-crd"
"""Labels. Pods of a cluster have the first three; RayClusters and submitter pods the other two."""

POD_LABELS: Final = (CLUSTER, GROUP, NODE_TYPE, OWNER_NAME, OWNER_KIND)
"""Labels that are read of pods whose RayCluster another object has created."""

MANAGED_BY: Final = ManagedByField("ray.io/kuberay-operator")
"""In the spec of all kinds of the operator."""

_GENERATED_NAME: Final = re.compile(r"(.+)-[a-z0-9]{5}")
"""Names of the RayClusters that RayJob and RayService create: the owner's name, and five random
characters."""


def _container(
    name: str, requests: ResourceQuantities, limits: ResourceQuantities
) -> ScheduledContainer:
    resources = ResourceRequirements(requests=requests, limits=limits)
    return ScheduledContainer(name=name, resources=resources)


_SMALL: Final[ResourceQuantities] = {"cpu": "100m", "memory": "128Mi"}
_MEDIUM: Final[ResourceQuantities] = {"cpu": "200m", "memory": "256Mi"}
_LARGE: Final[ResourceQuantities] = {"cpu": "500m", "memory": "512Mi"}
AUTOSCALER: Final = _container("autoscaler", _LARGE, _LARGE)
COLLECTOR: Final = _container("collector", _SMALL, _MEDIUM)
WAIT_FOR_HEAD: Final = _container("wait-gcs-ready", _MEDIUM, _MEDIUM)
CLEAN_UP: Final = _container("redis-cleanup", _MEDIUM, _MEDIUM)
"""What the operator adds, unless the spec says otherwise."""


class SidecarOptions(WireStruct, frozen=True):
    """`autoscalerOptions`, `historyServerOptions.collectorOptions`: resources replace all."""

    resources: ResourceRequirements | None = None


class HistoryServerOptions(WireStruct, frozen=True):
    """`historyServerOptions`."""

    collector_options: SidecarOptions | None = None


class HeadGroup(WireStruct, frozen=True):
    """`headGroupSpec`."""

    template: ScheduledPodTemplate = ScheduledPodTemplate()


class WorkerGroup(WireStruct, frozen=True):
    """One of `workerGroupSpecs`."""

    group_name: str = ""
    replicas: int | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    num_of_hosts: int | None = None
    suspend: bool | None = None
    template: ScheduledPodTemplate = ScheduledPodTemplate()

    @property
    def most(self) -> int:
        """How many pods its autoscaler may scale it to; the present number if nothing bounds it."""
        if self.suspend or self.max_replicas is None:
            return self.count
        hosts = 1 if self.num_of_hosts is None else max(self.num_of_hosts, 1)
        return min(max(self.count, self.max_replicas * hosts), MAX_COUNT)

    @property
    def count(self) -> int:
        """How many pods the operator creates: replicas within their bounds, on some hosts each."""
        if self.suspend:
            return 0
        least = self.min_replicas or 0
        replicas = least if self.replicas is None or self.replicas < least else self.replicas
        if self.max_replicas is not None and replicas > max(self.max_replicas, least):
            replicas = self.max_replicas
        hosts = 1 if self.num_of_hosts is None else max(self.num_of_hosts, 1)
        return min(max(replicas, 0) * hosts, MAX_COUNT)


class RayClusterSpec(WireStruct, frozen=True):
    """The spec of a RayCluster, on its own or inside of a RayJob or RayService."""

    suspend: bool | None = None
    managed_by: str | None = None
    enable_in_tree_autoscaling: bool | None = None
    autoscaler_options: SidecarOptions | None = None
    history_server_options: HistoryServerOptions | None = None
    head_group_spec: HeadGroup = HeadGroup()
    worker_group_specs: tuple[WorkerGroup, ...] = ()


class RayClusterStatus(WireStruct, frozen=True):
    """The status of a RayCluster, its own or repeated in that of a RayJob."""

    state: str = ""
    conditions: tuple[Condition, ...] = ()
    available_worker_replicas: int = 0
    ready_worker_replicas: int = 0

    @property
    def pods(self) -> int:
        """How many unfinished pods it counts."""
        has_head = is_condition_true(self.conditions, "HeadPodReady")
        return max(self.available_worker_replicas, self.ready_worker_replicas) + has_head


# --- pod sets -----------------------------------------------------------------------------------


def cluster_pod_sets(
    spec: RayClusterSpec, *, beside_head: tuple[ScheduledContainer, ...] = ()
) -> tuple[JobPodSet, ...]:
    """Return the head and the worker groups, in the order of the spec.

    `beside_head`: containers that the operator adds to the head for a RayJob.
    """
    collectors = _collectors(spec)
    autoscalers = _autoscalers(spec)
    head = _with_containers(
        spec.head_group_spec.template, (*autoscalers, *collectors, *beside_head)
    )
    sets = [JobPodSet(name=HEAD, count=1, template=head)]
    for name, group in zip(worker_set_names(spec), spec.worker_group_specs, strict=True):
        template = _with_containers(group.template, collectors)
        init = (*template.spec.init_containers, WAIT_FOR_HEAD)
        pod = msgspec.structs.replace(template.spec, init_containers=_with_images(init, template))
        template = msgspec.structs.replace(template, spec=pod)
        sets.append(JobPodSet(name=name, count=group.count, template=template))
    return tuple(sets)


def most_of_cluster(
    spec: RayClusterSpec, *, beside_head: tuple[ScheduledContainer, ...] = ()
) -> tuple[JobPodSet, ...]:
    """Return the most that a RayCluster created from the spec may have been scaled to since."""
    sets = cluster_pod_sets(spec, beside_head=beside_head)
    if not spec.enable_in_tree_autoscaling:
        return sets
    most = {
        name: group.most
        for name, group in zip(worker_set_names(spec), spec.worker_group_specs, strict=True)
    }
    return tuple(
        msgspec.structs.replace(each, count=most.get(each.name, each.count)) for each in sets
    )


def clean_up_template(spec: RayClusterSpec) -> ScheduledPodTemplate:
    """Return a template that asks for no less than the pod which empties a cluster's Redis.

    The operator creates it from the head's template, with only the first container, made small.
    """
    return _with_containers(spec.head_group_spec.template, (CLEAN_UP,))


def worker_set_names(spec: RayClusterSpec) -> tuple[str, ...]:
    """Return the pod sets' names of the worker groups: lower case, each once."""
    names: list[str] = []
    for group in spec.worker_group_specs:
        base = name = _worker_set_name(group.group_name)
        number = 1
        while name in names:
            number += 1
            mark = f"-{number}"
            name = base[: MAX_POD_SET_NAME_CHARS - len(mark)].rstrip("-") + mark
        names.append(name)
    return tuple(names)


def _worker_set_name(group: str) -> str:
    name = pod_set_name(group) if group else "worker"
    return f"{name}-group" if name in {HEAD, SUBMITTER} else name


def _autoscalers(spec: RayClusterSpec) -> tuple[ScheduledContainer, ...]:
    if not spec.enable_in_tree_autoscaling:
        return ()
    return (_with_resources(AUTOSCALER, spec.autoscaler_options or SidecarOptions()),)


def _collectors(spec: RayClusterSpec) -> tuple[ScheduledContainer, ...]:
    history = spec.history_server_options
    if history is None or history.collector_options is None:
        return ()
    return (_with_resources(COLLECTOR, history.collector_options),)


def _with_resources(added: ScheduledContainer, options: SidecarOptions) -> ScheduledContainer:
    if options.resources is None:
        return added
    return msgspec.structs.replace(added, resources=options.resources)


def _with_containers(
    template: ScheduledPodTemplate, added: tuple[ScheduledContainer, ...]
) -> ScheduledPodTemplate:
    if not added:
        return template
    containers = (*template.spec.containers, *_with_images(added, template))
    return msgspec.structs.replace(
        template, spec=msgspec.structs.replace(template.spec, containers=containers)
    )


def _with_images(
    containers: tuple[ScheduledContainer, ...], template: ScheduledPodTemplate
) -> tuple[ScheduledContainer, ...]:
    """Return them with the image of the Ray container where they have none, as the operator does.

    A pod template whose containers name no image is refused.
    """
    image = image_of(template)
    return tuple(
        each if each.image else msgspec.structs.replace(each, image=image) for each in containers
    )


def image_of(template: ScheduledPodTemplate) -> str:
    """Return the image of the Ray container, which is the first."""
    containers = template.spec.containers
    return containers[0].image if containers else ""


def cluster_priority(spec: RayClusterSpec) -> PrioritySource:
    """Return the priority of the head's template, else of the first worker group that has one."""
    workers = (each.template for each in spec.worker_group_specs)
    return priority_of_templates((spec.head_group_spec.template, *workers))


class ClusterSpecField(msgspec.Struct, frozen=True):
    """A field with the spec of the only RayCluster of a job: what follows from that spec alone.

    Adapters take over its bound methods, like those of `SuspendField`.
    """

    path: FieldPath
    spec_of: Callable[[Any], RayClusterSpec]
    """Returns the value of the field."""

    def pod_sets(self, job: ApiJob) -> tuple[JobPodSet, ...]:
        """Return the head, then the worker groups."""
        return cluster_pod_sets(self.spec_of(job))

    def priority_of(self, job: ApiJob) -> PrioritySource:
        """Return the head template's priority, else that of the first group that has one."""
        return cluster_priority(self.spec_of(job))

    def update_patch(self, job: ApiJob, updates: Mapping[str, TemplateUpdate]) -> dict[str, Any]:
        """Return the patch of the templates, which may change at any time; {} for none."""
        cluster = cluster_patch(self.spec_of(job), updates)
        return self.path.patch(value=cluster) if cluster else {}


# --- whose pods ---------------------------------------------------------------------------------


def ray_pod_set_of(pod: Pod) -> str:
    """Return the pod set that a pod's labels name, "" for none.

    Where names of groups differ in case alone, it is the first.
    """
    labels = pod.metadata.labels
    if labels.get(NODE_TYPE) == "head":
        return HEAD
    group = labels.get(GROUP, "")
    return _worker_set_name(group) if group else ""


def owner_of_cluster(labels: Mapping[str, str], kind: str) -> str:
    """Return the name of the RayJob or RayService whose pod has these labels, "" for none.

    Pods of a cluster name only the cluster: its owner's name is that without the random part.
    """
    owner_kind = labels.get(OWNER_KIND)
    if owner_kind is not None:
        return labels.get(OWNER_NAME, "") if owner_kind == kind else ""
    match = _GENERATED_NAME.fullmatch(labels.get(CLUSTER, ""))
    return match.group(1) if match else ""


# --- patches ------------------------------------------------------------------------------------


def cluster_patch(spec: RayClusterSpec, updates: Mapping[str, TemplateUpdate]) -> dict[str, Any]:
    """Return the merge patch of the spec that changes the templates of pod sets; {} for none."""
    groups = {name: {"template": update_body(update)} for name, update in updates.items()}
    patch: dict[str, Any] = {}
    if HEAD in groups:
        patch["headGroupSpec"] = groups[HEAD]
    names = worker_set_names(spec)
    if not groups.keys().isdisjoint(names):
        patch["workerGroupSpecs"] = [groups.get(name, {}) for name in names]
    return patch
