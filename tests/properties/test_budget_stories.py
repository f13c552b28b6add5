"""Budgets in any story of a cluster: records, copies, dumps; and nobody waits in vain."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_insight.record.digest import digest
from queue_scheduler.cache.known_units import pending_units
from queue_scheduler.decision import Moment, Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import at_least
from queue_scheduler.queueing.queue_questions import refusal_of
from queue_scheduler.tenants.calendars import Calendar
from shared_api.objects.quota_policy import Budget
from tests.properties import test_dumps as dumps
from tests.properties.engine_checks import QUOTAS, Quotas
from tests.properties.engine_kit import WALL, build_policy
from tests.properties.engine_world import Story
from tests.properties.real_quotas import RealQuotas
from tests.properties.recorded_engine import RecordedEngine
from tests.properties.test_accounts import ACTS, Accounted, build_engine, wall_of
from tests.properties.test_engine_properties import fill, stories

pytestmark = pytest.mark.properties

BUDGETS = (*ACTS, "put_budgets", "put_budgets", "declare", "declare", "drop_budgets", "pass_long")
EDGES = tuple(WALL - 20 + 7 * number for number in range(400))
MAX_RINGS = 4
PERIODS = ("Day", "Rolling 30d", "None", "Day")


class Budgeted(Accounted):
    """Adds budgets of some core seconds, and days of seven seconds."""

    def __init__(self, build: Any) -> None:
        super().__init__(build)
        self.policies = 0
        self.engine.on_calendars((Calendar("Day", "UTC", EDGES),))

    def put_budgets(self, a: int, b: int) -> None:
        self.policies += 1
        period = PERIODS[a % 4]
        fields: dict[str, Any] = {"enforce": ("Hold", "Hold", "Warn", "Stop")[b % 4]}
        if period == "Day":
            fields |= {"carry_over": (0, 50)[a % 2], "debt": ("Count", "Forgive")[b % 2]}
        fields["reserve"] = ("Declared", "Declared", "None")[a % 3]
        fields["undeclared"] = ("24h", "3s", "Refuse")[b % 3]
        budgets = [
            Budget(resource="cpu", hours=f"{(a + b) % 40}m", period=period, **fields),
            Budget(resource="cpu", hours=f"{b % 90}m", period="Day"),
        ][: 1 + b % 2]
        quotas = {QUOTAS[a % len(QUOTAS)], QUOTAS[b % len(QUOTAS)]}
        policy = build_policy(f"p{a % 2}", sorted(quotas), generation=self.policies)
        policy = replace(policy, spec=replace(policy.spec, budgets=tuple(budgets)))
        self.workers.wake(self.engine.on_quota_policy(policy))
        self.engine.validate()

    def drop_budgets(self, a: int, b: int) -> None:
        self.workers.wake(self.engine.on_quota_policy_gone(f"p{a % 2}"))
        self.engine.validate()

    def declare(self, a: int, b: int) -> None:
        """Let a unit declare another time."""
        unit = self.some_unit(a)
        if unit is not None:
            seconds = None if b % 5 == 0 else b % 23
            spec = replace(unit.spec, maximum_execution_time_seconds=seconds)
            self.put_unit(replace(unit, spec=spec))

    def pass_long(self, a: int, b: int) -> None:
        self.go_to(self.time + a % 30)

    def come_to_rest(self) -> None:
        """Deliver, ask, write and answer; time goes on a few times: days follow each other."""
        rings = 0
        for _ in range(1000):
            self.deliver_all()
            self.ask_all()
            while self._growths:
                self.answer_growth(0, 0)
            if self._sent:
                self.write(0, 7)
            elif self._answers:
                self.answer(0, 0)
            elif self.workers.alarms and rings < MAX_RINGS:
                rings += 1
                before = self.workers.now
                self.workers.ring()
                self.go_to(self.time + int(self.workers.now - before))
            elif not any(self._events.values()) and self.workers.is_quiet():
                return
        raise AssertionError("no rest")

    def check_nobody_waits_in_vain(self) -> None:
        """Check that what a budget refuses it refuses still, but for the part of a later day."""
        budgets = self.engine.usage.budgets
        for queue in self.engine.queues:
            for record in pending_units(self.engine.units, queue.name):
                assert record.info is not None
                told = refusal_of(queue, record.info)
                if told.reason is not Reason.BUDGET_SPENT:
                    continue
                info = at_least(record.info)
                seconds = info.unit.spec.maximum_execution_time_seconds
                crosses = seconds is None or seconds > 1
                assert budgets.check(info) is not None or crosses, f"{record.key} could start"


def prepared() -> Budgeted:
    def build() -> tuple[Engine, Quotas]:
        engine = build_engine()
        return engine, RealQuotas(engine)

    world = Budgeted(build)
    for n in range(3):
        world.put_node(n, 3)
    fill(world)
    for n, b in ((1, 7), (2, 30)):
        world.put_budgets(n, b)
    return world


@given(story=stories(*BUDGETS, least=40))
def test_accounts_agree_and_nobody_waits_in_vain(story: Story) -> None:
    world = prepared()
    world.play(story)
    world.check_accounts()
    world.come_to_rest()
    world.check_nobody_waits_in_vain()


@settings(max_examples=25)
@given(story=stories(*BUDGETS, least=40))
def test_recorded_calls_give_the_same_budgets(story: Story) -> None:
    world = prepared()
    record = RecordedEngine(world.engine)
    world.play(story)
    record.stop()
    twin = record.check_replay()
    got = twin.usage.budgets.accounts.state()
    assert got == world.engine.usage.budgets.accounts.state()


@settings(max_examples=25)
@given(story=stories(*BUDGETS, least=40))
def test_a_fork_and_the_original_go_on_by_themselves(story: Story) -> None:
    world = prepared()
    world.play(story)
    before = digest(world.engine)
    twin = world.engine.fork()
    assert digest(twin) == before
    twin.on_time(wall_of(world.time + 10**4))
    for uid in list(twin.usage):
        twin.usage.void(uid)
    assert digest(world.engine) == before


@settings(max_examples=25)
@given(story=stories(*BUDGETS, least=40), later=st.integers(0, 3999))
def test_a_dump_has_the_budgets(story: Story, later: int) -> None:
    world = prepared()
    world.play(story)
    world.come_to_rest()
    world.tick(later, 1)
    at = Moment(1000.0, wall_of(world.time))
    got = dumps.check(world.engine, build_engine(), at)
    ours = world.engine.fork()
    for engine in (got, ours):
        engine.on_time(at.wall)
    kept = [engine.usage.budgets.accounts.stored() for engine in (got, ours)]
    assert kept[0] == kept[1]
