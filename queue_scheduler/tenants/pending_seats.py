"""Which units may be pending where the pending units of a user or group are limited. Pure.

A unit that may be pending *stands in line* with the other units of its account and quota, by
creation, then namespace and name. The oldest have the *seats*: going through the units of all lines
in that order, each takes one at every limit that concerns it, unless one of them has none left.
So who is seated follows from the units and the rules alone, whatever came first.

In each line those that are seated come before the others: a limit that had no seat for one has none
for the next. So a change costs as much as there are seats in the lines that share a limit with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import TypeAlias

from queue_scheduler.framework.queue_unit_info import OrderKey, unit_key
from queue_scheduler.queueing.pending_order import PendingOrder
from queue_scheduler.tenants.limit_use import Counted
from shared_api.submitters import Submitter

LineId: TypeAlias = tuple[str, Submitter]
"""The quota and the account of a line."""

SeatLimits: TypeAlias = tuple[tuple[Counted, int], ...]
"""How many units may be pending, at each limit that concerns a line."""


class _Line:
    """The units of one account and quota.

    Attributes:
        limits: How many may be pending.
        order: The units by creation.
        seated: How many of them have a seat.
    """

    __slots__ = ("limits", "order", "seated")

    def __init__(self, limits: SeatLimits) -> None:
        self.limits = limits
        self.order = PendingOrder()
        self.seated = 0

    def copy(self) -> _Line:
        """Return an independent copy."""
        twin = _Line(self.limits)
        twin.order, twin.seated = self.order.copy(), self.seated
        return twin


class PendingSeats:
    """The lines, and who is seated.

    Attributes:
        moved: Keys of units that may have got or lost a seat; cleared by the reader.
    """

    def __init__(self) -> None:
        self.moved: dict[str, None] = {}
        self._lines: dict[LineId, _Line] = {}
        self._at: dict[Counted, dict[LineId, None]] = {}

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys of all units that stand in line."""
        return (unit_key(place) for line in self._lines.values() for place in line.order)

    def add(self, line_id: LineId, place: OrderKey, limits: SeatLimits) -> None:
        """Let a unit stand in line."""
        line = self._lines.get(line_id)
        if line is None:
            line = self._lines[line_id] = _Line(limits)
            for counted, _ in limits:
                self._at.setdefault(counted, {})[line_id] = None
        line.order.add(place)
        self._seat(line_id)

    def remove(self, line_id: LineId, place: OrderKey) -> None:
        """Let a unit leave its line, if it stands there."""
        line = self._lines.get(line_id)
        if line is None or place not in line.order:
            return
        line.order.remove(place)
        self._seat(line_id)
        if len(line.order):
            return
        del self._lines[line_id]
        for counted, _ in line.limits:
            lines = self._at[counted]
            del lines[line_id]
            if not lines:
                del self._at[counted]

    def find_full(self, line_id: LineId, place: OrderKey) -> tuple[Counted, int] | None:
        """Return a limit that has no seat for a unit; None: it has its seats, or is in no line."""
        line = self._lines.get(line_id)
        if line is None or line.order.count_before(place) < line.seated:
            return None
        taken = self._count_taken(line.limits)
        return next((each for each in line.limits if taken[each[0]] >= each[1]), line.limits[0])

    def clear(self) -> None:
        """Forget all lines."""
        self._lines, self._at = {}, {}

    def _count_taken(self, limits: SeatLimits) -> dict[Counted, int]:
        lines = self._lines
        return {
            counted: sum(lines[each].seated for each in self._at[counted]) for counted, _ in limits
        }

    def _seat(self, changed: LineId) -> None:
        """Find out who is seated in the lines that a change of one concerns."""
        found = self._find_seated(self._find_sharing(changed))
        for line_id, seated in found.items():
            line = self._lines[line_id]
            if seated == line.seated and line_id != changed:
                continue
            # One more at both ends: the change has moved the others by one.
            first, last = sorted((seated, line.seated))
            between = islice(line.order, max(0, first - 1), last + 1)
            self.moved.update(dict.fromkeys(map(unit_key, between)))
            line.seated = seated

    def _find_sharing(self, line_id: LineId) -> list[LineId]:
        """Return the lines that share a limit with a line, or with another of them."""
        found = {line_id: None}
        ahead = [line_id]
        while ahead:
            limits = self._lines[ahead.pop()].limits
            others = (other for counted, _ in limits for other in self._at[counted])
            new = [other for other in dict.fromkeys(others) if other not in found]
            found.update(dict.fromkeys(new))
            ahead += new
        return list(found)

    def _find_seated(self, line_ids: Iterable[LineId]) -> dict[LineId, int]:
        """Return how many are seated in each of these lines, which share limits with no others."""
        taken: dict[Counted, int] = {}
        seated: dict[LineId, int] = {}
        heap: list[tuple[OrderKey, LineId]] = []
        orders = {line_id: iter(self._lines[line_id].order) for line_id in line_ids}
        for line_id, order in orders.items():
            seated[line_id] = 0
            if (place := next(order, None)) is not None:
                heappush(heap, (place, line_id))
        while heap:
            _, line_id = heappop(heap)
            limits = self._lines[line_id].limits
            if any(taken.get(counted, 0) >= limit for counted, limit in limits):
                continue
            for counted, _ in limits:
                taken[counted] = taken.get(counted, 0) + 1
            seated[line_id] += 1
            if (place := next(orders[line_id], None)) is not None:
                heappush(heap, (place, line_id))
        return seated

    def copy(self) -> PendingSeats:
        """Return an independent copy."""
        twin = PendingSeats()
        twin.moved = dict(self.moved)
        twin._lines = {line_id: line.copy() for line_id, line in self._lines.items()}
        twin._at = {counted: dict(lines) for counted, lines in self._at.items()}
        return twin

    def validate(self) -> None:
        """Seat all units anew; raise AssertionError where others are seated."""
        seated = {line_id: line.seated for line_id, line in self._lines.items()}
        want = self._find_seated(self._lines)
        assert seated == want, f"seated are {seated}, should be {want}"
