"""The promise of `runtime_contract`, answered from the books in a walk down one chain.

Dimensions never influence each other, so every resource is walked alone. A demand J in quota q
changes what the quotas of q's chain ask for, and nobody else. Walk from the root to q and ask at
each parent p, which has T to give, what its division does to its children.

**Plain.** If T covers what all children of p ask for (sum of `limited` <= T), every child gets
exactly that. For: a child that asks for no more than its floor gets it, or its floor if it does
not lend, which is not more than it asks for (min <= max). What is then left, S, is at least what
the hungry lack, G. Each round hands out all of S (largest remainder, W > 0), of which nobody keeps
more than he lacks; so S - G stays, and while somebody is hungry there is something to hand out.
And every round somebody is filled or nothing comes back. So all are filled.

It takes care where

  * a weight is 0 or less: such a child gets no more than its floor, so what it asks for must be
    within its (scaled) min;
  * default or system quota have a negative weight (overflow): they get nothing, and W must stay
    positive whoever of the others is hungry: every other weight is larger than they are negative;
  * shares are rounded half up: a round with n hungry may lose n/2 units, so T must exceed the sum
    by n(n+1)/4 (n(n+1) is asked for: float64 may be off by one); one hungry child loses nothing.
    Below the first level T is just the sum where everybody lends, so here a division is the rule;
  * float64 is no longer exact, or a quota that does not lend has min > max.

Where p is plain with J and without it, its other children get what they got, nothing below them
changes, and the walk goes on to the next quota of the chain with T = what that asks for. Plain is
plain in every state of the scheduler's memory: it does not depend on floors.

**Else** p is divided with J, in every possible state of memory. A leaf that is covered then is not
hurt, whatever it had. Where another child's amount matters p is divided without J as well; if the
amount changed, that child's whole subtree is compared, quota by quota. That is exact, and slower.
"""

from __future__ import annotations

import msgspec

from queue_scheduler.quota.node_division import Grants, Memory, NodeDivision, may_be_unseeded
from queue_scheduler.quota.quota_decision import QuotaRefusal, RefusalReason
from queue_scheduler.quota.quota_settings import Rounding
from queue_scheduler.quota.tree_books import (
    LARGEST_EXACT,
    Items,
    NodeBooks,
    TreeBooks,
    governs,
    has_demand,
)
from shared_api.resource_list import Amounts


class Level:
    """One parent on the way from the root to q, with and without J.

    `total_*` is what it has; None: the level above does not divide this resource. `limited_after`
    is what its child on the way asks for with J. `granted_after` is what its children get with J;
    a plain level grants what is asked for, and has None.
    """

    __slots__ = (
        "child", "granted_after", "is_plain", "limited_after", "parent", "total_after",
        "total_before",
    )  # fmt: skip

    def __init__(self, parent: NodeBooks, child: NodeBooks, limited_after: int) -> None:
        self.parent = parent
        self.child = child
        self.limited_after = limited_after
        self.total_before: int | None = None
        self.total_after: int | None = None
        self.is_plain = False
        self.granted_after: Grants | None = None


