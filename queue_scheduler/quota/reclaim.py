"""What an owner may take back: which quotas use more than they are entitled to, and what of it.

An owner within what he is entitled to (`guarantee`) may be kept out by borrowers. A quota borrows
where its use is above what it is entitled to, and so does each quota above it, up to the limit that
it shares with the owner: what one child borrows of another is nobody else's business.

Nobody is brought below what he is entitled to: of a quota that borrows, units go only as far as use
stays at that or above, on every resource on which it was above.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from queue_scheduler.quota.built_trees import BuiltTrees
from queue_scheduler.quota.guarantee import keeps_within
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_ledger import QuotaLedger
from queue_scheduler.quota.tree_books import NodeBooks


def find_borrowing(trees: BuiltTrees, quota: str, demand: Demand) -> tuple[str, ...]:
    """Return the quotas from which a demand of `quota` may take back; () if it is not owed."""
    if not is_owed(trees, quota, demand):
        return ()
    books = trees.books[quota]
    keys = [key for key, _ in books.counted(demand.amounts)]
    return tuple(
        name
        for name, node in books.tree.nodes.items()
        if not node.is_special and _borrows(node, books, keys)
    )


def is_owed(trees: BuiltTrees, quota: str, demand: Demand) -> bool:
    """Say whether a demand keeps its quota, whole, within what that is entitled to."""
    books = trees.books.get(quota)
    if books is None or books.is_special:
        return False
    wanted = books.counted(demand.amounts)
    return bool(wanted) and keeps_within(books, wanted)


def _between(node: NodeBooks, owner: NodeBooks) -> tuple[NodeBooks, ...]:
    """Return a quota and its ancestors, without those that are the owner's as well."""
    return tuple(each for each in node.chain if each not in owner.chain)


def _borrows(node: NodeBooks, owner: NodeBooks, keys: Iterable[str]) -> bool:
    levels = _between(node, owner)
    return bool(levels) and any(all(_excess(each, key) > 0 for each in levels) for key in keys)


def _excess(node: NodeBooks, key: str) -> int:
    return node.used.get(key, 0) - node.entitled.get(key, 0)


def find_lent(
    trees: BuiltTrees, ledger: QuotaLedger, quota: str, demand: Demand, owners: Iterable[str]
) -> Iterator[str]:
    """Iterate over those whose bookings may be taken back, in the order given.

    Even if all of them go, no quota falls below what it is entitled to.
    """
    books = trees.books.get(quota)
    if books is None:
        return
    keys = [key for key, _ in books.counted(demand.amounts)]
    left: dict[tuple[str, str], int] = {}
    levels_of: dict[str, tuple[NodeBooks, ...]] = {}
    for owner in owners:
        booked = ledger.owners.get(owner)
        node = None if booked is None else trees.books.get(booked[0])
        if booked is None or node is None:
            continue
        items = node.counted(booked[1].amounts)
        levels = levels_of.get(node.name)
        if levels is None:
            levels = levels_of[node.name] = _between(node, books)
        after: dict[tuple[str, str], int] = {}
        for each in levels:
            for key, amount in items:
                excess = left.setdefault((each.name, key), _excess(each, key))
                after[each.name, key] = excess - amount
        # What was above must not fall below; what was not above is nothing to take back.
        if all(excess >= 0 or left[place] <= 0 for place, excess in after.items()) and any(
            key in keys and all(left[each.name, key] > 0 for each in levels) for key, _ in items
        ):
            left.update(after)
            yield owner
