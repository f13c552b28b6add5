"""The engine with the real quota plugin, in every mode.

The quota cache decides what fits and what a change wakes; here the two must agree: at rest no unit
waits that the quota cache would let start, and no decision takes a quota over its limit.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from queue_scheduler.engine.engine import Engine
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from tests.properties.engine_checks import QUOTAS
from tests.properties.engine_world import Story, World
from tests.properties.real_quotas import RealQuotas, new_engine
from tests.properties.test_engine_properties import (
    EVERYTHING,
    LIVES,
    TALK,
    UNITS,
    WORK,
    decide_all,
    fill,
    stories,
)

pytestmark = pytest.mark.properties

NODES = ("put_node", "put_node", "delete_node")
modes = pytest.mark.parametrize("mode", list(QuotaMode), ids=lambda mode: mode.value)


def prepared(mode: QuotaMode, *, judges: bool = True) -> World:
    def build() -> tuple[Engine, RealQuotas]:
        engine = new_engine(QuotaSettings(mode=mode))
        return engine, RealQuotas(engine)

    world = World(build, judges=judges)
    for n in range(3):
        world.put_node(n, 3)
    fill(world)
    return world


@modes
@given(story=stories(*EVERYTHING, *NODES, least=30))
def test_a_unit_that_could_start_starts(mode: QuotaMode, story: Story) -> None:
    world = prepared(mode)
    world.play(story)
    world.check_rest()


@modes
@given(story=stories(*UNITS, *LIVES, *TALK, *WORK, least=40))
def test_it_starts_when_only_units_change(mode: QuotaMode, story: Story) -> None:
    world = prepared(mode)
    world.play(story)
    world.check_rest()


@modes
@given(story=stories(*EVERYTHING, *NODES), rng=st.randoms(use_true_random=False))
def test_a_restart_gives_the_same_state(mode: QuotaMode, story: Story, rng: random.Random) -> None:
    world = prepared(mode)
    world.play(story)
    world.check_rest()
    assume(not world.remembers_a_quota_that_no_object_tells())
    twin = world.rebuilt(rng.shuffle)
    twin.ask_all()
    assert twin.log == [], "a restart starts no unit that was refused before"
    got, want = twin.digest(), world.digest()
    for part in ("units", "order", "booked", "counts"):
        assert got[part] == want[part], part
    for name in QUOTAS:
        got_limit, want_limit = twin.plugin.limit(name), world.plugin.limit(name)
        assert got_limit == want_limit


@modes
@given(story=stories(*EVERYTHING, *NODES, least=20))
def test_a_fork_decides_the_same_and_changes_nothing(mode: QuotaMode, story: Story) -> None:
    world = prepared(mode)
    world.play(story)
    before = world.digest()
    first, second = world.engine.fork(), world.engine.fork()
    foreseen = decide_all(first, world.workers.now)
    assert world.digest() == before
    assert decide_all(world.engine, world.workers.now) == foreseen
    assert decide_all(second, world.workers.now) == foreseen
    world.plugin.validate()