class RuntimeWalk:
    """Asks one tree; made once per change of its quotas."""

    __slots__ = ("_check_parent", "_division", "_foreseen", "_half_up", "_memories", "_tree")

    def __init__(self, tree: TreeBooks, unrefreshed: frozenset[str]) -> None:
        settings = tree.settings
        self._tree = tree
        self._half_up = settings.rounding is Rounding.HALF_UP
        self._check_parent = settings.check_parent
        self._division = NodeDivision(tree, unrefreshed)
        self._foreseen: list[tuple[Level, str, Memory]] = []
        may_be_unseeded = any(
            not node.children and any(node.reserve.values()) for node in tree.nodes.values()
        )
        self._memories = tuple(
            Memory(unseeded, is_unrefreshed)
            for unseeded in ((False, True) if may_be_unseeded else (False,))
            for is_unrefreshed in ((False, True) if unrefreshed else (False,))
        )

    # --- questions ------------------------------------------------------------------------------

    def check(self, books: NodeBooks, items: Items) -> QuotaRefusal | None:
        """Return why koord-scheduler could refuse the pods of these amounts, or None."""
        self._foreseen.clear()
        doubtful: list[tuple[str, int]] = []
        for key, amount in items:
            if not self._is_plain_chain(books, key, amount):
                doubtful.append((key, amount))
        asked = {key for key, _ in items}
        for key, amount in books.used.items():
            if amount > 0 and key not in asked and not self._is_plain_chain(books, key, 0):
                doubtful.append((key, 0))
        seeds = may_be_unseeded(books)
        if seeds:
            for key, amount in books.reserve.items():
                if amount and key not in asked and not self._is_plain_chain(books, key, 0):
                    doubtful.append((key, 0))
        return self._check_doubtful(books, doubtful, seeds=seeds) if doubtful else None

    def check_resource(self, books: NodeBooks, key: str, amount: int) -> QuotaRefusal | None:
        """Return the refusal on one resource alone: cheap to ask again whoever it refused."""
        self._foreseen.clear()
        if self._is_plain_chain(books, key, amount):
            return None
        return self._check_doubtful(books, [(key, amount)], seeds=may_be_unseeded(books))

    def come_true(self) -> None:
        """Keep the divisions of the last `check`: what it asked for has just been charged."""
        for level, key, memory in self._foreseen:
            assert level.granted_after is not None
            self._division.keep(level.parent, key, level.total_after, memory, level.granted_after)
        self._foreseen.clear()

    def is_plain_above(self, scope: NodeBooks, books: NodeBooks, key: str, amount: int) -> bool:
        """Say whether the levels above `scope` are plain: then only what is below it decides."""
        limited_after = _limited_after(books, key, amount)
        for node, after in zip(books.chain, limited_after, strict=True):
            parent = node.parent
            if parent is None or scope in parent.chain or parent is scope:
                continue
            delta = after - node.limited.get(key, 0)
            needed = parent.asked.get(key, 0) + delta
            if parent.parent is None:
                return self._is_plain_root(node, key, needed, self._tree.left(key), delta)
            total = parent.limited_at(key, needed)
            if key not in parent.spec.max or not self._is_plain(
                parent, node, key, needed - parent.own.get(key, 0), total, delta
            ):
                return False
        return True

    def _check_doubtful(
        self, books: NodeBooks, doubtful: Items, *, seeds: bool
    ) -> QuotaRefusal | None:
        """Divide for these resources; `seeds`: q may be unseeded, J its first pod.

        Then what q asks for by its min comes into force on resources that J does not take, too.
        The contract asks for limits on all resources before it asks who is hurt; here the first
        resource that fails decides, which says no to the same demands, sooner.
        """
        for key, amount in doubtful:
            for memory in self._memories:
                levels = self._descend(books, key, amount, memory)
                refusal = self._over_limit(levels[-1], key, amount)
                if refusal is None:
                    refusal = self._over_parents(levels, key, amount)
                if refusal is None and (amount or seeds):
                    refusal = self._hurt(levels, key, amount, memory)
                if refusal is not None:
                    return _within(refusal, levels)
        return None

    def runtimes(self, books: NodeBooks) -> Amounts:
        """Return what the quota gets now of each resource that its max names.

        In an unknowable state the least that it may get. A missing key is not limited.
        """
        runtimes: Amounts = {}
        assert books.parent is not None
        for key in books.spec.max:
            if governs(books.parent, key):
                runtimes[key] = min(self._runtime(books, key, memory) for memory in self._memories)
        return runtimes

    def _runtime(self, books: NodeBooks, key: str, memory: Memory) -> int:
        level = self._descend(books, key, 0, memory)[-1]
        if memory.unseeded and may_be_unseeded(books):
            return self._division.floor(books, key, level.total_before, memory)
        return _granted_after(level)

    # --- the plain case -------------------------------------------------------------------------

    def _is_plain_chain(self, books: NodeBooks, key: str, amount: int) -> bool:
        """Say whether every level is plain with J, and all that is asked for is granted.

        It is without J then, too: less is asked for, and what there is above that is no less.
        """
        if books.is_special:
            return not amount
        node = books
        after = node.limited_at(key, node.asked.get(key, 0) + amount)
        # What was cut at max, here or above, is not covered.
        if after < node.used.get(key, 0) + amount:
            return False
        delta = after - node.limited.get(key, 0)
        parent = node.parent
        while parent is not None and parent.parent is not None:
            if key not in parent.spec.max:
                return False
            asked = parent.asked.get(key, 0) + delta
            granted = parent.limited_at(key, asked)
            needed = asked - parent.own.get(key, 0)
            if not self._is_plain(parent, node, key, needed, granted, delta):
                return False
            # A parent with pods of its own must be covered for them, too.
            if (self._check_parent or parent.own) and granted < parent.used.get(key, 0) + amount:
                return False
            delta = granted - parent.limited.get(key, 0)
            node, parent = parent, parent.parent
        root = self._tree.root
        needed = root.asked.get(key, 0) + delta
        return self._is_plain_root(node, key, needed, self._tree.left(key), delta)

    def _is_plain(
        self, parent: NodeBooks, child: NodeBooks, key: str, needed: int, total: int, delta: int
    ) -> bool:
        """Say whether `parent` is plain with `total`, its children asking for `needed`.

        `delta` is by how much the child on the way asks for more because of J.
        """
        if needed > total or key in parent.odd_keys or total >= LARGEST_EXACT:
            return False
        if key in parent.weak and (delta or not self._are_weak_content(parent, key, total)):
            return False
        if not self._half_up:
            return True
        active = parent.active.get(key, 0)
        if not child.limited.get(key, 0):
            active += 1
        return active <= 1 or needed + active * (active + 1) <= total

    def _is_plain_root(
        self, child: NodeBooks, key: str, needed: int, total: int, delta: int
    ) -> bool:
        negative = 0
        for books in self._tree.special.values():
            asked = books.limited.get(key, 0)
            if books.divides and asked:
                weight = books.spec.weight.get(key, 0)
                if weight <= 0:
                    needed -= asked
                    negative += weight
        root = self._tree.root
        if negative and any(
            other.spec.weight.get(key, 0) + negative <= 0
            for other in root.children
            if not other.is_special and (other is child or other.limited.get(key, 0))
        ):
            return False
        return self._is_plain(root, child, key, needed, total, delta)

    def _are_weak_content(self, parent: NodeBooks, key: str, total: int) -> bool:
        """Say whether children without weight ask for no more than their min."""
        return all(
            child.limited.get(key, 0) <= self._division.floor(child, key, total, Memory())
            for child in parent.weak[key]
        )

    # --- the exact case -------------------------------------------------------------------------

    def _descend(self, books: NodeBooks, key: str, amount: int, memory: Memory) -> list[Level]:
        """Return the levels from the root to the parent of q."""
        limited = _limited_after(books, key, amount)
        before: int | None = self._tree.left(key)
        after = before
        if books.is_special and before is not None:
            after = before - amount
        levels: list[Level] = []
        for node, limited_after in zip(reversed(books.chain), reversed(limited), strict=True):
            assert node.parent is not None
            level = Level(node.parent, node, limited_after)
            level.total_before, level.total_after = before, after
            level.is_plain = self._is_plain_level(level, key)
            levels.append(level)
            if not governs(level.parent, key):
                before = after = None
                continue
            if not level.is_plain:
                if amount or may_be_unseeded(books):
                    level.granted_after = self._after(level, key, memory)
                    self._foreseen.append((level, key, memory))
                else:
                    level.granted_after = self._before(level, key, memory)
            if books.is_special:
                break
            after = _granted_after(level)
            if level.is_plain:
                before = node.limited.get(key, 0)
            elif node is not books:
                before = self._before(level, key, memory).get(node.name, 0)
        return levels

    def _is_plain_level(self, level: Level, key: str) -> bool:
        """Say whether a level is plain with J and without, with the totals it really has."""
        parent, child = level.parent, level.child
        before, after = level.total_before, level.total_after
        if before is None or after is None or not governs(parent, key):
            return False
        delta = level.limited_after - child.limited.get(key, 0)
        if key in parent.weak and before != after:
            return False
        if child.is_special and child.spec.weight.get(key, 0) <= 0:
            return False
        if parent.parent is None:
            needed = parent.asked.get(key, 0)
            return self._is_plain_root(child, key, needed + delta, after, delta)
        needed = parent.asked.get(key, 0) - parent.own.get(key, 0)
        return self._is_plain(parent, child, key, needed + delta, after, delta) and self._is_plain(
            parent, child, key, needed, before, delta
        )

    def _over_limit(self, level: Level, key: str, amount: int) -> QuotaRefusal | None:
        """Return the refusal if the child on the way is not covered with J."""
        node = level.child
        if node.is_special or not governs(level.parent, key):
            return None
        runtime = _granted_after(level)
        if node.used.get(key, 0) + amount <= runtime:
            return None
        return _refusal(RefusalReason.OVER_RUNTIME, node, key, runtime, amount)

    def _over_parents(self, levels: list[Level], key: str, amount: int) -> QuotaRefusal | None:
        """Return the refusal if an ancestor is not covered with J (setting checkParent)."""
        if not (self._check_parent and amount):
            return None
        for level in reversed(levels[:-1]):
            refusal = self._over_limit(level, key, amount)
            if refusal is not None:
                reason = RefusalReason.OVER_PARENT_RUNTIME
                return msgspec.structs.replace(refusal, reason=reason)
        return None

    def _hurt(
        self, levels: list[Level], key: str, amount: int, memory: Memory
    ) -> QuotaRefusal | None:
        """Return the refusal if a quota that was covered without J is not covered with it."""
        for level in levels:
            if not governs(level.parent, key):
                continue
            refusal = self._hurt_on_way(level, levels[-1].child, key, amount, memory)
            if refusal is None and not level.is_plain:
                refusal = self._hurt_beside(level, key, memory)
            if refusal is not None:
                return refusal
        return None

    def _hurt_on_way(
        self, level: Level, books: NodeBooks, key: str, amount: int, memory: Memory
    ) -> QuotaRefusal | None:
        """Look at an ancestor of q that has demand of its own."""
        node = level.child
        if node is books or not _holds(node):
            return None
        used = node.used.get(key, 0)
        runtime = _granted_after(level)
        if used + amount <= runtime:
            return None
        before = node.limited.get(key, 0)
        if not level.is_plain:
            before = self._before(level, key, memory).get(node.name, 0)
        if used > before:
            return None
        refusal = _refusal(RefusalReason.HURTS_OTHERS, node, key, runtime, amount)
        return msgspec.structs.replace(refusal, other=node.name)

    def _hurt_beside(self, level: Level, key: str, memory: Memory) -> QuotaRefusal | None:
        """Look at the other children of a level, and at what is below them."""
        after = level.granted_after
        assert after is not None
        before: Grants | None = None
        for child in level.parent.children:
            used = child.used.get(key, 0)
            if child is level.child or not used:
                continue
            has = after.get(child.name, 0)
            if not child.children and used <= has:
                continue
            if before is None:
                before = self._before(level, key, memory)
            had = before.get(child.name, 0)
            refusal = None if had == has else self._compare(child, key, had, has, memory)
            if refusal is not None:
                return refusal
        return None

    def _compare(
        self, books: NodeBooks, key: str, had: int, has: int, memory: Memory
    ) -> QuotaRefusal | None:
        """Compare a subtree that J is not in, whose runtime goes from `had` to `has`."""
        stack = [(books, had, has)]
        while stack:
            node, had, has = stack.pop()
            if had == has or node.is_special:
                continue
            used = node.used.get(key, 0)
            if _holds(node) and has < used <= had:
                refusal = _refusal(RefusalReason.HURTS_OTHERS, node, key, has, 0)
                return msgspec.structs.replace(refusal, other=node.name)
            if node.children and governs(node, key):
                before = self._division.divide(node, key, had, memory)
                after = self._division.divide(node, key, has, memory)
                stack.extend(
                    (child, before.get(child.name, 0), after.get(child.name, 0))
                    for child in node.children
                )
        return None

    # --- divisions ------------------------------------------------------------------------------

    def _before(self, level: Level, key: str, memory: Memory) -> Grants:
        """Return what the children of a level get without J."""
        return self._division.divide(level.parent, key, level.total_before, memory)

    def _after(self, level: Level, key: str, memory: Memory) -> Grants:
        """Return what they get with J."""
        child = level.child if level.child.divides else None
        return self._division.divide(
            level.parent, key, level.total_after, memory, child, level.limited_after
        )


