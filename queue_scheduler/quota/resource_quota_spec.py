"""A ResourceQuota object as a quota without parent: what its `hard` says about requests and pods.

`cpu` and `requests.cpu` are two limits on one amount, as in the API server; the smaller counts.
Keys that pods do not request are not compared: `limits.*`, counts of objects, storage classes.
Deprecated names are replaced as in demands (`shared_api.resource_names`): two keys that map to one
name are two limits as well. A quota with scopes applies to some pods only, and a unit cannot say
whether its pods are among them.

Source: kubernetes, pkg/quota/v1/evaluator/core/pods.go.
"""

from __future__ import annotations

from typing import Final

from queue_scheduler.quota.quota_decision import ProblemKind, QuotaProblem
from queue_scheduler.quota.quota_spec import QuotaSpec
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.quantity import QuantityError
from shared_api.resource_list import Amounts, parse_amounts
from shared_api.resource_names import current_name

PODS: Final = "pods"
"""Pseudo resource: the number of pods."""
REQUESTS: Final = "requests."

_BARE: Final = frozenset({"cpu", "memory", "ephemeral-storage", PODS})
_BARE_PREFIX: Final = "hugepages-"
_OF_CLAIMS: Final = "requests.storage"


def quota_name(namespace: str, name: str) -> str:
    """Return the name under which a ResourceQuota is charged."""
    return f"{namespace}/{name}"


def governs_all_pods(quota: ResourceQuota) -> bool:
    """Return whether the quota applies to every pod of its namespace."""
    return not quota.spec.scopes and not quota.spec.scope_selector


def parse_hard(quota: ResourceQuota) -> QuotaSpec:
    """Return the content of the object, with the problem found while parsing it."""
    meta = quota.metadata
    name = quota_name(meta.namespace, meta.name)
    problems: tuple[QuotaProblem, ...] = ()
    hard: Amounts = {}
    requested = {key: each for key, each in quota.spec.hard.items() if _resource_of(key)}
    try:
        for key, quantity in requested.items():
            resource = _resource_of(key)
            amount = parse_amounts({resource: quantity})[resource]
            hard[resource] = min(amount, hard.get(resource, amount))
    except QuantityError as error:
        text = f"spec.hard: {error}"
        problems = (
            QuotaProblem(ProblemKind.UNREADABLE_AMOUNT, meta.namespace, name, text, fatal=True),
        )
        hard = {}
    return QuotaSpec(
        name=name,
        namespace=meta.namespace,
        uid=meta.uid,
        created=meta.creation_timestamp,
        max=hard,
        problems=problems,
    )


def _resource_of(key: str) -> str:
    """Return the requested resource that a key of `hard` limits, or ""."""
    if key in _BARE or key.startswith(_BARE_PREFIX):
        return key
    if key.startswith(REQUESTS) and key != _OF_CLAIMS:
        return current_name(key.removeprefix(REQUESTS))
    return ""
