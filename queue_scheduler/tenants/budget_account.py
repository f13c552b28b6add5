"""What one budget of one quota has spent, carried and promised. Exact, pure.

What is used is a line, as in `ledger`: `offset + rate * t` at second t, bent where a charge
changes. So a period that passes costs nothing until it is asked about or bent. Use is in the unit
of the budget (`budget_rules`), from when it was first counted.

A rolling budget knows what was used at each full hour of the last 30 days.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from queue_scheduler.tenants.budget_rules import BudgetRule
from queue_scheduler.tenants.commitments import Commitments, Promise, overlap
from queue_scheduler.tenants.hours import HOUR
from queue_scheduler.tenants.periods import Period

ROLLING_SECONDS: Final = 30 * 24 * HOUR

_PERCENT: Final = 100


class StoredBudget(msgspec.Struct, frozen=True, gc=False):
    """What is kept of one budget outside.

    Attributes:
        quota: Its quota.
        resource: What it counts (`BudgetRule.name`).
        period: When it begins anew.
        time_zone: Its time zone.
        number: As in `BudgetRule`.
        start: When the present period began.
        spent: What was used in it.
        brought: What it has from the last one; negative: a debt.
        counted_from: Since when use is counted.
        hours: Of a rolling budget: full hours, each with what was used until then, of what is still
            in sight.
        spent_since: Since when nothing is left; None: something is.
    """

    quota: str
    resource: str
    period: str
    time_zone: str
    number: int
    start: int
    spent: int
    brought: int
    counted_from: int
    hours: tuple[tuple[int, int], ...] = ()
    spent_since: int | None = None


class BudgetAccount:
    """The account of one budget of a quota.

    Attributes:
        quota: The quota.
        rule: The budget.
        counted_from: The second since which use is counted; 0: since ever.
        rate: What is charged now, in a second.
        seen: The second up to which time has passed.
        start: When the present period began.
        brought: What the period has from the last one; negative: a debt.
        spent_since: Since when nothing is left; None: something is.
        promised: What running units may still use.
    """

    def __init__(self, quota: str, rule: BudgetRule, edges: tuple[int, ...], second: int) -> None:
        """Count from a second on."""
        self.quota, self.rule = quota, rule
        self.counted_from, self.seen = second, second - 1
        self.rate = 0
        self.brought = 0
        self.spent_since: int | None = None
        self._longest = _longest(rule)
        self._offset = 0
        self._before = 0
        self._marked = second - second % HOUR
        self._hours = deque([(self._marked, 0)])
        self.promised = Commitments(_starts(rule, edges))
        self._period = self._find_period(second)
        self.start = self.promised.starts[self._period]

    # --- time ---------------------------------------------------------------------------------

    def _find_period(self, second: int) -> int:
        return max(0, bisect_right(self.promised.starts, second) - 1)

    def advance(self, second: int) -> None:
        """Let time pass: periods end."""
        if second <= self.seen:
            return  # a bend changes nothing at its own second
        self.seen = second
        if self.rule.period is Period.ROLLING_30D:
            self._mark_hours(second)
        while (end := self.end) is not None and end <= second:
            self._close(end)
        self.promised.pass_until(second)
        self._note_spent(second)

    @property
    def end(self) -> int | None:
        """When the present period ends; None: never. A rolling budget changes each hour."""
        return self.promised.end_of(self._period)

    def _close(self, end: int) -> None:
        """Begin the next period, with what is left of this one, or with its debt."""
        used, rule = self._used(end), self.rule
        left = rule.limit + self.brought - (used - self._before)
        if left < 0:
            self.brought = left if rule.is_debt_counted else 0
        else:
            # What was brought goes first, so what is left of it is what is beyond the own limit.
            self.brought = min(left, rule.limit) * rule.carry_over // _PERCENT
        self._before, self.start = used, end
        self._period += 1
        self._note_spent(end)

    def _mark_hours(self, second: int) -> None:
        """Note what was used at the full hours since the last look; idle hours need no mark."""
        hours, hour = self._hours, second - second % HOUR
        for each in range(max(self._marked + HOUR, hour - ROLLING_SECONDS), hour + 1, HOUR):
            used = self._used(each)
            if used == hours[-1][1] and not self.rate:
                break
            hours.append((each, used))
        self._marked = max(self._marked, hour)
        while len(hours) > 1 and hours[1][0] <= hour - ROLLING_SECONDS:
            hours.popleft()

    def _used(self, second: int) -> int:
        return self._offset + self.rate * second

    def _note_spent(self, second: int, *, is_other: bool = False) -> None:
        """Note since when nothing is left.

        Args:
            second: The present second.
            is_other: Whether the limit, or what was spent, is another from this second on.
        """
        left = self.left(second)
        if left > 0:
            self.spent_since = None
        elif self.spent_since is None:
            # With the present rate it was spent some time ago, at the earliest in this period. If
            # it is another budget, what runs has the whole grace from now on.
            ago = -left // self.rate if self.rate > 0 and not is_other else 0
            self.spent_since = max(self.start, second - ago)

    def next_change(self, second: int) -> int | None:
        """Return the next second at which time alone changes an answer, or None."""
        times = [self.promised.next_end(), self.end]
        if self.rule.period is Period.ROLLING_30D:
            times.append(second - second % HOUR + HOUR)
        left = self.left(second)
        if self.rate > 0 and left > 0:
            times.append(second - -left // self.rate)
        if self.spent_since is not None and self.spent_since + self.rule.grace > second:
            times.append(self.spent_since + self.rule.grace)
        return min((each for each in times if each is not None), default=None)

    # --- charges ------------------------------------------------------------------------------

    def bend(self, rate: int, second: int) -> None:
        """Charge so much more in a second from now on; time must have passed until then."""
        self._offset -= rate * second
        self.rate += rate

    def set_spent(self, spent: int, since: int, second: int) -> None:
        """Take what was used in the present period, of which not all was counted here.

        Args:
            spent: How much.
            since: Since when that is counted.
            second: The present second.
        """
        self._offset += spent - self.spent(second)
        self.counted_from = since
        self._note_spent(second, is_other=True)

    # --- questions ----------------------------------------------------------------------------

    def spent(self, second: int) -> int:
        """Return what is used in the present period."""
        before = self._hours[0][1] if self.rule.period is Period.ROLLING_30D else self._before
        return self._used(second) - before

    def left(self, second: int) -> int:
        """Return what may still be used in the present period by all; negative: a debt."""
        return self.rule.limit + self.brought - self.spent(second)

    def committed(self, second: int) -> int:
        """Return what running units may still use in the present period."""
        return next(self.promised.by_period(self._period, second))

    def find_shortage(self, rate: int, seconds: int, second: int) -> Shortage | None:
        """Return the first period that lacks something for a unit which starts now, or None.

        Args:
            rate: What the unit is charged in a second.
            seconds: How long it runs.
            second: The present second.
        """
        seconds = min(seconds, self._longest)
        least = min(self.left(second), self.rule.limit)
        if self.promised.total(second) + rate * seconds <= least:
            return None  # mostly: no period could lack anything, whichever the unit touches
        touched = self._shortages(rate, second + seconds, second)
        return next((each for each in touched if each.missing), None)

    def _shortages(self, rate: int, until: int, second: int) -> Iterator[Shortage]:
        """Yield, for each period that a unit touches which starts now, what it needs and has."""
        starts = self.promised.starts
        promised = self.promised.by_period(self._period, second)
        for period in range(self._period, len(starts)):
            start = max(second, starts[period])
            if start >= until:
                return
            committed = next(promised)
            need = rate * overlap(second, until, start, self.promised.end_of(period))
            is_present = period == self._period
            left = self.left(second) if is_present else self.rule.limit
            yield Shortage(start, left - committed, committed, need, is_present=is_present)

    def promise(self, promise: Promise) -> Promise:
        """Return a promise as far as it concerns one budget."""
        seconds = self._longest
        if promise.seconds <= seconds:
            return promise
        end = None if promise.end is None else promise.end - promise.seconds + seconds
        return Promise(end, seconds)

    def frees_at(self, missing: int, second: int) -> int | None:
        """Return when so much more may be left, if nothing changes; None: never."""
        if self.rule.period is not Period.ROLLING_30D:
            return self.end
        base = self._hours[0][1]
        for hour, used in self._hours:
            at = hour + ROLLING_SECONDS
            if used - base >= missing and at > second:
                return at
        return second - second % HOUR + ROLLING_SECONDS + HOUR

    # --- outside and copies -------------------------------------------------------------------

    def stored(self, second: int) -> StoredBudget:
        """Return what is to be kept outside; time must have passed until then."""
        rule, base = self.rule, self._hours[0][1]
        is_rolling = rule.period is Period.ROLLING_30D
        return StoredBudget(
            quota=self.quota,
            resource=rule.name,
            period=rule.period,
            time_zone=rule.time_zone,
            number=rule.number,
            start=self.start,
            spent=self.spent(second),
            brought=self.brought,
            counted_from=self.counted_from,
            hours=tuple((hour, used - base) for hour, used in self._hours) if is_rolling else (),
            spent_since=self.spent_since,
        )

    def restore(self, stored: StoredBudget, settled: int) -> None:
        """Take what was kept until a second, without charges."""
        self.rate, self._offset, self._before = 0, stored.spent, 0
        self.brought, self.counted_from = stored.brought, stored.counted_from
        # What runs on is stopped as long after that as it would have been without the restart.
        self.spent_since = stored.spent_since
        self._marked = settled - settled % HOUR
        self._hours = deque(stored.hours or [(self._marked, 0)])
        self.promised, self.seen = Commitments(self.promised.starts), settled - 1
        # Where the edges are others by now, what was spent counts in the period that it was in.
        self._period = self._find_period(settled)
        self.start = self.promised.starts[self._period]

    def take_rule(self, rule: BudgetRule, edges: tuple[int, ...], second: int) -> None:
        """Take another limit or other edges of the same budget; promises are to be added anew."""
        self.advance(second)
        self.rule = rule
        self.promised = Commitments(_starts(rule, edges))
        # Edges that were not known before may have passed.
        self._period = self._find_period(self.start)
        self.start = self.promised.starts[self._period]
        self._note_spent(second, is_other=True)
        self.seen = second - 1
        self.advance(second)

    def copy(self) -> BudgetAccount:
        """Return an independent copy."""
        twin: BudgetAccount = BudgetAccount.__new__(BudgetAccount)
        twin.quota, twin.rule, twin.counted_from = self.quota, self.rule, self.counted_from
        twin.rate, twin.brought, twin.spent_since = self.rate, self.brought, self.spent_since
        twin.seen, twin._longest = self.seen, self._longest
        twin._offset, twin._before, twin._hours = self._offset, self._before, self._hours.copy()
        twin._marked = self._marked
        twin.promised, twin._period, twin.start = self.promised.copy(), self._period, self.start
        return twin


class Shortage(msgspec.Struct, frozen=True, gc=False):
    """What a unit needs of a budget in one period.

    Attributes:
        start: When the unit's part of the period begins.
        left: What is left, without what is committed; negative: nothing.
        committed: What running units may still use of it.
        need: What the unit needs.
        is_present: Whether it is the present period.
    """

    start: int
    left: int
    committed: int
    need: int
    is_present: bool

    @property
    def missing(self) -> int:
        """How much is short; 0: nothing."""
        return max(0, self.need - self.left)


def _starts(rule: BudgetRule, edges: tuple[int, ...]) -> tuple[int, ...]:
    return edges if rule.period.is_of_calendar and edges else (0,)


def _longest(rule: BudgetRule) -> int:
    """Return how many seconds of a unit count at most: a window has no more."""
    return ROLLING_SECONDS + HOUR if rule.period is Period.ROLLING_30D else 2**63
