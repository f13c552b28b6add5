"""One division of one resource among the children of one quota, from the running sums.

The same arithmetic as `runtime_quota.compute_division`, for a single parent and resource. Children
that ask for nothing and reserve nothing get nothing, and are left out. Divisions are kept until a
child asks for another amount (`tree_books.ask_for` drops them).
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from queue_scheduler.quota.runtime_quota import NO_QUOTAS, ClaimTuple, divide, scaled_min
from queue_scheduler.quota.tree_books import NodeBooks, TreeBooks, has_demand
from shared_api.resource_list import Amounts

Grants: TypeAlias = dict[str, int]
"""What each child gets, by name; who is missing gets nothing."""


class Memory(msgspec.Struct, frozen=True):
    """A state of the scheduler's memory: are those that may be so unseeded, unrefreshed?"""

    unseeded: bool = False
    unrefreshed: bool = False


MOST_KNOWN: Final = 256
"""Divisions that are remembered per node and resource until somebody there asks for more or less:
of a hundred who wait, many ask the same question about the levels above them."""

Row: TypeAlias = tuple[NodeBooks, str, Amounts, int, int, bool]
"""child, its name, what it asks for (running), its min, its weight, whether it lends."""


class NodeDivision:
    """Divides in one tree; `unrefreshed` are the quotas that may be so (`scheduler_memory`)."""

    __slots__ = ("_rounding", "_rows", "_scales", "_tree", "_unrefreshed")

    def __init__(self, tree: TreeBooks, unrefreshed: frozenset[str]) -> None:
        self._tree = tree
        self._rounding = tree.settings.rounding
        self._scales = tree.settings.scale_min
        self._unrefreshed = unrefreshed
        self._rows: dict[tuple[str, str], list[Row]] = {}

    def keep(
        self, parent: NodeBooks, key: str, total: int | None, memory: Memory, grants: Grants
    ) -> None:
        """Note a division that was foreseen with a change: it has come true."""
        question = (total, memory.unseeded, memory.unrefreshed, None, 0)
        parent.divided.setdefault(key, {})[question] = grants

    def divide(
        self,
        parent: NodeBooks,
        key: str,
        total: int | None,
        memory: Memory,
        changed: NodeBooks | None = None,
        request: int = 0,
    ) -> Grants:
        """Return what the children get of a total, or would get if `changed` asked for `request`.

        A total of None: nobody divides among the parents.
        """
        known = parent.divided.setdefault(key, {})
        question = (total, memory.unseeded, memory.unrefreshed, changed, request)
        grants = known.get(question)
        if grants is None:
            if len(known) >= MOST_KNOWN:
                known.clear()
            grants = known[question] = self._divide(parent, key, total, memory, changed, request)
        return grants

    def _divide(
        self,
        parent: NodeBooks,
        key: str,
        total: int | None,
        memory: Memory,
        changed: NodeBooks | None,
        request: int,
    ) -> Grants:
        available = total or 0
        min_sum = parent.min_sums.get(key, 0)
        # Whose min is not scaled; everybody's, where the mins fit.
        unscaled = self._unrefreshed if memory.unrefreshed else NO_QUOTAS
        is_scaled = self._is_scaled(parent, key, total)
        names: list[str] = []
        claims: list[ClaimTuple] = []
        for child, name, limited, minimum, weight, is_lending in self._rows_of(parent, key):
            asked = request if child is changed else limited.get(key, 0)
            if not asked and is_lending:
                continue
            if memory.unseeded and child is not changed and may_be_unseeded(child):
                asked = 0
            floor = minimum
            if is_scaled and minimum and name not in unscaled:
                floor = scaled_min(available, minimum, min_sum)
            names.append(name)
            claims.append((weight, asked, floor, is_lending))
        granted = divide(available, claims, self._rounding)
        return dict(zip(names, granted, strict=True))

    def _rows_of(self, parent: NodeBooks, key: str) -> list[Row]:
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

    def floor(self, child: NodeBooks, key: str, total: int | None, memory: Memory) -> int:
        """Return the min of a child, scaled down to what its parent has."""
        minimum = child.spec.min.get(key, 0)
        parent = child.parent
        assert parent is not None
        if not minimum or total is None or not self._is_scaled(parent, key, total):
            return minimum
        if memory.unrefreshed and child.name in self._unrefreshed:
            return minimum
        return scaled_min(total, minimum, parent.min_sums[key])

    def _is_scaled(self, parent: NodeBooks, key: str, total: int | None) -> bool:
        if not self._scales or total is None or total >= parent.min_sums.get(key, 0):
            return False
        return parent.parent is not None or key in (self._tree.total or {})


def may_be_unseeded(books: NodeBooks) -> bool:
    """Say whether a quota may have had no pod yet (`scheduler_memory`)."""
    return bool(books.reserve) and not books.children and not has_demand(books)
