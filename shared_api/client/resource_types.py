"""The kinds that both programs read and write, and where the API server has them."""

from __future__ import annotations

from typing import Final

from shared_api.client.resource_client import ResourceType
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.job import Job
from shared_api.objects.lease import Lease
from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.namespace import Namespace
from shared_api.objects.node import Node
from shared_api.objects.pod import Pod
from shared_api.objects.priority_class import PriorityClass
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import salvage_unit


class OnlyMetadata(WireStruct, frozen=True):
    """An object of which nothing but its metadata is read."""

    metadata: ObjectMeta = ObjectMeta()


QUEUES: Final = ResourceType(
    "scheduling.x-k8s.io", "v1alpha1", "queues", "Queue", namespaced=True, object_type=Queue
)
QUEUE_UNITS: Final = ResourceType(
    "scheduling.x-k8s.io",
    "v1alpha1",
    "queueunits",
    "QueueUnit",
    namespaced=True,
    object_type=QueueUnit,
    salvage=salvage_unit,
)
ELASTIC_QUOTAS: Final = ResourceType(
    "scheduling.sigs.k8s.io",
    "v1alpha1",
    "elasticquotas",
    "ElasticQuota",
    namespaced=True,
    object_type=ElasticQuota,
)
PODS: Final = ResourceType("", "v1", "pods", "Pod", namespaced=True, object_type=Pod)
NODES: Final = ResourceType("", "v1", "nodes", "Node", namespaced=False, object_type=Node)
NAMESPACES: Final = ResourceType(
    "", "v1", "namespaces", "Namespace", namespaced=False, object_type=Namespace
)
JOBS: Final = ResourceType("batch", "v1", "jobs", "Job", namespaced=True, object_type=Job)
PRIORITY_CLASSES: Final = ResourceType(
    "scheduling.k8s.io",
    "v1",
    "priorityclasses",
    "PriorityClass",
    namespaced=False,
    object_type=PriorityClass,
)
LEASES: Final = ResourceType(
    "coordination.k8s.io", "v1", "leases", "Lease", namespaced=True, object_type=Lease
)
EVENTS: Final = ResourceType(
    "events.k8s.io", "v1", "events", "Event", namespaced=True, object_type=OnlyMetadata
)
CUSTOM_RESOURCE_DEFINITIONS: Final = ResourceType(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    object_type=OnlyMetadata,
)
