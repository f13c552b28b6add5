"""What an owner may reclaim: which quotas use more than they are entitled to, and how much more.

Borrowers may keep out an owner that is within its entitlement (`min_guarantee`). A quota borrows
from the owner on a resource if its use is above its entitlement, and so is that of each quota above
it, up to the limit that it shares with the owner: what one child borrows from another is not
borrowed from the owner.

No quota is brought below its entitlement: units of a quota that borrows are evicted only as long as
its use stays at or above its entitlement, on every resource on which it was above.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import TypeAlias

from queue_scheduler.quota.quota_decision import Borrowed, Demand, MinRunTime
from queue_scheduler.quota_cache.min_guarantee import Entitlements, limited_items
from queue_scheduler.quota_cache.quota_ledger import QuotaLedger
from queue_scheduler.quota_cache.tree_usage import Items, NodeUsage
from queue_scheduler.quota_cache.usage_trees import UsageTrees
from shared_api.well_known_labels import JOB_COUNTS

QuotaResource: TypeAlias = tuple[NodeUsage, str]
"""A quota and a resource."""


def find_borrowing(trees: UsageTrees, quota: str, demand: Demand) -> tuple[str, ...]:
    """Return the quotas from which a demand of `quota` may reclaim; () if it is not owed."""
    if not is_owed(trees, quota, demand):
        return ()
    own = trees.nodes[quota]
    keys = [key for key, _ in own.counted(demand.amounts)]
    return tuple(
        name
        for name, node in own.tree.nodes.items()
        if not node.is_special and _borrows(trees.entitlements, node, own, keys)
    )


def find_owners(trees: UsageTrees, quota: str, demand: Demand) -> tuple[str, ...]:
    """Return the quotas that are owed a part of what a charge of `quota` holds.

    For their units `find_borrowing` can name this quota now: it borrows, and they use less than
    they are entitled to, on a resource that the charge holds.
    """
    node = trees.nodes.get(quota)
    if node is None or node.is_special:
        return ()
    entitlements = trees.entitlements
    keys = [key for key, _ in _guaranteed(node, demand)]
    return tuple(
        name
        for name, own in node.tree.nodes.items()
        if not own.is_special
        and any(
            entitlements.excess(own, key) < 0 and _borrows(entitlements, node, own, [key])
            for key in keys
        )
    )


def find_borrowed(trees: UsageTrees, quota: str, demand: Demand) -> tuple[Borrowed, ...]:
    """Return what a quota and its ancestors use above their entitlement, nearest first.

    Only on the resources that a charge holds, and that can be guaranteed.
    """
    node = trees.nodes.get(quota)
    if node is None or node.is_special:
        return ()
    excess = trees.entitlements.excess
    places = ((each, key) for each in node.chain for key, _ in _guaranteed(node, demand))
    return tuple(
        Borrowed(
            quota=each.name,
            resource=key,
            used=each.used.get(key, 0),
            guaranteed=trees.entitlements.of(each.name).get(key, 0),
            lenders=_find_lenders(trees.entitlements, each, key),
        )
        for each, key in places
        if excess(each, key) > 0
    )


def _find_lenders(
    entitlements: Entitlements, node: NodeUsage, key: str
) -> tuple[tuple[str, int], ...]:
    """Return the siblings of which may be what a quota borrows, and how much of each at most.

    Nothing says which part of a resource is whose. What siblings are entitled to and do not use is
    lent as far as it is no longer free under the limit that they share.
    """
    tree, parent = node.tree, node.parent
    assert parent is not None, f"{node.name} has no parent"
    limit = parent.limits.get(key)
    if parent is tree.root:
        limit = tree.left(key) if tree.divides else None
    if limit is None:
        return ()
    siblings = [each for each in parent.children if not each.is_special]
    keeps = tree.divides or tree.keeps_mins
    taken = [max(each.used.get(key, 0), each.reserve.get(key, 0) * keeps) for each in siblings]
    unused = [
        max(0, entitlements.of(each.name).get(key, 0) - amount)
        for each, amount in zip(siblings, taken, strict=True)
    ]
    kept = sum(taken) - sum(each.used.get(key, 0) for each in siblings)
    free = limit - parent.used.get(key, 0) - kept
    lent = min(sum(unused) - free, entitlements.excess(node, key))
    return tuple(
        (each.name, min(amount, lent))
        for each, amount in zip(siblings, unused, strict=True)
        if amount > 0 and lent > 0
    )


def find_min_run_time(trees: UsageTrees, quota: str, victim: str) -> MinRunTime | None:
    """Return how long nothing is reclaimed from a unit of `victim` for one of `quota`.

    The lowest quota above both counts; if that states no time, the nearest above it that does, the
    root last. None if none does. So nobody protects what it borrows itself: the time is stated by
    whoever divides what both compete for.
    """
    node, owner = trees.nodes.get(victim), trees.nodes.get(quota)
    if node is None or owner is None:
        return None
    shared = node.chain[len(_between(node, owner)) :]
    for each in (*shared, owner.tree.root):
        if each.spec.min_run_seconds is not None:
            return MinRunTime(each.spec.min_run_seconds, each.name)
    return None


def is_owed(trees: UsageTrees, quota: str, demand: Demand) -> bool:
    """Return whether a demand, as a whole, keeps its quota within its entitlement."""
    node = trees.nodes.get(quota)
    if node is None or node.is_special:
        return False
    wanted = limited_items(node, demand.amounts)
    return bool(wanted) and trees.entitlements.keeps_within(node, wanted)


def _between(node: NodeUsage, owner: NodeUsage) -> tuple[NodeUsage, ...]:
    """Return a quota and its ancestors, without those that it shares with the owner."""
    return tuple(each for each in node.chain if each not in owner.chain)


def _borrows(
    entitlements: Entitlements, node: NodeUsage, owner: NodeUsage, keys: Iterable[str]
) -> bool:
    levels = _between(node, owner)
    return bool(levels) and any(
        all(entitlements.excess(each, key) > 0 for each in levels) for key in keys
    )


def _guaranteed(node: NodeUsage, demand: Demand) -> Items:
    """Return the amounts of a demand that can be guaranteed: all but the number of jobs."""
    items = limited_items(node, demand.amounts)
    return [item for item in items if item[0] not in JOB_COUNTS]


class LentUsage:
    """What may be reclaimed for a demand: counts what is taken, and says how much more may be.

    A unit may be evicted if it holds a resource that the demand asks for, and each quota between it
    and the owner's chain is above its entitlement on that. All units that are taken together must
    not bring such a quota below its entitlement.

    Args:
        trees: The quotas, with their usage.
        ledger: The charges.
        quota: The quota of the demand.
        demand: What is asked for.
        leaving: Owners of charges that are being released anyway; they count as released.

    Attributes:
        taken: The sums of what is taken so far.
    """

    def __init__(
        self,
        trees: UsageTrees,
        ledger: QuotaLedger,
        quota: str,
        demand: Demand,
        leaving: Iterable[str] = (),
    ) -> None:
        self._trees = trees
        self._entitlements = trees.entitlements
        self._ledger = ledger
        self._own = trees.nodes.get(quota)
        wanted = [] if self._own is None else _guaranteed(self._own, demand)
        self._wanted = frozenset(key for key, _ in wanted)
        self.taken: dict[QuotaResource, int] = {}
        self._levels: dict[str, tuple[NodeUsage, ...]] = {}
        # What is released anyway is no longer borrowed.
        self._gone: dict[QuotaResource, int] = {}
        for owner in leaving:
            items, levels = self._charge_of(owner)
            for key, amount in items:
                for each in levels:
                    self._gone[each, key] = self._gone.get((each, key), 0) + amount

    def copy(self) -> LentUsage:
        """Return an independent copy that has taken the same."""
        twin = copy(self)
        twin.taken = dict(self.taken)
        return twin

    def places(self, owner: str) -> frozenset[QuotaResource]:
        """Return where an owner's charge counts; owners without a common place do not interact."""
        items, levels = self._charge_of(owner)
        return frozenset(place for place, _ in self._limited(items, levels))

    def take(self, owner: str, count: int) -> int:
        """Take up to `count` charges like that of an owner; return how many may be released."""
        items, levels = self._charge_of(owner)
        if not any(
            key in self._wanted and all(self._excess((each, key)) > 0 for each in levels)
            for key, _ in items
        ):
            return 0
        taken, limited = self.taken, list(self._limited(items, levels))
        for place, amount in limited:
            rest = self._excess(place) - taken.get(place, 0)
            count = min(count, max(0, rest // amount))
        for place, amount in limited:
            taken[place] = taken.get(place, 0) + count * amount
        return count

    def _charge_of(self, owner: str) -> tuple[Items, tuple[NodeUsage, ...]]:
        """Return the counted amounts of a charge, and its quotas that the demand does not share."""
        charge = self._ledger.charge_of(owner)
        node = None if charge is None else self._trees.nodes.get(charge[0])
        if charge is None or node is None or self._own is None:
            return [], ()
        levels = self._levels.get(node.name)
        if levels is None:
            levels = self._levels[node.name] = _between(node, self._own)
        return _guaranteed(node, charge[1]), levels

    def _limited(
        self, items: Items, levels: tuple[NodeUsage, ...]
    ) -> Iterator[tuple[QuotaResource, int]]:
        """Yield the parts of a charge in quotas that are above their entitlement."""
        for each in levels:
            for key, amount in items:
                # Even if what is released anyway is all of the excess.
                if self._entitlements.excess(each, key) > 0:
                    yield (each, key), amount

    def _excess(self, place: QuotaResource) -> int:
        return self._entitlements.excess(*place) - self._gone.get(place, 0)
