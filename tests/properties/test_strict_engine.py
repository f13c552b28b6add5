"""The engine with strict queues, under any order of facts, decisions and verdicts.

`World.ask` checks that no unit starts while one of higher priority asks for nodes; at rest each
unit that could start has started, or waits for just that.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.queue_questions import count_by_reason
from queue_scheduler.queueing.strict_mode import StrictMode
from tests.properties.engine_checks import check_waiters
from tests.properties.engine_kit import changed, new_engine
from tests.properties.engine_world import Story, World
from tests.properties.naive_quota import NaiveQuota
from tests.properties.test_engine_properties import EVERYTHING, fill, stories

pytestmark = pytest.mark.properties

STRICT = StrictMode(is_on=True, excluded=frozenset("b"), small={"cpu": 1000})
ACTS = (*EVERYTHING, "answer_unit", "answer_unit", "answer_unit")


class StrictWorld(World):
    """A world in which requests for nodes are answered."""

    def answer_unit(self, a: int, b: int) -> None:
        unit = self.some_unit(a, "SchedReady")
        if unit is not None:
            self.put_unit(changed(unit, 0, "SchedSucceed" if b % 2 else "SchedFailed"))


def prepared() -> World:
    """Return a world in which most queues are strict, and small units need not ask for nodes."""

    def build() -> tuple[Engine, NaiveQuota]:
        return new_engine(strict=STRICT)

    world = StrictWorld(build)
    fill(world)
    return world


@given(stories(*ACTS, least=40))
def test_a_unit_that_could_start_starts(story: Story) -> None:
    world = prepared()
    world.play(story)
    world.check_rest()
    check_waiters(world.engine, world.plugin)


@given(stories(*ACTS, least=20), st.randoms(use_true_random=False))
def test_a_restart_holds_back_the_same(story: Story, rng: random.Random) -> None:
    world = prepared()
    world.play(story)
    world.check_rest()
    assume(not world.remembers_a_quota_that_no_object_tells())
    twin = world.rebuilt(rng.shuffle)
    twin.ask_all()
    assert twin.log == [], "a restart starts no unit that was held back before"
    assert twin.digest()["order"] == world.digest()["order"]


def test_stories_come_to_the_point() -> None:
    """Check that units ask for nodes in the stories, and others wait for that."""
    asked = waited = 0
    for seed in range(30):
        rng, world = random.Random(seed), prepared()
        world.play(
            [(rng.choice(ACTS), rng.randrange(1000), rng.randrange(1000)) for _ in range(80)]
        )
        world.come_to_rest()
        for line in world.engine.queues:
            asked += line.requests.highest is not None
            reasons = count_by_reason(line)
            waited += any(each.name == "WAITING_FOR_NODES_OF_OTHERS" for each in reasons)
    assert asked > 5
    assert waited > 0
