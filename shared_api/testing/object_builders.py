"""Builders of objects for tests, which specify only what matters.

Each kind has two builders with the same arguments: `queue_unit_body` returns the JSON object, for a
server, and `queue_unit` the typed struct, for code that reads it.

    queue_unit("a", quota="team", requests={"cpu": "4"}, count=3, priority=7)
    job_body("train", namespace="team", requests={"nvidia.com/gpu": 8}, parallelism=2)

Further keyword arguments are fields of `spec`, by their wire names (`consumerRef`). `metadata` is
merged over the metadata that the builder makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

import msgspec

from shared_api.fake_api_server.patching import Body, JsonValue
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.job import Job
from shared_api.objects.namespace import Namespace
from shared_api.objects.node import Node
from shared_api.objects.pod import Pod, QuantityText
from shared_api.objects.priority_class import PriorityClass
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.well_known_labels import QUOTA_IS_PARENT, QUOTA_NAME, QUOTA_PARENT

Quantities = Mapping[str, QuantityText]
ONE_CPU: Quantities = {"cpu": "1"}

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _metadata(
    name: str,
    namespace: str = "",
    labels: Mapping[str, str] | None = None,
    more: Body | None = None,
) -> Body:
    metadata: Body = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    given = dict(more or {})
    all_labels = {**(labels or {}), **given.pop("labels", {})}
    if all_labels:
        metadata["labels"] = all_labels
    return {**metadata, **given}


def _quota_label(quota: str) -> dict[str, str]:
    return {QUOTA_NAME: quota} if quota else {}


def pod_spec(requests: Quantities | None = None, **fields: JsonValue) -> Body:
    """Return `spec` of a pod with one container (default: one CPU); `fields` are further fields."""
    container: Body = {
        "name": "main",
        "image": "registry.example.com/image",
        "resources": {"requests": dict(ONE_CPU if requests is None else requests)},
    }
    return {"containers": [container], **fields}


def pod_set(
    name: str = "main", count: int = 1, requests: Quantities | None = None, **fields: JsonValue
) -> Body:
    """Return an entry of a QueueUnit's `spec.podSet`."""
    return {"name": name, "count": count, "template": {"spec": pod_spec(requests)}, **fields}


def queue_unit_body(
    name: str,
    *,
    namespace: str = "default",
    quota: str = "",
    requests: Quantities | None = None,
    count: int = 1,
    metadata: Body | None = None,
    **spec: JsonValue,
) -> Body:
    """Return a QueueUnit of `count` pods with these requests each (default: one CPU).

    `podSet=[pod_set(...), ...]` replaces the single pod set; use `with_status` for the status.

    Args:
        name: its name.
        namespace: its namespace.
        quota: the quota label; "" for none.
        requests: the quantities of one pod, by resource name.
        count: the number of pods.
        metadata: further metadata, merged over the generated one.
        **spec: further fields of `spec`.
    """
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QueueUnit",
        "metadata": _metadata(name, namespace, _quota_label(quota), metadata),
        "spec": {"podSet": [pod_set(count=count, requests=requests)], **spec},
    }


def queue_body(
    name: str,
    *,
    namespace: str = "koord-queue",
    policy: str = "Priority",
    metadata: Body | None = None,
    **spec: JsonValue,
) -> Body:
    """Return a Queue."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "Queue",
        "metadata": _metadata(name, namespace, more=metadata),
        "spec": {"queuePolicy": policy, **spec},
    }


def elastic_quota_body(
    name: str,
    *,
    namespace: str = "default",
    min: Quantities | None = None,  # noqa: A002 - the name of the field
    max: Quantities | None = None,  # noqa: A002 - the name of the field
    parent: str = "",
    is_parent: bool = False,
    metadata: Body | None = None,
) -> Body:
    """Return an ElasticQuota; an empty `parent` stands for the root."""
    labels = {QUOTA_IS_PARENT: "true" if is_parent else "false"}
    if parent:
        labels[QUOTA_PARENT] = parent
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": _metadata(name, namespace, labels, metadata),
        "spec": {"min": dict(min or {}), "max": dict(max or {})},
    }


def tree_node(
    name: str,
    *children: Body,
    max: Quantities | None = None,  # noqa: A002 - the name of the field
    min: Quantities | None = None,  # noqa: A002 - the name of the field
    namespaces: Sequence[str] = (),
    attributes: Mapping[str, str] | None = None,
) -> Body:
    """Return a node of an ElasticQuotaTree with its children."""
    return {
        "name": name,
        "max": dict(max or {}),
        "min": dict(min or {}),
        "namespaces": list(namespaces),
        "attributes": dict(attributes or {}),
        "children": list(children),
    }


def elastic_quota_tree_body(
    root: Body,
    *,
    name: str = "elasticquotatree",
    namespace: str = "kube-system",
    metadata: Body | None = None,
) -> Body:
    """Return an ElasticQuotaTree."""
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1beta1",
        "kind": "ElasticQuotaTree",
        "metadata": _metadata(name, namespace, more=metadata),
        "spec": {"root": root},
    }


def resource_quota_body(
    name: str, *, namespace: str = "default", metadata: Body | None = None, **spec: JsonValue
) -> Body:
    """Return a ResourceQuota, for example with `hard={"cpu": 4}`."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": _metadata(name, namespace, more=metadata),
        "spec": spec,
    }


