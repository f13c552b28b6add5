"""The kinds that the programs read and write, and where the API server serves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from msgspec.structs import replace

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
from shared_api.objects.queue_reservation import QueueReservation
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.quota_policy import QuotaPolicy
from shared_api.objects.reservation import Reservation
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.objects.runtime_class import RuntimeClass
from shared_api.queue_unit_phases import salvage_unit

T = TypeVar("T")


class OnlyMetadata(WireStruct, frozen=True):
    """An object of which only the metadata is read."""

    metadata: ObjectMeta = ObjectMeta()


def _cluster_scoped(api_version: str, plural: str, kind: type[T]) -> ResourceType[T]:
    group, _, version = api_version.rpartition("/")
    return ResourceType(group, version, plural, kind.__name__, namespaced=False, object_type=kind)


def _namespaced(
    api_version: str, plural: str, kind: type[T], salvage: Callable[[Any, str], T] | None = None
) -> ResourceType[T]:
    return replace(_cluster_scoped(api_version, plural, kind), namespaced=True, salvage=salvage)


QUEUES: Final = _namespaced("scheduling.x-k8s.io/v1alpha1", "queues", Queue)
QUEUE_UNITS: Final = _namespaced(
    "scheduling.x-k8s.io/v1alpha1", "queueunits", QueueUnit, salvage=salvage_unit
)
QUOTA_POLICIES: Final = _namespaced("scheduling.x-k8s.io/v1alpha1", "quotapolicies", QuotaPolicy)
QUEUE_RESERVATIONS: Final = _namespaced(
    "scheduling.x-k8s.io/v1alpha1", "queuereservations", QueueReservation
)
ELASTIC_QUOTAS: Final = _namespaced(
    "scheduling.sigs.k8s.io/v1alpha1", "elasticquotas", ElasticQuota
)
ELASTIC_QUOTA_TREES: Final = _namespaced(
    "scheduling.sigs.k8s.io/v1beta1", "elasticquotatrees", ElasticQuotaTree
)
RESOURCE_QUOTAS: Final = _namespaced("v1", "resourcequotas", ResourceQuota)
PODS: Final = _namespaced("v1", "pods", Pod)
NODES: Final = _cluster_scoped("v1", "nodes", Node)
NAMESPACES: Final = _cluster_scoped("v1", "namespaces", Namespace)
JOBS: Final = _namespaced("batch/v1", "jobs", Job)
PRIORITY_CLASSES: Final = _cluster_scoped("scheduling.k8s.io/v1", "priorityclasses", PriorityClass)
LIMIT_RANGES: Final = _namespaced("v1", "limitranges", LimitRange)
RUNTIME_CLASSES: Final = _cluster_scoped("node.k8s.io/v1", "runtimeclasses", RuntimeClass)
SERVICE_ACCOUNTS: Final = ResourceType(
    "",
    "v1",
    "serviceaccounts",
    "ServiceAccount",
    namespaced=True,
    object_type=OnlyMetadata,
    only_metadata=True,
)
RESERVATIONS: Final = _cluster_scoped(
    "scheduling.koordinator.sh/v1alpha1", "reservations", Reservation
)
CONFIG_MAPS: Final = _namespaced("v1", "configmaps", ConfigMap)
LEASES: Final = _namespaced("coordination.k8s.io/v1", "leases", Lease)
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
    _cluster_scoped(f"kueue.x-k8s.io/{version}", "admissionchecks", AdmissionCheck)
    for version in ("v1beta2", "v1beta1")
)
PROVISIONING_REQUEST_CONFIG_VERSIONS: Final = tuple(
    _cluster_scoped(
        f"kueue.x-k8s.io/{version}", "provisioningrequestconfigs", ProvisioningRequestConfig
    )
    for version in ("v1beta2", "v1beta1")
)
PROVISIONING_REQUEST_VERSIONS: Final = tuple(
    _namespaced(f"autoscaling.x-k8s.io/{version}", "provisioningrequests", ProvisioningRequest)
    for version in ("v1", "v1beta1")
)
