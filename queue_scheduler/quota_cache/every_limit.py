"""Every limit that a demand does not fit, where `UsageTrees.check` returns the first.

A user who raises one limit must not learn of the next one only then. What is left under a limit is
computed as for waiters (`UsageTrees.room`), so that this cannot disagree with what wakes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaKind, QuotaMode
from queue_scheduler.quota_cache.limit_checks import (
    check_overused,
    over_min_unrequested,
    refuse,
    room,
)
from queue_scheduler.quota_cache.min_guarantee import ProtectedDemands, check_guarantee
from queue_scheduler.quota_cache.tree_usage import Items, NodeUsage
from queue_scheduler.quota_cache.usage_trees import UsageTrees

_MAX: Final = frozenset({Reason.OVER_QUOTA_MAX, Reason.OVER_PARENT_MAX})


def find_refusals(
    trees: UsageTrees, protected: ProtectedDemands, node: NodeUsage, items: Items, demand: Demand
) -> Iterator[Refusal]:
    """Yield a refusal for each limit that is too small, of the quota and its ancestors.

    Args:
        trees: The trees.
        protected: The demands that capacity is kept for.
        node: The quota that is charged.
        items: The amounts of the demand that count there.
        demand: The whole demand.
    """
    yield from _over_limits(trees, node, items, demand)
    if node.tree in protected.counted_in:
        for item in items:
            kept = check_guarantee(node, [item], protected)
            if kept is not None:
                yield kept


def _over_limits(
    trees: UsageTrees, node: NodeUsage, items: Items, demand: Demand
) -> Iterator[Refusal]:
    mode = trees.settings.mode
    is_runtime = mode is QuotaMode.RUNTIME
    if is_runtime and node.tree.total is None:
        yield Refusal(reason=Reason.NO_CAPACITY, quota=node.tree.root.name)
        return
    if mode is QuotaMode.MIN:
        yield from _over(node, node, Reason.OVER_MIN, items)
    sums = [] if is_runtime and node.is_special else list(_over_sums(trees, node, items, demand))
    yield from sums
    if is_runtime:
        # A runtime is never more than the max, which must be raised first.
        over_max = {(each.quota, each.resource) for each in sums if each.reason in _MAX}
        for refusal in _over_runtimes(trees, node, items, demand):
            if (refusal.quota, refusal.resource) not in over_max:
                yield refusal


def _over_sums(
    trees: UsageTrees, node: NodeUsage, items: Items, demand: Demand
) -> Iterator[Refusal]:
    settings = trees.settings
    is_tree, is_runtime = settings.kind is QuotaKind.TREE, settings.mode is QuotaMode.RUNTIME
    for each in node.chain:
        own = each is node
        yield from _over(
            node, each, Reason.OVER_QUOTA_MAX if own else Reason.OVER_PARENT_MAX, items
        )
        if demand.non_preemptible and (is_tree or (is_runtime and own)):
            yield from _over(node, each, Reason.NON_PREEMPTIBLE_OVER_MIN, items)
    if not is_runtime:
        return
    if demand.non_preemptible and not is_tree:
        yield from over_min_unrequested(node, items)
    unasked = check_overused(node, items)
    if unasked is not None and not unasked.requested:
        yield unasked
    if settings.cap_by_total:
        yield from _over(node, node.tree.root, Reason.NO_CAPACITY, items)


def _over(asking: NodeUsage, node: NodeUsage, reason: Reason, items: Items) -> Iterator[Refusal]:
    """Yield a refusal for each amount that exceeds what is left under a limit of `node`."""
    via = asking if asking.tree.keeps_mins and reason in _MAX else None
    for key, amount in items:
        left = room(node.tree, node, reason, key, via)
        if left is not None and amount > left:
            limit = _limit(node, reason, key)
            name = via.name if via is not None else ""
            yield refuse(reason, node.name, key, limit, limit - left, amount, via=name)


def _limit(node: NodeUsage, reason: Reason, key: str) -> int:
    match reason:
        case Reason.NO_CAPACITY:
            return node.tree.left(key)
        case Reason.OVER_MIN:
            return node.spec.min.get(key, 0)
        case Reason.NON_PREEMPTIBLE_OVER_MIN:
            return node.np_limits[key]
        case _:
            return node.limits[key]


def _over_runtimes(
    trees: UsageTrees, node: NodeUsage, items: Items, demand: Demand
) -> Iterator[Refusal]:
    if trees.settings.guarantee_usage:
        # The gate is asked as a whole, and returns the first limit.
        refusal = trees.check(node, items, demand)
        if refusal is not None:
            yield refusal
        return
    walk = trees.walks[node.tree.tree.tree_id]
    asked = dict(items)
    unasked = [key for key, amount in node.used.items() if amount > 0 and key not in asked]
    for key, amount in [*items, *((key, 0) for key in unasked)]:
        refusal = walk.check_resource(node, key, amount)
        if refusal is not None:
            yield refusal
