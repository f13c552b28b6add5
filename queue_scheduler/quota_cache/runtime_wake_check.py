"""Which refusals by runtimes may no longer hold after a change, found without asking again.

The walk (`runtime_check`) divides level by level, each with what the one above grants. So what it
finds below a quota s depends on what is charged below s, on what s gets with the demand J and
without it, and on what the next quota on J's way down asks for. A change elsewhere can only matter
through what s gets. That is why a refusal has `RuntimeBasis`: s, and what it got.

After a change most quotas get the same as before, though rounding shifts single units at every
level. So only waiters whose scope contains the change are considered; the scope begins at the
highest level that is not plain, since a plain level passes no change on. Of these, a waiter is in
doubt if something was charged below its subject (or asker), or if its subject gets another amount.
The second question is asked once for all waiters with an equal basis.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from queue_scheduler.decision import RuntimeBasis
from queue_scheduler.quota_cache.chain_levels import would_ask
from queue_scheduler.quota_cache.level_division import Grants, Memory
from queue_scheduler.quota_cache.runtime_check import RuntimeCheck
from queue_scheduler.quota_cache.runtime_wake_index import Groups, Scopes
from queue_scheduler.quota_cache.tree_usage import NodeUsage, TreeUsage


def find_waiters_to_recheck(
    tree: TreeUsage, walk: RuntimeCheck, key: str, scopes: Scopes
) -> list[Hashable]:
    """Return the waiters for a runtime that what was charged since the last `settle` may enable.

    `scopes` are the waiters for this resource; there is at least one.
    """
    to_recheck: list[Hashable] = []
    most = max(scope.most for scope in scopes.values())
    is_root_plain = walk.plain.is_root_plain(key, most)
    for name, scope in scopes.items():
        node = tree.nodes.get(name)
        if node is not None and _is_quiet(node, walk, key, scope.most, is_root_plain=is_root_plain):
            continue
        for (parent, memory), groups in scope.families.items():
            charged = _find_charged(tree, groups)
            now = tree.changes.clock
            untouched = [
                basis
                for basis, seen in groups.items()
                if basis and _may_fall(seen.values(), charged.get(basis), now)
            ]
            if untouched:
                siblings = _Siblings(tree, walk, parent, key, memory, is_root_plain=is_root_plain)
                charged.update((basis, now) for basis in siblings.fallen(untouched))
            for changed, charged_at in charged.items():
                seen = groups[changed].items()
                to_recheck += [waiter for waiter, seen_at in seen if seen_at < charged_at]
    return to_recheck


def _is_quiet(
    scope: NodeUsage, walk: RuntimeCheck, key: str, most: int, *, is_root_plain: bool
) -> bool:
    """Return whether nothing was charged below a scope, and no change reaches it from above."""
    changes = scope.tree.changes
    if changes.charged_at(scope.name) > changes.settled_at:
        return False
    top = scope.chain[-1]
    if is_root_plain and (top is scope or changes.charged_at(top.name) <= changes.settled_at):
        return True
    return walk.plain.is_plain_above(scope, key, most)


def _find_charged(tree: TreeUsage, groups: Groups) -> dict[RuntimeBasis | None, int]:
    """Return the bases below whose quotas something was charged, and when."""
    changes = tree.changes
    charged: dict[RuntimeBasis | None, int] = {}
    for basis in groups:
        if basis is None:
            charged[None] = changes.clock
            continue
        charged_at = changes.charged_at(basis.asker)
        if basis.subject != basis.asker:
            charged_at = max(charged_at, changes.charged_at(basis.subject))
        if charged_at > changes.settled_at:
            charged[basis] = charged_at
    return charged


def _may_fall(seen: Iterable[int], charged_at: int | None, now: int) -> bool:
    """Return whether a waiter has seen all that was charged below its quotas, and not all else.

    Mostly nothing was charged there since the last `settle` (None). But a waiter may also have
    begun to wait after that charge, and before another one elsewhere, which changes what its
    subject gets.
    """
    if charged_at is None:
        return True
    return charged_at < now and any(seen_at >= charged_at for seen_at in seen)


class _Siblings:
    """The children of one quota, one of which asks for more."""

    def __init__(
        self,
        tree: TreeUsage,
        walk: RuntimeCheck,
        parent: str,
        key: str,
        memory: Memory,
        *,
        is_root_plain: bool,
    ) -> None:
        self._tree = tree
        self._walk = walk
        self._key = key
        self._memory = memory
        self._parent = tree.nodes.get(parent, tree.root)
        # If it is, the parent gets what it asks for.
        self._is_plain_above = is_root_plain and len(self._parent.chain) == 1
        # What the children get without a demand.
        self._before: Grants | None = None
        # By how much more the parent is asked for with a demand: what it then has.
        self._totals: dict[int, int | None] = {}

    def fallen(self, bases: Iterable[RuntimeBasis]) -> Iterator[RuntimeBasis]:
        """Return the bases that no longer stand, by what the subject gets now.

        They are about these children, and a waiter has seen all that was charged below these.
        """
        for basis in bases:
            asker = self._tree.nodes[basis.asker]
            stands = self._is_same if basis.needs is None else self._is_short
            if not stands(basis, asker):
                yield basis

    def _is_same(self, basis: RuntimeBasis, asker: NodeUsage) -> bool:
        """Return whether the subject gets the same amounts, with and without the demand."""
        if self._got(basis, asker) != basis.had:
            return False
        return self._gets(asker, basis.more, basis.subject) == basis.has

    def _is_short(self, basis: RuntimeBasis, asker: NodeUsage) -> bool:
        """Return whether the subject gets less than it needs, because of the demand."""
        needs = basis.needs or 0
        if self._gets(asker, basis.more, basis.subject) >= needs:
            return False
        return basis.subject == basis.asker or needs <= self._got(basis, asker)

    def _got(self, basis: RuntimeBasis, asker: NodeUsage) -> int:
        """Return what the subject gets without the demand."""
        if basis.relief:
            return self._gets(asker, -basis.relief, basis.subject)
        if self._before is None:
            self._find_total(0)
        assert self._before is not None
        return self._before.get(basis.subject, 0)

    def _gets(self, asker: NodeUsage, more: int, subject: str) -> int:
        """Return what one of the children gets if the asker is asked for this much more."""
        key, totals = self._key, self._totals
        request = would_ask(asker, key, more)
        more = request - asker.limited.get(key, 0)
        if more not in totals:
            totals[more] = self._find_total(more)
        parent, total, memory = self._parent, totals[more], self._memory
        division = self._walk.division
        if subject == asker.name:
            return division.grant(parent, key, total, memory, asker, request)
        return division.divide(parent, key, total, memory, asker, request).get(subject, 0)

    def _find_total(self, more: int) -> int | None:
        """Return what the parent has with a demand that raises its request by this.

        What its children get without one is the same for all demands, and noted on the way.
        """
        parent, key, memory = self._parent, self._key, self._memory
        before: int | None = self._tree.left(key)
        after = before
        if self._is_plain_above:
            before, after = parent.limited.get(key, 0), would_ask(parent, key, more)
        elif parent.parent is not None:
            levels = self._walk.levels
            level = levels.level(parent, would_ask(parent, key, more), key, memory)
            before, after = levels.offered(level, parent, key, memory)
        if self._before is None:
            self._before = self._walk.division.divide(parent, key, before, memory)
        return after
