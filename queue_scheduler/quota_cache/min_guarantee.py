"""The owner's guarantee: what is within min can start, without eviction (DECISIONS.md 16).

A quota may borrow what others do not use. When an owner comes back while all of his min is lent, he
waits until borrowers finish; and he would wait for ever if each time room came free another
borrower took it. So the first waiting unit of an owner is *protected*: room it needs is not lent.

**Entitled.** Mins may be over-promised, so a quota is entitled to its min, scaled down by exact
proportion where the claims of siblings exceed what their parent is entitled to (at the root: what
the nodes have; nothing limits the root in `max` and `min` mode). The claim of a parent is its min,
or what its children claim if that is more, within its max: it must be able to carry its children.
So at every limit on a chain the entitlements below it add up to no more than the limit.

**Protected** is a demand that, whole, keeps its quota within what it is entitled to, on every
resource. It could start if all borrowed use were gone: then every quota is within its entitlement,
and these fit everywhere.

**Refused** is a unit that takes its quota above what it is entitled to on some resource, while at
some limit that it shares with protected demands of other quotas (an ancestor's max; in `runtime`
mode also the total) less would be left than they need, on a resource that it takes.

Of an ElasticQuotaTree, where nobody need be guaranteed anything of what all his limits leave open,
that does not count; jobs are counted by limits and guaranteed to nobody; and only what fits where
everybody else is idle is protected: limits on jobs, and mins for what is not preemptible, are not
what borrowers give back.

Nearest shared limit or all of them? A demand counts at every limit on both chains: the nearest may
be wide while the one above it is what both wait for. Two borrowers never block each other, since
neither is protected; owners never block each other, since neither is above its entitlement.

**Why no owner starves.** Let a be protected, and stay so. Use above entitlements only shrinks when
borrowers end. What starts meanwhile is either within its entitlement, which was never a's, or
leaves the room that a needs. When the borrowed use at each of a's limits is gone, use <= sum of
entitlements - a's, so a fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaKind, QuotaMode
from queue_scheduler.quota_cache.limit_checks import refuse
from queue_scheduler.quota_cache.tree_usage import Items, NodeUsage, TreeUsage, taken_by
from shared_api.resource_list import Amounts
from shared_api.well_known_labels import JOB_COUNTS

NOTHING: Final[Mapping[str, int]] = {}


def entitle(tree: TreeUsage) -> None:
    """Compute what every quota of the tree is entitled to."""
    ordered = [tree.nodes[node.name] for node in tree.tree.top_down()]
    claims: dict[str, Amounts] = {}
    for books in reversed(ordered):
        claims[books.name] = _claim(books, claims)
    for parent in (tree.root, *ordered):
        available: Mapping[str, int] | None = parent.entitled
        if parent is tree.root:
            available = _total(tree)
        _share(parent, claims, available)


def _claim(books: NodeUsage, claims: Mapping[str, Amounts]) -> Amounts:
    claim = {key: amount for key, amount in books.spec.min.items() if amount > 0}
    below: Amounts = {}
    for child in books.children:
        for key, amount in claims[child.name].items():
            below[key] = below.get(key, 0) + amount
    for key, amount in below.items():
        claim[key] = max(claim.get(key, 0), amount)
    return {key: min(amount, books.spec.max.get(key, amount)) for key, amount in claim.items()}


def _total(tree: TreeUsage) -> Mapping[str, int] | None:
    if tree.settings.mode is not QuotaMode.RUNTIME:
        return None
    return {key: max(0, tree.left(key)) for key in tree.tree.root.governed_keys}


def _share(
    parent: NodeUsage, claims: Mapping[str, Amounts], available: Mapping[str, int] | None
) -> None:
    claimed: Amounts = {}
    for child in parent.children:
        for key, amount in claims[child.name].items():
            claimed[key] = claimed.get(key, 0) + amount
    for child in parent.children:
        child.entitled = dict(claims[child.name])
        for key, amount in claims[child.name].items():
            has = claimed[key] if available is None else available.get(key, 0)
            if has < claimed[key]:
                child.entitled[key] = amount * has // claimed[key]


class ProtectedDemands:
    """The waiting demands that engine and owners agree on, one per quota, and which count."""

    __slots__ = ("_counted", "_demands")

    def __init__(self) -> None:
        self._demands: dict[str, Demand] = {}
        self._counted: dict[str, tuple[NodeUsage, Items]] = {}

    def fork(self, books: Mapping[str, NodeUsage]) -> ProtectedDemands:
        """Return a copy that counts in these books what this one counts in books of that name.

        Without books it counts nothing, until it is told to (`refresh`).
        """
        copy = ProtectedDemands()
        copy._demands = dict(self._demands)
        copy._counted = {
            quota: (books[quota], items)
            for quota, (_, items) in self._counted.items()
            if quota in books
        }
        return copy

    def put(self, quota: str, demand: Demand | None) -> bool:
        """Take the demand that now waits first in a quota; say whether it is another one.

        `refresh` makes it count.
        """
        if self._demands.get(quota) == demand:
            return False
        if demand is None:
            del self._demands[quota]
        else:
            self._demands[quota] = demand
        return True

    def quotas(self) -> tuple[str, ...]:
        """Return the quotas with a demand, counted or not."""
        return tuple(self._demands)

    def waits_in(self, quota: str) -> bool:
        """Return whether the quota has a demand, counted or not."""
        return quota in self._demands

    def is_empty(self) -> bool:
        """Return whether nobody waits anywhere."""
        return not self._demands

    def forget_books(self) -> None:
        """Drop what is counted: the books it was counted in are gone."""
        self._counted.clear()

    def refresh(self, quota: str, books: NodeUsage | None) -> bool | None:
        """Judge the quota's demand again; say whether anybody has more room than before.

        None: nothing has changed.
        """
        demand = self._demands.get(quota)
        wanted: Items = []
        # Nobody else could take the room of one that is alone.
        if demand is not None and books is not None and not (books.is_special or books.is_alone):
            wanted = limited_items(books, demand.amounts)
            is_tree = books.tree.settings.kind is QuotaKind.TREE
            if is_tree and not _fits_idle_tree(books, wanted, demand):
                wanted = []
            if not keeps_within(books, wanted):
                wanted = []
        had = self._counted.get(quota)
        if had is not None and had[0] is books and had[1] == wanted:
            return None
        if had is None and not wanted:
            return None
        if had is not None:
            _protect(*had, sign=-1)
            del self._counted[quota]
        if wanted:
            assert books is not None
            _protect(books, wanted, sign=1)
            self._counted[quota] = (books, wanted)
        return had is not None

    def is_counted(self, quota: str) -> bool:
        """Return whether the quota has a demand that counts."""
        return quota in self._counted

    def own(self, quota: str) -> Mapping[str, int]:
        """Return what is counted for the quota itself."""
        counted = self._counted.get(quota)
        return dict(counted[1]) if counted else NOTHING

    def one_below(self, node: NodeUsage, without: NodeUsage, key: str) -> str:
        """Return a quota below `node` whose protected demand wants this resource."""
        own = self.own(without.name).get(key, 0)
        while True:
            for child in node.children:
                others = child.protected.get(key, 0)
                if child in without.chain:
                    others -= own
                if others > 0:
                    node = child
                    break
            else:
                return node.name


def keeps_within(books: NodeUsage, wanted: Items) -> bool:
    """Return whether the demand keeps its quota within its entitlement on every resource."""
    entitled = books.entitled
    maximum = books.spec.max
    asked = dict(wanted)
    for key in {**books.used, **asked}:
        if key in JOB_COUNTS:
            continue
        amount = books.used.get(key, 0) + asked.get(key, 0)
        if amount > entitled.get(key, 0) and (key in maximum or key in asked):
            return False
    return True


def limited_items(books: NodeUsage, amounts: Mapping[str, int]) -> Items:
    """Return what of a demand somebody might lack.

    Of a tree that is what some quota of the chain limits: of the rest everybody may have what he
    wants.
    """
    items = books.counted(amounts)
    if books.tree.settings.kind is not QuotaKind.TREE:
        return items
    return [item for item in items if any(item[0] in node.limits for node in books.chain)]


def _fits_idle_tree(books: NodeUsage, wanted: Items, demand: Demand) -> bool:
    """Return whether the demand could start if nothing were charged to any other quota."""
    for key, amount in wanted:
        taken = max(books.used.get(key, 0), books.idle[0].get(key, 0))
        np_taken = books.np_used.get(key, 0) if demand.non_preemptible else None
        below: NodeUsage | None = None
        for node in books.chain:
            if below is not None:
                taken += node.idle[0].get(key, 0) - below.idle[1].get(key, 0)
            limit = node.limits.get(key)
            if limit is not None and taken + amount > limit:
                return False
            np_limit = node.np_limits.get(key)
            if np_taken is not None and np_limit is not None and np_taken + amount > np_limit:
                return False
            below = node
    return True


def _protect(books: NodeUsage, items: Items, *, sign: int) -> None:
    for node in (*books.chain, books.tree.root):
        for key, amount in items:
            node.protected[key] = node.protected.get(key, 0) + sign * amount
        if sign < 0 and node.watchers:
            books.tree.touched[node.name] = node
    books.tree.protected_count += sign


def room_beside(
    tree: TreeUsage, node: NodeUsage, key: str, via: NodeUsage | None = None
) -> int | None:
    """Return what a borrower without a protected demand of his own may take at a node.

    None: nothing is kept for anybody there. `via`: his quota, where that makes a difference.
    """
    others = node.protected.get(key, 0)
    if others <= 0:
        return None
    if node is tree.root:
        return tree.left(key) - _total_used(node, key) - others
    limit = node.limits.get(key)
    taken = node.taken(key) if via is None else taken_by(via, node, key)
    return None if limit is None else limit - taken - others


def check_guarantee(books: NodeUsage, items: Items, protected: ProtectedDemands) -> Refusal | None:
    """Return the refusal if a borrower would take room that a protected demand needs."""
    tree = books.tree
    if not tree.protected_count or not _borrows(books, items):
        return None
    own = protected.own(books.name)
    for node in books.chain:
        refusal = _check_max_kept(node, books, items, own, protected)
        if refusal is not None:
            return refusal
    if tree.settings.mode is QuotaMode.RUNTIME:
        return _check_total_kept(books, items, own, protected)
    return None


def _check_max_kept(
    node: NodeUsage,
    books: NodeUsage,
    items: Items,
    own: Mapping[str, int],
    protected: ProtectedDemands,
) -> Refusal | None:
    for key, amount in items:
        others = node.protected.get(key, 0) - own.get(key, 0)
        limit = node.limits.get(key)
        if others <= 0 or limit is None:
            continue
        used = taken_by(books, node, key)
        if limit - used - amount < others:
            return _refusal(node, books, key, limit - others, used, amount, protected)
    return None


def _check_total_kept(
    books: NodeUsage, items: Items, own: Mapping[str, int], protected: ProtectedDemands
) -> Refusal | None:
    tree = books.tree
    root = tree.root
    for key, amount in items:
        others = root.protected.get(key, 0) - own.get(key, 0)
        used = _total_used(root, key)
        limit = tree.left(key)
        if others > 0 and limit - used - amount < others:
            return _refusal(root, books, key, limit - others, used, amount, protected)
    return None


def _total_used(root: NodeUsage, key: str) -> int:
    # What will be used is no more than either: `asked` has mins that are only reserved, `used` has
    # pods that are over some max.
    return min(root.asked.get(key, 0), root.used.get(key, 0))


def _borrows(books: NodeUsage, items: Items) -> bool:
    if books.is_special:
        return True
    used, entitled = books.used, books.entitled
    return any(
        used.get(key, 0) + amount > entitled.get(key, 0)
        for key, amount in items
        if key not in JOB_COUNTS
    )


def _refusal(
    node: NodeUsage,
    books: NodeUsage,
    key: str,
    limit: int,
    used: int,
    amount: int,
    protected: ProtectedDemands,
) -> Refusal:
    reason = Reason.GUARANTEE_OF_OTHERS
    via = books.name if books.tree.keeps_mins else ""
    refusal = refuse(reason, node.name, key, limit, used, amount, via=via)
    return replace(refusal, other=protected.one_below(node, books, key))
