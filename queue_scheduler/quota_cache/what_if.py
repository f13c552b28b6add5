"""What `check` would return for other charges: the sums are changed, asked, and changed back.

A fork would give the same answers, and costs a copy. Here the hypothetical charges are applied to
the sums of the trees, net per quota; the question is asked; and the charges are taken back. The
sums are integers, so nothing is left over. What is kept by a reading of the tree's clock is
forgotten before and after; the divisions of `level_division` watch the claims, and so find out.
Waiters are not affected: neither the clock nor the marks of `TreeChanges` move.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota_cache.min_guarantee import ProtectedDemands
from queue_scheduler.quota_cache.quota_ledger import QuotaLedger
from queue_scheduler.quota_cache.tree_usage import Items, NodeUsage
from queue_scheduler.quota_cache.usage_trees import UsageTrees

Added: TypeAlias = tuple[str, Demand]
"""A quota, and what would be charged to it in addition."""

NetChange: TypeAlias = tuple[dict[str, int], dict[str, int]]
"""By how much the charges of one quota change: in all, and the non-preemptible part."""


def net_changes(
    ledger: QuotaLedger, released: Iterable[str], added: Sequence[Added]
) -> dict[str, NetChange]:
    """Return the changes per quota name if these owners had no charge, and `added` were charged."""
    changes: dict[str, NetChange] = {}
    gone = [charge for charge in map(ledger.charge_of, dict.fromkeys(released)) if charge]
    _add_up(changes, gone, -1)
    _add_up(changes, added, 1)
    return changes


def _add_up(changes: dict[str, NetChange], charges: Sequence[Added], sign: int) -> None:
    # Equal units share one object of amounts, so most sums are products.
    kinds = [(quota, id(one.amounts), one.non_preemptible) for quota, one in charges]
    one_of = dict(zip(kinds, charges, strict=True))
    for kind, count in Counter(kinds).items():
        quota, demand = one_of[kind]
        change = changes.setdefault(quota, (defaultdict(int), defaultdict(int)))
        counted = [item for item in demand.amounts.items() if item[1] > 0]
        for part in change if demand.non_preemptible else change[:1]:
            for key, amount in counted:
                part[key] += sign * count * amount


@contextmanager
def supposed(
    trees: UsageTrees, protected: ProtectedDemands, changes: Mapping[str, NetChange]
) -> Iterator[None]:
    """Apply the changes to the sums within the `with` block."""
    moves: list[tuple[NodeUsage, Items, Items]] = []
    for quota, (amounts, np_amounts) in changes.items():
        node = trees.node_of_unit(quota)
        moves.append((node, _counted(node, amounts), _counted(node, np_amounts)))
    concerned = {node.tree.tree.tree_id: node.tree for node, _, _ in moves}
    noted = [(tree.changes, tree.changes.put_aside()) for tree in concerned.values()]
    try:
        _move(trees, protected, moves)
        yield
    finally:
        _move(
            trees,
            protected,
            [(node, _negative(items), _negative(np)) for node, items, np in moves],
        )
        for marks, before in noted:
            marks.put_back(before)


def _move(
    trees: UsageTrees, protected: ProtectedDemands, moves: list[tuple[NodeUsage, Items, Items]]
) -> None:
    for node, items, np_items in moves:
        node.tree.simulate(node, items)
        if np_items:
            node.tree.charge_non_preemptible(node, np_items)
        trees.forget_levels(node.tree)
    for node, _, _ in moves:
        for name in protected.affected_by(node):
            protected.refresh(name, trees.nodes.get(name))


def _counted(node: NodeUsage, amounts: Mapping[str, int]) -> Items:
    return [(key, amount) for key, amount in amounts.items() if amount and node.counts(key)]


def _negative(items: Items) -> Items:
    return [(key, -amount) for key, amount in items]
