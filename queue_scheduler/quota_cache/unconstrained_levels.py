"""Levels whose division grants all that is asked for, found by sums, without dividing.

A demand J in quota q changes only what the quotas of q's chain ask for. A parent p, which has T to
divide, is

**plain** if T covers what all its children ask for (sum of `limited` <= T): then every child gets
exactly that. Proof: a child that asks for no more than its floor gets it, or its floor if it does
not lend, which is not more than it asks for (min <= max). The other children are *unsatisfied*.
What is then left, S, is at least what the unsatisfied lack, G. Each round hands out all of S
(largest remainder, W > 0, the sum of the weights of the unsatisfied), of which no child keeps more
than it lacks; so S - G stays, and while a child is unsatisfied there is something to hand out. In
every round a child is filled, or nothing comes back. So all are filled.

Exceptions:

  * a weight is 0 or less: such a child gets no more than its floor, so what it asks for must be
    within its (scaled) min;
  * default or system quota have a negative weight (overflow): they get nothing, and W must stay
    positive whichever of the others are unsatisfied: every other weight exceeds the absolute value
    of their sum;
  * shares are rounded half up: a round with n unsatisfied may lose n/2 units (with float64 less
    than n), all rounds together less than n(n+1)/2. A single one always gets all. So all are filled
    where n is 1, or T exceeds the sum by n*n. Below the first level T is just the sum where all
    lend, so if several are unsatisfied a division is usual;
  * float64 is no longer exact, or a quota that does not lend has min > max.

Where these sums do not suffice under half up, the walk divides: that shows whether a level grants
all for just these demands (`Coverage.DIVIDED`), and nothing about smaller ones, since rounding is
not monotonic.

If p is plain with J and without it, its other children get what they got, nothing below them
changes, and the next quota of the chain has T = what that asks for. A plain level is plain in every
state of koord-scheduler (`Memory`), since it does not depend on floors. A level that is plain for J
is plain for every smaller demand.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final

from queue_scheduler.quota.quota_settings import Rounding
from queue_scheduler.quota_cache.level_division import LevelDivision, Memory
from queue_scheduler.quota_cache.tree_usage import NodeUsage, TreeUsage

LARGEST_EXACT: Final = 2**50
"""Above this amount a float64 expression of koord-scheduler may be off by one."""

FEW_UNSATISFIED: Final = 1
"""The most unsatisfied children for which rounding half up loses nothing."""


class Coverage(enum.Enum):
    """Whether all levels above a quota grant all that is asked for with a demand.

    PLAIN: by sums, so they do with every smaller demand. DIVIDED: some had to be divided, with the
    demand and without it. UNKNOWN: some quota may get less than it asks for.
    """

    PLAIN = enum.auto()
    DIVIDED = enum.auto()
    UNKNOWN = enum.auto()


class UnconstrainedLevels:
    """Determines which levels of one tree are plain.

    Args:
        tree: The tree.
        division: Divides in it.
        is_state_known: Whether koord-scheduler can only be in one state (`Memory`).
    """

    __slots__ = (
        "_check_parent", "_divides", "_division", "_half_up", "_odd", "_tree", "_weak",
    )  # fmt: skip

    def __init__(self, tree: TreeUsage, division: LevelDivision, *, is_state_known: bool) -> None:
        self._tree = tree
        self._division = division
        self._half_up = tree.settings.rounding is Rounding.HALF_UP
        self._divides = self._half_up and is_state_known
        self._check_parent = tree.settings.check_parent
        parents = [tree.root, *tree.nodes.values()]
        # Parents and resources of which no sum says anything: amounts are too large, or a child
        # that does not lend has min > max.
        self._odd = frozenset(
            (parent.name, key) for parent in parents for key in _odd_keys(parent, division)
        )
        # The names of the children without weight, by parent and resource.
        self._weak = {
            (parent.name, key): weak
            for parent in parents
            for key in (tree.tree.root.governed_keys if parent is tree.root else parent.spec.max)
            if (weak := _weak_children(parent, key))
        }

    def fork(self, tree: TreeUsage, division: LevelDivision) -> UnconstrainedLevels:
        """Return one that looks at a fork of the tree; what follows from quotas is shared."""
        copy: UnconstrainedLevels = UnconstrainedLevels.__new__(UnconstrainedLevels)
        copy._tree, copy._division = tree, division
        copy._half_up, copy._check_parent = self._half_up, self._check_parent
        copy._divides = self._divides
        copy._odd, copy._weak = self._odd, self._weak
        return copy

    def has_weak(self, parent: NodeUsage, key: str) -> bool:
        """Return whether a child of a quota has no weight for a resource."""
        return (parent.name, key) in self._weak

    def coverage(self, node: NodeUsage, key: str, amount: int) -> Coverage:
        """Return whether every level grants all that is asked for with J, and without it."""
        if node.is_special:
            return Coverage.UNKNOWN if amount else Coverage.PLAIN
        after = node.limited_at(key, node.asked.get(key, 0) + amount)
        # What was cut at max, here or above, is not covered.
        if after < node.used.get(key, 0) + amount:
            return Coverage.UNKNOWN
        found = Coverage.PLAIN
        before = node.limited.get(key, 0)
        parent = node.parent
        while parent is not None and parent.parent is not None:
            if key not in parent.spec.max:
                return Coverage.UNKNOWN
            delta = after - before
            asked = parent.asked.get(key, 0) + delta
            granted = parent.limited_at(key, asked)
            # A parent with pods of its own must be covered for them, too.
            if (self._check_parent or parent.own) and granted < parent.used.get(key, 0) + amount:
                return Coverage.UNKNOWN
            needed = asked - parent.own.get(key, 0)
            had = parent.limited.get(key, 0)
            if not self.is_plain(parent, node, key, needed, granted, delta):
                if needed > granted or not self._grants_all(parent, node, key, had, granted, after):
                    return Coverage.UNKNOWN
                found = Coverage.DIVIDED
            before, after = had, granted
            node, parent = parent, parent.parent
        root, delta = self._tree.root, after - before
        needed, total = root.asked.get(key, 0) + delta, self._tree.left(key)
        if not self.is_plain_root(node, key, needed, total, delta):
            if needed > total or not self._grants_all(root, node, key, total, total, after):
                return Coverage.UNKNOWN
            found = Coverage.DIVIDED
        return found

    def _grants_all(
        self, parent: NodeUsage, child: NodeUsage, key: str, had: int, has: int, asked: int
    ) -> bool:
        """Return whether division gives each child of a quota what it asks for.

        Both without J, of what the quota then `had`, and with it. The first does not matter for
        leaves: one that is covered with J is not hurt.
        """
        division = self._division
        if not self._divides or (self._odd and (parent.name, key) in self._odd):
            return False
        return division.grants_all(parent, key, has, child, asked) and (
            division.has_leaves_only(parent) or division.grants_all(parent, key, had)
        )

    def is_plain_above(self, node: NodeUsage, key: str, more: int) -> bool:
        """Return whether all levels above a quota are plain, if it is asked for `more`, or less.

        Then what is below it does not notice what happens elsewhere.
        """
        asked = node.asked.get(key, 0) + more
        delta = node.limited_at(key, asked) - node.limited.get(key, 0)
        parent = node.parent
        while parent is not None and parent.parent is not None:
            if key not in parent.spec.max:
                return False
            asked = parent.asked.get(key, 0) + delta
            total = parent.limited_at(key, asked)
            needed = asked - parent.own.get(key, 0)
            if not self.is_plain(parent, node, key, needed, total, delta):
                return False
            delta = total - parent.limited.get(key, 0)
            node, parent = parent, parent.parent
        needed = self._tree.root.asked.get(key, 0) + delta
        return self.is_plain_root(node, key, needed, self._tree.left(key), delta)

    def is_root_plain(self, key: str, more: int) -> bool:
        """Return whether the root is plain, whichever quota below it asks for `more`, or less."""
        needed = self._tree.root.asked.get(key, 0) + more
        return self.is_plain_root(None, key, needed, self._tree.left(key), more)

    def is_plain(
        self,
        parent: NodeUsage,
        child: NodeUsage | None,
        key: str,
        needed: int,
        total: int,
        delta: int,
    ) -> bool:
        """Return whether `parent` is plain with `total`, its children asking for `needed`.

        `delta` is by how much the child on the way (None: any) asks for more because of J.
        """
        if needed > total or total >= LARGEST_EXACT:
            return False
        if self._odd and (parent.name, key) in self._odd:
            return False
        weak = self._weak.get((parent.name, key)) if self._weak else None
        if weak and (delta or not self._are_content(weak, key, total)):
            return False
        if not self._half_up:
            return True
        active = parent.active.get(key, 0)
        if child is None or not child.limited.get(key, 0):
            active += 1
        return active <= FEW_UNSATISFIED or needed + active * active <= total

    def is_plain_root(
        self, child: NodeUsage | None, key: str, needed: int, total: int, delta: int
    ) -> bool:
        """Return the same for the root, which also has the default and the system quota."""
        negative = 0
        for node in self._tree.special.values():
            asked = node.limited.get(key, 0)
            if node.divides and asked:
                weight = node.spec.weight.get(key, 0)
                if weight <= 0:
                    needed -= asked
                    negative += weight
        root = self._tree.root
        if negative and any(
            other.spec.weight.get(key, 0) + negative <= 0
            for other in root.children
            if not other.is_special
            and (child is None or other is child or other.limited.get(key, 0))
        ):
            return False
        return self.is_plain(root, child, key, needed, total, delta)

    def _are_content(self, names: list[str], key: str, total: int) -> bool:
        """Return whether children without weight ask for no more than their min."""
        children = map(self._tree.nodes.__getitem__, names)
        return all(
            child.limited.get(key, 0) <= self._division.floor(child, key, total, Memory())
            for child in children
        )


def _odd_keys(parent: NodeUsage, division: LevelDivision) -> Iterator[str]:
    for child in parent.children:
        for key, minimum in child.spec.min.items():
            limit = child.spec.max.get(key)
            is_over = bool(child.reserve) and limit is not None and minimum > limit
            if is_over or division.min_sum(parent, key) >= LARGEST_EXACT:
                yield key


def _weak_children(parent: NodeUsage, key: str) -> list[str]:
    return [
        child.name
        for child in parent.children
        if not child.is_special and child.spec.weight.get(key, 0) <= 0
    ]
