"""Units that may run with fewer pods than all, under any order of facts, starts and growths.

No unit is booked over a limit, a start takes as many pods as fit and no fewer than the least,
growth takes nothing from waiting units, and at rest no unit waits that could start with its least
(`World.check_rest` checks that for all units).
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from queue_scheduler.cache.known_units import pending_units
from queue_scheduler.cache.partial_admission import demand_of
from queue_scheduler.decision import Dequeue, Growth
from queue_scheduler.engine.backfill import may_fit_one_day
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, UnitDemand
from queue_scheduler.queueing.queue_questions import refusal_of
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.resource_list import Amounts
from tests.properties.engine_checks import QUOTAS, Quotas, booked_under
from tests.properties.engine_kit import changed
from tests.properties.engine_world import Story, World
from tests.properties.real_quotas import RealQuotas, new_engine
from tests.properties.test_engine_properties import (
    EVERYTHING,
    LIVES,
    TALK,
    UNITS,
    WORK,
    fill,
    stories,
)

pytestmark = pytest.mark.properties

GROWTHS = ("grow", "grow", "grow", "answer_growth", "answer_growth", "empty_lines")
NODES = ("put_node", "put_node", "delete_node")


class PartialWorld(World):
    """A world whose units are also granted more pods while they run."""

    def __init__(self, build: Callable[[], tuple[Engine, Quotas]]) -> None:
        super().__init__(build)
        self.partial = self.grown = 0
        self._growths: list[Growth] = []

    def ask(self, a: int, b: int) -> None:
        reported, before = len(self._sent), self.engine.fork()
        super().ask(a, b)
        for decision in self._sent[reported:]:
            self._judge(decision, before)

    def _judge(self, decision: Dequeue, before: Engine) -> None:
        """Check that it is between the least and all pods, and one more would not have fitted."""
        info = info_of(self.engine, decision.unit)
        if info.demand.least is None:
            return
        steps = all_steps(info.demand)
        got = [grant.replicas for grant in decision.grants]
        assert got in steps, f"{decision.unit} starts with {got}, may with {steps}"
        queue = before.queues.find(decision.queue)
        assert queue is not None
        if got == steps[0]:
            return
        self.partial += 1
        if not queue.rules.is_backfilling:
            more = with_counts(info, steps[steps.index(got) - 1])
            assert before.plugins.check(more) is not None, f"{decision.unit}: {got} of {steps}"

    def grow(self, a: int, b: int) -> None:
        """Ask for the pods that a running unit lacks."""
        unit = self.some_unit(a)
        used = self._used()
        answer = self.engine.grow(unit.metadata.key) if unit is not None else None
        self.engine.validate()
        if not isinstance(answer, Growth):
            return
        self.workers.wake(answer.wake)
        self._growths.append(answer)
        for level, after in self._used().items():
            limit = self.plugin.limit(level)
            more = {key: n for key, n in after.items() if n > used[level].get(key, 0)}
            over = {key: n for key, n in more.items() if n > limit.get(key, n)}
            assert not over, f"{answer.unit} grows {level} to {over}"
        info = info_of(self.engine, answer.unit)
        if info.demand.least is not None:
            self.grown += 1
            self._check_that_nobody_waits(info)

    def _used(self) -> dict[str, Amounts]:
        return {level: booked_under(self.engine, self.plugin, level) for level in QUOTAS}

    def _check_that_nobody_waits(self, grown: QueueUnitInfo) -> None:
        for queue in self.engine.queues:
            for waiting in (
                () if queue.rules.is_stopped else pending_units(self.engine.units, queue.name)
            ):
                assert waiting.info is not None
                is_rival = waiting.info.quota == grown.quota
                assert not (is_rival and may_fit_one_day(refusal_of(queue, waiting.info))), (
                    f"{grown.key} grows before {waiting.key}"
                )

    def empty_lines(self, a: int, b: int) -> None:
        """Delete the waiting units."""
        for key in [key for queue in self.engine.queues for key in waiting_in(self.engine, queue)]:
            unit = self.units.pop(key, None)
            if unit is not None:
                self._emit("unit gone", unit)
        self.deliver_all()

    def answer_growth(self, a: int, b: int) -> None:
        """Let the server answer a growth."""
        if not self._growths:
            return
        growth = self._growths.pop(a % len(self._growths))
        unit = self.units.get(growth.unit)
        if unit is None or unit.metadata.resource_version != growth.resource_version:
            self.workers.wake(self.engine.on_growth_failed(growth))
        else:
            self.put_unit(changed(unit, 0, admissions=growth.admissions))

    def come_to_rest(self) -> None:
        while self._growths:
            self.answer_growth(0, 0)
        super().come_to_rest()


def waiting_in(engine: Engine, queue: SchedulingQueue) -> list[str]:
    return [record.key for record in pending_units(engine.units, queue.name)]


def info_of(engine: Engine, key: str) -> QueueUnitInfo:
    record = engine.record(key)
    assert record is not None
    assert record.info is not None
    return record.info


def all_steps(demand: UnitDemand) -> list[list[int]]:
    """Return all counts that a demand may be reduced to, the whole first."""
    assert demand.least is not None
    most = [each.count for each in demand.pod_sets]
    gaps = [m - each.count for m, each in zip(most, demand.least.pod_sets, strict=True)]
    total = sum(gaps)
    steps = [
        [m - gap * left_out // total for m, gap in zip(most, gaps, strict=True)]
        for left_out in range(total + 1)
    ]
    return [step for n, step in enumerate(steps) if step not in steps[:n]]


def with_counts(info: QueueUnitInfo, counts: list[int]) -> QueueUnitInfo:
    sets = zip(info.demand.pod_sets, counts, strict=True)
    return replace(info, demand=demand_of(tuple(replace(one, count=n) for one, n in sets)))


def prepared(mode: QuotaMode) -> PartialWorld:
    def build() -> tuple[Engine, RealQuotas]:
        engine = new_engine(QuotaSettings(mode=mode))
        return engine, RealQuotas(engine)

    world = PartialWorld(build)
    for n in range(3):
        world.put_node(n, 3)
    fill(world)
    return world


modes = pytest.mark.parametrize("mode", list(QuotaMode), ids=lambda mode: mode.value)


@modes
@settings(max_examples=40)
@given(story=stories(*EVERYTHING, *NODES, *GROWTHS, least=30))
def test_a_unit_that_could_start_with_fewer_pods_starts(mode: QuotaMode, story: Story) -> None:
    world = prepared(mode)
    world.play(story)
    world.check_rest()


@modes
@settings(max_examples=40)
@given(story=stories(*UNITS, *LIVES, *TALK, *WORK, *GROWTHS, least=40))
def test_it_starts_when_only_units_change(mode: QuotaMode, story: Story) -> None:
    world = prepared(mode)
    world.play(story)
    world.check_rest()


@pytest.mark.parametrize("mode", [QuotaMode.MAX, QuotaMode.RUNTIME])
def test_stories_have_something_to_judge(mode: QuotaMode) -> None:
    rng = random.Random(1)
    partial = grown = worlds = 0
    while partial <= 10 or grown <= 2:
        worlds += 1
        assert worlds <= 40, (partial, grown)
        world = prepared(mode)
        acts = (*UNITS, *LIVES, *TALK, *WORK)
        world.play(
            [(rng.choice(acts), rng.randrange(1000), rng.randrange(1000)) for _ in range(80)]
        )
        world.check_rest()
        world.empty_lines(0, 0)
        for n in range(12):
            world.finish_unit(n, 0)
            world.deliver_all()
            world.grow(n + 1, 0)
        world.check_rest()
        partial += world.partial
        grown += world.grown
