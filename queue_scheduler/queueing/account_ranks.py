"""Where the accounts of one queue stand, and with them its units. Pure.

The order keys of a queue with the policy Fair begin with their lane (`fair_settings.Lane`), and
never change. A *place* has the ranks of the account instead: places of the present are compared,
not keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from queue_scheduler.framework.queue_unit_info import OrderKey
from queue_scheduler.queueing.fair_settings import Lane, Path

Prefix: TypeAlias = tuple[int, tuple[int, ...]]
"""Where the units of a lane stand: (negated priority, ranks from the top)."""


class AccountRanks:
    """The ranks of accounts, and of those above them."""

    __slots__ = ("_of_paths", "_prefixes")

    def __init__(self) -> None:
        self._of_paths: dict[Path, int] = {}
        self._prefixes: dict[Lane, Prefix] = {}

    def place(self, key: OrderKey) -> OrderKey:
        """Return the place of an order key."""
        lane = key[0]
        prefix = self._prefixes.get(lane) or self.prefix(lane)
        return (*prefix, *key[1:])

    def prefix(self, lane: Lane) -> Prefix:
        """Return where the units of a lane stand; accounts without a rank come first."""
        known = self._prefixes.get(lane)
        if known is None:
            path = lane[1]
            ranks = (self._of_paths.get(path[: n + 1], 0) for n in range(len(path)))
            known = self._prefixes[lane] = (lane[0], tuple(ranks))
        return known

    def rank_of(self, path: Path) -> int | None:
        """Return the rank of an account; None: it has none."""
        return self._of_paths.get(path)

    def put(self, ranks: Mapping[Path, int]) -> None:
        """Take ranks of accounts."""
        self._of_paths.update(ranks)
        self._prefixes.clear()

    def keep(self, lanes: Mapping[Lane, object]) -> None:
        """Forget the accounts that have none of these lanes."""
        paths = {lane[1][: n + 1] for lane in lanes for n in range(len(lane[1]))}
        self._of_paths = {p: rank for p, rank in self._of_paths.items() if p in paths}
        self._prefixes = {}

    def __len__(self) -> int:
        return len(self._of_paths)

    def copy(self) -> AccountRanks:
        """Return an independent copy."""
        twin = AccountRanks()
        twin._of_paths, twin._prefixes = self._of_paths.copy(), self._prefixes.copy()
        return twin
