"""An engine built from a dump is in the state of the one that the dump was taken of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_insight.dump.codec import decode_dump, encode_dump
from queue_insight.dump.contents import Dump
from queue_insight.dump.restore import restore_engine
from queue_insight.dump.settle import settle
from queue_insight.dump.take import take_dump
from queue_insight.insight.explain import explain
from queue_insight.record.digest import digest
from queue_insight.what_if.at_once import answer_at_once
from queue_scheduler.decision import Moment, Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.settings import EngineSettings
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import unit_key
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.queueing.queue_questions import refused_classes
from queue_scheduler.queueing.strict_mode import StrictMode
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from tests.properties import test_engine_preemption as preemption
from tests.properties.engine_kit import wall_time
from tests.properties.engine_world import Story
from tests.properties.real_quotas import new_engine
from tests.properties.test_engine_properties import EVERYTHING, stories
from tests.properties.test_partial_starts import GROWTHS, NODES, PartialWorld
from tests.properties.test_replayed_calls import modes, prepared
from tests.properties.test_virtual_cluster import LONG_SECONDS, Town

pytestmark = pytest.mark.properties

AT = Moment(1000.0, wall_time(1_800_000_000))


def dump_of(engine: Engine, moment: Moment = AT) -> Dump:
    """Return a dump that was written and read."""
    dump = take_dump(engine.fork(), moment, EngineSettings(), "1", leader=True)
    return decode_dump(encode_dump(dump), "1")


def settled(engine: Engine, moment: Moment = AT) -> Engine:
    """Return what a dump is taken of."""
    twin = engine.fork()
    settle(twin, moment)
    return twin


def forgetful(engine: Engine) -> Engine:
    """Return a copy in which every class is asked again: whether it sleeps is no state."""
    twin = engine.fork()
    for queue in twin.queues:
        for number in [*queue.pending.numbered]:
            if queue.pending.wake(number):
                twin.plugins.waking.stop_waiting((queue.name, number))
    return twin


def check(engine: Engine, empty: Engine, moment: Moment = AT) -> Engine:
    """Check that a dump gives an engine in the same state; return it."""
    want, got = settled(engine, moment), empty
    restore_engine(got, dump_of(engine, moment))
    got.validate()
    assert digest(forgetful(got)) == digest(forgetful(want))
    assert set(refusals(got)) <= set(refusals(want))
    assert admitted_on(got) == admitted_on(want)
    assert list(explanations(got, moment)) == list(explanations(want, moment))
    assert answer_at_once(got.fork(), (), moment) == answer_at_once(want.fork(), (), moment)
    return got


def admitted_on(engine: Engine) -> dict[str, object]:
    return {key: record.admitted_on for key, record in engine.units.records.items()}


def refusals(engine: Engine) -> Iterator[tuple[str, str, Refusal, int | None]]:
    for queue in engine.queues:
        for head, refusal, at in refused_classes(queue):
            yield queue.name, unit_key(head), replace(refusal, basis=None), at


def explanations(engine: Engine, moment: Moment) -> Iterator[tuple[object, ...]]:
    twin = forgetful(engine)
    for key in sorted(twin.units.records):
        reported = explain(twin, key, moment.wall)
        assert reported is not None
        yield key, reported.verdict, reported.position, reported.blockers


@modes
@settings(max_examples=15)
@given(story=stories(*EVERYTHING, *NODES, least=20))
def test_any_story(mode: QuotaMode, story: Story) -> None:
    world = prepared(mode)
    world.play(story)
    check(world.engine, new_engine(QuotaSettings(mode=mode), StrictMode(is_on=True)))


@modes
@settings(max_examples=10)
@given(story=stories(*EVERYTHING, *NODES, least=20))
def test_at_rest_every_refusal_is_kept(mode: QuotaMode, story: Story) -> None:
    world = prepared(mode)
    world.play(story)
    world.come_to_rest()
    got = check(world.engine, new_engine(QuotaSettings(mode=mode), StrictMode(is_on=True)))
    assert set(refusals(got)) == set(refusals(world.engine))


@settings(max_examples=15)
@given(story=stories(*EVERYTHING, *NODES, *GROWTHS, least=40))
def test_growths_and_partial_starts(story: Story) -> None:
    world = prepared(QuotaMode.MAX, PartialWorld)
    world.play(story)
    check(world.engine, new_engine(QuotaSettings(mode=QuotaMode.MAX), StrictMode(is_on=True)))


@settings(max_examples=25)
@given(seed=st.integers(0, 100_000), share=st.floats(0.0, 1.0))
def test_any_time_of_a_run(seed: int, share: float) -> None:
    """Rounds of evictions, backoffs, backfill, checks and nodes are under way."""
    town = Town(seed)
    town.cluster.run(town.start + share * LONG_SECONDS)
    agenda = town.cluster.agenda
    empty = new_engine(QuotaSettings(mode=QuotaMode.MAX), town.strict)
    check(town.cluster.engine, empty, Moment(agenda.now, agenda.wall))


@settings(max_examples=20)
@given(seed=st.integers(0, 100_000), turns=st.integers(1, 120))
def test_rounds_of_evictions_whose_writes_fail(seed: int, turns: int) -> None:
    world = preemption.World(seed)
    for _ in range(turns):
        world.turn()
    plugin = ElasticQuotaPlugin(QuotaSettings(mode=world.mode))
    empty = Engine(PluginRunner([plugin]), BUILT_IN_POLICIES)
    check(world.engine, empty, Moment(0.0, AT.wall))
