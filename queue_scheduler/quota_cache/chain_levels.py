"""The levels on the way from the root to a quota, with a demand and without it.

A demand J in quota q changes what the quotas of q's chain ask for, and so what their parents have
to divide. Each level is one parent on the way: what it has with J and without it, and what its
children get of that. Levels are kept until something is charged: many waiters, and many candidates
of one decision, ask the same about the levels above them.
"""

from __future__ import annotations

from typing import TypeAlias

from queue_scheduler.quota_cache.level_division import (
    Grants,
    LevelDivision,
    Memory,
    may_usage_be_unseeded,
)
from queue_scheduler.quota_cache.tree_usage import NodeUsage, TreeUsage, governs
from queue_scheduler.quota_cache.unconstrained_levels import UnconstrainedLevels


class Level:
    """One parent on the way from the root to q, with and without J.

    `total_*` is what it has; None if the level above does not divide this resource. `limited_after`
    is what its child on the way asks for with J. `granted_after` is what its children get with J;
    a plain level grants what is asked for, and has None. `above` is the level above.
    """

    __slots__ = (
        "above", "child", "granted_after", "is_plain", "limited_after", "parent", "total_after",
        "total_before",
    )  # fmt: skip

    def __init__(self, parent: NodeUsage, child: NodeUsage, limited_after: int) -> None:
        self.parent = parent
        self.child = child
        self.limited_after = limited_after
        self.above: Level | None = None
        self.total_before: int | None = None
        self.total_after: int | None = None
        self.is_plain = False
        self.granted_after: Grants | None = None

    def granted(self) -> int:
        """Return what the child on the way gets with J, where the parent governs the resource."""
        if self.granted_after is None:
            return self.limited_after
        return self.granted_after.get(self.child.name, 0)


LevelQuestion: TypeAlias = tuple[NodeUsage, int, str, Memory]
"""The child on the way, what it would ask for, of which resource."""


class ChainLevels:
    """The levels of one tree."""

    __slots__ = ("_changes", "_division", "_levels", "_levels_at", "_plain", "_tree")

    def __init__(
        self, tree: TreeUsage, division: LevelDivision, plain: UnconstrainedLevels
    ) -> None:
        self._tree = tree
        self._changes = tree.changes
        self._division = division
        self._plain = plain
        self._levels: dict[LevelQuestion, Level] = {}
        self._levels_at = 0

    def descend(self, node: NodeUsage, key: str, amount: int, memory: Memory) -> list[Level]:
        """Return the levels from the root to the parent of q."""
        limited_after = would_ask(node, key, amount)
        if node.is_special:
            # What it asks for is not there for the others.
            assert node.parent is not None
            total = self._tree.left(key)
            level = Level(node.parent, node, limited_after)
            self._divide_level(level, key, total, total - amount, memory)
            return [level]
        level = self.level(node, limited_after, key, memory)
        levels = [level]
        while level.above is not None:
            level = level.above
            levels.append(level)
        levels.reverse()
        return levels

    def level(self, child: NodeUsage, limited_after: int, key: str, memory: Memory) -> Level:
        """Return a level with all above it, if its child asked for this."""
        if self._levels_at != self._changes.clock:
            self._levels.clear()
            self._levels_at = self._changes.clock
        question = (child, limited_after, key, memory)
        level = self._levels.get(question)
        if level is None:
            parent = child.parent
            assert parent is not None
            level = self._levels[question] = Level(parent, child, limited_after)
            before: int | None = self._tree.left(key)
            after = before
            if parent.parent is not None:
                more = limited_after - child.limited.get(key, 0)
                needed = would_ask(parent, key, more)
                level.above = self.level(parent, needed, key, memory)
                before, after = self.offered(level.above, parent, key, memory)
            self._divide_level(level, key, before, after, memory)
        return level

    def forget(self) -> None:
        """Keep no level: the sums have changed, and the tree's clock does not show it."""
        self._levels.clear()

    def offered(
        self, level: Level, child: NodeUsage, key: str, memory: Memory
    ) -> tuple[int | None, int | None]:
        """Return what a child has without J and with it."""
        if not governs(level.parent, key):
            return None, None
        has = level.granted()
        if level.is_plain:
            limited = child.limited.get(key, 0)
            return limited, has if child is level.child else limited
        if child is not level.child:
            has = level.granted_after.get(child.name, 0) if level.granted_after else 0
        return self.before(level, key, memory).get(child.name, 0), has

    def before(self, level: Level, key: str, memory: Memory) -> Grants:
        """Return what the children of a level get without J."""
        return self._division.divide(level.parent, key, level.total_before, memory)

    def after(self, level: Level, key: str, memory: Memory) -> Grants:
        """Return what they get with J."""
        child = level.child if level.child.divides else None
        return self._division.divide(
            level.parent, key, level.total_after, memory, child, level.limited_after
        )

    def _divide_level(
        self, level: Level, key: str, before: int | None, after: int | None, memory: Memory
    ) -> None:
        child = level.child
        level.total_before, level.total_after = before, after
        level.is_plain = self._is_plain_level(level, key)
        if level.is_plain or not governs(level.parent, key):
            return
        is_changed = before != after or level.limited_after != child.limited.get(key, 0)
        # With the first pod of J its quota is remembered.
        if is_changed or may_usage_be_unseeded(child):
            level.granted_after = self.after(level, key, memory)
        else:
            level.granted_after = self.before(level, key, memory)

    def _is_plain_level(self, level: Level, key: str) -> bool:
        """Return whether a level is plain with J and without, with the totals it really has."""
        parent, child = level.parent, level.child
        before, after = level.total_before, level.total_after
        if before is None or after is None or not governs(parent, key):
            return False
        delta = level.limited_after - child.limited.get(key, 0)
        if before != after and self._plain.has_weak(parent, key):
            return False
        if child.is_special and child.spec.weight.get(key, 0) <= 0:
            return False
        if parent.parent is None:
            needed = parent.asked.get(key, 0)
            return self._plain.is_plain_root(child, key, needed + delta, after, delta)
        needed = parent.asked.get(key, 0) - parent.own.get(key, 0)
        is_plain = self._plain.is_plain
        return is_plain(parent, child, key, needed + delta, after, delta) and is_plain(
            parent, child, key, needed, before, delta
        )


def would_ask(node: NodeUsage, key: str, more: int) -> int:
    """Return what a quota would ask for, after its limit, if it were asked for more."""
    if not node.divides:
        return 0
    return node.limited_at(key, node.asked.get(key, 0) + more)
