"""The owner's guarantee: what is within min can start, without eviction (DECISIONS.md 16).

A quota may borrow what others do not use. If an owner needs its min while all of it is lent, its
units wait until borrowers finish; and they would wait forever if another borrower took the room
each time. So the first pending unit of an owner is *protected*: room that it needs is not lent.

**Entitled.** Mins may be over-promised, so a quota is entitled to its min, scaled down by exact
proportion where the claims of siblings exceed what their parent is entitled to (at the root: what
the nodes have; nothing limits the root in `max` and `min` mode). The claim of a parent is its min,
or what its children claim if that is more (it must be able to carry them), within its max. So at
every limit on a chain the entitlements below it add up to no more than the limit.

**Protected** is a demand that, as a whole, keeps its quota within its entitlement on every
resource. It could start if all borrowed use were gone: then every quota is within its entitlement,
and entitlements fit at every limit.

**Refused** is a unit that takes its quota above what it is entitled to on some resource, while at
some limit that it shares with protected demands of other quotas (an ancestor's max; in `runtime`
mode also the total) less would be left than they need, on a resource that it takes.

An ElasticQuotaTree differs in three ways. A resource that no limit of the chain names does not
count. Jobs are counted by limits and never guaranteed. And a demand is protected only if it fits
while all other quotas are idle: limits on jobs, and mins for what is not preemptible, are not freed
by borrowers.

Nearest shared limit or all of them? A demand counts at every limit on both chains: the nearest may
be wide while the one above it is what both wait for. Two borrowers never block each other, since
neither is protected; owners never block each other, since neither is above its entitlement.

**Why no owner starves.** Let a be protected, and stay so. Use above entitlements only shrinks when
borrowers end. What starts meanwhile is either within its entitlement, which was never a's, or
leaves the room that a needs. When the borrowed use at each of a's limits is gone, use <= sum of
entitlements - a's, so a fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaKind, QuotaMode
from queue_scheduler.quota_cache.limit_checks import refuse
from queue_scheduler.quota_cache.tree_usage import (
    Items,
    NodeUsage,
    TreeUsage,
    taken_by,
    without_zeros,
)
from shared_api.resource_list import Amounts
from shared_api.well_known_labels import JOB_COUNTS

NOTHING: Final[Mapping[str, int]] = {}


class Entitlements:
    """What every quota of some trees is entitled to, by name.

    Args:
        trees: The trees, with nothing charged yet; call `renew` for each after charging.
    """

    __slots__ = ("_amounts", "_idle")

    def __init__(self, trees: Iterable[TreeUsage]) -> None:
        self._amounts: dict[str, Amounts] = {}
        # `asked` and `limited` of each quota while nothing is charged.
        self._idle: dict[str, tuple[Amounts, Amounts]] = {
            node.name: (dict(node.asked), dict(node.limited))
            for tree in trees
            if tree.keeps_mins
            for node in tree.nodes.values()
        }

    def fork(self) -> Entitlements:
        """Return an independent copy."""
        copy = Entitlements(())
        copy._amounts = dict(self._amounts)  # each is replaced, never changed
        copy._idle = self._idle
        return copy

    def renew(self, tree: TreeUsage) -> None:
        """Recompute what every quota of a tree is entitled to."""
        ordered = [tree.nodes[node.name] for node in tree.tree.top_down()]
        claims: dict[str, Amounts] = {}
        for node in reversed(ordered):
            claims[node.name] = _claim(node, claims)
        for parent in (tree.root, *ordered):
            available = _total(tree) if parent is tree.root else self._amounts[parent.name]
            self._amounts.update(_share(parent, claims, available))
        tree.changes.note_entitlements()

    def of(self, quota: str) -> Mapping[str, int]:
        """Return what a quota is entitled to."""
        return self._amounts.get(quota, NOTHING)

    def excess(self, node: NodeUsage, key: str) -> int:
        """Return how much more a quota uses than it is entitled to; it may be negative."""
        return node.used.get(key, 0) - self.of(node.name).get(key, 0)

    def borrows(self, node: NodeUsage, items: Items) -> bool:
        """Return whether a quota, with these amounts added, uses more than it is entitled to."""
        if node.is_special:
            return True
        used, entitled = node.used, self._amounts.get(node.name, NOTHING)
        return any(
            used.get(key, 0) + amount > entitled.get(key, 0)
            for key, amount in items
            if key not in JOB_COUNTS
        )

    def keeps_within(self, node: NodeUsage, wanted: Items) -> bool:
        """Return whether the demand keeps its quota within its entitlement on every resource."""
        entitled = self._amounts.get(node.name, NOTHING)
        maximum = node.spec.max
        asked = dict(wanted)
        for key in {**node.used, **asked}:
            if key in JOB_COUNTS:
                continue
            amount = node.used.get(key, 0) + asked.get(key, 0)
            if amount > entitled.get(key, 0) and (key in maximum or key in asked):
                return False
        return True

    def fits_idle_tree(self, node: NodeUsage, wanted: Items, demand: Demand) -> bool:
        """Return whether the demand could start if nothing were charged to any other quota."""
        idle = self._idle
        asked = idle.get(node.name, (NOTHING, NOTHING))[0]
        for key, amount in wanted:
            taken = max(node.used.get(key, 0), asked.get(key, 0))
            np_taken = node.np_used.get(key, 0) if demand.non_preemptible else None
            below: NodeUsage | None = None
            for each in node.chain:
                if below is not None and node.tree.keeps_mins:
                    taken += idle[each.name][0].get(key, 0) - idle[below.name][1].get(key, 0)
                limit = each.limits.get(key)
                if limit is not None and taken + amount > limit:
                    return False
                np_limit = each.np_limits.get(key)
                if np_taken is not None and np_limit is not None and np_taken + amount > np_limit:
                    return False
                below = each
        return True

    def validate(self, fresh: Entitlements) -> None:
        """Compare with what was just computed from the same facts."""
        for name in sorted({*self._amounts, *fresh._amounts}):
            got, want = without_zeros(self.of(name)), without_zeros(fresh.of(name))
            assert got == want, f"quota {name!r}: entitled to {got}, should be {want}"


def _claim(node: NodeUsage, claims: Mapping[str, Amounts]) -> Amounts:
    claim = {key: amount for key, amount in node.spec.min.items() if amount > 0}
    below: Amounts = {}
    for child in node.children:
        for key, amount in claims[child.name].items():
            below[key] = below.get(key, 0) + amount
    for key, amount in below.items():
        claim[key] = max(claim.get(key, 0), amount)
    return {key: min(amount, node.spec.max.get(key, amount)) for key, amount in claim.items()}


def _total(tree: TreeUsage) -> Mapping[str, int] | None:
    if tree.settings.mode is not QuotaMode.RUNTIME:
        return None
    return {key: max(0, tree.left(key)) for key in tree.tree.root.governed_keys}


def _share(
    parent: NodeUsage, claims: Mapping[str, Amounts], available: Mapping[str, int] | None
) -> dict[str, Amounts]:
    """Return what the children of a quota are entitled to."""
    claimed: Amounts = {}
    for child in parent.children:
        for key, amount in claims[child.name].items():
            claimed[key] = claimed.get(key, 0) + amount
    shares: dict[str, Amounts] = {}
    for child in parent.children:
        share = shares[child.name] = dict(claims[child.name])
        for key, amount in claims[child.name].items():
            has = claimed[key] if available is None else available.get(key, 0)
            if has < claimed[key]:
                share[key] = amount * has // claimed[key]
    return shares


class ProtectedDemands:
    """The first pending demand of each quota, and which of them are protected (they *count*).

    Attributes:
        entitlements: What quotas are entitled to, in the present trees.
        counted_in: The trees in which any demand counts, each with the number of these.
    """

    __slots__ = ("_counted", "_demands", "_kept", "counted_in", "entitlements")

    def __init__(self) -> None:
        self._demands: dict[str, Demand] = {}
        self.entitlements = Entitlements(())
        self._counted: dict[str, tuple[NodeUsage, Items]] = {}
        self.counted_in: dict[TreeUsage, int] = {}
        # Derived: the sums of what counts, at every quota of the chains.
        self._kept: dict[NodeUsage, Amounts] = {}

    def fork(self) -> ProtectedDemands:
        """Return a copy that counts nothing yet: see `start`."""
        copy = ProtectedDemands()
        copy._demands = dict(self._demands)
        return copy

    def fork_into(
        self, trees: Mapping[str, TreeUsage], entitlements: Entitlements
    ) -> ProtectedDemands:
        """Return a copy that counts the same in forks of the trees, which are given by id."""
        copy = ProtectedDemands()
        copy._demands = dict(self._demands)
        copy.entitlements = entitlements
        copy._counted = {
            quota: (trees[node.tree.tree.tree_id].twin_of(node), items)
            for quota, (node, items) in self._counted.items()
        }
        copy.counted_in = {
            trees[tree.tree.tree_id]: number for tree, number in self.counted_in.items()
        }
        copy._kept = {
            trees[node.tree.tree.tree_id].twin_of(node): sums.copy()
            for node, sums in self._kept.items()
        }
        return copy

    def put(self, quota: str, demand: Demand | None) -> bool:
        """Take the first pending demand of a quota; return whether it differs from the known one.

        Whether it counts is decided by `refresh`.
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

    def affected_by(self, node: NodeUsage) -> Iterable[str]:
        """Return the quotas whose demand to `refresh` after a charge of this one.

        The charge of a special quota changes the amount that is divided among all others: what they
        are entitled to is renewed first.
        """
        demands = self._demands
        if node.is_special and node.tree.divides:
            self.entitlements.renew(node.tree)
            return tuple(demands)
        if node.is_alone or not demands:
            return ()
        return [quota for quota in node.path if quota in demands]

    def start(self, entitlements: Entitlements) -> None:
        """Drop what is counted: it was counted in trees that are replaced by others."""
        self.entitlements = entitlements
        self._counted.clear()
        self.counted_in.clear()
        self._kept.clear()

    def refresh(self, quota: str, node: NodeUsage | None) -> bool:
        """Decide whether the quota's demand counts; return whether what counts has changed."""
        demand = self._demands.get(quota)
        wanted: Items = []
        # No other quota could take the room of one that is alone.
        if demand is not None and node is not None and not (node.is_special or node.is_alone):
            wanted = limited_items(node, demand.amounts)
            is_tree = node.tree.settings.kind is QuotaKind.TREE
            if is_tree and not self.entitlements.fits_idle_tree(node, wanted, demand):
                wanted = []
            if not self.entitlements.keeps_within(node, wanted):
                wanted = []
        had = self._counted.get(quota)
        if had is not None and had[0] is node and had[1] == wanted:
            return False
        if had is None and not wanted:
            return False
        if had is not None:
            self._keep(*had, sign=-1)
            del self._counted[quota]
        if wanted:
            assert node is not None
            self._keep(node, wanted, sign=1)
            self._counted[quota] = (node, wanted)
        return True

    def _keep(self, node: NodeUsage, items: Items, *, sign: int) -> None:
        tree = node.tree
        for each in (*node.chain, tree.root):
            sums = self._kept.get(each)
            if sums is None:
                sums = self._kept[each] = {}
            for key, amount in items:
                sums[key] = sums.get(key, 0) + sign * amount
        number = self.counted_in.get(tree, 0) + sign
        if number:
            self.counted_in[tree] = number
        else:
            del self.counted_in[tree]
        if sign < 0:
            tree.changes.note_room(node.path, in_root=True)

    def is_counted(self, quota: str) -> bool:
        """Return whether the quota has a demand that counts."""
        return quota in self._counted

    def own(self, quota: str) -> Mapping[str, int]:
        """Return what is counted for the quota itself."""
        counted = self._counted.get(quota)
        return dict(counted[1]) if counted else NOTHING

    def kept_at(self, node: NodeUsage) -> Mapping[str, int]:
        """Return what is kept for the protected demands of a quota and of those below it."""
        return self._kept.get(node, NOTHING)

    def one_below(self, node: NodeUsage, without: NodeUsage, key: str) -> str:
        """Return a quota at or below `node` with a protected demand for this resource of others."""
        own = self.own(without.name).get(key, 0)
        while True:
            for child in node.children:
                others = self.kept_at(child).get(key, 0)
                if child in without.chain:
                    others -= own
                if others > 0:
                    node = child
                    break
            else:
                return node.name

    def validate(self, fresh: Iterable[NodeUsage], entitlements: Entitlements) -> None:
        """Compare the sums with those that follow in trees just built from the same facts."""
        nodes = {node.name: node for node in fresh}
        want = self.fork()
        want.start(entitlements)
        for name in want.quotas():
            want.refresh(name, nodes.get(name))
        assert self.sums() == want.sums(), f"kept is {self.sums()}, should be {want.sums()}"

    def sums(self) -> dict[tuple[str, str], Amounts]:
        """Return what is kept, by tree and quota, without zeros."""
        sums = {
            (node.tree.tree.tree_id, node.name): without_zeros(kept)
            for node, kept in self._kept.items()
        }
        return {place: kept for place, kept in sums.items() if kept}


