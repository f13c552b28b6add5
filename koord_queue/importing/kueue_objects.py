"""Kueue's objects, as far as an import reads them: of v1beta1 and v1beta2. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from koord_queue.errors import CommandError
from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.pod import QuantityText

GROUP: Final = "kueue.x-k8s.io"
VERSIONS: Final = ("v1beta2", "v1beta1")
"""The versions that are read; the stored one first, which needs no conversion by Kueue's
webhook."""


class ResourceQuota(WireStruct, frozen=True):
    """The amount of one resource of one flavor."""

    name: str = ""
    nominal_quota: QuantityText = "0"
    borrowing_limit: QuantityText | None = None
    lending_limit: QuantityText | None = None


class Flavor(WireStruct, frozen=True):
    """The amounts of one flavor."""

    name: str = ""
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(WireStruct, frozen=True):
    """Flavors that cover the same resources."""

    flavors: tuple[Flavor, ...] = ()


class FairSharing(WireStruct, frozen=True):
    """The share of what is left over."""

    weight: QuantityText | None = None


class BorrowWithinCohort(WireStruct, frozen=True):
    """Which workloads may be evicted for one that borrows."""

    policy: str = "Never"


class Preemption(WireStruct, frozen=True):
    """Which workloads may be evicted."""

    reclaim_within_cohort: str = "Never"
    within_cluster_queue: str = "Never"
    borrow_within_cohort: BorrowWithinCohort | None = None


class CheckRule(WireStruct, frozen=True):
    """An admission check, and the flavors it is for; none: all."""

    name: str = ""
    on_flavors: tuple[str, ...] = ()


class CheckStrategy(WireStruct, frozen=True):
    """The admission checks of a ClusterQueue."""

    admission_checks: tuple[CheckRule, ...] = ()


class ClusterQueueSpec(WireStruct, frozen=True):
    """`spec`. v1beta1 has `cohort` and `admissionChecks`."""

    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str = ""
    cohort: str = ""
    queueing_strategy: str = "BestEffortFIFO"
    namespace_selector: dict[str, Any] | None = None
    preemption: Preemption = Preemption()
    admission_checks_strategy: CheckStrategy = CheckStrategy()
    admission_checks: tuple[str, ...] = ()
    stop_policy: str = "None"
    fair_sharing: FairSharing = FairSharing()
    admission_scope: dict[str, Any] | None = None
    concurrent_admission_policy: dict[str, Any] | None = None


class ClusterQueue(WireStruct, frozen=True):
    """A ClusterQueue."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterQueueSpec = ClusterQueueSpec()

    @property
    def cohort(self) -> str:
        """The cohort that it names; "" for none."""
        return self.spec.cohort_name or self.spec.cohort

    @property
    def is_fair(self) -> bool:
        """Whether its LocalQueues are ordered by their use."""
        scope = self.spec.admission_scope or {}
        return scope.get("admissionMode") == "UsageBasedAdmissionFairSharing"

    @property
    def checks(self) -> tuple[CheckRule, ...]:
        """Its admission checks."""
        older = tuple(CheckRule(name=each) for each in self.spec.admission_checks)
        return (*older, *self.spec.admission_checks_strategy.admission_checks)


class CohortSpec(WireStruct, frozen=True):
    """`spec`."""

    parent_name: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_sharing: FairSharing = FairSharing()


class Cohort(WireStruct, frozen=True):
    """A Cohort."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CohortSpec = CohortSpec()


class LocalQueueSpec(WireStruct, frozen=True):
    """`spec`."""

    cluster_queue: str = ""
    stop_policy: str = "None"
    fair_sharing: FairSharing = FairSharing()


class LocalQueue(WireStruct, frozen=True):
    """A LocalQueue."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LocalQueueSpec = LocalQueueSpec()


class ResourceFlavorSpec(WireStruct, frozen=True):
    """`spec`."""

    node_labels: dict[str, str] = msgspec.field(default_factory=dict)
    node_taints: tuple[dict[str, Any], ...] = ()
    tolerations: tuple[dict[str, Any], ...] = ()
    topology_name: str = ""


