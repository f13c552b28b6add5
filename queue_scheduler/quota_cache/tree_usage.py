"""What is charged to every quota of a tree, and the sums that follow, kept up to date.

The life of an amount: it is charged to one quota (`own`), and from there

    used       counts in the quota and in every ancestor, unlimited;
    pending    the part of it that is foreign pods without a node
    asked      own + what the children ask for after their limits   (koord-scheduler's childRequest)
    limited    asked, raised to min where the quota does not lend, and cut at max
    committed  at the root: units, and pods that are bound; what takes room on nodes now

`used` is what a quota's own max and min are compared with; `taken`, without what is pending, what
an ancestor's max is: pods that nobody lets in must not block a whole branch. `asked` and `limited`
are what the division of runtimes is fed with, and are kept in `runtime` mode only. Where quotas
keep part of their min (`QuotaSpec.kept`), `asked` is what an ancestor's max is compared with, and
`limited` is asked, raised to what is kept, and never cut. A change walks up one chain, and stops
where a limit swallows it: nothing is ever summed over a tree but when it is built.

A unit charged to a quota that is not in any tree (deleted, or its chain is broken) is charged to
the `orphans`: it holds room on nodes, and no quota.

Source: koordinator, pkg/scheduler/plugins/elasticquota/core/group_quota_manager.go.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, TypeAlias

from queue_scheduler.quota.quota_settings import QuotaKind, QuotaMode, QuotaSettings
from queue_scheduler.quota.quota_spec import QuotaSpec
from queue_scheduler.quota.quota_tree import QuotaNode, QuotaTree
from queue_scheduler.quota.water_filling import ShareGroup, WaterFilling
from shared_api.resource_list import Amounts
from shared_api.well_known_labels import ROOT_QUOTA

Items: TypeAlias = list[tuple[str, int]]
"""Positive amounts that count in a quota, as pairs: faster to walk than a dict."""

LARGEST_EXACT: Final = 2**50
"""Beyond this a float64 expression of koord-scheduler may be off by a unit."""

SUMS: Final = (
    "used", "np_used", "own", "pending", "asked", "limited", "active", "entitled", "protected",
)  # fmt: skip
"""What is kept up to date, and compared with new books in `validate`."""

ORPHANS: Final = ""
"""Name of what stands for quotas that are in no tree."""


PoolQuestion: TypeAlias = tuple[int | None, bool, bool]
"""The total that mins are scaled to (None: they are not), and who is unseeded and unrefreshed."""


class Divided:
    """What `level_division` knows of one resource among the children of one quota.

    `changed` are the children that ask for another amount since.
    """

    __slots__ = ("changed", "grants", "pools")

    def __init__(self) -> None:
        self.changed: dict[str, NodeUsage] = {}
        self.grants: dict[Hashable, dict[str, int] | WaterFilling] = {}
        self.pools: dict[PoolQuestion, ShareGroup | None] = {}


class NodeUsage:
    """The sums of one quota. Which fields are kept depends on the mode (see the module)."""

    __slots__ = (
        "active", "asked", "ceiling", "chain", "changed_at", "children", "divided", "divides",
        "entitled", "governed_keys", "idle", "is_alone", "is_special", "keys", "limited", "limits",
        "min_sums", "name", "np_limits", "np_used", "odd_keys", "own", "parent", "pending",
        "protected", "reserve", "spec", "tree", "used", "watchers", "weak",
    )  # fmt: skip

    def __init__(self, node: QuotaNode, parent: NodeUsage | None, tree: TreeUsage) -> None:
        settings = tree.settings
        self.name = node.name
        self.spec: QuotaSpec = node.spec
        self.parent = parent
        self.tree = tree
        self.is_special = node.is_special
        # Whether it shares no limit with any other quota.
        self.is_alone = False
        self.divides = True
        self.governed_keys = node.governed_keys
        self.children: list[NodeUsage] = []
        self.chain: tuple[NodeUsage, ...] = (
            () if parent is None else (self, *parent.chain) if parent.parent else (self,)
        )
        # In `max` mode every level judges the resources that it names itself.
        self.keys: frozenset[str] | None = (
            None if settings.mode is QuotaMode.MAX else frozenset(node.spec.max)
        )
        self.limits: Amounts = (
            {key: settings.oversold(amount) for key, amount in node.spec.max.items()}
            if settings.mode is QuotaMode.MAX
            else node.spec.max
        )
        # Of what may not be preempted: min is the limit, too.
        self.np_limits: Amounts = (
            {key: settings.oversold(amount) for key, amount in node.spec.min.items()}
            if settings.mode is QuotaMode.MAX
            else node.spec.min
        )
        lends = node.spec.lends and not settings.guarantee_usage
        self.reserve: Mapping[str, int] = {} if lends else node.spec.min
        self.ceiling: Mapping[str, int] = node.spec.max
        if settings.kind is QuotaKind.TREE:
            self.reserve, self.ceiling = node.spec.kept, {}
        self.own: Amounts = defaultdict(int)
        self.used: Amounts = defaultdict(int)
        self.np_used: Amounts = defaultdict(int)
        self.pending: Amounts = defaultdict(int)
        self.asked: Amounts = defaultdict(int)
        self.limited: Amounts = defaultdict(int)
        # What is asked for, and seen by the parent, while nothing is charged to anybody.
        self.idle: tuple[Amounts, Amounts] = ({}, {})
        self.active: Amounts = defaultdict(int)
        self.divided: dict[str, Divided] = {}
        self.changed_at = 0
        self.min_sums: Amounts = {}
        self.weak: dict[str, list[NodeUsage]] = {}
        self.odd_keys: set[str] = set()
        self.entitled: Amounts = {}
        self.protected: Amounts = {}
        self.watchers = 0

    def fork(self, parent: NodeUsage | None, tree: TreeUsage) -> NodeUsage:
        """Return a copy with sums of its own; what follows from the quotas alone is shared.

        `TreeUsage.fork` adds what refers to other quotas. Divisions are left out, since they refer
        to the quotas that they were made for; the copy makes its own when they are asked for.

        Args:
            parent: The copy of its parent.
            tree: The copy of its tree.
        """
        # Written out: the engine's lock is held while all quotas are copied.
        twin = NodeUsage.__new__(NodeUsage)
        twin.name, twin.spec, twin.parent, twin.tree = self.name, self.spec, parent, tree
        twin.is_special, twin.is_alone = self.is_special, self.is_alone
        twin.divides, twin.governed_keys, twin.keys = self.divides, self.governed_keys, self.keys
        twin.children = []
        twin.chain = () if parent is None else (twin, *parent.chain)
        twin.limits, twin.np_limits = self.limits, self.np_limits
        twin.reserve, twin.ceiling, twin.idle = self.reserve, self.ceiling, self.idle
        twin.own, twin.used, twin.np_used = self.own.copy(), self.used.copy(), self.np_used.copy()
        twin.pending, twin.asked = self.pending.copy(), self.asked.copy()
        twin.limited, twin.active = self.limited.copy(), self.active.copy()
        twin.divided = {}
        twin.changed_at, twin.watchers = self.changed_at, self.watchers
        twin.min_sums, twin.odd_keys = self.min_sums, self.odd_keys
        twin.weak = {}
        twin.entitled = self.entitled  # replaced, never changed
        twin.protected = self.protected.copy()
        return twin

    def counted(self, amounts: Mapping[str, int]) -> Items:
        """Return the positive amounts that count in this quota."""
        keys = self.keys
        if keys is None:
            return [item for item in amounts.items() if item[1] > 0]
        return [item for item in amounts.items() if item[1] > 0 and item[0] in keys]

    def taken(self, key: str) -> int:
        """Return what units and bound pods take in the quota and below it."""
        used = self.used.get(key, 0)
        return used - self.pending[key] if key in self.pending else used

    def limited_at(self, key: str, asked: int) -> int:
        """Return what the parent sees of an amount that is asked for here."""
        reserved = self.reserve.get(key)
        if reserved is not None and reserved > asked:
            asked = reserved
        limit = self.ceiling.get(key)
        return asked if limit is None or asked < limit else limit


class TreeUsage:
    """The sums of one tree. `total` is what its nodes have; None: nobody knows.

    `keeps_mins`: some quota keeps part of its min from its siblings.

    `ignored_specials` are default and system quota where they take no part in the division.
    """

    __slots__ = (
        "changed_keys", "clock", "committed", "divides", "is_entitled_anew", "is_room_freed",
        "keeps_mins", "nodes", "orphans",
        "protected_count", "remaining", "root", "settings", "settled_at", "special", "total",
        "touched", "tree",
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
        self.orphans = self._beside(QuotaSpec(name=ORPHANS))
        self.orphans.keys = None
        self.committed: Amounts = defaultdict(int)
        self.remaining: Amounts = defaultdict(int)
        self.clock = 0
        self.settled_at = 0
        self.divides = settings.mode is QuotaMode.RUNTIME
        self.protected_count = 0
        # What happened since `settle` was called last: who may have more room now.
        self.touched: dict[str, NodeUsage] = {}
        self.changed_keys: dict[str, None] = {}
        self.is_room_freed = False
        self.is_entitled_anew = False
        for spec in ignored_specials:
            self.special[spec.name] = self.nodes[spec.name] = self._beside(spec)
        for node in tree.top_down():
            self._add(node)
        if self.divides:
            for books in reversed([self.root, *self.nodes.values()]):
                _prepare_division(books)
        else:
            for books in self.nodes.values():
                books.is_alone = len(books.chain) == 1 and not books.children
        self.keeps_mins = any(books.spec.kept for books in self.nodes.values())
        if self.keeps_mins:
            self._keep_mins()

    def _keep_mins(self) -> None:
        for books in reversed(self.nodes.values()):
            for key in books.reserve:
                ask_for(books, key, 0)
        for books in self.nodes.values():
            books.idle = (dict(books.asked), dict(books.limited))

    def _beside(self, spec: QuotaSpec) -> NodeUsage:
        """Return books that take no part in the division."""
        books = NodeUsage(QuotaNode(spec, self.tree.root, self.tree.tree_id), self.root, self)
        books.divides = False
        return books

    def _add(self, node: QuotaNode) -> None:
        assert node.parent is not None
        parent = self.nodes.get(node.parent.name, self.root)
        books = NodeUsage(node, parent, self)
        parent.children.append(books)
        self.nodes[node.name] = books
        if node.is_special:
            self.special[node.name] = books

    def fork(self) -> TreeUsage:
        """Return an independent tree with the same sums, at the same reading of its clock."""
        twin = TreeUsage.__new__(TreeUsage)
        twin.settings, twin.tree, twin.divides = self.settings, self.tree, self.divides
        twin.keeps_mins, twin.total = self.keeps_mins, self.total
        twin.root = self.root.fork(None, twin)
        twin.orphans = self.orphans.fork(twin.root, twin)
        nodes = twin.nodes = {}
        for name, books in self.nodes.items():  # parents stand before their children
            assert books.parent is not None
            parent = nodes.get(books.parent.name, twin.root)
            node = nodes[name] = books.fork(parent, twin)
            if node.divides:
                parent.children.append(node)
        for books in (self.root, *self.nodes.values()):
            if books.weak:
                nodes.get(books.name, twin.root).weak = {
                    key: [nodes[child.name] for child in weak] for key, weak in books.weak.items()
                }
        twin.special = {name: twin.nodes[name] for name in self.special}
        twin.committed, twin.remaining = self.committed.copy(), self.remaining.copy()
        twin.clock, twin.settled_at = self.clock, self.settled_at
        twin.protected_count = self.protected_count
        twin.touched = {name: nodes.get(name, twin.root) for name in self.touched}
        twin.changed_keys = dict(self.changed_keys)
        twin.is_room_freed, twin.is_entitled_anew = self.is_room_freed, self.is_entitled_anew
        return twin

    def put_total(self, total: Amounts) -> None:
        """Take what the nodes have, before anything is charged."""
        self.total = total
        self.remaining = defaultdict(int, total)

    def left(self, key: str) -> int:
        """Return what is divided among the quotas: the total without the special quotas' demand.

        koord-scheduler takes off what their pods use; what is demanded will be used.
        """
        return self.remaining.get(key, 0)

    def start(self) -> None:
        """Take what is charged so far as the beginning: nobody has been refused yet."""
        self.clock = 0
        self.settle()
        for books in self.nodes.values():
            books.changed_at = 0

    def settle(self) -> None:
        """Forget what happened: whoever it may concern has been looked at."""
        self.settled_at = self.clock
        self.touched.clear()
        self.changed_keys.clear()
        self.is_room_freed = False
        self.is_entitled_anew = False

    def charge(self, books: NodeUsage, items: Items, *, frees: bool, commits: bool) -> None:
        """Add to an own amount of a quota; where it `frees`, the amounts are negative."""
        for node in books.chain:
            used = node.used
            for key, amount in items:
                used[key] += amount
            if frees and node.watchers:
                self.touched[node.name] = node
        if frees:
            self.is_room_freed = True
        if not commits:
            for node in books.chain:
                for key, amount in items:
                    node.pending[key] += amount
        if self.divides:
            self._charge_division(books, items, frees=frees, commits=commits)
        elif self.keeps_mins:
            _ask_for_all(books, items)

    def _charge_division(
        self, books: NodeUsage, items: Items, *, frees: bool, commits: bool
    ) -> None:
        self.clock += 1
        clock = self.clock
        for node in books.chain:
            node.changed_at = clock
        for key, _ in items:
            self.changed_keys[key] = None
        if books.children:
            # A parent with pods of its own must be covered for them, on all resources.
            self.changed_keys.update(dict.fromkeys(self.root.governed_keys))
        elif books.reserve:
            self.changed_keys.update(dict.fromkeys(books.reserve))
        self._add_to_division(books, items, commits=commits)
        if frees and self.root.watchers:
            self.touched[ROOT_QUOTA] = self.root

    def _add_to_division(self, books: NodeUsage, items: Items, *, commits: bool) -> None:
        own = books.own
        for key, amount in items:
            own[key] += amount
            ask_for(books, key, amount)
        if books.reserve and not books.children:
            # Whether it has demand at all matters on all its resources: one that does not lend is
            # unseeded no more (`koord_scheduler_state`).
            assert books.parent is not None
            books.parent.divided.clear()
        if books.is_special:
            for key, amount in items:
                self.remaining[key] -= amount
        else:
            root_used = self.root.used
            committed = self.committed
            for key, amount in items:
                root_used[key] += amount
                if commits:
                    committed[key] += amount

    def suppose(self, books: NodeUsage, items: Items) -> None:
        """Add to what units take, negative amounts as well, as if for good.

        Nobody is told of it: whoever does this takes it back before anybody else asks.
        """
        for node in books.chain:
            used = node.used
            for key, amount in items:
                used[key] += amount
        if self.divides:
            self._add_to_division(books, items, commits=True)
        elif self.keeps_mins:
            _ask_for_all(books, items)

    def charge_non_preemptible(self, books: NodeUsage, items: Items) -> None:
        """The same for the non-preemptible part, which is limited by min as well."""
        for node in books.chain:
            np_used = node.np_used
            for key, amount in items:
                np_used[key] += amount

    def validate(self, fresh: TreeUsage) -> None:
        """Compare all sums with those of books that were just built from the same facts."""
        for field in ("committed", "remaining"):
            got, want = (without_zeros(getattr(one, field)) for one in (self, fresh))
            assert got == want, f"tree {self.tree.tree_id!r}: {field} is {got}, should be {want}"
        for name, books in [("", self.root), *self.nodes.items()]:
            other = fresh.nodes[name] if name else fresh.root
            for field in SUMS:
                got, want = (without_zeros(getattr(one, field)) for one in (books, other))
                assert got == want, f"quota {name!r}: {field} is {got}, should be {want}"


def ask_for(books: NodeUsage, key: str, delta: int) -> None:
    """Change what a quota asks for, and what its ancestors do in turn."""
    if not books.divides:
        return
    node: NodeUsage = books
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
        divided = parent.divided.get(key)
        if divided is not None:
            divided.changed[node.name] = node
        if not old:
            parent.active[key] += 1
        elif not new:
            parent.active[key] -= 1
        delta = new - old
        node = parent


def _ask_for_all(books: NodeUsage, items: Items) -> None:
    for key, amount in items:
        ask_for(books, key, amount)


def taken_by(books: NodeUsage, node: NodeUsage, key: str) -> int:
    """Return what is taken at a quota of the chain of `books`, for who is charged to `books`.

    What quotas keep for themselves counts as taken, but not on his own way: it is kept for him.
    """
    if not books.tree.keeps_mins:
        return node.taken(key)
    taken = kept = 0
    for each in books.chain:
        taken = each.asked.get(key, 0) - kept
        if each is node:
            break
        kept = each.limited.get(key, 0) - taken
    return taken


def has_demand(books: NodeUsage) -> bool:
    """Return whether anything is charged to the quota itself."""
    return any(books.own.values())


def _prepare_division(books: NodeUsage) -> None:
    """Note what the division of this quota's runtime depends on, and its reserved demand."""
    for child in books.children:
        for key, minimum in child.spec.min.items():
            books.min_sums[key] = books.min_sums.get(key, 0) + minimum
            limit = child.spec.max.get(key)
            if child.reserve and limit is not None and minimum > limit:
                books.odd_keys.add(key)
    books.odd_keys.update(key for key, total in books.min_sums.items() if total >= LARGEST_EXACT)
    for key in books.governed_keys:
        weak = [
            child
            for child in books.children
            if not child.is_special and child.spec.weight.get(key, 0) <= 0
        ]
        if weak:
            books.weak[key] = weak
    for key in books.reserve:
        ask_for(books, key, 0)


def governs(books: NodeUsage, key: str) -> bool:
    """Return whether the quota's runtime of this resource is divided among its children."""
    return books.parent is None or key in books.spec.max


def without_zeros(amounts: Mapping[str, int]) -> Amounts:
    """Return the amounts that are not zero; sums keep zeros of what was taken back."""
    return {key: amount for key, amount in amounts.items() if amount}
