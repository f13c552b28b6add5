"""The promise of `runtime_contract`, checked with the running sums in a walk down one chain.

Resources never influence each other, so each is walked alone. A demand J in quota q changes only
what the quotas of q's chain ask for. The walk goes from the root to q. At each parent p, which has
T to divide, it asks what the division does to the children of p.

**Plain.** If p certainly grants all that is asked for, with J and without (`unconstrained_levels`),
its other children get what they got, nothing below them changes, and the walk continues with the
next quota of the chain and T = what that asks for.

**Otherwise** p is divided with J, in every possible state of koord-scheduler (`Memory`). A leaf
that is covered then is not hurt, whatever it had. If another child's amount matters, p is divided
without J as well; if the amount changed, that child's whole subtree is compared, quota by quota.
That is exact, and slower.

**What J does not ask for** counts as well: koord-scheduler refuses every pod of a quota that uses
more of some resource than it gets. There nothing is tolerated (`Memory.exact`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from queue_scheduler.decision import Reason, Refusal, RuntimeBasis
from queue_scheduler.quota.runtime_division import TOLERATED
from queue_scheduler.quota.water_filling import WaterFilling
from queue_scheduler.quota_cache.admission_record import Runtimes
from queue_scheduler.quota_cache.chain_levels import ChainLevels, Level, would_ask
from queue_scheduler.quota_cache.level_division import (
    Grants,
    LevelDivision,
    Memory,
    may_usage_be_unseeded,
)
from queue_scheduler.quota_cache.limit_checks import refuse
from queue_scheduler.quota_cache.tree_usage import (
    Items,
    NodeUsage,
    TreeUsage,
    governs,
    has_promises,
)
from queue_scheduler.quota_cache.unconstrained_levels import Coverage, UnconstrainedLevels
from shared_api.resource_list import Amounts


class LevelRefusal(NamedTuple):
    """A refusal, and where it was found: at a level, and there in the subtree of a child.

    `beside` is that child where it is not on the way, with what it had and has.
    """

    refusal: Refusal
    level: Level
    beside: NodeUsage | None = None
    had: int = 0
    has: int = 0


class RuntimeCheck:
    """Asks one tree; made once per change of its quotas."""

    __slots__ = (
        "_check_parent", "_covered", "_divided", "_exact", "_memories", "division", "levels",
        "plain",
    )  # fmt: skip

    def __init__(self, tree: TreeUsage, unrefreshed: frozenset[str]) -> None:
        settings = tree.settings
        self._check_parent = settings.check_parent
        self.division = LevelDivision(tree, unrefreshed)
        may_usage_be_unseeded = any(
            not node.children and any(node.reserve.values()) for node in tree.nodes.values()
        )
        self._memories = tuple(
            Memory(unseeded, is_unrefreshed)
            for unseeded in ((False, True) if may_usage_be_unseeded else (False,))
            for is_unrefreshed in ((False, True) if unrefreshed else (False,))
        )
        self._exact = tuple(
            msgspec.structs.replace(memory, exact=True) for memory in self._memories
        )
        is_state_known = len(self._memories) == 1
        self.plain = UnconstrainedLevels(tree, self.division, is_state_known=is_state_known)
        self.levels = ChainLevels(tree, self.division, self.plain)
        self._divided: list[tuple[Level, str, Memory]] = []
        self._covered: dict[str, None] = {}

    def fork(self, tree: TreeUsage) -> RuntimeCheck:
        """Return one that asks a fork of the tree; what follows from quotas alone is shared."""
        copy: RuntimeCheck = RuntimeCheck.__new__(RuntimeCheck)
        copy._check_parent, copy._memories = self._check_parent, self._memories
        copy._exact = self._exact
        copy.division = self.division.fork(tree)
        copy.plain = self.plain.fork(tree, copy.division)
        copy.levels = ChainLevels(tree, copy.division, copy.plain)
        copy._divided, copy._covered = [], {}
        return copy

    # --- questions ------------------------------------------------------------------------------

    def check(self, node: NodeUsage, items: Items) -> Refusal | None:
        """Return why koord-scheduler could refuse the pods of these amounts, or None."""
        self._forget_divisions()
        undecided: list[tuple[str, int]] = []
        for key, amount in items:
            if self._is_undecided(node, key, amount):
                undecided.append((key, amount))
        asked = {key for key, _ in items}
        for key, amount in node.used.items():
            if amount > 0 and key not in asked and self._is_undecided(node, key, 0):
                undecided.append((key, 0))
        seeds = may_usage_be_unseeded(node)
        if seeds:
            for key, amount in node.reserve.items():
                if amount and key not in asked and self._is_undecided(node, key, 0):
                    undecided.append((key, 0))
        return self._check_undecided(node, undecided, seeds=seeds) if undecided else None

    def check_resource(self, node: NodeUsage, key: str, amount: int) -> Refusal | None:
        """Return the refusal on one resource alone: a cheap way to re-check a waiter."""
        self._forget_divisions()
        if not self._is_undecided(node, key, amount):
            return None
        return self._check_undecided(node, [(key, amount)], seeds=may_usage_be_unseeded(node))

    def _is_undecided(self, node: NodeUsage, key: str, amount: int) -> bool:
        """Return whether some quota may get less than it asks for; note where that was divided."""
        coverage = self.plain.coverage(node, key, amount)
        if coverage is Coverage.DIVIDED:
            self._covered[key] = None
        return coverage is Coverage.UNKNOWN

    def _forget_divisions(self) -> None:
        self._divided.clear()
        self._covered.clear()

    def keep_divisions(self) -> None:
        """Keep the divisions of the last `check`, whose demand has just been charged."""
        for level, key, memory in self._divided:
            if level.granted_after is not None:
                parent, total, grants = level.parent, level.total_after, level.granted_after
                self.division.keep(parent, key, total, memory, grants)
        self._forget_divisions()

    def runtimes_found(self, node: NodeUsage, items: Items) -> Runtimes:
        """Return the runtimes that the last `check` compared, the least of all states; often ().

        That check must have let these amounts through. Where all levels certainly grant what is
        asked for, nothing was divided, and there is no runtime.
        """
        if not (self._divided or self._covered) or node.is_special:
            return ()
        found: dict[tuple[str, str], tuple[int, int]] = {}
        for key, amount in items:
            for child, runtime in self._runtimes_with(node, key, amount):
                if self._check_parent or child is node:
                    compared = (runtime, child.used.get(key, 0))
                    place = (child.name, key)
                    found[place] = min(compared, found.get(place, compared))
        return tuple([(*place, *compared) for place, compared in found.items()])

    def _runtimes_with(
        self, node: NodeUsage, key: str, amount: int
    ) -> Iterator[tuple[NodeUsage, int]]:
        """Yield the runtimes with J that the last `check` found on one resource, the root first."""
        if key in self._covered:
            yield from reversed(_claims_with(node, key, amount))
        for level, divided, _ in self._divided:
            if divided == key and governs(level.parent, key):
                yield level.child, level.granted()

    def forget_levels(self) -> None:
        """Forget all levels: the sums have changed without the tree's clock moving."""
        self.levels.forget()

    def _check_undecided(self, node: NodeUsage, undecided: Items, *, seeds: bool) -> Refusal | None:
        """Divide for these resources; `seeds`: q may be unseeded, J its first pod.

        Then the min of q counts as its request on resources that J does not take, too. The contract
        checks the limits of all resources before it checks which quotas are hurt; here the first
        resource that fails decides, which refuses the same demands, sooner.
        """
        for key, amount, memory in self._assumptions(undecided):
            levels = self.levels.descend(node, key, amount, memory)
            breach = self._over_limit(levels[-1], key, amount)
            if breach is None:
                breach = self._over_parents(levels, key, amount)
            if amount or seeds:
                self._divided += [(level, key, memory) for level in levels]
                if breach is None:
                    breach = self._hurt(levels, key, amount, memory)
            if breach is not None:
                basis = self._find_basis(levels, breach, key, amount, memory)
                is_rounded = _is_lost_by_rounding(levels, breach)
                return msgspec.structs.replace(breach.refusal, basis=basis, is_rounded=is_rounded)
        return None

    def _assumptions(self, undecided: Items) -> Iterator[tuple[str, int, Memory]]:
        """Yield these amounts with each state that koord-scheduler may be in."""
        for key, amount in undecided:
            for memory in self._memories if amount or key not in TOLERATED else self._exact:
                yield key, amount, memory

    def _find_basis(
        self, levels: list[Level], breach: LevelRefusal, key: str, amount: int, memory: Memory
    ) -> RuntimeBasis | None:
        """Return what the refusal follows from."""
        level, subject = breach.level, breach.beside
        had: int | None = breach.had
        has: int | None = breach.has
        # Only a pool says what one child gets without a division among all.
        needs = _needed(breach, levels) if self.division.is_pooled else None
        if level.child.is_special:
            return None  # it asks for more and takes it off the total at once
        number = levels.index(level)
        if number and (subject is None or subject.name == breach.refusal.quota):
            # A child of one parent gets too little: the subject is that parent, and what it has.
            subject, had, has = level.parent, level.total_before, level.total_after
            number -= 1
        elif needs is not None:
            subject, had, has = subject or level.child, None, None
        elif subject is None:
            subject = level.child
            had, has = self.levels.offered(level, subject, key, memory)
        more = amount
        if number + 1 < len(levels):
            below = levels[number + 1]
            more = below.limited_after - below.child.limited.get(key, 0)
        return RuntimeBasis(
            scope=next(
                level.parent.name for level in levels if level is breach.level or not level.is_plain
            ),
            parent=levels[number].parent.name,
            asker=levels[number].child.name,
            more=more,
            subject=subject.name,
            had=had,
            has=has,
            unseeded=memory.unseeded,
            unrefreshed=memory.unrefreshed,
            exact=memory.exact,
            needs=needs,
        )

    def runtimes(self, node: NodeUsage) -> Amounts:
        """Return what the quota gets now of each resource that its max names.

        In an unknowable state the least that it may get. A missing key is not limited.
        """
        runtimes: Amounts = {}
        assert node.parent is not None
        for key in node.spec.max:
            if governs(node.parent, key):
                runtimes[key] = min(self._runtime(node, key, memory) for memory in self._memories)
        return runtimes

    def _runtime(self, node: NodeUsage, key: str, memory: Memory) -> int:
        level = self.levels.descend(node, key, 0, memory)[-1]
        if memory.unseeded and may_usage_be_unseeded(node):
            return self.division.floor(node, key, level.total_before, memory)
        return level.granted()

    # --- the exact case -------------------------------------------------------------------------

    def _over_limit(self, level: Level, key: str, amount: int) -> LevelRefusal | None:
        """Return the refusal if the child on the way is not covered with J."""
        node = level.child
        if node.is_special or not governs(level.parent, key):
            return None
        runtime = level.granted()
        if node.used.get(key, 0) + amount <= runtime:
            return None
        return LevelRefusal(_refusal(Reason.OVER_RUNTIME, node, key, runtime, amount), level)

    def _over_parents(self, levels: list[Level], key: str, amount: int) -> LevelRefusal | None:
        """Return the refusal if an ancestor is not covered with J (setting checkParent)."""
        if not (self._check_parent and amount):
            return None
        for level in reversed(levels[:-1]):
            breach = self._over_limit(level, key, amount)
            if breach is not None:
                reason = Reason.OVER_PARENT_RUNTIME
                return LevelRefusal(msgspec.structs.replace(breach.refusal, reason=reason), level)
        return None

    def _hurt(
        self, levels: list[Level], key: str, amount: int, memory: Memory
    ) -> LevelRefusal | None:
        """Return the refusal if a quota that was covered without J is not covered with it."""
        for level in levels:
            if not governs(level.parent, key):
                continue
            breach = self._hurt_on_way(level, levels[-1].child, key, amount, memory)
            if breach is None and not level.is_plain:
                breach = self._hurt_beside(level, key, memory)
            if breach is not None:
                return breach
        return None

    def _hurt_on_way(
        self, level: Level, asking: NodeUsage, key: str, amount: int, memory: Memory
    ) -> LevelRefusal | None:
        """Look at an ancestor of q that has demand of its own."""
        node = level.child
        if node is asking or not _holds(node):
            return None
        used = node.used.get(key, 0)
        runtime = level.granted()
        if used + amount <= runtime:
            return None
        before = node.limited.get(key, 0)
        if not level.is_plain:
            before = self.levels.before(level, key, memory).get(node.name, 0)
        if used > before:
            return None
        refusal = _refusal(Reason.HURTS_OTHERS, node, key, runtime, amount)
        return LevelRefusal(msgspec.structs.replace(refusal, other=node.name), level)

    def _hurt_beside(self, level: Level, key: str, memory: Memory) -> LevelRefusal | None:
        """Look at the other children of a level, and at what is below them."""
        after = level.granted_after
        assert after is not None
        before: Grants | None = None
        if not self.division.has_leaves_only(level.parent):
            before = self.levels.before(level, key, memory)
        for child in self.division.suspects(level.parent, before, after):
            used = child.used.get(key, 0)
            if child is level.child or not used:
                continue
            has = after.get(child.name, 0)
            if not child.children and used <= has:
                continue
            if before is None:
                before = self.levels.before(level, key, memory)
            had = before.get(child.name, 0)
            refusal = None if had == has else self._compare(child, key, had, has, memory)
            if refusal is not None:
                return LevelRefusal(refusal, level, child, had, has)
        return None

    def _compare(
        self, subtree: NodeUsage, key: str, had: int, has: int, memory: Memory
    ) -> Refusal | None:
        """Compare a subtree that J is not in, whose runtime goes from `had` to `has`."""
        stack = [(subtree, had, has)]
        while stack:
            node, had, has = stack.pop()
            if had == has or node.is_special:
                continue
            used = node.used.get(key, 0)
            if _holds(node) and has < used <= had:
                refusal = _refusal(Reason.HURTS_OTHERS, node, key, has, 0)
                return msgspec.structs.replace(refusal, other=node.name)
            if node.children and governs(node, key):
                before = self.division.divide(node, key, had, memory)
                after = self.division.divide(node, key, has, memory)
                stack.extend(
                    (child, before.get(child.name, 0), after.get(child.name, 0))
                    for child in self.division.suspects(node, before, after)
                )
        return None