class ResourceFlavor(WireStruct, frozen=True):
    """A ResourceFlavor."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class WorkloadPriorityClass(WireStruct, frozen=True):
    """A WorkloadPriorityClass."""

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    description: str = ""


class AdmissionCheckSpec(WireStruct, frozen=True):
    """`spec`."""

    controller_name: str = ""


class AdmissionCheck(WireStruct, frozen=True):
    """An AdmissionCheck."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AdmissionCheckSpec = AdmissionCheckSpec()


class KueueObjects(WireStruct, frozen=True):
    """All objects that an import reads."""

    cluster_queues: tuple[ClusterQueue, ...] = ()
    cohorts: tuple[Cohort, ...] = ()
    local_queues: tuple[LocalQueue, ...] = ()
    resource_flavors: tuple[ResourceFlavor, ...] = ()
    workload_priority_classes: tuple[WorkloadPriorityClass, ...] = ()
    admission_checks: tuple[AdmissionCheck, ...] = ()

    def cluster_queue_of(self, namespace: str, local_queue: str) -> str | None:
        """Return the ClusterQueue that a LocalQueue names, whether or not it exists.

        None if there is no such LocalQueue.
        """
        for each in self.local_queues:
            if (each.metadata.namespace, each.metadata.name) == (namespace, local_queue):
                return each.spec.cluster_queue
        return None

    def priority_class(self, name: str) -> WorkloadPriorityClass | None:
        """Return the WorkloadPriorityClass of a name; None if there is none."""
        for each in self.workload_priority_classes:
            if each.metadata.name == name:
                return each
        return None


KINDS: Final = {
    "ClusterQueue": "cluster_queues",
    "Cohort": "cohorts",
    "LocalQueue": "local_queues",
    "ResourceFlavor": "resource_flavors",
    "WorkloadPriorityClass": "workload_priority_classes",
    "AdmissionCheck": "admission_checks",
}
"""Kinds that are read, each with its field of `KueueObjects`."""

PLURALS: Final = {
    "ClusterQueue": "clusterqueues",
    "Cohort": "cohorts",
    "LocalQueue": "localqueues",
    "ResourceFlavor": "resourceflavors",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    "AdmissionCheck": "admissionchecks",
}
"""The plural names of kinds, as in paths."""


def read_objects(documents: Iterable[dict[str, Any]]) -> KueueObjects:
    """Return Kueue's objects among these; others are left out.

    Raises:
        CommandError: One has a field of another type; the message names the object.
    """
    found: dict[str, list[dict[str, Any]]] = {field: [] for field in KINDS.values()}
    for each in _own(documents):
        found[KINDS[each["kind"]]].append(each)
    read = {
        field: tuple(_convert(each, field) for each in found[field]) for field in KINDS.values()
    }
    return KueueObjects(**read)


def _own(documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in documents:
        if str(each.get("apiVersion", "")).partition("/")[0] == GROUP and each["kind"] in KINDS:
            yield each


def _convert(body: dict[str, Any], field: str) -> Any:  # noqa: ANN401 - the struct of the kind
    try:
        return msgspec.convert(_without_nulls(body), _STRUCTS[field])
    except msgspec.ValidationError as error:
        metadata = body.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        raise CommandError(f"{body['kind']} {name} cannot be read: {error}") from error


def _without_nulls(value: Any) -> Any:  # noqa: ANN401 - decoded JSON
    """Return a value without fields that are null, which mean the default."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value


_STRUCTS: Final[dict[str, type[msgspec.Struct]]] = {
    "cluster_queues": ClusterQueue,
    "cohorts": Cohort,
    "local_queues": LocalQueue,
    "resource_flavors": ResourceFlavor,
    "workload_priority_classes": WorkloadPriorityClass,
    "admission_checks": AdmissionCheck,
}
