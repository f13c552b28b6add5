"""Where the accounts of one queue stand, and with them its units. Pure.

The order keys of a queue with the policy Fair begin with their lane (`fair_settings.Lane`), and
never change. A *place* has the standing of the lane instead: places of the present are compared,
not keys.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import TypeAlias

from queue_scheduler.framework.queue_unit_info import OrderKey
from queue_scheduler.queueing.fair_settings import Lane, Path, levels_of

Standing: TypeAlias = tuple[int, ...]
"""Where the units of a lane stand: the negated priority, and the ranks of accounts from the top."""


class AccountRanks:
    """The ranks of accounts, and of those above them.

    Attributes:
        of_lanes: The standing of lanes; while it is the same object, it is unchanged.
        lanes: The same lanes, each by itself: equal lanes that are one object compare at once.
        version: Increases when a standing changes.
        in_order: The lanes that have units, in order.
    """

    __slots__ = ("_lanes_at", "_of_paths", "_order", "in_order", "lanes", "of_lanes", "version")

    def __init__(self) -> None:
        self.of_lanes: dict[Lane, Standing] = {}
        self.lanes: dict[Lane, Lane] = {}
        self.version = 1
        self.in_order: list[Lane] = []
        # The same with their standings.
        self._order: list[tuple[Standing, Lane]] = []
        self._of_paths: dict[Path, int] = {}
        # The known lanes that an account's rank decides about.
        self._lanes_at: dict[Path, dict[Lane, None]] = {}

    def place(self, key: OrderKey) -> OrderKey:
        """Return the place of an order key."""
        lane = key[0]
        return (self.of_lanes.get(lane) or self.standing(lane), *key[1:])

    def standing(self, lane: Lane) -> Standing:
        """Return where the units of a lane stand; accounts without a rank come first."""
        known = self.of_lanes.get(lane)
        if known is None:
            known = self.of_lanes[lane] = self._find(lane)
            self._note(lane)
        return known

    def rank_of(self, path: Path) -> int | None:
        """Return the rank of an account; None: it has none."""
        return self._of_paths.get(path)

    def put(self, ranks: Mapping[Path, int]) -> None:
        """Take ranks of accounts."""
        self._of_paths.update(ranks)
        of_lanes, lanes_at = self.of_lanes, self._lanes_at
        for lane in {lane: None for path in ranks for lane in lanes_at.get(path, ())}:
            before, now = of_lanes[lane], self._find(lane)
            if before != now:
                self.version += 1
                of_lanes[lane] = now
                if self._take_out(before, lane):
                    self._put_in(now, lane)

    def open(self, lane: Lane) -> None:
        """Note that a lane has units from now on."""
        self._put_in(self.standing(lane), lane)

    def close(self, lane: Lane) -> None:
        """Note that a lane has no units any more."""
        self._take_out(self.standing(lane), lane)

    def _put_in(self, standing: Standing, lane: Lane) -> None:
        entry = standing, lane
        index = bisect_left(self._order, entry)
        self._order.insert(index, entry)
        self.in_order.insert(index, lane)

    def _take_out(self, standing: Standing, lane: Lane) -> bool:
        order, entry = self._order, (standing, lane)
        index = bisect_left(order, entry)
        is_in = index < len(order) and order[index] == entry
        if is_in:
            del order[index], self.in_order[index]
        return is_in

    def keep(self, lanes: Mapping[Lane, object]) -> None:
        """Forget the accounts that have none of these lanes."""
        paths = {path for lane in lanes for path in levels_of(lane[1])}
        self._of_paths = {p: rank for p, rank in self._of_paths.items() if p in paths}
        self.of_lanes = {lane: each for lane, each in self.of_lanes.items() if lane in lanes}
        self.lanes, self._lanes_at = {}, {}
        for lane in self.of_lanes:
            self._note(lane)

    def _note(self, lane: Lane) -> None:
        self.lanes[lane] = lane
        for path in levels_of(lane[1]):
            self._lanes_at.setdefault(path, {})[lane] = None

    def _find(self, lane: Lane) -> Standing:
        path, ranks = lane[1], self._of_paths
        if len(path) == 1:  # mostly
            return lane[0], ranks.get(path, 0)
        return (lane[0], *(ranks.get(each, 0) for each in levels_of(path)))

    def __len__(self) -> int:
        """Return how many lanes are known; an account has many if priority comes first."""
        return len(self.of_lanes)

    def copy(self) -> AccountRanks:
        """Return an independent copy."""
        twin = AccountRanks()
        twin._of_paths, twin.of_lanes = self._of_paths.copy(), self.of_lanes.copy()
        twin.lanes, twin.version = self.lanes.copy(), self.version
        twin.in_order, twin._order = self.in_order[:], self._order[:]
        twin._lanes_at = {path: lanes.copy() for path, lanes in self._lanes_at.items()}
        return twin
