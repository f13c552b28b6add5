"""The kinds that the programs read and write, and where the API server serves them."""

from __future__ import annotations

from typing import Final

from shared_api.client.resource_client import ResourceType
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.config_map import ConfigMap
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.job import Job
from shared_api.objects.lease import Lease
from shared_api.objects.limit_range import LimitRange
from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.namespace import Namespace
from shared_api.objects.node import Node
from shared_api.objects.pod import Pod
from shared_api.objects.priority_class import PriorityClass
from shared_api.objects.provisioning_request import ProvisioningRequest
from shared_api.objects.provisioning_request_config import ProvisioningRequestConfig
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.reservation import Reservation
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.objects.runtime_class import RuntimeClass
from shared_api.queue_unit_phases import salvage_unit


class OnlyMetadata(WireStruct, frozen=True):
    """An object of which only the metadata is read."""

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
ELASTIC_QUOTA_TREES: Final = ResourceType(
    "scheduling.sigs.k8s.io",
    "v1beta1",
    "elasticquotatrees",
    "ElasticQuotaTree",
    namespaced=True,
    object_type=ElasticQuotaTree,
)
RESOURCE_QUOTAS: Final = ResourceType(
    "", "v1", "resourcequotas", "ResourceQuota", namespaced=True, object_type=ResourceQuota
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
LIMIT_RANGES: Final = ResourceType(
    "", "v1", "limitranges", "LimitRange", namespaced=True, object_type=LimitRange
)
RUNTIME_CLASSES: Final = ResourceType(
    "node.k8s.io",
    "v1",
    "runtimeclasses",
    "RuntimeClass",
    namespaced=False,
    object_type=RuntimeClass,
)
SERVICE_ACCOUNTS: Final = ResourceType(
    "",
    "v1",
    "serviceaccounts",
    "ServiceAccount",
    namespaced=True,
    object_type=OnlyMetadata,
    only_metadata=True,
)
RESERVATIONS: Final = ResourceType(
    "scheduling.koordinator.sh",
    "v1alpha1",
    "reservations",
    "Reservation",
    namespaced=False,
    object_type=Reservation,
)
CONFIG_MAPS: Final = ResourceType(
    "", "v1", "configmaps", "ConfigMap", namespaced=True, object_type=ConfigMap
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
POD_TEMPLATES: Final = ResourceType(
    "", "v1", "podtemplates", "PodTemplate", namespaced=True, object_type=OnlyMetadata
)

# Kinds of other projects, in every supported version, the newest first. `discovery.served_version`
# selects the one that a server has.
ADMISSION_CHECK_VERSIONS: Final = tuple(
    ResourceType(
        "kueue.x-k8s.io",
        version,
        "admissionchecks",
        "AdmissionCheck",
        namespaced=False,
        object_type=AdmissionCheck,
    )
    for version in ("v1beta2", "v1beta1")
)
PROVISIONING_REQUEST_CONFIG_VERSIONS: Final = tuple(
    ResourceType(
        "kueue.x-k8s.io",
        version,
        "provisioningrequestconfigs",
        "ProvisioningRequestConfig",
        namespaced=False,
        object_type=ProvisioningRequestConfig,
    )
    for version in ("v1beta2", "v1beta1")
)
PROVISIONING_REQUEST_VERSIONS: Final = tuple(
    ResourceType(
        "autoscaling.x-k8s.io",
        version,
        "provisioningrequests",
        "ProvisioningRequest",
        namespaced=True,
        object_type=ProvisioningRequest,
    )
    for version in ("v1", "v1beta1")
)
