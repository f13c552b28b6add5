"""The sums of what is charged to every quota of a tree, updated with every charge.

An amount is charged to one quota (`own`), and from there

    used       counts in the quota and in every ancestor, not cut by any limit;
    pending    the part of it that is foreign pods without a node
    asked      own + what the children ask for after their limits   (koord-scheduler's childRequest)
    limited    asked, raised to min where the quota does not lend, and cut at max
    claimed    the part of own of pods that cannot be bound now, and that nothing is promised to
    committed  at the root: units, and pods that are bound; what takes room on nodes now

koord-scheduler counts every pod as requested, also one that is held by a scheduling gate or fits no
node. Such a pod lifts its quota's share and presses its siblings', but uses nothing: it is claimed,
and otherwise in no sum.

`used` is compared with a quota's own max and min. `taken`, which is used without pending, is
compared with the max of an ancestor: pods that have no node must not block a whole branch. `asked`
and `limited` are the input of the division of runtimes, and are kept only in `runtime` mode. If
quotas keep part of their min (`QuotaSpec.kept`), `asked` is compared with the max of an ancestor,
and `limited` is asked, raised to what is kept, and never cut. A change walks up one chain, and ends
at a limit that absorbs it; sums over a whole tree are computed only when it is built.

A unit charged to a quota that is not in any tree (deleted, or its chain is broken) is charged to
the `orphans`: it takes room on nodes, and counts in no quota.

Source: koordinator, pkg/scheduler/plugins/elasticquota/core/group_quota_manager.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from queue_scheduler.quota.quota_settings import QuotaKind, QuotaMode, QuotaSettings
from queue_scheduler.quota.quota_spec import QuotaSpec
from queue_scheduler.quota.quota_tree import QuotaNode, QuotaTree
from queue_scheduler.quota_cache.tree_changes import TreeChanges
from shared_api.resource_list import Amounts

Items: TypeAlias = list[tuple[str, int]]
"""Positive amounts that count in a quota, as pairs: faster to walk than a dict."""

ORPHANS: Final = ""
"""Name of the NodeUsage for quotas that are in no tree."""

KEPT_BYTES: Final = 2_500
"""What sums may take beside `BYTES_PER_SUM` each: a dict does not shrink when keys are deleted from
it. One of 80 keys takes less, and clusters have fewer resources: their sums are never rebuilt."""

BYTES_PER_SUM: Final = 250
"""A dict that has just grown takes up to some 120 bytes per key, so one is rebuilt only when half
of its keys or more are gone."""


class NodeUsage:
    """The position of one quota in its tree, its limits, and its sums; only this module writes it.

    Position and limits do not change. Which sums are kept depends on the mode (see the module);
    `active` counts the children that ask for anything, by resource. Modules that compute something
    from these keep it themselves.
    """

    __slots__ = (
        "_ceiling", "_keys", "active", "asked", "chain", "children", "claim_changes", "claimed",
        "divides", "is_alone", "is_special", "limited", "limits", "name", "np_limits", "np_used",
        "own", "parent", "path", "pending", "reserve", "spec", "tree", "used",
    )  # fmt: skip

    def __init__(
        self,
        node: QuotaNode,
        parent: NodeUsage | None,
        tree: TreeUsage,
        *,
        divides: bool = True,
        counts_all: bool = False,
    ) -> None:
        settings = tree.settings
        self.name = node.name
        self.spec: QuotaSpec = node.spec
        self.parent = parent
        self.tree = tree
        self.is_special = node.is_special
        # Whether it shares no limit with any other quota.
        self.is_alone = False
        # Whether it takes part in the division of runtimes.
        self.divides = divides
        self.children: list[NodeUsage] = []
        self.chain: tuple[NodeUsage, ...] = (
            () if parent is None else (self, *parent.chain) if parent.parent else (self,)
        )
        # The names of the chain.
        self.path = tuple(each.name for each in self.chain)
        # In `max` mode every level checks the resources that its own max names.
        self._keys: frozenset[str] | None = (
            None if counts_all or settings.mode is QuotaMode.MAX else frozenset(node.spec.max)
        )
        self.limits: Amounts = (
            {key: settings.oversold(amount) for key, amount in node.spec.max.items()}
            if settings.mode is QuotaMode.MAX
            else node.spec.max
        )
        # The limits of what may not be preempted: its min.
        self.np_limits: Amounts = (
            {key: settings.oversold(amount) for key, amount in node.spec.min.items()}
            if settings.mode is QuotaMode.MAX
            else node.spec.min
        )
        lends = node.spec.lends and not settings.guarantee_usage
        self.reserve: Mapping[str, int] = {} if lends else node.spec.min
        self._ceiling: Mapping[str, int] = node.spec.max
        if settings.kind is QuotaKind.TREE:
            self.reserve, self._ceiling = node.spec.kept, {}
        self.own: Amounts = defaultdict(int)
        self.used: Amounts = defaultdict(int)
        self.np_used: Amounts = defaultdict(int)
        self.pending: Amounts = defaultdict(int)
        self.asked: Amounts = defaultdict(int)
        self.limited: Amounts = defaultdict(int)
        self.active: Amounts = defaultdict(int)
        # Mostly empty: made when something is claimed.
        self.claimed: Amounts = {}
        # By watched resource: the children whose claim changed since `take_claim_changes`.
        self.claim_changes: dict[str, dict[str, NodeUsage]] = {}

    def fork(self, parent: NodeUsage | None, tree: TreeUsage) -> NodeUsage:
        """Return a copy with its own sums; what depends only on the quotas is shared.

        `TreeUsage.fork` adds its children. No claims are watched: divisions are not copied.

        Args:
            parent: The copy of its parent.
            tree: The copy of its tree.
        """
        # Written out: the engine's lock is held while all quotas are copied.
        twin: NodeUsage = NodeUsage.__new__(NodeUsage)
        twin.name, twin.spec, twin.parent, twin.tree = self.name, self.spec, parent, tree
        twin.is_special, twin.is_alone = self.is_special, self.is_alone
        twin.divides, twin.path, twin._keys = self.divides, self.path, self._keys
        twin.children = []
        twin.chain = () if parent is None else (twin, *parent.chain)
        twin.limits, twin.np_limits = self.limits, self.np_limits
        twin.reserve, twin._ceiling = self.reserve, self._ceiling
        # A new dict is made faster than an empty one is copied.
        twin.own = self.own.copy() if self.own else defaultdict(int)
        twin.used = self.used.copy() if self.used else defaultdict(int)
        twin.np_used = self.np_used.copy() if self.np_used else defaultdict(int)
        twin.pending = self.pending.copy() if self.pending else defaultdict(int)
        twin.asked = self.asked.copy() if self.asked else defaultdict(int)
        twin.limited = self.limited.copy() if self.limited else defaultdict(int)
        twin.active = self.active.copy() if self.active else defaultdict(int)
        twin.claimed = self.claimed.copy() if self.claimed else {}
        twin.claim_changes = {}
        return twin

    @property
    def counted_keys(self) -> frozenset[str] | None:
        """The resources that count in this quota; None: all."""
        return self._keys

    def counts(self, key: str) -> bool:
        """Return whether amounts of a resource count in this quota."""
        return self._keys is None or key in self._keys

    def counted(self, amounts: Mapping[str, int]) -> Items:
        """Return the positive amounts that count in this quota."""
        keys = self._keys
        if keys is None:
            return [item for item in amounts.items() if item[1] > 0]
        return [item for item in amounts.items() if item[1] > 0 and item[0] in keys]

    def taken(self, key: str) -> int:
        """Return what units and bound pods take in the quota and below it."""
        used = self.used.get(key, 0)
        return used - self.pending[key] if key in self.pending else used

    def limited_at(self, key: str, asked: int) -> int:
        """Return `limited` for this `asked`: at least the reserve, at most the ceiling."""
        reserved = self.reserve.get(key)
        if reserved is not None and reserved > asked:
            asked = reserved
        limit = self._ceiling.get(key)
        return asked if limit is None or asked < limit else limit

    def watch_claims(self, key: str) -> Mapping[str, NodeUsage]:
        """Return a mapping that from now on collects the children whose claim changes.

        There is one watcher per resource: `take_claim_changes` empties the mapping.
        """
        return self.claim_changes.setdefault(key, {})

    def take_claim_changes(self, key: str) -> list[NodeUsage]:
        """Return the children whose claim changed since `watch_claims` or the last call."""
        changes = self.claim_changes[key]
        children = list(changes.values())
        changes.clear()
        return children

    def sums(self) -> dict[str, Amounts]:
        """Return all sums by name, without zeros."""
        return {
            "used": without_zeros(self.used),
            "np_used": without_zeros(self.np_used),
            "own": without_zeros(self.own),
            "pending": without_zeros(self.pending),
            "asked": without_zeros(self.asked),
            "limited": without_zeros(self.limited),
            "active": without_zeros(self.active),
            "claimed": without_zeros(self.claimed),
        }


class TreeUsage:
    """The sums of one tree.

    `total` is what its nodes have; None if unknown. `keeps_mins`: some quota keeps part of its min
    from its siblings. `claimants` are the quotas in which something is claimed. `ignored_specials`
    are the default and the system quota, if they take no part in the division.
    """

    __slots__ = (
        "changes", "claimants", "committed", "divides", "keeps_mins", "nodes", "orphans",
        "remaining", "root", "settings", "special", "total", "tree",
    )  # fmt: skip

    def __init__(
        self, tree: QuotaTree, settings: QuotaSettings, ignored_specials: Iterable[QuotaSpec] = ()
    ) -> None:
        self.settings = settings
        self.tree = tree
        self.total: Amounts | None = None
        self.root = NodeUsage(tree.root, None, self)
        self.nodes: dict[str, NodeUsage] = {}
        self.special: dict[str, NodeUsage] = {}
        self.orphans = self._beside(QuotaSpec(name=ORPHANS), counts_all=True)
        self.claimants: dict[NodeUsage, None] = {}
        self.committed: Amounts = defaultdict(int)
        self.remaining: Amounts = defaultdict(int)
        self.changes = TreeChanges()
        self.divides = settings.mode is QuotaMode.RUNTIME
        for spec in ignored_specials:
            self.special[spec.name] = self.nodes[spec.name] = self._beside(spec)
        for quota_node in tree.top_down():
            self._add(quota_node)
        self.keeps_mins = any(node.spec.kept for node in self.nodes.values())
        if self.divides or self.keeps_mins:
            # A reserve counts as requested even while nothing is charged.
            for node in reversed([self.root, *self.nodes.values()]):
                for key in node.reserve:
                    ask_for(node, key, 0)
        if not self.divides:
            for node in self.nodes.values():
                node.is_alone = len(node.chain) == 1 and not node.children

    def _beside(self, spec: QuotaSpec, *, counts_all: bool = False) -> NodeUsage:
        """Return the sums of a quota that takes no part in the division."""
        node = QuotaNode(spec, self.tree.root, self.tree.tree_id)
        return NodeUsage(node, self.root, self, divides=False, counts_all=counts_all)

    def _add(self, quota_node: QuotaNode) -> None:
        assert quota_node.parent is not None
        parent = self.nodes.get(quota_node.parent.name, self.root)
        node = NodeUsage(quota_node, parent, self)
        parent.children.append(node)
        self.nodes[quota_node.name] = node
        if quota_node.is_special:
            self.special[quota_node.name] = node

    def fork(self) -> TreeUsage:
        """Return an independent tree with the same sums and the same changes."""
        twin: TreeUsage = TreeUsage.__new__(TreeUsage)
        twin.settings, twin.tree, twin.divides = self.settings, self.tree, self.divides
        twin.keeps_mins, twin.total = self.keeps_mins, self.total
        twin.root = self.root.fork(None, twin)
        twin.orphans = self.orphans.fork(twin.root, twin)
        nodes = twin.nodes = {}
        for name, node in self.nodes.items():  # parents stand before their children
            assert node.parent is not None
            parent = nodes.get(node.parent.name, twin.root)
            copy = nodes[name] = node.fork(parent, twin)
            if copy.divides:
                parent.children.append(copy)
        twin.special = {name: nodes[name] for name in self.special}
        twin.claimants = {nodes[node.name]: None for node in self.claimants}
        twin.committed, twin.remaining = self.committed.copy(), self.remaining.copy()
        twin.changes = self.changes.fork()
        return twin

    def twin_of(self, node: NodeUsage) -> NodeUsage:
        """Return the quota, or the root, of this fork that `node` is in another one."""
        return self.root if node.parent is None else self.nodes[node.name]

    def put_total(self, total: Amounts) -> None:
        """Take what the nodes have, before anything is charged."""
        self.total = total
        self.remaining = defaultdict(int, total)

    def left(self, key: str) -> int:
        """Return what is divided among the quotas: the total less what special quotas will use.

        koord-scheduler subtracts what their pods use. Pending ones that can be bound will use it;
        the others are `claimed` only.
        """
        return self.remaining.get(key, 0)

    def charge(self, node: NodeUsage, items: Items, *, frees: bool, commits: bool) -> None:
        """Charge amounts to a quota; if it `frees`, they are negative."""
        forgets = frees and node.counted_keys is None
        for each in node.chain:
            used = each.used
            if forgets:
                add_up(used, items)
            else:
                for key, amount in items:
                    used[key] += amount
        if frees:
            self.changes.note_room(node.path, in_root=self.divides)
        if not commits:
            for each in node.chain:
                add_up(each.pending, items)
        if self.divides:
            self._charge_division(node, items, commits=commits)
        elif self.keeps_mins:
            _ask_for_all(node, items)
        if forgets and (self.divides or self.keeps_mins):
            self._forget_zeros(node, items)

    def _forget_zeros(self, node: NodeUsage, items: Items) -> None:
        """Drop what has reached zero, where resources count that no quota names."""
        if self.divides:
            for sums in (node.own, self.root.used, self.committed):
                _drop_zeros(sums, items)
            return
        for each in (*node.chain, self.root):
            for sums in (each.asked, each.limited, each.active):
                _drop_zeros(sums, items)

    def charge_claim(self, node: NodeUsage, items: Items) -> None:
        """Add what pods claim that cannot be bound now; negative amounts take it back.

        Only the division of runtimes counts it: nothing is done in other modes.
        """
        if not (self.divides and node.divides):
            return
        self._note_division(node, items)
        self.simulate_claim(node, items)
        if any(node.claimed.values()):
            self.claimants[node] = None
        else:
            node.claimed = {}
            self.claimants.pop(node, None)

    def simulate_claim(self, node: NodeUsage, items: Items) -> None:
        """Change what is claimed in a quota without noting it; the caller takes it back."""
        claimed = node.claimed
        for key, amount in items:
            claimed[key] = claimed.get(key, 0) + amount
        self._ask_in_division(node, items)

    def _charge_division(self, node: NodeUsage, items: Items, *, commits: bool) -> None:
        self._note_division(node, items)
        self._add_to_division(node, items, commits=commits)

    def _note_division(self, node: NodeUsage, items: Items) -> None:
        keys = [key for key, _ in items]
        if node.counted_keys is None:
            # No other resource is divided, and without waiters nobody settles the changes.
            keys = [key for key in keys if key in self.tree.root.governed_keys]
        if node.children:
            # A parent with pods of its own must have a runtime for them, on all resources.
            keys += self.tree.root.governed_keys
        elif node.reserve:
            keys += node.reserve
        self.changes.note_division(node.path, keys)

    def _ask_in_division(self, node: NodeUsage, items: Items) -> None:
        own = node.own
        for key, amount in items:
            own[key] += amount
            ask_for(node, key, amount)
        if node.reserve and not node.children:
            # Whether it has any demand matters on all its resources: a quota that does not lend is
            # then no longer unseeded (`koord_scheduler_state`).
            assert node.parent is not None
            for changes in node.parent.claim_changes.values():
                changes[node.name] = node

    def _add_to_division(self, node: NodeUsage, items: Items, *, commits: bool) -> None:
        self._ask_in_division(node, items)
        if node.is_special:
            for key, amount in items:
                self.remaining[key] -= amount
        else:
            root_used = self.root.used
            committed = self.committed
            for key, amount in items:
                root_used[key] += amount
                if commits:
                    committed[key] += amount

    def simulate(self, node: NodeUsage, items: Items) -> None:
        """Add a hypothetical charge; amounts may be negative.

        No change is noted. The caller must take it back before anything else is asked.
        """
        forgets = node.counted_keys is None
        for each in node.chain:
            used = each.used
            if forgets:
                add_up(used, items)
            else:
                for key, amount in items:
                    used[key] += amount
        if self.divides:
            self._add_to_division(node, items, commits=True)
        elif self.keeps_mins:
            _ask_for_all(node, items)
        if forgets and (self.divides or self.keeps_mins):
            self._forget_zeros(node, items)

    def charge_non_preemptible(self, node: NodeUsage, items: Items) -> None:
        """The same for the non-preemptible part, which is limited by min as well."""
        for each in node.chain:
            add_up(each.np_used, items)

    def validate(self, fresh: TreeUsage) -> None:
        """Compare all sums with those of a tree that was just built from the same facts."""
        for field, mine, theirs in (
            ("committed", self.committed, fresh.committed),
            ("remaining", self.remaining, fresh.remaining),
        ):
            got, want = without_zeros(mine), without_zeros(theirs)
            assert got == want, f"tree {self.tree.tree_id!r}: {field} is {got}, should be {want}"
        got_names, want_names = _names(self.claimants), _names(fresh.claimants)
        assert got_names == want_names, f"claimants are {got_names}, should be {want_names}"
        for name, node in [("", self.root), *self.nodes.items()]:
            other = fresh.nodes[name] if name else fresh.root
            wanted = other.sums()
            for field, got in node.sums().items():
                want = wanted[field]
                assert got == want, f"quota {name!r}: {field} is {got}, should be {want}"


def ask_for(node: NodeUsage, key: str, delta: int) -> None:
    """Change what a quota asks for, and in turn what its ancestors ask for."""
    if not node.divides:
        return
    while True:
        parent = node.parent
        asked = node.asked[key] + delta
        node.asked[key] = asked
        if parent is None:
            return
        old = node.limited[key]
        new = node.limited_at(key, asked)
        if new == old:
            return
        node.limited[key] = new
        changes = parent.claim_changes.get(key)
        if changes is not None:
            changes[node.name] = node
        if not old:
            parent.active[key] += 1
        elif not new:
            parent.active[key] -= 1
        delta = new - old
        node = parent


def _ask_for_all(node: NodeUsage, items: Items) -> None:
    for key, amount in items:
        ask_for(node, key, amount)


def taken_by(via: NodeUsage, node: NodeUsage, key: str) -> int:
    """Return what is taken at `node`, as a demand that is charged to `via` below it sees it.

    What quotas keep for themselves counts as taken, except on the chain of `via`: there it is
    kept for this demand.
    """
    if not via.tree.keeps_mins:
        return node.taken(key)
    taken = kept = 0
    for each in via.chain:
        taken = each.asked.get(key, 0) - kept
        if each is node:
            break
        kept = each.limited.get(key, 0) - taken
    return taken


def has_demand(node: NodeUsage) -> bool:
    """Return whether anything is charged to the quota itself, or claimed in it."""
    return any(node.own.values())


def has_promises(node: NodeUsage) -> bool:
    """Return whether anything is charged to the quota itself, beside what is only claimed."""
    claimed = node.claimed
    return any(amount != claimed.get(key, 0) for key, amount in node.own.items())


def governs(node: NodeUsage, key: str) -> bool:
    """Return whether the quota's runtime of this resource is divided among its children."""
    return node.parent is None or key in node.spec.max