def node_body(
    name: str, *, allocatable: Quantities | None = None, metadata: Body | None = None
) -> Body:
    """Return a Ready node; `allocatable` is 32 CPUs, 128 GiB, and 110 pods by default."""
    amounts = dict(allocatable or {"cpu": "32", "memory": "128Gi", "pods": "110"})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _metadata(name, more=metadata),
        "spec": {},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod_body(
    name: str,
    *,
    namespace: str = "default",
    quota: str = "",
    requests: Quantities | None = None,
    phase: str = "",
    metadata: Body | None = None,
    **spec: JsonValue,
) -> Body:
    """Return a pod. `phase` is for readers of the struct; a server ignores it in a new pod."""
    body: Body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(name, namespace, _quota_label(quota), metadata),
        "spec": pod_spec(requests, **spec),
    }
    return with_status(body, phase=phase) if phase else body


def job_body(
    name: str,
    *,
    namespace: str = "default",
    quota: str = "",
    requests: Quantities | None = None,
    suspend: bool = True,
    metadata: Body | None = None,
    **spec: JsonValue,
) -> Body:
    """Return a batch/v1 Job, suspended by default."""
    template = {"spec": pod_spec(requests, restartPolicy="Never")}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(name, namespace, _quota_label(quota), metadata),
        "spec": {"suspend": suspend, "template": template, **spec},
    }


def namespace_body(name: str, *, labels: Mapping[str, str] | None = None) -> Body:
    """Return a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": _metadata(name, labels=labels)}


def priority_class_body(name: str, value: int) -> Body:
    """Return a PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": _metadata(name),
        "value": value,
    }


def with_status(body: Body, **status: JsonValue) -> Body:
    """Return the object with these status fields merged over its own."""
    return {**body, "status": {**body.get("status", {}), **status}}


def owned_by(owner: Body, *, controller: bool = True) -> Body:
    """Return metadata with an owner reference, for `metadata=`; `owner` must have a uid."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": controller,
        "blockOwnerDeletion": True,
    }
    return {"ownerReferences": [reference]}


def consumer_ref(job: Body) -> Body:
    """Return the `consumerRef` of a job's QueueUnit."""
    metadata = job["metadata"]
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
    }


def to_struct(object_type: type[_T], body: Body) -> _T:
    """Return the typed struct that the API client would decode from this object.

    Raises:
        msgspec.ValidationError: The object does not fit; the message has the path.
    """
    return msgspec.convert(body, object_type)


def _typed(object_type: type[_T], build: Callable[_P, Body]) -> Callable[_P, _T]:
    def typed(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        return to_struct(object_type, build(*args, **kwargs))

    typed.__doc__ = build.__doc__
    return typed


queue_unit = _typed(QueueUnit, queue_unit_body)
queue = _typed(Queue, queue_body)
elastic_quota = _typed(ElasticQuota, elastic_quota_body)
elastic_quota_tree = _typed(ElasticQuotaTree, elastic_quota_tree_body)
resource_quota = _typed(ResourceQuota, resource_quota_body)
node = _typed(Node, node_body)
pod = _typed(Pod, pod_body)
job = _typed(Job, job_body)
namespace = _typed(Namespace, namespace_body)
priority_class = _typed(PriorityClass, priority_class_body)
