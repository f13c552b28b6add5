"""Budgets under any order of starts, ends, edits, restarts and days.

What is spent is compared with the integral of what ran, and what is carried with the days before,
both summed up here from nothing but when units started and ended.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_insight.record.digest import digest
from queue_scheduler.tenants.shards import Shard, decode_shard, encode_shard
from tests.budget_world import HOUR, BudgetWorld, at, budget

pytestmark = pytest.mark.properties

DAY = 24 * HOUR
MILLI = 1000
BEGIN = at("2026-03-27T22:00")


class Run(msgspec.Struct):
    """A unit that started: when, with what, for how long as declared, and when it ended."""

    start: int
    cpu: int
    declared: int
    end: int | None = None

    def used(self, first: int, last: int) -> int:
        """Return what it used between two seconds."""
        end = last if self.end is None else min(last, self.end)
        return MILLI * self.cpu * max(0, end - max(first, self.start))

    def promised(self, now: int, first: int, last: int) -> int:
        """Return what it may still use from now on between two seconds."""
        if self.end is not None:
            return 0
        begin = max(now, first)
        return MILLI * self.cpu * max(0, min(self.start + self.declared, last) - begin)


class Told(BudgetWorld):
    """A world with a budget of 20 hours a day, and what is known of its units."""

    def __init__(self, **fields: Any) -> None:
        super().__init__("2026-03-27T22:00")
        self.fields = {"period": "Day", **fields}
        self.limits = [(BEGIN, 20)]
        self.runs: dict[str, Run] = {}
        self.asked: dict[str, tuple[int, int]] = {}
        self.known_edges: set[int] = set()
        self.state(budget(20, **self.fields))
        self.edges()

    def note(self, names: list[str]) -> None:
        for name in names:
            cpu, declared = self.asked[name]
            self.runs[name] = Run(self.second, cpu, declared)
            self.check_no_start_breaks_it()

    def edges(self) -> list[int]:
        """Return when days begin, from the first that was told."""
        self.known_edges |= set(self.account().promised.starts)
        return sorted(self.known_edges)

    def check_no_start_breaks_it(self) -> None:
        """What is spent, and promised by units that keep their word, is within each day."""
        for first, last in pairwise([each for each in self.edges() if each > self.second - DAY]):
            promised = sum(run.promised(self.second, first, last) for run in self.runs.values())
            spent = sum(run.used(first, self.second) for run in self.runs.values())
            has_own = any(
                run.start == self.second and run.promised(self.second, first, last)
                for run in self.runs.values()
            )
            brought = self.account().brought if first <= self.second else 0
            limit = self.limits[-1][1] * MILLI * HOUR + brought
            assert not has_own or promised + (spent if first <= self.second else 0) <= limit

    def brought(self) -> int:
        """Return what today has from the days before, one after the other."""
        found = 0
        for first, last in pairwise(self.edges()):
            if last > self.second:
                return found
            if first < BEGIN - DAY:
                continue
            limit = next(each for since, each in reversed(self.limits) if since <= last)
            limit *= MILLI * HOUR
            left = limit + found - sum(run.used(first, last) for run in self.runs.values())
            found = min(left, limit) * self.fields.get("carry_over", 0) // 100 if left > 0 else left
            if left < 0 and self.fields.get("debt") == "Forgive":
                found = 0
        raise AssertionError("the calendar has ended")

    def check(self) -> None:
        account, now = self.account(), self.second
        today = max(each for each in self.edges() if each <= now)
        assert account.start == today
        assert account.spent(now) == sum(run.used(today, now) for run in self.runs.values())
        assert account.brought == self.brought()

    def pass_time(self, seconds: int) -> None:
        until = self.second + seconds
        while self.second < until:
            # A step at a time, so that starts are noted when they happen.
            alarms = [at_ - self.workers.now for at_ in self.workers.alarms.values()]
            step = min([until - self.second, *(max(1, int(each)) for each in alarms)])
            self.workers.now += step
            assert self.workers.wall is not None
            self.workers.wall += step
            due = [n for n, at_ in self.workers.alarms.items() if at_ <= self.workers.now]
            for name in due:
                del self.workers.alarms[name]
            self.workers.wake(due)
            self.tell_time()
            self.note(self.rest())


OPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(1, 6), st.integers(1, 40 * HOUR)),
        st.tuples(st.just("end"), st.integers(0, 9)),
        st.tuples(st.just("pass"), st.integers(1, 30 * HOUR)),
        st.tuples(st.just("limit"), st.integers(0, 60)),
        st.tuples(st.just("restart"), st.integers(0, 3)),
    ),
    max_size=14,
)
FIELDS = st.sampled_from(
    [
        {},
        {"carry_over": 50},
        {"debt": "Forgive", "time_zone": "Europe/Berlin"},
        {"carry_over": 100, "time_zone": "America/St_Johns"},
    ]
)


def play(world: Told, op: tuple[Any, ...], number: int) -> None:
    match op:
        case ("ask", cpu, seconds):
            name = f"u{number}"
            world.asked[name] = (cpu, seconds)
            world.note(world.ask(name, cpu, seconds / HOUR))
        case ("end", index):
            alive = [name for name, run in world.runs.items() if run.end is None]
            if alive:
                name = alive[index % len(alive)]
                world.runs[name].end = world.second
                world.note(world.end(name))
        case ("pass", seconds):
            world.pass_time(seconds)
        case ("limit", hours):
            world.limits.append((world.second + 1, hours))
            world.limits[-1] = (world.second, hours)
            world.note(world.state(budget(hours, **world.fields)))
        case _:
            restart(world)
            world.note(world.rest())


def restart(world: Told) -> None:
    """Tell the engine what it has kept itself, as a new leader does."""
    engine = world.engine
    ledger = engine.usage.ledger
    assert ledger is not None
    budgets = engine.usage.budgets.accounts.stored()
    shard = Shard(1, 1, ledger.second, ledger.complete_from, (), budgets=budgets)
    kept = decode_shard(encode_shard(shard), ledger.second)
    assert kept == shard
    world.workers.wake(engine.on_accounts(replace(ledger.stored(), budgets=kept.budgets)))


@settings(max_examples=60, deadline=None)
@given(FIELDS, OPS)
def test_spent_is_the_integral_and_no_start_breaks_a_budget(
    fields: dict[str, Any], ops: list[tuple[Any, ...]]
) -> None:
    world = Told(**fields)
    for number, op in enumerate(ops):
        play(world, op, number)
        world.check()
        twin = world.engine.fork()
        assert digest(twin) == digest(world.engine)
        twin.validate()
