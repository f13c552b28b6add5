"""One quota with its numbers, as users see it."""

from __future__ import annotations

from collections.abc import Iterable

from queue_scheduler.quota.quota_decision import QuotaView
from queue_scheduler.quota.quota_spec import QuotaSpec
from queue_scheduler.quota.quota_tree import QuotaNode
from queue_scheduler.quota_cache.min_guarantee import ProtectedDemands
from queue_scheduler.quota_cache.quota_ledger import Account, QuotaLedger
from queue_scheduler.quota_cache.tree_usage import NodeUsage, without_zeros
from queue_scheduler.quota_cache.usage_trees import UsageTrees
from shared_api.resource_list import Amounts, add


def find_view(
    name: str,
    specs: Iterable[QuotaSpec],
    trees: UsageTrees,
    ledger: QuotaLedger,
    protected: ProtectedDemands,
) -> QuotaView | None:
    """Return one quota with its numbers, or None; of two objects of one name, the older one."""
    node = trees.nodes.get(name)
    if node is not None:
        spec = node.spec
    else:
        named = [spec for spec in specs if spec.name == name]
        if not named:
            return None
        spec = min(named, key=lambda one: one.age)
    return _build_view(spec, trees, ledger.account(name), protected)


def _build_view(
    spec: QuotaSpec,
    trees: UsageTrees,
    account: Account,
    protected: ProtectedDemands,
) -> QuotaView:
    """Return the numbers of a quota; if it is in no tree, only its charges are known."""
    node = trees.nodes.get(spec.name)
    if node is None:
        node = NodeUsage(
            QuotaNode(spec, trees.trees[""].tree.root, ""), trees.trees[""].root, trees.trees[""]
        )
    walk = trees.walks.get(node.tree.tree.tree_id)
    is_usable = spec.name in trees.nodes
    has_runtime = walk is not None and is_usable and not node.is_special
    return QuotaView(
        name=spec.name,
        namespace=spec.namespace,
        tree_id=node.tree.tree.tree_id if is_usable else spec.tree_id,
        parent=spec.parent,
        children=tuple(child.name for child in node.children),
        is_parent=spec.is_parent,
        lends=spec.lends,
        min=dict(spec.min),
        scaled_min=dict(trees.entitlements.of(spec.name)),
        max=dict(spec.max),
        weight=dict(spec.weight),
        booked=without_zeros(account.units.amounts),
        foreign=without_zeros(add(account.bound.amounts, account.pending.amounts)),
        demand=without_zeros(dict(node.counted(_counted(account, trees)))) if is_usable else {},
        used=without_zeros(node.used),
        request=without_zeros(node.limited),
        runtime=walk.runtimes(node) if walk is not None and has_runtime else {},
        limits=dict(node.limits) if is_usable else {},
        protected=without_zeros(protected.kept_at(node)),
        usable=is_usable,
        problems=trees.problems_of(spec.name),
    )


def _counted(account: Account, trees: UsageTrees) -> Amounts:
    """Return what of an account the mode counts."""
    counted = dict(account.units.amounts)
    if not trees.settings.counts_foreign:
        return counted
    counted = add(counted, account.bound.amounts)
    return add(counted, account.pending.amounts) if trees.settings.foreign_pending else counted
