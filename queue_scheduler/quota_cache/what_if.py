"""What `check` would return for hypothetical charges, without a fork.

A fork would give the same answers, but copies everything. Here the charges are applied to the sums
of the trees, as one net change per quota; the caller runs its check; and the charges are reverted.
The sums are integers, so reverting restores them exactly. Values that are cached by the tree's
clock are dropped before and after, since the clock does not move; `level_division` is notified of
changed claims, and divides anew. No waiter is woken: the marks of `TreeChanges` are restored.
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
"""The changes of the charges of one quota: all of them, and the non-preemptible part."""


def net_changes(
    ledger: QuotaLedger, released: Iterable[str], added: Sequence[Added]
) -> dict[str, NetChange]:
    """Return the change of each quota, by name, if `released` were released and `added` charged.

    Args:
        ledger: What is charged now.
        released: Owners of charges; those without a charge are ignored.
        added: The hypothetical charges.
    """
    changes: dict[str, NetChange] = {}
    gone = [charge for charge in map(ledger.charge_of, dict.fromkeys(released)) if charge]
    _add_up(changes, gone, -1)
    _add_up(changes, added, 1)
    return changes


def _add_up(changes: dict[str, NetChange], charges: Sequence[Added], sign: int) -> None:
    """Add `charges` to `changes`, or subtract them (`sign` -1)."""
    # Equal units share one object of amounts: multiply it by their number.
    kinds = [
        (quota, id(demand.amounts), demand.non_preemptible, id(demand.firm))
        for quota, demand in charges
    ]
    example_of = dict(zip(kinds, charges, strict=True))
    for kind, count in Counter(kinds).items():
        quota, demand = example_of[kind]
        change = changes.setdefault(quota, (defaultdict(int), defaultdict(int)))
        for part, amounts in zip(change, (demand.amounts, demand.firm_amounts), strict=True):
            for key, amount in _positive(amounts):
                part[key] += sign * count * amount


def _positive(amounts: Mapping[str, int]) -> Items:
    return [item for item in amounts.items() if item[1] > 0]


@contextmanager
def simulate_changes(
    trees: UsageTrees, protected: ProtectedDemands, changes: Mapping[str, NetChange]
) -> Iterator[None]:
    """Apply the changes to the sums; revert them at the end of the `with` block."""
    moves: list[tuple[NodeUsage, Items, Items]] = []
    for quota, (amounts, np_amounts) in changes.items():
        node = trees.node_of_unit(quota)
        moves.append((node, _counted(node, amounts), _counted(node, np_amounts)))
    changed_trees = {node.tree.tree.tree_id: node.tree for node, _, _ in moves}
    saved = [(tree.changes, tree.changes.save_marks()) for tree in changed_trees.values()]
    try:
        _move(trees, protected, moves)
        yield
    finally:
        _move(
            trees,
            protected,
            [(node, _negative(items), _negative(np)) for node, items, np in moves],
        )
        for tree_changes, marks in saved:
            tree_changes.restore_marks(marks)


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