def _claims_with(node: NodeUsage, key: str, amount: int) -> list[tuple[NodeUsage, int]]:
    """Return what a quota and its ancestors would ask for with this amount."""
    claims: list[tuple[NodeUsage, int]] = []
    for each in node.chain:
        asked = would_ask(each, key, amount)
        claims.append((each, asked))
        amount = asked - each.limited.get(key, 0)
    return claims


def _holds(node: NodeUsage) -> bool:
    """Return whether the quota's cover counts: a leaf, or a parent with demand of its own."""
    return not node.children or has_promises(node)


def _needed(breach: LevelRefusal, levels: list[Level]) -> int | None:
    """Return what the quota needs that gets too little, if it is a child of the root; else None."""
    refusal, subject = breach.refusal, breach.beside
    if breach.level is not levels[0]:
        return None
    if subject is not None:
        return refusal.used if refusal.quota == subject.name else None
    is_own = refusal.reason is Reason.OVER_RUNTIME and breach.level is levels[-1]
    return refusal.used + refusal.requested if is_own else None


def _is_lost_by_rounding(levels: list[Level], breach: LevelRefusal) -> bool:
    """Return whether no more is missing than rounding half up loses on the way to the breach."""
    missing = breach.refusal.missing
    for level in levels:
        after = level.granted_after
        # At most one unit for each child is made up for; more are hardly ever lost.
        if isinstance(after, WaterFilling) and missing <= len(level.parent.children):
            missing -= after.lost()
        if missing <= 0 or level is breach.level:
            break
    return missing <= 0


def _refusal(reason: Reason, node: NodeUsage, key: str, limit: int, amount: int) -> Refusal:
    return refuse(reason, node.name, key, limit, node.used.get(key, 0), amount)
