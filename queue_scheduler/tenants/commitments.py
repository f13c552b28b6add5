"""What running units may still use, as they declare it, by period. Exact, pure.

A unit that runs ends at a known second, and one that is admitted and does not run yet runs for a
known time from whenever it begins. Those that should have ended by now, and go on, count no longer:
nobody knows for how long.

Ends are summed up by the period that they are in, so a question costs as much as there are periods
between now and the last end that matters, whatever the number of units.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final, NamedTuple


class Promise(NamedTuple):
    """Until when a unit is charged, as it declares.

    Attributes:
        end: The second at which it ends; None: it does not run yet.
        seconds: How long it runs in all.
    """

    end: int | None
    seconds: int


class Declared(NamedTuple):
    """What is known of how long a charged unit runs.

    Attributes:
        promise: What it declares; None: nothing.
        since: When it was admitted, in seconds since the epoch; None: it is not known yet.
    """

    promise: Promise | None
    since: int | None

    def or_else(self, seconds: int) -> Promise:
        """Return what counts if a unit that declares nothing runs so long from its admission."""
        if self.promise is not None:
            return self.promise
        return Promise(None if self.since is None else self.since + seconds, seconds)


NOTHING_DECLARED: Final = Declared(None, None)


class Commitments:
    """The sums of one budget.

    Args:
        starts: The first seconds of its periods, ascending; the last has no end. At least one.
    """

    def __init__(self, starts: tuple[int, ...]) -> None:
        self.starts = starts
        self._rates = [0] * len(starts)
        self._rate_ends = [0] * len(starts)
        # The sums over all periods.
        self._rate = self._rate_end = 0
        self._at_end: dict[int, int] = {}
        self._ends: list[int] = []
        self._passed = 0
        self._waiting: dict[int, int] = {}
        self._waiting_total = 0

    def add(self, promise: Promise, rate: int) -> None:
        """Count a unit, or with the negative rate no more; what has ended by now is not counted."""
        end = promise.end
        if end is None:
            self._waiting_total += rate * promise.seconds
            left = self._waiting.get(promise.seconds, 0) + rate
            if left:
                self._waiting[promise.seconds] = left
            else:
                self._waiting.pop(promise.seconds, None)
            return
        if end <= self._passed:
            return
        if end not in self._at_end:
            heappush(self._ends, end)
        self._count(end, rate)
        self._at_end[end] = self._at_end.get(end, 0) + rate

    def pass_until(self, second: int) -> None:
        """Let time pass: what should have ended by then counts no more."""
        self._passed = max(self._passed, second)
        while self._ends and self._ends[0] <= second:
            end = heappop(self._ends)
            self._count(end, -self._at_end.pop(end))

    def next_end(self) -> int | None:
        """Return the next second at which something ends, or None."""
        return self._ends[0] if self._ends else None

    def _count(self, end: int, rate: int) -> None:
        period = max(0, bisect_left(self.starts, end) - 1)
        self._rates[period] += rate
        self._rate_ends[period] += rate * end
        self._rate += rate
        self._rate_end += rate * end

    def total(self, now: int) -> int:
        """Return what is committed in the period that `now` is in and all that follow it.

        Args:
            now: The second, up to which time has passed.
        """
        return self._rate_end - self._rate * now + self._waiting_total

    def by_period(self, first: int, now: int) -> Iterator[int]:
        """Yield what is committed in a period and in each that follows it.

        Args:
            first: The place of the period that `now` is in.
            now: The second, up to which time has passed.
        """
        later = sum(self._rates[first:])
        for period in range(first, len(self.starts)):
            start = max(now, self.starts[period])
            later -= self._rates[period]
            found = self._rate_ends[period] - self._rates[period] * start
            end = self.end_of(period)
            if end is not None:
                found += later * (end - start)
            for seconds, rate in self._waiting.items():
                found += rate * overlap(now, now + seconds, start, end)
            yield found

    def end_of(self, period: int) -> int | None:
        """Return the second at which a period ends; None: it has no end."""
        return self.starts[period + 1] if period + 1 < len(self.starts) else None

    def copy_empty(self) -> Commitments:
        """Return sums of nothing, at the same second."""
        twin = Commitments(self.starts)
        twin._passed = self._passed
        return twin

    def copy(self) -> Commitments:
        """Return an independent copy."""
        twin = Commitments(self.starts)
        twin._rates, twin._rate_ends = self._rates[:], self._rate_ends[:]
        twin._rate, twin._rate_end = self._rate, self._rate_end
        twin._at_end, twin._ends = dict(self._at_end), self._ends[:]
        twin._passed, twin._waiting = self._passed, dict(self._waiting)
        twin._waiting_total = self._waiting_total
        return twin

    def state(self) -> tuple[object, ...]:
        """Return what is summed up, in the same order in every process."""
        ends = sorted((end, rate) for end, rate in self._at_end.items() if rate)
        return self.starts, ends, sorted(self._waiting.items())


def overlap(start: int, end: int, first: int, last: int | None) -> int:
    """Return the seconds from `start` to `end` that are in a period; `last` None: without end."""
    return max(0, (end if last is None else min(end, last)) - max(start, first))
