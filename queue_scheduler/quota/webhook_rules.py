"""The rules of Koordinator's webhook about a quota and its relatives, as predicates.

`quota_tree` warns if a quota in the cluster violates one (a webhook may be off, or an object older
than a rule); the rules about a quota's own amounts are in `quota_spec`.

Source: koordinator, pkg/webhook/elasticquota/quota_topology_check.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shared_api.resource_list import Amounts, add, fits


def are_keys_consistent(
    quota: Mapping[str, Mapping[str, int]],
    parent: Mapping[str, Mapping[str, int]] | None,
    child: Mapping[str, Mapping[str, int]] | None,
    *,
    relaxed: bool,
) -> bool:
    """Return whether a quota's resources in min and max agree with its parent's and one child's.

    Each quota is given as {"min": amounts, "max": amounts}. `relaxed` is the feature gate
    ElasticQuotaEnableUpdateResourceKey: then a max need not have all resources of its parent's.
    """
    pairs = [(parent, quota)] if parent is not None else []
    if child is not None:
        pairs.append((quota, child))
    for upper, lower in pairs:
        upper_max, lower_max = upper.get("max", {}).keys(), lower.get("max", {}).keys()
        if not (lower_max <= upper_max if relaxed else lower_max == upper_max):
            return False
        if not lower.get("min", {}).keys() <= upper.get("min", {}).keys():
            return False
    return True


def do_mins_fit(
    minimum: Mapping[str, int],
    parent_min: Mapping[str, int] | None,
    sibling_mins: Iterable[Mapping[str, int]],
    children_mins: Iterable[Mapping[str, int]],
) -> bool:
    """Return whether this min and its siblings' fit the parent's, and the children's fit this one.

    `parent_min` is None for a quota directly under the root: then only the children are checked.
    """
    if parent_min is not None:
        promised: Amounts = dict(minimum)
        for sibling in sibling_mins:
            promised = add(promised, sibling)
        if not fits(promised, parent_min):
            return False
    promised = {}
    for child in children_mins:
        promised = add(promised, child)
    return fits(promised, minimum)


def do_tree_ids_agree(tree_id: str, parent: str | None, child: str | None) -> bool:
    """Return whether a quota belongs to the same tree as its parent and its child."""
    return all(other is None or other == tree_id for other in (parent, child))
