"""Admission fair sharing between LocalQueues as QuotaPolicies with a `fairShare`. Pure.

Kueue compares the use of LocalQueues, the policy Fair that of namespaces: LocalQueues of one
namespace are one account, with the sum of their weights.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import gcd
from typing import Final

from koord_queue.importing.kueue_objects import ClusterQueue, KueueObjects
from koord_queue.importing.plan import Became, Json, Lost, Plan, own_metadata, shown
from shared_api.objects.queue import MAX_FAIR_WEIGHTS, MAX_WEIGHED_NAMES, MAX_WEIGHT
from shared_api.quantity import milli_value

API_VERSION: Final = "scheduling.x-k8s.io/v1alpha1"


def plan_fair_shares(objects: KueueObjects, namespace: str, quotas: Collection[str]) -> Plan:
    """Return the QuotaPolicies of all ClusterQueues with admission fair sharing.

    Args:
        objects: Kueue's.
        namespace: The namespace of the installation.
        quotas: The names of the ElasticQuotas that are written.
    """
    plan = Plan()
    for queue in sorted(objects.cluster_queues, key=lambda each: each.metadata.name):
        if queue.is_fair and queue.metadata.name in quotas:
            plan += _plan_policy(queue, _weights(objects, queue.metadata.name), namespace)
    return plan


def _plan_policy(queue: ClusterQueue, weights: Mapping[str, int], namespace: str) -> Plan:
    name, source = queue.metadata.name, f"ClusterQueue {queue.metadata.name}"
    entries = _entries(weights)
    body: Json = {
        "apiVersion": API_VERSION,
        "kind": "QuotaPolicy",
        "metadata": own_metadata(name, namespace),
        "spec": {
            "quotas": [name],
            # The weights also where there are none: a later import takes back those of an earlier.
            "queue": {
                "fairShare": {"levels": ["namespace"], "weights": entries[:MAX_FAIR_WEIGHTS]}
            },
        },
    }
    settings = ["fairShare by namespace"]
    settings += [f"weight {one['weight']}: {', '.join(one['namespaces'])}" for one in entries]
    lost = []
    if len(entries) > MAX_FAIR_WEIGHTS:
        why = f"a fairShare has {MAX_FAIR_WEIGHTS} entries: the smallest weights are left out"
        lost.append(Lost(source, "spec.admissionScope", why))
    return Plan(
        objects=(body,),
        became=(Became(source, shown(body), "; ".join(settings)),),
        lost=tuple(lost),
    )


def _weights(objects: KueueObjects, queue: str) -> dict[str, int]:
    """Return the weights of the namespaces of a ClusterQueue, as small whole numbers."""
    found: dict[str, int] = {}
    for each in objects.local_queues:
        if each.spec.cluster_queue == queue:
            weight = each.spec.fair_sharing.weight
            where = each.metadata.namespace
            found[where] = found.get(where, 0) + milli_value("1" if weight is None else weight)
    shared = gcd(*found.values()) or 1
    # Rounded up where the ratio is beyond the limit: 0 would mean something else.
    factor = max(1, -(-max(found.values(), default=0) // (shared * MAX_WEIGHT)))
    return {name: -(-weight // (shared * factor)) for name, weight in found.items()}


def _entries(weights: Mapping[str, int]) -> list[Json]:
    """Return the entries of a fairShare, the largest weights first; 1 is what all others have."""
    of_weight: dict[int, list[str]] = {}
    for name, weight in sorted(weights.items()):
        if weight != 1:
            of_weight.setdefault(weight, []).append(name)
    return [
        {"namespaces": names[start : start + MAX_WEIGHED_NAMES], "weight": weight}
        for weight, names in sorted(of_weight.items(), reverse=True)
        for start in range(0, len(names), MAX_WEIGHED_NAMES)
    ]