def limited_items(node: NodeUsage, amounts: Mapping[str, int]) -> Items:
    """Return the amounts of a demand that a limit can refuse.

    In an ElasticQuotaTree these are the resources that some quota of the chain limits.
    """
    items = node.counted(amounts)
    if node.tree.settings.kind is not QuotaKind.TREE:
        return items
    return [item for item in items if any(item[0] in each.limits for each in node.chain)]


def room_beside(
    protected: ProtectedDemands, node: NodeUsage, key: str, via: NodeUsage | None = None
) -> int | None:
    """Return what a borrower without a protected demand of its own may take at a node.

    None: nothing is kept there. `via`: the borrower's quota, if the answer depends on it.
    """
    tree = node.tree
    others = protected.kept_at(node).get(key, 0)
    if others <= 0:
        return None
    if node is tree.root:
        return tree.left(key) - _total_used(node, key) - others
    limit = node.limits.get(key)
    taken = node.taken(key) if via is None else taken_by(via, node, key)
    return None if limit is None else limit - taken - others


def check_guarantee(node: NodeUsage, items: Items, protected: ProtectedDemands) -> Refusal | None:
    """Return the refusal if a borrower would take room that a protected demand needs."""
    tree = node.tree
    if tree not in protected.counted_in or not protected.entitlements.borrows(node, items):
        return None
    own = protected.own(node.name)
    for each in node.chain:
        refusal = _check_max_kept(each, node, items, own, protected)
        if refusal is not None:
            return refusal
    if tree.settings.mode is QuotaMode.RUNTIME:
        return _check_total_kept(node, items, own, protected)
    return None


