"""The engine with the real quota plugin, in every mode.

The books decide who fits and whom a change wakes; here it shows whether the two agree: at rest
nobody waits whom the books would let start, and no decision takes a quota over its limit.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from queue_scheduler.decision import Refusal
from queue_scheduler.engine import Engine
from queue_scheduler.framework.extension_points import Waiter
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts
from tests.properties.engine_checks import QUOTAS
from tests.properties.engine_world import Story, World
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


class RealQuotas:
    """The plugin, as the world asks it."""

    def __init__(self, mode: QuotaMode) -> None:
        self.mode = mode
        self.plugin = ElasticQuotaPlugin(QuotaSettings(mode=mode))
        self.engine = Engine(PluginRunner([self.plugin, Priority()]), BUILT_IN_POLICIES)

    @property
    def protected(self) -> Mapping[str, str]:
        return {}

    @property
    def foreign(self) -> Mapping[str, object]:
        return {}

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        return self.plugin.check(info)

    def chain(self, quota: str) -> tuple[str, ...]:
        return self.plugin.books.chain(quota)

    def limit(self, quota: str) -> Amounts:
        """In every mode no decision takes any level above its max."""
        view = self.plugin.books.view(quota)
        return view.max if view is not None else {}

    def booked(self) -> Mapping[Uid, tuple[str, Amounts]]:
        found = {uid: self.plugin.books.booking(uid) for uid in self.engine.units.bookings}
        return {uid: (b[0], dict(b[1].amounts)) for uid, b in found.items() if b is not None}

    def waiters(self) -> set[Waiter]:
        return set()

    def quota_names(self, unit: QueueUnit) -> tuple[str, ...]:
        return self.plugin.quota_names(unit)

    def validate(self) -> None:
        self.plugin.books.validate()


def prepared(mode: QuotaMode) -> World:
    def build() -> tuple[Engine, RealQuotas]:
        quotas = RealQuotas(mode)
        return quotas.engine, quotas

    world = World(build)
    for n in range(3):
        world.put_node(n, 3)
    fill(world)
    return world


@modes
@given(story=stories(*EVERYTHING, *NODES, least=30))
def test_who_could_start_does_start(mode: QuotaMode, story: Story) -> None:
    world = prepared(mode)
    world.play(story)
    world.check_rest()


@modes
@given(story=stories(*UNITS, *LIVES, *TALK, *WORK, least=40))
def test_where_only_units_change(mode: QuotaMode, story: Story) -> None:
    world = prepared(mode)
    world.play(story)
    world.check_rest()


@modes
@given(story=stories(*EVERYTHING, *NODES), rng=st.randoms(use_true_random=False))
def test_a_restart_believes_the_same(mode: QuotaMode, story: Story, rng: random.Random) -> None:
    world = prepared(mode)
    world.play(story)
    world.check_rest()
    assume(not world.remembers_a_quota_that_no_object_tells())
    twin = world.rebuilt(rng.shuffle)
    twin.ask_all()
    assert twin.log == [], "a restart starts nobody who was refused before"
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
