"""Quotas with their numbers: from `/debug/quotas`, or from the ElasticQuotas alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.pod import ResourceQuantities
from shared_api.well_known_labels import QUOTA_PARENT

Quantities = dict[str, str]


class Quota(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One quota of a tree.

    Attributes:
        name: Its name.
        namespace: Of the object; "" if the source does not say.
        parent: The quota above; "" of a root.
        min: What is guaranteed, as its object says.
        scaled_min: The same as it counts; None: the source does not say.
        max: What may be used at most; a resource that is missing is not limited.
        runtime: What koord-scheduler would grant now.
        used: What is used, children included.
        charged: What the units of this quota alone hold; None: the source does not say.
        problems: What is wrong with it, each `Kind: sentence`.
        children: The quotas below.
    """

    name: str = ""
    namespace: str = ""
    parent: str = ""
    min: Quantities = {}
    scaled_min: Quantities | None = None
    max: Quantities = {}
    runtime: Quantities = {}
    used: Quantities = {}
    charged: Quantities | None = None
    problems: tuple[str, ...] = ()
    children: tuple[Quota, ...] = ()


class _Page(msgspec.Struct):
    items: tuple[Quota, ...] = ()


def read_quota_page(body: bytes) -> tuple[Quota, ...]:
    """Return the roots of `/debug/quotas`."""
    return msgspec.json.decode(body, type=_Page).items


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


def _texts(quantities: ResourceQuantities) -> Quantities:
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
