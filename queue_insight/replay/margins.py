"""Quotas with one unit more: what a little capacity would have saved."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from queue_insight.replay.quota_files import Objects, Quota
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree, ElasticQuotaTreeNode
from shared_api.objects.pod import ResourceQuantities
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.quantity import amount, format_amount
from shared_api.well_known_labels import TREE_ROOT

GIB: Final = 1024**3

ONE: Final = {"cpu": 1000, "memory": GIB, "ephemeral-storage": GIB}
"""One unit in base units, where that is not 1: a core, a GiB."""


def raise_quota(objects: Objects, name: str, resource: str) -> tuple[Objects, str] | None:
    """Return the objects with one unit more in the quota of this name, and that unit as text.

    Its max grows, and its min if that has the resource. None if there is no such quota, or it does
    not limit the resource.
    """
    one = ONE.get(resource, 1)
    quotas = tuple(_raised(quota, name, resource, one) for quota in objects.quotas)
    if quotas == objects.quotas:
        return None
    return replace(objects, quotas=quotas), format_amount(resource, one)


def _raised(quota: Quota, name: str, resource: str, one: int) -> Quota:
    match quota:
        case ElasticQuota(metadata=metadata, spec=spec) if metadata.name == name:
            if resource not in spec.max:
                return quota
            most = _more(spec.max, resource, one)
            return replace(quota, spec=replace(spec, max=most, min=_more(spec.min, resource, one)))
        case ElasticQuotaTree(spec=spec):
            root = _raised_node(spec.root, TREE_ROOT, name, resource, one)
            return replace(quota, spec=replace(spec, root=root))
        case ResourceQuota(metadata=metadata, spec=spec) if metadata.key == name:
            return replace(quota, spec=replace(spec, hard=_more(spec.hard, resource, one)))
        case _:
            return quota


def _raised_node(
    node: ElasticQuotaTreeNode, path: str, name: str, resource: str, one: int
) -> ElasticQuotaTreeNode:
    children = tuple(
        _raised_node(child, f"{path}/{child.name}", name, resource, one) for child in node.children
    )
    if path != name or resource not in node.max:
        return replace(node, children=children)
    most, least = _more(node.max, resource, one), _more(node.min, resource, one)
    return replace(node, children=children, max=most, min=least)


def _more(quantities: ResourceQuantities, resource: str, one: int) -> ResourceQuantities:
    """Return quantities with one more of a resource; in a ResourceQuota its key has a prefix."""
    found = dict(quantities)
    for key in (resource, f"requests.{resource}"):
        if key in quantities:
            found[key] = format_amount(resource, amount(resource, quantities[key]) + one)
    return found
