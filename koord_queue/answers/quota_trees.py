"""Trees of quotas: from `/debug/quotas`, or from the ElasticQuotas alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from koord_queue.answers.quotas import Quota, QuotaTreePage
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.pod import ResourceQuantities
from shared_api.well_known_labels import QUOTA_PARENT


def read_quota_page(body: bytes) -> tuple[Quota, ...]:
    """Return the roots of `/debug/quotas`."""
    return msgspec.json.decode(body, type=QuotaTreePage).items


def quotas_of_objects(objects: Iterable[ElasticQuota]) -> tuple[Quota, ...]:
    """Return the roots of ElasticQuotas, as far as the objects say.

    One whose parent is missing is a root; of two of one name the older one counts.
    """
    by_age = sorted(objects, key=lambda each: each.metadata.creation_timestamp)
    known: dict[str, ElasticQuota] = {}
    for each in by_age:
        known.setdefault(each.metadata.name, each)
    parents = {name: each.metadata.labels.get(QUOTA_PARENT, "") for name, each in known.items()}
    return tuple(
        _build(name, known, parents)
        for name in sorted(known)
        if parents[name] not in known or _is_first_of_cycle(name, parents)
    )


def _is_first_of_cycle(name: str, parents: dict[str, str]) -> bool:
    """Return whether a quota is on a cycle of parents, and the first of it by name."""
    seen = [name]
    while parents.get(seen[-1], "") not in {"", *seen}:
        seen.append(parents[seen[-1]])
    return parents.get(seen[-1]) == name and name == min(seen)


def _build(
    name: str,
    known: dict[str, ElasticQuota],
    parents: dict[str, str],
    above: frozenset[str] = frozenset(),
) -> Quota:
    quota = known[name]
    inside = above | {name}
    below = [each for each in sorted(known) if parents[each] == name and each not in inside]
    return Quota(
        name=name,
        namespace=quota.metadata.namespace,
        parent=parents[name],
        min=_texts(quota.spec.min),
        max=_texts(quota.spec.max),
        used=_texts(quota.status.used),
        children=tuple(_build(each, known, parents, inside) for each in below),
    )


def _texts(quantities: ResourceQuantities) -> dict[str, str]:
    return {name: str(amount) for name, amount in quantities.items()}


def walk(
    quotas: Iterable[Quota], above: tuple[str, ...] = ()
) -> Iterator[tuple[Quota, tuple[str, ...]]]:
    """Yield each quota with the names above it, from top to bottom."""
    for quota in quotas:
        yield quota, above
        yield from walk(quota.children, (*above, quota.name))


def find(quotas: Iterable[Quota], name: str) -> Quota | None:
    """Return the quota of a name, or None."""
    return next((quota for quota, _ in walk(quotas) if quota.name == name), None)
