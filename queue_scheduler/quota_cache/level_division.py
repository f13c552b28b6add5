"""One division of one resource among the children of one quota, from the running sums.

The same arithmetic as `runtime_division`, for a single parent and resource; tolerant where that is
(`LevelDivision._is_tolerant`). Children that ask for nothing and reserve nothing get nothing, and
are left out. Divisions are kept until the claim of a child changes (`NodeUsage.watch_claims`). If
shares are rounded half up, the part that all divisions of a level share is kept as well
(`water_filling`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import msgspec

from queue_scheduler.quota.quota_settings import Rounding
from queue_scheduler.quota.runtime_division import (
    NO_QUOTAS,
    TOLERATED,
    ClaimTuple,
    divide,
    scaled_min,
)
from queue_scheduler.quota.water_filling import PooledClaim, ShareGroup, WaterFilling
from queue_scheduler.quota_cache.tree_usage import NodeUsage, TreeUsage, has_demand
from shared_api.resource_list import Amounts, add

Grants: TypeAlias = dict[str, int] | WaterFilling
"""What each child gets, by name; a missing child gets nothing."""


class Memory(msgspec.Struct, frozen=True):
    """What is assumed of koord-scheduler: whether the quotas that can be are in a state.

    `exact`: that it never gives what rounding loses, not even where that is tolerated.
    """

    unseeded: bool = False
    unrefreshed: bool = False
    exact: bool = False


USUAL: Final = Memory()

PoolQuestion: TypeAlias = tuple[int | None, bool, bool, bool]
"""(total that mins are scaled to, or None if they are not; unseeded; unrefreshed; tolerant)."""

MAX_KNOWN: Final = 256
"""Divisions that are kept per node and resource until a claim there changes: of a hundred waiters,
many ask the same question about the levels above them."""

Question: TypeAlias = tuple[int | None, bool, bool, bool, "NodeUsage | None", int]
"""(total, unseeded, unrefreshed, tolerant; the child whose request is changed, and to what)."""

Row: TypeAlias = tuple[NodeUsage, str, Amounts, int, int, bool]
"""child, its name, what it asks for (running), its min, its weight, whether it lends."""


class _Known:
    """What is known of one resource among the children of one quota.

    `changed` collects the children whose claim has changed since. Mins are scaled of totals less
    than `scaled_below`; None: never.
    """

    __slots__ = ("alone", "changed", "grants", "pools", "scaled_below")

    def __init__(self, parent: NodeUsage, key: str, scaled_below: int | None) -> None:
        self.changed = parent.watch_claims(key)
        self.scaled_below = scaled_below
        self.grants: dict[Question, Grants] = {}
        # What the child gets whose request is changed, where no more of the division was asked.
        self.alone: dict[Question, int] = {}
        self.pools: dict[PoolQuestion, ShareGroup | None] = {}

    def put(self, question: Question, grants: Grants) -> None:
        """Keep a division."""
        if len(self.grants) >= MAX_KNOWN:
            self.grants.clear()
        self.grants[question] = grants


class LevelDivision:
    """Divides in one tree; `unrefreshed` are quotas that may be so: `koord_scheduler_state`.

    `is_pooled`: the part that all divisions of a level share is kept.
    """

    __slots__ = (
        "_grandparents",
        "_known",
        "_min_sums",
        "_reserving",
        "_rounding",
        "_rows",
        "_scales",
        "_tree",
        "_unrefreshed",
        "is_pooled",
    )

    def __init__(self, tree: TreeUsage, unrefreshed: frozenset[str]) -> None:
        self._tree = tree
        self._rounding = tree.settings.rounding
        self.is_pooled = self._rounding is Rounding.HALF_UP
        self._scales = tree.settings.scale_min
        self._unrefreshed = unrefreshed
        self._rows: dict[tuple[str, str], list[Row]] = {}
        parents = [tree.root, *tree.nodes.values()]
        self._known: dict[NodeUsage, dict[str, _Known]] = defaultdict(dict)
        self._min_sums: dict[str, Amounts] = {
            parent.name: _sum_of_mins(parent) for parent in parents
        }
        # Parents with a child that does not lend, and parents with a child that has children.
        self._reserving = _parents_of(parents, lambda child: bool(child.reserve))
        self._grandparents = _parents_of(parents, lambda child: bool(child.children))

    def fork(self, tree: TreeUsage) -> LevelDivision:
        """Return one that divides in a fork of the tree, and knows of no division yet.

        What follows from quotas alone is shared.
        """
        copy: LevelDivision = LevelDivision.__new__(LevelDivision)
        copy._tree = tree
        copy._rounding, copy.is_pooled = self._rounding, self.is_pooled
        copy._scales = self._scales
        copy._unrefreshed, copy._min_sums = self._unrefreshed, self._min_sums
        copy._reserving, copy._grandparents = self._reserving, self._grandparents
        copy._rows = {}
        copy._known = defaultdict(dict)
        return copy

    def keep(
        self, parent: NodeUsage, key: str, total: int | None, memory: Memory, grants: Grants
    ) -> None:
        """Keep a division that was computed for a charge which has now been made."""
        # First: the charge has changed claims, which drops all divisions that are kept so far.
        known = self._find_known(parent, key)
        known.grants[self._question(known, key, total, memory, None, 0)] = grants

    def divide(
        self,
        parent: NodeUsage,
        key: str,
        total: int | None,
        memory: Memory,
        changed: NodeUsage | None = None,
        request: int = 0,
    ) -> Grants:
        """Return what the children get of a total, or would get if `changed` asked for `request`.

        A total of None: nothing is divided at the level of the parents.
        """
        known = self._find_known(parent, key)
        question = self._question(known, key, total, memory, changed, request)
        grants = known.grants.get(question)
        if grants is None:
            if self.is_pooled:
                grants = self._fill(known, parent, key, total, memory, changed, request)
            if grants is None:
                grants = self._divide(parent, key, total, memory, changed, request)
            known.put(question, grants)
        return grants

    def grant(
        self,
        parent: NodeUsage,
        key: str,
        total: int | None,
        memory: Memory,
        child: NodeUsage,
        request: int,
    ) -> int:
        """Return what one child would get of a total if it asked for `request` (`divide`)."""
        known = self._find_known(parent, key)
        question = self._question(known, key, total, memory, child, request)
        grants = known.grants.get(question)
        if grants is not None:
            return grants.get(child.name, 0)
        got = known.alone.get(question)
        if got is None:
            got = self._grant(known, parent, key, total, memory, child, request)
            if len(known.alone) >= MAX_KNOWN:
                known.alone.clear()
            known.alone[question] = got
        return got

    def _grant(
        self,
        known: _Known,
        parent: NodeUsage,
        key: str,
        total: int | None,
        memory: Memory,
        child: NodeUsage,
        request: int,
    ) -> int:
        if self.is_pooled:
            pool = self._find_pool(known, parent, key, total, memory)
            claim = self._claim(child, key, total, memory, request)
            if pool is not None and claim is not None:
                return pool.grant(total or 0, child.name, claim)
        return self.divide(parent, key, total, memory, child, request).get(child.name, 0)

    def _question(
        self,
        known: _Known,
        key: str,
        total: int | None,
        memory: Memory,
        changed: NodeUsage | None,
        request: int,
    ) -> Question:
        tolerant = self._is_tolerant(known, key, total, memory)
        return total, memory.unseeded, memory.unrefreshed, tolerant, changed, request

    def _is_tolerant(self, known: _Known, key: str, total: int | None, memory: Memory) -> bool:
        """Return whether what rounding loses here is handed out all the same."""
        below = known.scaled_below
        if below is None or total is None or total >= below:
            return False
        return self.is_pooled and key in TOLERATED and not memory.exact

    def grants_all(
        self,
        parent: NodeUsage,
        key: str,
        total: int,
        changed: NodeUsage | None = None,
        request: int = 0,
    ) -> bool:
        """Return whether the children certainly get all that they ask for (`divide`).

        Only under half up, and in the state in which no quota is unseeded or unrefreshed. Not where
        mins are scaled.
        """
        if self._is_scaled(parent, key, total):
            return False
        grants = self.divide(parent, key, total, USUAL, changed, request)
        return isinstance(grants, WaterFilling) and grants.is_full

    def has_leaves_only(self, parent: NodeUsage) -> bool:
        """Return whether no child has children."""
        return parent.name not in self._grandparents

    def suspects(
        self, parent: NodeUsage, before: Grants | None, after: Grants
    ) -> Iterable[NodeUsage]:
        """Return at least the children that get less than they ask for, before or after, in order.

        All others, if they lend, get the same before and after; `before` may be left out where all
        are leaves, of which only those matter that get less after.
        """
        if not isinstance(after, WaterFilling) or parent.name in self._reserving:
            return parent.children
        short = after.short()
        if before is not None:
            if not isinstance(before, WaterFilling):
                return parent.children
            short += before.short()
        if not short:
            return ()
        # In the order of the children: a pool has that in which claims changed, so a fork would
        # name another child.
        names = frozenset(short)
        return [child for child in parent.children if child.name in names]

    # --- half up --------------------------------------------------------------------------------

    def _fill(
        self,
        known: _Known,
        parent: NodeUsage,
        key: str,
        total: int | None,
        memory: Memory,
        changed: NodeUsage | None,
        request: int,
    ) -> WaterFilling | None:
        """Divide by what such questions have in common; None: a weight does not let it."""
        pool = self._find_pool(known, parent, key, total, memory)
        if pool is None or changed is None:
            return None if pool is None else pool.fill(total or 0)
        claim = self._claim(changed, key, total, memory, request)
        return None if claim is None else pool.fill(total or 0, changed.name, claim)

    def _claim(
        self, child: NodeUsage, key: str, total: int | None, memory: Memory, request: int
    ) -> PooledClaim | None:
        """Return what a child claims of a pool if it asks for `request`; None: see `pool`."""
        return _pooled(child, key, request, self.floor(child, key, total, memory))

    def _find_pool(
        self, known: _Known, parent: NodeUsage, key: str, total: int | None, memory: Memory
    ) -> ShareGroup | None:
        pools = known.pools
        scaled_to = total if self._is_scaled(parent, key, total) else None
        tolerant = self._is_tolerant(known, key, total, memory)
        question = (scaled_to, memory.unseeded, memory.unrefreshed, tolerant)
        if question in pools:
            return pools[question]
        if len(pools) >= MAX_KNOWN:
            pools.clear()
        # Kept if a weight does not allow a pool, so that no later question looks at all children.
        pools[question] = None
        pool = ShareGroup(tolerant=tolerant)
        names, claims = self._claims(parent, key, total, memory, None, 0)
        for name, (weight, requested, floor, is_lending) in zip(names, claims, strict=True):
            if requested <= floor:
                pool.put(name, (weight, requested if is_lending else floor, floor))
            elif weight > 0:
                pool.put(name, (weight, requested, floor))
            else:
                return None
        pools[question] = pool
        return pool

    def _find_known(self, parent: NodeUsage, key: str) -> _Known:
        """Return what is known and still true."""
        by_key = self._known[parent]
        known = by_key.get(key)
        if known is None:
            known = by_key[key] = _Known(parent, key, self._scaled_below(parent, key))
        elif known.changed:
            known.grants.clear()
            known.alone.clear()
            # Taken whether or not there are pools: changes that stay would drop all of this again
            # with every question.
            children = parent.take_claim_changes(key)
            if known.pools:
                known.pools = {
                    question: pool
                    for question, pool in known.pools.items()
                    # Where mins are scaled, another total comes with the change: another pool.
                    if question[0] is None and _renew(pool, key, children, question)
                }
        return known

    # --- child by child -------------------------------------------------------------------------

    def _divide(
        self,
        parent: NodeUsage,
        key: str,
        total: int | None,
        memory: Memory,
        changed: NodeUsage | None,
        request: int,
    ) -> Grants:
        names, claims = self._claims(parent, key, total, memory, changed, request)
        known = self._find_known(parent, key)
        tolerant = self._is_tolerant(known, key, total, memory)
        granted = divide(total or 0, claims, self._rounding, tolerant=tolerant)
        return dict(zip(names, granted, strict=True))

    def _claims(
        self,
        parent: NodeUsage,
        key: str,
        total: int | None,
        memory: Memory,
        changed: NodeUsage | None,
        request: int,
    ) -> tuple[list[str], list[ClaimTuple]]:
        """Return the names of the children with a claim, and their claims."""
        available = total or 0
        min_sum = self.min_sum(parent, key)
        # Quotas whose min is not scaled; if the mins fit, none is.
        unscaled = self._unrefreshed if memory.unrefreshed else NO_QUOTAS
        is_scaled = self._is_scaled(parent, key, total)
        names: list[str] = []
        claims: list[ClaimTuple] = []
        for child, name, limited, minimum, weight, is_lending in self._rows_of(parent, key):
            requested = request if child is changed else limited.get(key, 0)
            if not requested and is_lending:
                continue
            if memory.unseeded and child is not changed and may_usage_be_unseeded(child):
                requested = 0
            floor = minimum
            if is_scaled and minimum and name not in unscaled:
                floor = scaled_min(available, minimum, min_sum)
            names.append(name)
            claims.append((weight, requested, floor, is_lending))
        return names, claims

    def _rows_of(self, parent: NodeUsage, key: str) -> list[Row]:
        rows = self._rows.get((parent.name, key))
        if rows is None:
            rows = self._rows[parent.name, key] = [
                (
                    child,
                    child.name,
                    child.limited,
                    child.spec.min.get(key, 0),
                    child.spec.weight.get(key, 0),
                    not child.reserve,
                )
                for child in parent.children
            ]
        return rows

    def floor(self, child: NodeUsage, key: str, total: int | None, memory: Memory) -> int:
        """Return the min of a child, scaled down to what its parent has."""
        minimum = child.spec.min.get(key, 0)
        parent = child.parent
        assert parent is not None
        if not minimum or total is None or not self._is_scaled(parent, key, total):
            return minimum
        if memory.unrefreshed and child.name in self._unrefreshed:
            return minimum
        return scaled_min(total, minimum, self._min_sums[parent.name][key])

    def min_sum(self, parent: NodeUsage, key: str) -> int:
        """Return the sum of the mins of the children."""
        return self._min_sums[parent.name].get(key, 0)

    def _is_scaled(self, parent: NodeUsage, key: str, total: int | None) -> bool:
        below = self._scaled_below(parent, key)
        return below is not None and total is not None and total < below

    def _scaled_below(self, parent: NodeUsage, key: str) -> int | None:
        """Return of which totals mins are scaled: those less than this; None: of none."""
        if self._scales and (parent.parent is not None or key in (self._tree.total or {})):
            return self.min_sum(parent, key)
        return None


def _parents_of(
    parents: Iterable[NodeUsage], is_such: Callable[[NodeUsage], bool]
) -> frozenset[str]:
    return frozenset(
        parent.name for parent in parents if any(is_such(child) for child in parent.children)
    )


def _sum_of_mins(parent: NodeUsage) -> Amounts:
    total: Amounts = {}
    for child in parent.children:
        total = add(total, child.spec.min)
    return total


def _pooled(child: NodeUsage, key: str, requested: int, floor: int) -> PooledClaim | None:
    """Return what a child claims of a pool; None if it is not for a pool."""
    weight = child.spec.weight.get(key, 0)
    if requested <= floor:
        return weight, floor if child.reserve else requested, floor
    return (weight, requested, floor) if weight > 0 else None


def _renew(
    pool: ShareGroup | None, key: str, changed: Iterable[NodeUsage], question: PoolQuestion
) -> bool:
    """Put in what these children ask for by now; False: the pool is of no more use."""
    if pool is None:
        return False
    for child in changed:
        requested = child.limited.get(key, 0)
        if question[1] and may_usage_be_unseeded(child):
            requested = 0
        claim = _pooled(child, key, requested, child.spec.min.get(key, 0))
        if claim is None:
            return False
        pool.replace(child.name, claim)
    return True


def may_usage_be_unseeded(node: NodeUsage) -> bool:
    """Return whether a quota may have had no pod yet (`koord_scheduler_state`)."""
    return bool(node.reserve) and not node.children and not has_demand(node)
