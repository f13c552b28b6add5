"""An engine that gets the recorded calls of another decides the same, and is in the same state."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_insight.record.checkpoint import freeze, thaw
from queue_insight.record.digest import digest
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.strict_mode import StrictMode
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from tests.properties import test_engine_preemption as preemption
from tests.properties.engine_checks import Quotas
from tests.properties.engine_world import Story, World
from tests.properties.real_quotas import RealQuotas, new_engine
from tests.properties.recorded_engine import RecordedEngine
from tests.properties.test_engine_properties import EVERYTHING, fill, stories
from tests.properties.test_partial_starts import GROWTHS, NODES, PartialWorld
from tests.properties.test_virtual_cluster import LONG_SECONDS, Town

pytestmark = pytest.mark.properties

modes = pytest.mark.parametrize("mode", list(QuotaMode), ids=lambda mode: mode.value)


def prepared(mode: QuotaMode, kind: type[World] = World) -> World:
    """Return a world with quotas, queues and units."""

    def build() -> tuple[Engine, Quotas]:
        engine = new_engine(QuotaSettings(mode=mode), StrictMode(is_on=True))
        return engine, RealQuotas(engine)

    world = kind(build)
    for n in range(3):
        world.put_node(n, 3)
    fill(world)
    return world


@modes
@settings(max_examples=10)
@given(before=stories(*EVERYTHING, *NODES), story=stories(*EVERYTHING, *NODES, least=20))
def test_facts_and_decisions_of_any_story(mode: QuotaMode, before: Story, story: Story) -> None:
    world = prepared(mode)
    world.play(before)
    record = RecordedEngine(world.engine)
    world.play(story)
    world.come_to_rest()
    record.stop()
    record.check_replay()


@settings(max_examples=15)
@given(story=stories(*EVERYTHING, *NODES, *GROWTHS, least=40))
def test_growths(story: Story) -> None:
    world = prepared(QuotaMode.MAX, PartialWorld)
    record = RecordedEngine(world.engine)
    world.play(story)
    record.stop()
    record.check_replay()


@settings(max_examples=20)
@given(seed=st.integers(0, 100_000), share=st.floats(0.0, 1.0))
def test_a_checkpoint_at_any_time_of_a_run(seed: int, share: float) -> None:
    """Rounds of evictions, backoffs, backfill, checks and nodes are under way."""
    town = Town(seed)
    town.cluster.run(town.start + share * LONG_SECONDS)
    record = RecordedEngine(town.cluster.engine)
    town.cluster.run()
    record.stop()
    record.check_replay()


@settings(max_examples=20)
@given(seed=st.integers(0, 100_000))
def test_rounds_of_evictions_whose_writes_fail(seed: int) -> None:
    world = preemption.World(seed)
    record = RecordedEngine(world.engine)
    for _ in range(120):
        engine = world.engine
        world.turn()
        if world.engine is not engine:  # a restart
            break
    record.stop()
    record.check_replay()


@settings(max_examples=25)
@given(seed=st.integers(0, 100_000), share=st.floats(0.0, 1.0))
def test_a_thawed_engine_has_the_digest_of_the_one_that_was_frozen(seed: int, share: float) -> None:
    town = Town(seed)
    town.cluster.run(town.start + share * LONG_SECONDS)
    engine = town.cluster.engine
    twin = thaw(freeze(engine.fork()))
    assert digest(twin) == digest(engine.fork()) == digest(engine)
    assert digest(thaw(freeze(twin))) == digest(engine)