def add_up(sums: Amounts, items: Iterable[tuple[str, int]]) -> None:
    """Add amounts to sums, and drop each sum that reaches zero.

    A pod may name thousands of resources that no node has: were its zeros kept, a user could fill
    the memory by pods that live for a moment.
    """
    are_dropped = False
    for key, amount in items:
        total = sums[key] + amount
        if total:
            sums[key] = total
        else:
            del sums[key]
            are_dropped = True
    if are_dropped:
        _shrink(sums)


def _drop_zeros(sums: Amounts, items: Items) -> None:
    zeros = [key for key, _ in items if not sums.get(key, 1)]
    for key in zeros:
        del sums[key]
    if zeros:
        _shrink(sums)


def _shrink(sums: Amounts) -> None:
    """Give back the memory of sums of which most are dropped. They stay the same object."""
    if sums.__sizeof__() > KEPT_BYTES + BYTES_PER_SUM * len(sums):
        kept = dict(sums)
        sums.clear()
        sums.update(kept)


def _names(nodes: Iterable[NodeUsage]) -> list[str]:
    return sorted(node.name for node in nodes)


def without_zeros(amounts: Mapping[str, int]) -> Amounts:
    """Return the amounts that are not zero: where max says what counts, zeros may be kept."""
    return {key: amount for key, amount in amounts.items() if amount}
