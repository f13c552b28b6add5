"""Pods of no quota that have no node: koord-scheduler counts them when it divides among quotas.

One that may be bound takes room from every quota, and one that asks for much of a resource stops
koord-scheduler's own quotas. A unit that waits for it is told how many there are, not all of their
names: it may be in a namespace that its user cannot read.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final, NamedTuple

import msgspec

from koord_queue.checks.facts import Facts, Json, name_of, serves
from koord_queue.checks.findings import Finding, ok, unknown, warning
from koord_queue.checks.objects import QUOTA_GROUP_VERSION, uses_resource_quotas
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.pod import Pod
from shared_api.pod_requests import pod_requests
from shared_api.quantity import QuantityError, amount_for_people
from shared_api.quota_names import QuotaNames, build_quota_names, read_named_quota
from shared_api.resource_list import Amounts
from shared_api.timestamps import read_time
from shared_api.well_known_labels import SPECIAL_QUOTAS

CHECK: Final = "pods"

LONG_WITHOUT_NODE: Final = timedelta(minutes=1)
"""A scheduler tries a pod within moments, and a node is found within seconds."""

MOST_NAMED: Final = 3
"""How many pods are named: the largest ones decide."""

_SHOWN: Final = ("nvidia.com/gpu", "cpu", "memory")
"""Resources by which pods are compared, the scarcest first."""

_MEND: Final = (
    "delete them, or give them a quota: label quota.scheduling.koordinator.sh/name (docs/quotas.md)"
)


class _PodRequest(NamedTuple):
    """A pod, and what it asks for of `_SHOWN`."""

    name: str
    amounts: tuple[int, ...]

    def __str__(self) -> str:
        shown = [
            f"{resource} {amount_for_people(resource, amount)}"
            for resource, amount in zip(_SHOWN, self.amounts, strict=True)
            if amount
        ]
        return f"{self.name} ({', '.join(shown)})"


def check_pods(facts: Facts) -> Iterator[Finding]:
    """Yield the largest pods of no quota that have had no node for long."""
    served = facts.served.get(QUOTA_GROUP_VERSION)
    if served is None or not serves(served, "elasticquotas") or uses_resource_quotas(facts):
        yield ok(CHECK, "no ElasticQuota counts pods of no quota")
        return
    for answer in (facts.unbound_pods, facts.quotas):
        if not answer.is_known:
            yield unknown(CHECK, f"pods without a node: {answer.why_unknown()}")
            return
    names = _names_of(facts.quotas.items)
    asking = [each for pod in facts.unbound_pods.items if (each := _judge(pod, names, facts))]
    if not asking:
        yield ok(CHECK, "no pod of no quota is without a node for long")
        return
    asking.sort(key=lambda each: ([-amount for amount in each.amounts], each.name))
    largest = ", ".join(map(str, asking[:MOST_NAMED]))
    count = "1 pod" if len(asking) == 1 else f"{len(asking)} pods"
    cut = " or more" if facts.unbound_pods.is_cut else ""
    more = ", ..." if len(asking) > MOST_NAMED else ""
    text = f"{count}{cut} of no quota without a node: {largest}{more}; jobs may wait for them"
    yield warning(CHECK, text, _MEND)


def _names_of(quotas: list[Json]) -> QuotaNames:
    named = []
    for each in quotas:
        try:
            named.append(read_named_quota(msgspec.convert(each, ElasticQuota, strict=False)))
        except msgspec.ValidationError:
            continue  # check_objects names what cannot be read
    return build_quota_names(named)


def _judge(found: Json, names: QuotaNames, facts: Facts) -> _PodRequest | None:
    """Return a pod if it counts; None if it has a quota, is young, or asks for nothing."""
    try:
        pod = msgspec.convert(found, Pod, strict=False)
        amounts = pod_requests(pod.spec)
    except (msgspec.ValidationError, QuantityError):
        return None  # the scheduler reports it by an event
    created = read_time(pod.metadata.creation_timestamp)
    is_young = created is None or facts.time - created < LONG_WITHOUT_NODE
    quota = names.quota_of_pod(pod.metadata.labels, pod.metadata.namespace)
    asked = _shown_of(amounts)
    if is_young or quota not in SPECIAL_QUOTAS or not any(asked):
        return None
    return _PodRequest(name_of(found), asked)


def _shown_of(amounts: Amounts) -> tuple[int, ...]:
    return tuple(amounts.get(resource, 0) for resource in _SHOWN)
