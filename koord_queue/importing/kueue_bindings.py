"""LocalQueues, flavors and priority classes: what belongs to jobs, not to quotas. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from koord_queue.importing.kueue_objects import (
    KueueObjects,
    LocalQueue,
    ResourceFlavor,
    WorkloadPriorityClass,
)
from koord_queue.importing.plan import NOTHING, Became, Json, Lost, Plan, own_metadata, shown
from shared_api.well_known_labels import AVAILABLE_QUOTA_IN_NAMESPACE, QUOTA_NAME

LISTED: Final = AVAILABLE_QUOTA_IN_NAMESPACE[0]
HIGHEST: Final = 1_000_000_000
"""The highest value of a PriorityClass that is not the system's."""
RESERVED: Final = "system-"
NONE: Final = "None"


def plan_bindings(objects: KueueObjects) -> Plan:
    """Return which namespaces may use which quota, and what each LocalQueue becomes."""
    known = {each.metadata.name: each.is_fair for each in objects.cluster_queues}
    quotas: dict[str, set[str]] = {}
    plan = Plan()
    for each in sorted(objects.local_queues, key=lambda one: one.metadata.key):
        plan += _plan_local_queue(each, known)
        if each.spec.cluster_queue in known:
            quotas.setdefault(each.metadata.namespace, set()).add(each.spec.cluster_queue)
    listed = ((namespace, ",".join(sorted(names))) for namespace, names in sorted(quotas.items()))
    return plan + Plan(objects=tuple(_namespace(*each) for each in listed))


def _plan_local_queue(queue: LocalQueue, known: Mapping[str, bool]) -> Plan:
    source, quota = f"LocalQueue {queue.metadata.key}", queue.spec.cluster_queue
    if quota not in known:
        lost = Lost(source, "spec.clusterQueue", f"there is no ClusterQueue {quota}")
        return Plan(became=(Became(source, "", NOTHING),), lost=(lost,))
    how = f"label {QUOTA_NAME}={quota} on jobs"
    became = Became(source, f"Namespace {queue.metadata.namespace}", how)
    return Plan(
        became=(became,), lost=tuple(_lost_of_local_queue(queue, source, is_fair=known[quota]))
    )


def _lost_of_local_queue(queue: LocalQueue, source: str, *, is_fair: bool) -> Iterator[Lost]:
    if queue.spec.stop_policy != NONE:
        why = "the jobs of a ClusterQueue are in one queue: stop that, or `hold` the jobs of this"
        yield Lost(source, "spec.stopPolicy", why)
    if queue.spec.fair_sharing.weight is not None and not is_fair:
        why = "its ClusterQueue has no admissionScope, so its jobs are in one order with all others"
        yield Lost(source, "spec.fairSharing", why)


def _namespace(name: str, quotas: str) -> Json:
    """Return a Namespace of which only the annotation is meant."""
    metadata = {"name": name, "annotations": {LISTED: quotas}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


# --- flavors and priorities ---------------------------------------------------------------------


def plan_flavors(objects: KueueObjects) -> Plan:
    """Return what of each flavor is lost; none becomes an object."""
    plan = Plan()
    for each in sorted(objects.resource_flavors, key=lambda one: one.metadata.name):
        source = f"ResourceFlavor {each.metadata.name}"
        lost = tuple(_lost_of_flavor(each, source))
        how = NOTHING if lost else "nothing: it selects no nodes"
        plan += Plan(became=(Became(source, "", how),), lost=lost)
    return plan


def _lost_of_flavor(flavor: ResourceFlavor, source: str) -> Iterator[Lost]:
    spec = flavor.spec
    if spec.node_labels:
        labels = ", ".join(f"{key}: {value}" for key, value in sorted(spec.node_labels.items()))
        why = f"Kueue adds them to the jobs: write nodeSelector {{{labels}}} into their templates"
        yield Lost(source, "spec.nodeLabels", why)
    if spec.tolerations:
        why = "Kueue adds them to the jobs: write them into their templates"
        yield Lost(source, "spec.tolerations", why)
    if spec.node_taints:
        why = "quotas know no nodes; the taints of the nodes themselves count as before"
        yield Lost(source, "spec.nodeTaints", why)
    if spec.topology_name:
        yield Lost(source, "spec.topologyName", "there are no topologies")


def plan_priorities(objects: KueueObjects) -> Plan:
    """Return the PriorityClasses of WorkloadPriorityClasses."""
    plan = Plan()
    for each in sorted(objects.workload_priority_classes, key=lambda one: one.metadata.name):
        plan += _plan_class(each)
    return plan


def _plan_class(given: WorkloadPriorityClass) -> Plan:
    name = given.metadata.name
    source = f"WorkloadPriorityClass {name}"
    field, why = "", ""
    if given.value > HIGHEST:
        field, why = "value", f"a PriorityClass has at most {HIGHEST}"
    elif name.startswith(RESERVED):
        field, why = "metadata.name", f"classes named {RESERVED}... are the system's"
    if why:
        lost = Lost(source, field, f"{why}; imported jobs get the number as an annotation")
        return Plan(became=(Became(source, "", NOTHING),), lost=(lost,))
    body: Json = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": own_metadata(name),
        "value": given.value,
        "description": given.description,
        # Kueue's classes order the queue alone; pods of these evict no others either.
        "preemptionPolicy": "Never",
    }
    how = f"value {given.value}, which the pods get as well; they evict no others"
    return Plan(objects=(body,), became=(Became(source, shown(body), how),))
