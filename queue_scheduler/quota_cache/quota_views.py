"""One quota with its numbers, as users see it."""

from __future__ import annotations

from collections.abc import Iterable

from queue_scheduler.quota.quota_spec import QuotaSpec
from queue_scheduler.quota.quota_tree import QuotaNode
from queue_scheduler.quota.quota_view import QuotaView
from queue_scheduler.quota_cache.min_guarantee import ProtectedDemands
from queue_scheduler.quota_cache.quota_ledger import Account, QuotaLedger
from queue_scheduler.quota_cache.tree_usage import NodeUsage, without_zeros
from queue_scheduler.quota_cache.usage_trees import UsageTrees
from shared_api.resource_list import Amounts, add


def view_quota(
    spec: QuotaSpec, trees: UsageTrees, account: Account, protected: ProtectedDemands
) -> QuotaView:
    """Return one quota with its numbers.

    Args:
        spec: The quota.
        trees: The quotas, with their usage; if the quota is in no tree, only its charges are known.
        account: What is charged to it.
        protected: What is kept for pending units.
    """
    usable = spec.name in trees.nodes
    node = trees.nodes[spec.name] if usable else _node_outside(spec, trees)
    tree_id = node.tree.tree.tree_id
    walk = trees.walks.get(tree_id) if usable and not node.is_special else None
    return QuotaView(
        name=spec.name,
        namespace=spec.namespace,
        tree_id=tree_id if usable else spec.tree_id,
        parent=spec.parent,
        children=tuple(child.name for child in node.children),
        is_parent=spec.is_parent,
        lends=spec.lends,
        usable=usable,
        min=dict(spec.min),
        scaled_min=dict(trees.entitlements.of(spec.name)),
        max=dict(spec.max),
        weight=dict(spec.weight),
        charged=without_zeros(account.units.amounts),
        foreign=without_zeros(_foreign(account)),
        # Charges and counted foreign pods, masked to the keys of `max`. With what held pods claim,
        # which is a part of `request` only, it is the input of the division.
        demand=without_zeros(dict(node.counted(_counted(account, trees)))) if usable else {},
        used=without_zeros(node.used),
        request=without_zeros(node.limited),
        # As koord-scheduler would compute it from these demands, including the units that its
        # rounding would lose.
        runtime={} if walk is None else walk.runtimes(node),
        limits=dict(node.limits) if usable else {},
        protected=without_zeros(protected.kept_at(node)),
        problems=tuple(trees.problems_of(spec.name)),
    )


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
    return view_quota(spec, trees, ledger.account(name), protected)


def _node_outside(spec: QuotaSpec, trees: UsageTrees) -> NodeUsage:
    """Return a node without usage for a quota that is in no tree."""
    default = trees.trees[""]
    return NodeUsage(QuotaNode(spec, default.tree.root, ""), default.root, default)


def _counted(account: Account, trees: UsageTrees) -> Amounts:
    """Return what of an account the mode counts."""
    counted = dict(account.units.amounts)
    if not trees.settings.counts_foreign:
        return counted
    counts_pending = trees.settings.foreign_pending
    return add(counted, _foreign(account) if counts_pending else account.bound.amounts)


def _foreign(account: Account) -> Amounts:
    """Return what foreign pods ask for, but for held ones."""
    found = add(account.bound.amounts, account.pending.amounts)
    return found if account.stuck is None else add(found, account.stuck.amounts)