def _within(refusal: QuotaRefusal, levels: list[Level]) -> QuotaRefusal:
    """Note the highest level that is not plain: only what is below it decided."""
    scope = next((level.parent.name for level in levels if not level.is_plain), "")
    return msgspec.structs.replace(refusal, within=scope)


def _granted_after(level: Level) -> int:
    if level.granted_after is None:
        return level.limited_after
    return level.granted_after.get(level.child.name, 0)


def _limited_after(books: NodeBooks, key: str, amount: int) -> list[int]:
    """Return what each quota of the chain will ask for after its limit, q first."""
    if not books.divides:
        return [0]
    limited: list[int] = []
    delta = amount
    for node in books.chain:
        after = node.limited_at(key, node.asked.get(key, 0) + delta)
        delta = after - node.limited.get(key, 0)
        limited.append(after)
    return limited


def _holds(books: NodeBooks) -> bool:
    """Say whether the quota's cover counts: a leaf, or a parent with demand of its own."""
    return not books.children or has_demand(books)


def _refusal(
    reason: RefusalReason, node: NodeBooks, key: str, limit: int, amount: int
) -> QuotaRefusal:
    used = node.used.get(key, 0)
    return QuotaRefusal(
        reason=reason,
        quota=node.name,
        resource=key,
        limit=limit,
        used=used,
        requested=amount,
        missing=used + amount - limit,
    )
