"""ClusterQueues as Queues: order, stop policy, preemption, admission checks. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord_queue.importing.kueue_objects import AdmissionCheck, ClusterQueue, KueueObjects
from koord_queue.importing.plan import Became, Json, Lost, Plan, own_metadata, shown
from shared_api.well_known_labels import ENABLE_PREEMPTION, PREEMPT_RUNNING, STOP_POLICY

API_VERSION: Final = "scheduling.x-k8s.io/v1alpha1"
FAIR: Final = "Fair"
"""Where LocalQueues share by their use: `kueue_fair_shares` has the settings."""
POLICIES: Final = {"StrictFIFO": "Block", "BestEffortFIFO": "Priority"}
PRIORITY: Final = 1000
"""That of the queues that the scheduler makes for quotas: they take turns with these."""
NONE: Final = "None"
NEVER: Final = "Never"
NEWER_EQUAL: Final = "LowerOrNewerEqualPriority"
MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
PROVISIONING: Final = "kueue.x-k8s.io/provisioning-request"


def plan_queues(objects: KueueObjects, namespace: str) -> Plan:
    """Return the Queues of all ClusterQueues.

    Args:
        objects: Kueue's.
        namespace: The namespace of the installation, where queues are.
    """
    checks = {each.metadata.name: each for each in objects.admission_checks}
    plan = Plan()
    for queue in sorted(objects.cluster_queues, key=lambda each: each.metadata.name):
        plan += _plan_queue(queue, checks, namespace)
    return plan


def _plan_queue(queue: ClusterQueue, checks: dict[str, AdmissionCheck], namespace: str) -> Plan:
    source, spec = f"ClusterQueue {queue.metadata.name}", queue.spec
    annotations: dict[str, str] = {}
    if spec.stop_policy != NONE:
        annotations[STOP_POLICY] = spec.stop_policy
    if spec.preemption.within_cluster_queue != NEVER:
        annotations |= {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}
    policy = FAIR if queue.is_fair else POLICIES.get(spec.queueing_strategy, "Priority")
    body: Json = {
        "apiVersion": API_VERSION,
        "kind": "Queue",
        "metadata": own_metadata(queue.metadata.name, namespace, annotations=annotations),
        "spec": {"queuePolicy": policy, "priority": PRIORITY},
    }
    names = [each.name for each in queue.checks if not _is_multikueue(checks.get(each.name))]
    if names:
        body["spec"]["admissionChecks"] = [{"name": name} for name in names]
    settings = [f"policy {policy}", *(f"{key} {value}" for key, value in annotations.items())]
    settings += [f"check {name}" for name in names]
    became = Became(source, shown(body), "; ".join(settings))
    lost = (*_lost_fields(queue, source), *_lost_checks(queue, checks, source))
    return Plan(objects=(body,), became=(became,), lost=lost)


def _lost_fields(queue: ClusterQueue, source: str) -> Iterator[Lost]:
    spec = queue.spec
    if spec.namespace_selector != {}:
        why = (
            "quotas list namespaces by name: those of its LocalQueues are listed, and count with"
            " quotaNamespaces: listed"
        )
        yield Lost(source, "spec.namespaceSelector", why)
    if spec.preemption.within_cluster_queue == NEWER_EQUAL:
        why = "only a strictly lower priority is evicted, never a newer unit of the same one"
        yield Lost(source, "spec.preemption.withinClusterQueue", why)
    borrows = spec.preemption.borrow_within_cohort
    if borrows is not None and borrows.policy != NEVER:
        why = "no unit is evicted in another quota for one that borrows"
        yield Lost(source, "spec.preemption.borrowWithinCohort", why)
    if queue.is_fair and spec.queueing_strategy == "StrictFIFO":
        why = "in a queue with the policy Fair others may pass a unit that does not fit"
        yield Lost(source, "spec.queueingStrategy", why)
    if spec.concurrent_admission_policy is not None:
        why = "there are no flavors to move between"
        yield Lost(source, "spec.concurrentAdmissionPolicy", why)


def _lost_checks(
    queue: ClusterQueue, checks: dict[str, AdmissionCheck], source: str
) -> Iterator[Lost]:
    for each in queue.checks:
        field = f"spec.admissionChecksStrategy[{each.name}]"
        known = checks.get(each.name)
        if known is None:
            why = f"no AdmissionCheck {each.name} was read: if there is none, units wait for it"
            yield Lost(source, field, why)
        elif _is_multikueue(known):
            yield Lost(source, field, "one cluster is served: MultiKueue is left out")
        elif known.spec.controller_name == PROVISIONING:
            why = (
                "Kueue's own controller answers it: create a check with controllerName"
                " koord-queue.sh/provisioning-request and the same parameters, and name that"
            )
            yield Lost(source, field, why)
        elif each.on_flavors:
            why = "without flavors it is for all units; limit it with a labelSelector of the queue"
            yield Lost(source, f"{field}.onFlavors", why)


def _is_multikueue(check: AdmissionCheck | None) -> bool:
    return check is not None and check.spec.controller_name == MULTIKUEUE
