"""Budgets in an engine: who starts, who waits until when, and who is not held back."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import Reason
from queue_scheduler.refusal_texts import full_message, stable_message
from shared_api.objects.quota_policy import Budget
from tests.budget_world import HOUR, BudgetWorld, at, budget
from tests.properties.engine_kit import build_policy

MIDNIGHT = at("2026-12-01T00:00")


def spent_world(spent: int = 90, **fields: Any) -> BudgetWorld:
    """Return a world in which so many hours of the 100 of November are spent, at 20:00."""
    world = BudgetWorld("2026-11-30T10:00")
    world.state(budget(**fields))
    world.ask("before", spent // 10, 10)
    world.wait("2026-11-30T20:00")
    world.end("before")
    assert world.hours() == (spent, 100 - spent)
    return world


class TestBudgetAtEdge:
    def test_budget_at_edge_has_room_in_each_period_that_a_unit_touches(self) -> None:
        world = spent_world()
        assert world.ask("two", 2, 10) == ["two"], "8 now, 12 in December"
        assert world.ask("one", 1, 4) == []
        assert world.why("one").reason is Reason.BUDGET_SPENT
        assert world.lacks("one") == (8, 2, 4, 2)
        assert world.wait("2026-12-01T00:00") == [("one", MIDNIGHT)]
        assert world.hours() == (0, 100)

    def test_two_hours_would_start(self) -> None:
        world = spent_world()
        world.ask("two", 2, 10)
        world.ask("one", 1, 4)
        assert world.ask("short", 1, 2) == ["short"]
        assert world.lacks("one")[1] == 2, "told when it was refused"

    def test_the_reason_has_the_numbers(self) -> None:
        world = spent_world()
        world.ask("two", 2, 10)
        world.ask("one", 1, 4)
        stable = (
            "needs more cpu than the budget of quota vision leaves in its period "
            "(QuotaPolicy budgets, budgets 0)"
        )
        assert stable_message(world.why("one")) == stable
        assert full_message(world.why("one")) == (
            f"{stable}: needs 4, left 2 (budget 100, spent 90, committed 8); it would start with"
            " 2 more, or if it declares at most 2 h; more may be left at 2026-12-01T00:00:00Z"
        )

    def test_what_is_committed_in_the_next_period(self) -> None:
        world = spent_world()
        assert world.ask("two", 2, 54) == ["two"], "8 now, 100 in December"
        assert world.ask("one", 1, 5) == [], "4 of 2 are needed now"
        assert world.wait("2026-12-02T01:00") == []
        assert world.lacks("one") == (100, 0, 5, 0)
        assert world.end("two") == ["one"], "it ends after 29 h, and gives 46 back"


def test_budget_lowered() -> None:
    world = spent_world()
    world.ask("runs", 1, 2)
    assert world.state(budget(50)) == []
    assert world.hours() == (90, -40)
    assert world.ask("waits", 1, 1) == []
    assert world.lacks("waits") == (2, -42, 1, 0)
    record = world.engine.record("ns/runs")
    assert record is not None
    assert record.occupies, "nothing is evicted"
    assert world.wait("2026-12-01T00:00") == [("waits", MIDNIGHT)]
    world.tell_time()
    assert world.hours() == (0, 6), "spent 92, and 42 were too many, and 2 more ran on"


@pytest.mark.parametrize("reserve", ["Declared", "None"])
def test_who_waits_starts_when_the_last_budget_goes(reserve: str) -> None:
    world = spent_world(reserve=reserve)
    world.state(budget(50, reserve=reserve))
    assert world.ask("waits", 1, 1) == []
    assert world.why("waits").reason is Reason.BUDGET_SPENT
    assert world.state() == ["waits"]


def test_two_fit_singly() -> None:
    world = spent_world()
    assert world.ask("one", 2, 3) == ["one"]
    assert world.ask("two", 2, 3) == []
    assert world.end("one") == ["two"]


def test_two_are_asked_in_one_second() -> None:
    world = BudgetWorld("2026-11-30T20:00")
    world.state(budget(10))
    names = [*world.ask("one", 3, 2), *world.ask("two", 3, 2)]
    assert names == ["one"]
    assert world.lacks("two") == (6, 4, 6, 4800 / HOUR)


def test_short_jobs() -> None:
    world = BudgetWorld("2026-11-02T00:00")
    world.state(budget(1, reserve="None"))
    start = world.second
    for number in range(1000):
        world.workers.wall = start + 2 * number
        assert world.ask(f"u{number}", 1, None) == [f"u{number}"]
        world.workers.wall = start + 2 * number + 1
        world.end(f"u{number}")
    assert world.account().spent(world.second) == 1000 * 1000, "millicores times seconds"


@pytest.mark.parametrize(
    ("used", "want"),
    [
        pytest.param((40, 20), (130, 150), id="what was carried goes first, and expires"),
        pytest.param((100, 0), (100, 150), id="nothing is left"),
        pytest.param((0, 120), (150, 115), id="more than what was carried is used"),
        pytest.param((110, 0), (90, 145), id="a debt"),
    ],
)
def test_carry_over(used: tuple[int, int], want: tuple[int, int]) -> None:
    world = BudgetWorld("2026-10-05T00:00")
    world.state(budget(100, carry_over=50, reserve="None"))
    found = []
    for month, hours in zip((10, 11), used, strict=True):
        world.use(hours)
        world.wait(f"2026-{month + 1}-09T00:00")
        spent, left = world.hours()
        assert spent == 0
        found.append(left)
    assert tuple(found) == want


def test_month_for_all() -> None:
    """All is submitted on day 1, half as much again as the budgets, which fit the capacity."""
    world = BudgetWorld("2026-11-01T00:00", cpu=10)  # 7,200 h in November
    shares = {"vision": 4300, "speech": 2600}
    ends: list[tuple[int, str]] = []
    lengths: dict[str, int] = {}
    rng = random.Random(7)

    def note(started: list[str]) -> None:
        ends.extend((world.second + lengths[name] * HOUR, name) for name in started)

    for quota, hours in shares.items():
        world.policies += 1
        policy = build_policy(quota, (quota,), generation=world.policies)
        note(world.put(replace(policy, spec=replace(policy.spec, budgets=(budget(hours),)))))
        asked = 0
        while asked < 1.5 * hours:
            cpu, length = rng.randint(1, 4), rng.randint(1, 24)
            name = f"{quota}-{asked}"
            lengths[name] = length
            asked += cpu * length
            note(world.ask(name, cpu, length, quota))
    spent: dict[str, float] = {}
    while ends:
        ends.sort()
        second, name = ends.pop(0)
        if second >= at("2026-12-01T00:00"):
            break
        world.workers.wall = second
        note(world.end(name))
        spent = {quota: world.hours(quota)[0] for quota in shares}
    assert spent == {quota: pytest.approx(hours, rel=0.05) for quota, hours in shares.items()}


class TestForgivenDebt:
    @pytest.mark.parametrize(("debt", "left"), [("Count", 80), ("Forgive", 100)])
    def test_the_next_period_has_less_or_not(self, debt: str, left: int) -> None:
        world = BudgetWorld("2026-10-05T00:00")
        world.state(budget(100, debt=debt, reserve="None"))
        world.use(120)
        assert world.hours() == (120, -20)
        world.wait("2026-11-01T00:00")
        assert world.hours() == (0, left)


class TestRolling:
    def test_what_was_used_leaves_by_the_hour(self) -> None:
        world = BudgetWorld("2026-11-02T00:30")
        world.state(budget(10, period="Rolling 30d"))
        world.use(4)  # until 01:30
        world.use(4)  # until 02:30
        assert world.hours() == (8, 2)
        assert world.ask("two", 4, 1) == []
        assert world.wait("2026-12-05T00:00") == [("two", at("2026-12-02T01:00"))]

    def test_a_gap_is_no_use(self) -> None:
        world = BudgetWorld("2026-11-02T00:00")
        world.state(budget(10, period="Rolling 30d"))
        world.use(4)
        world.wait("2026-11-20T10:00")
        world.use(4)
        world.wait("2026-12-03T00:00")
        assert world.hours() == (4, 6)
        world.wait("2026-12-20T10:59")
        assert world.hours() == (4, 6)
        world.wait("2026-12-20T11:00")
        assert world.hours() == (0, 10)


class TestWithoutEnd:
    def test_it_begins_never_anew(self) -> None:
        world = BudgetWorld("2026-11-02T00:00")
        world.state(budget(10, period="None"))
        world.use(8)
        assert world.ask("more", 4, 1) == []
        assert world.wait("2027-11-02T00:00") == []
        assert world.hours() == (8, 2)
        assert world.why("more").budget is not None
        assert "more may be left" not in full_message(world.why("more"))
        assert world.state(budget(12, period="None")) == ["more"]


class TestWhatCounts:
    def test_what_is_below_counts_and_every_level_is_asked(self) -> None:
        world = BudgetWorld("2026-11-02T00:00")
        world.state(budget(10), quotas=("top",))
        world.use(6, "speech")
        assert world.hours("top") == (6, 4)
        assert world.ask("five", 5, 1) == []
        assert (world.why("five").quota, world.lacks("five")) == ("top", (0, 4, 5, 0.8))

    def test_a_price_weighs_resources(self) -> None:
        world = BudgetWorld("2026-11-02T00:00")
        world.state(Budget(amount=10, price={"cpu": "2.5"}, period="Month"))
        assert world.ask("four", 4, 1) == ["four"], "costs 10"
        assert world.ask("one", 1, 0.5) == []
        assert full_message(world.why("one")).startswith(
            "needs more amount than the budget of quota vision leaves in its period (QuotaPolicy"
            " budgets, budgets 0): needs 1.25, left 0 (budget 10, spent 0, committed 10)"
        )

    def test_what_asks_for_none_of_it_starts(self) -> None:
        world = BudgetWorld("2026-11-02T00:00")
        world.state(budget(0, resource="nvidia.com/gpu"))
        assert world.ask("cpus", 4, 1) == ["cpus"]

    def test_a_unit_without_a_declared_time_counts_as_a_day(self) -> None:
        world = BudgetWorld("2026-11-02T00:00")
        world.state(budget(30))
        assert world.ask("silent", 1, None) == ["silent"]
        assert world.ask("seven", 7, 1) == []
        assert world.lacks("seven")[:3] == (24, 6, 7)

    def test_a_unit_without_a_declared_time_may_be_refused(self) -> None:
        world = BudgetWorld("2026-11-02T00:00")
        world.state(budget(30, undeclared="Refuse"))
        assert world.ask("silent", 1, None) == []
        assert "it declares no time to run" in full_message(world.why("silent"))
        assert world.ask("says", 1, 1) == ["says"]

    def test_one_that_outruns_its_time_counts_on(self) -> None:
        world = BudgetWorld("2026-11-02T00:00")
        world.state(budget(10))
        world.ask("late", 1, 2)
        world.wait("2026-11-02T05:00")
        assert world.hours() == (5, 5)
        assert world.account().committed(world.second) == 0

    def test_warn_lets_start(self) -> None:
        world = BudgetWorld("2026-11-02T00:00")
        world.state(budget(1, enforce="Warn"))
        assert world.ask("six", 6, 1) == ["six"]
        world.wait("2026-11-02T01:00")
        assert world.hours() == (6, -5)

    def test_without_accounts_no_budget_counts(self) -> None:
        world = BudgetWorld("2026-11-02T00:00", keeps_accounts=False)
        world.state(budget(0))
        assert world.ask("six", 6, 1) == ["six"]

    def test_a_new_budget_begins_with_what_the_accounts_know(self) -> None:
        world = BudgetWorld("2026-10-20T00:00")
        edges = tuple(at(f"2026-{month}-01T00:00") for month in (10, 11, 12))
        world.engine.on_edges(edges)
        world.ask("runs", 1, 1000)
        world.wait("2026-11-03T00:00")
        world.state(budget(100, reserve="None"))
        assert world.hours() == (48, 52)
        assert world.account().counted_from == at("2026-11-01T00:00")


class TestWhoIsNotHeldBack:
    @pytest.mark.parametrize("policy", ["Priority", "Block", "FIFO"])
    def test_a_unit_over_its_budget_holds_back_nobody(self, policy: str) -> None:
        world = BudgetWorld("2026-11-02T00:00", policy)
        world.state(budget(10))
        assert world.ask("big", 20, 1) == []
        assert world.ask("small", 5, 1) == ["small"]
        assert world.ask("other", 5, 1, "speech") == ["other"]

    def test_one_that_waits_for_room_steps_aside_once_its_budget_is_spent(self) -> None:
        world = BudgetWorld("2026-11-02T00:00", "FIFO", cpu=10)
        world.state(budget(9))
        world.ask("late", 4, 1)
        assert world.ask("wide", 7, 0.5) == [], "it waits for room"
        assert world.why("wide").reason is Reason.OVER_PARENT_MAX
        world.wait("2026-11-02T02:30")
        assert world.why("wide").reason is Reason.BUDGET_SPENT
        assert world.hours() == (10, -1)

    def test_it_makes_no_room_by_evictions(self) -> None:
        world = BudgetWorld("2026-11-02T00:00", cpu=4, evicts=True)
        world.ask("runs", 4, 1, "speech")
        world.state(budget(1))
        assert world.ask("over", 2, 1, priority=9) == []
        assert world.why("over").reason is Reason.BUDGET_SPENT
        assert world.evictions() == []
        world.ask("within", 2, 0.5, priority=9)
        assert world.evictions() == ["within"]
