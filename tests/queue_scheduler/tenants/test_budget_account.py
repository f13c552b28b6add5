"""One budget: its periods, its hours, and what is kept of it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from queue_scheduler.tenants.budget_account import BudgetAccount
from queue_scheduler.tenants.budget_rules import BudgetRule
from queue_scheduler.tenants.commitments import Promise, overlap
from queue_scheduler.tenants.periods import Period
from tests.budget_world import HOUR, at

BEGIN = at("2026-11-02T10:00")
EDGES = tuple(at(f"2026-{month}-01T00:00") for month in (10, 11, 12))


def account(period: Period = Period.MONTH, second: int = BEGIN, **fields: Any) -> BudgetAccount:
    """Return the account of a budget of 100 seconds."""
    rule = BudgetRule(name="cpu", weights={"cpu": 1}, limit=100, scale=1, period=period, **fields)
    return BudgetAccount("q", rule, EDGES, second)


def use(of: BudgetAccount, rate: int, second: int) -> None:
    of.advance(second)
    of.bend(rate, second)


class TestRolling:
    def test_use_within_an_hour_leaves_with_that_hour(self) -> None:
        found = account(Period.ROLLING_30D)
        use(found, 1, BEGIN + 100)
        use(found, -1, BEGIN + 160)
        use(found, 1, BEGIN + 5 * HOUR + 100)
        use(found, -1, BEGIN + 5 * HOUR + 110)
        for after, want in ((720 * HOUR + 3599, 70), (721 * HOUR, 10), (726 * HOUR, 0)):
            twin = found.copy()
            twin.advance(BEGIN + after)
            assert twin.spent(BEGIN + after) == want, after

    def test_when_enough_leaves(self) -> None:
        found = account(Period.ROLLING_30D)
        use(found, 1, BEGIN)
        use(found, -1, BEGIN + 60)
        use(found, 1, BEGIN + 2 * HOUR)
        use(found, -1, BEGIN + 2 * HOUR + 30)
        now = BEGIN + 3 * HOUR
        found.advance(now)
        assert found.frees_at(60, now) == BEGIN + 721 * HOUR
        assert found.frees_at(61, now) == BEGIN + 723 * HOUR

    def test_a_year_of_rest_costs_no_marks(self) -> None:
        found = account(Period.ROLLING_30D)
        use(found, 1, BEGIN)
        use(found, -1, BEGIN + 60)
        found.advance(BEGIN + 10**8)
        assert len(found.stored(BEGIN + 10**8).hours) <= 2

    def test_hours_in_sight_are_all_that_is_kept(self) -> None:
        found = account(Period.ROLLING_30D)
        use(found, 1, BEGIN)
        found.advance(BEGIN + 10**7)
        assert found.spent(BEGIN + 10**7) == 720 * HOUR + (BEGIN + 10**7) % HOUR
        assert len(found.stored(BEGIN + 10**7).hours) <= 722


class TestShortage:
    def test_it_is_that_of_the_first_period_that_lacks_something(self) -> None:
        """Two periods are in sight; how much fits is near what is asked for."""
        month_end, outcomes = EDGES[-1], set[tuple[int, ...]]()
        for seed in range(2_000):
            rng = Random(seed)
            now = month_end - rng.randint(1, 30)
            found, promises = account(second=now - 10), list[tuple[Promise, int]]()
            found.brought = brought = rng.choice((0, 0, 50))
            use(found, spent := rng.choice((0, 0, 4, 9)), now - 10)
            use(found, -spent, now)
            for _ in range(rng.randint(0, 3)):
                end = rng.choice([None, now + rng.randint(1, 60)])
                promises.append((Promise(end, rng.randint(1, 60)), rng.randint(1, 2)))
                found.promised.add(*promises[-1])
            rate, seconds = rng.randint(1, 3), rng.randint(1, 60)
            want = []
            left_now = 100 + brought - 10 * spent
            for start, last, left in ((now, month_end, left_now), (month_end, None, 100)):
                ends = [(each.end or now + each.seconds, one) for each, one in promises]
                committed = sum(one * overlap(now, end, start, last) for end, one in ends)
                missing = rate * overlap(now, now + seconds, start, last) - left + committed
                if missing > 0 and now + seconds > start:
                    want.append((start, missing))
            got = found.find_shortage(rate, seconds, now)
            first = next(iter(want), None)
            assert (None if got is None else (got.start, got.missing)) == first, seed
            outcomes.add(() if got is None else (got.start - month_end >= 0,))
        assert len(outcomes) == 3, "none, in this period, and in the next"


class TestRestore:
    @pytest.mark.parametrize("period", [Period.MONTH, Period.ROLLING_30D, Period.NONE])
    def test_what_is_kept_comes_back(self, period: Period) -> None:
        found = account(period)
        use(found, 1, BEGIN)
        use(found, -1, BEGIN + 7200)
        now = BEGIN + 9000
        found.advance(now)
        twin = account(period, now)
        twin.restore(found.stored(now), now)
        twin.advance(now)
        assert twin.stored(now) == found.stored(now)

    def test_a_period_that_ends_meanwhile_is_closed(self) -> None:
        found = account(carry_over=50)
        use(found, 1, BEGIN)
        use(found, -1, BEGIN + 40)
        later = EDGES[2] + 5
        twin = account(second=later, carry_over=50)
        twin.restore(found.stored(BEGIN + 40), BEGIN + 40)
        twin.advance(later)
        assert (twin.spent(later), twin.brought, twin.start) == (0, 30, EDGES[2])


class TestSpentSince:
    def test_it_is_the_second_at_which_nothing_was_left_whenever_it_is_asked(self) -> None:
        for looks in ((500,), (100, 200, 500), (99, 101, 500)):
            found = account()
            use(found, 1, BEGIN)
            for look in looks:
                found.advance(BEGIN + look)
            assert found.spent_since == BEGIN + 100, looks

    def test_a_restart_does_not_move_it(self) -> None:
        found = account()
        use(found, 1, BEGIN)
        found.advance(BEGIN + 130)
        twin = account(second=BEGIN + 400)
        twin.restore(found.stored(BEGIN + 130), BEGIN + 130)
        twin.advance(BEGIN + 400)
        assert twin.spent_since == BEGIN + 100

    def test_a_budget_that_is_lowered_below_what_is_spent_is_spent_from_then_on(self) -> None:
        found = account()
        use(found, 1, BEGIN)
        lowered = replace(found.rule, limit=20)
        found.take_rule(lowered, EDGES, BEGIN + 60)
        assert found.spent_since == BEGIN + 60

    def test_a_new_budget_of_which_more_is_spent_is_spent_from_its_beginning_on(self) -> None:
        found = account()
        use(found, 1, BEGIN)
        found.set_spent(500, BEGIN - 900, BEGIN)
        assert found.spent_since == BEGIN

    def test_a_new_period_ends_it(self) -> None:
        found = account(is_debt_counted=False)
        use(found, 1, BEGIN)
        use(found, -1, BEGIN + 200)
        found.advance(EDGES[2])
        assert found.spent_since is None
