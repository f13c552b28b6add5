"""Which units may be pending where the pending units of a user or group are limited. Pure.

A unit that may be pending *stands in line* with the other units of its account and quota, by
creation, then namespace and name. The oldest have the *seats*: going through the units of all lines
in that order, each takes one at every limit that concerns it, unless one of them has none left.
So who is seated follows from the units and the rules alone, whatever came first.

In each line those that are seated come before the others: a limit that had no seat for one has none
for the next. A change moves the units of other lines only where a limit of its line is full, so
most cost the same however many units there are. Otherwise all lines that share a limit are seated
anew: that costs as much as they have seats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
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
        self._taken: dict[Counted, int] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

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
                self._taken.setdefault(counted, 0)
        line.order.add(place)
        if not self._is_without(line, place):
            self._seat(line_id)

    def remove(self, line_id: LineId, place: OrderKey) -> None:
        """Let a unit leave its line, if it stands there."""
        line = self._lines.get(line_id)
        if line is None or place not in line.order:
            return
        is_seated = line.order.count_before(place) < line.seated
        line.order.remove(place)
        if is_seated:
            self._seat(line_id)
        if len(line.order):
            return
        del self._lines[line_id]
        for counted, _ in line.limits:
            lines = self._at[counted]
            del lines[line_id]
            if not lines:
                del self._at[counted]
                del self._taken[counted]

    def find_full(self, line_id: LineId, place: OrderKey) -> tuple[Counted, int] | None:
        """Return a limit that has no seat for a unit; None: it has its seats, or is in no line."""
        line = self._lines.get(line_id)
        if line is None or line.order.count_before(place) < line.seated:
            return None
        return self._find_full(line) or line.limits[0]

    def clear(self) -> None:
        """Forget all lines."""
        self._lines, self._at, self._taken = {}, {}, {}

    def _find_full(self, line: _Line) -> tuple[Counted, int] | None:
        """Return a limit of a line that has no seat left."""
        return next((each for each in line.limits if self._taken[each[0]] >= each[1]), None)

    def _is_without(self, line: _Line, place: OrderKey) -> bool:
        """Return whether a unit that has joined a line gets no seat, and takes none from others."""
        before = line.order.count_before(place)
        if before > line.seated:
            self.moved[unit_key(place)] = None
            return True
        full = self._find_full(line)
        if full is None:
            return False
        lines = (self._lines[line_id] for line_id in self._at[full[0]])
        taken = sum(min(each.seated, each.order.count_before(place)) for each in lines)
        if taken < full[1]:
            return False
        self.moved[unit_key(place)] = None
        return True

    def _seat(self, changed: LineId) -> None:
        """Find out who is seated after a change of a line: one joined it, or has left its seat."""
        line = self._lines[changed]
        if self._find_full(line) is None:
            # There is a seat left for whoever has joined, and nobody waited for one that was left.
            self._set_seated(line, len(line.order))
            return
        if all(len(self._at[counted]) == 1 for counted, _ in line.limits):
            self._set_seated(line, min(len(line.order), *(limit for _, limit in line.limits)))
            return
        found = self._find_seated(self._find_sharing(changed))
        for line_id, seated in found.items():
            if seated != self._lines[line_id].seated or line_id == changed:
                self._set_seated(self._lines[line_id], seated)

    def _set_seated(self, line: _Line, seated: int) -> None:
        # One more at both ends: the change has moved the others by one.
        first, last = sorted((seated, line.seated))
        for position in range(max(0, first - 1), last + 1):
            place = line.order.at(position)
            if place is not None:
                self.moved[unit_key(place)] = None
        for counted, _ in line.limits:
            self._taken[counted] += seated - line.seated
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
        twin._taken = dict(self._taken)
        return twin

    def differences(self) -> dict[LineId, tuple[int, int]]:
        """Seat all units anew; return where others are seated: how many are, and should be."""
        want = self._find_seated(self._lines)
        found = {line_id: (line.seated, want[line_id]) for line_id, line in self._lines.items()}
        return {line_id: pair for line_id, pair in found.items() if pair[0] != pair[1]}

    def validate(self) -> None:
        """Raise AssertionError where others are seated than should be."""
        wrong = self.differences()
        assert not wrong, f"seated are, and should be, {wrong}"
        lines = self._lines.values()
        for counted, taken in self._taken.items():
            at = sum(line.seated for line in lines if counted in dict(line.limits))
            assert taken == at, f"{taken} seats are taken at {counted}, should be {at}"