def _check_max_kept(
    node: NodeUsage,
    via: NodeUsage,
    items: Items,
    own: Mapping[str, int],
    protected: ProtectedDemands,
) -> Refusal | None:
    kept = protected.kept_at(node)
    for key, amount in items:
        others = kept.get(key, 0) - own.get(key, 0)
        limit = node.limits.get(key)
        if others <= 0 or limit is None:
            continue
        used = taken_by(via, node, key)
        if limit - used - amount < others:
            return _refusal(node, via, key, limit - others, used, amount, protected)
    return None


def _check_total_kept(
    node: NodeUsage, items: Items, own: Mapping[str, int], protected: ProtectedDemands
) -> Refusal | None:
    tree = node.tree
    root = tree.root
    kept = protected.kept_at(root)
    for key, amount in items:
        others = kept.get(key, 0) - own.get(key, 0)
        used = _total_used(root, key)
        limit = tree.left(key)
        if others > 0 and limit - used - amount < others:
            return _refusal(root, node, key, limit - others, used, amount, protected)
    return None


def _total_used(root: NodeUsage, key: str) -> int:
    # What will be used is no more than either: `asked` has mins that are only reserved, `used` has
    # pods that are over some max.
    return min(root.asked.get(key, 0), root.used.get(key, 0))


def _refusal(
    node: NodeUsage,
    via: NodeUsage,
    key: str,
    limit: int,
    used: int,
    amount: int,
    protected: ProtectedDemands,
) -> Refusal:
    reason = Reason.GUARANTEE_OF_OTHERS
    name = via.name if via.tree.keeps_mins else ""
    refusal = refuse(reason, node.name, key, limit, used, amount, via=name)
    return replace(refusal, other=protected.one_below(node, via, key))
