"""What keeps a unit from starting: all of it, and nothing else, as the deciding engine has it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_insight.insight.explain import Verdict, explain, needs_fork
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.framework.queue_unit_info import at_least
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaMode
from queue_scheduler.quota_cache.limit_checks import SUM_REASONS
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from tests.properties.engine_kit import wall_time
from tests.properties.engine_world import Story
from tests.properties.quota_cases import NAMES, random_amounts, random_quotas, random_settings
from tests.properties.test_engine_properties import EVERYTHING, stories
from tests.properties.test_engine_with_quotas import NODES, modes, prepared

pytestmark = pytest.mark.properties

seeds = st.integers(0, 2**32 - 1)
WALL = wall_time(1_800_000_000)


@given(seed=seeds)
def test_there_is_a_reason_exactly_where_the_demand_is_refused(seed: int) -> None:
    rng = random.Random(seed)
    quotas = random_quotas(rng, random_settings(rng))
    quota, demand = (
        rng.choice((*NAMES, "unknown")),
        Demand(random_amounts(rng, 12), rng.random() < 0.3),
    )
    first = quotas.check(quota, demand)
    found = quotas.every_refusal(quota, demand)
    assert found[:1] == ([] if first is None else [first])
    places = [(each.reason, each.quota, each.resource) for each in found]
    assert len(set(places)) == len(places), places
    assert all(each.missing > 0 for each in found if each.reason in SUM_REASONS and each.resource)


@given(seed=seeds)
def test_every_max_on_the_way_up_that_is_too_small_is_named(seed: int) -> None:
    rng = random.Random(seed)
    # Pending pods count in their own quota only, which the numbers of the debug API do not tell.
    settings = replace(random_settings(rng, QuotaMode.MAX), foreign_pending=False)
    quotas = random_quotas(rng, settings)
    quota, demand = rng.choice(NAMES), Demand(random_amounts(rng, 12))
    if quota not in quotas.stated.names() or not quotas.trees.nodes.get(quota):
        return
    found = quotas.every_refusal(quota, demand)
    assert {(each.quota, each.resource) for each in found} == set(too_small(quotas, quota, demand))


def too_small(quotas: QuotaCache, quota: str, demand: Demand) -> list[tuple[str, str]]:
    """Return the limits that are exceeded, by what the debug API shows of each quota."""
    views = [view for name in quotas.chain(quota) if (view := quotas.view(name)) is not None]
    return [
        (view.name, key)
        for view in views
        for key, amount in demand.amounts.items()
        if key in view.limits and amount > 0 and view.used.get(key, 0) + amount > view.limits[key]
    ]


@modes
@given(story=stories(*EVERYTHING, *NODES, least=30))
def test_at_rest_whatever_waits_has_a_reason_that_the_engine_gives(
    mode: QuotaMode, story: Story
) -> None:
    world = prepared(mode, judges=False)
    world.play(story)
    world.come_to_rest()
    engine = world.engine.fork()
    for key, record in engine.units.records.items():
        got = explain(engine, key, WALL)
        assert got is not None
        pending = record.state in {UnitState.WAITING, UnitState.ON_HOLD}
        assert (got.verdict in {Verdict.WAITING, Verdict.HELD}) == pending
        assert (got.position > 0) == (record.state is UnitState.WAITING)
        assert bool(got.blockers) or not pending, f"{key} waits for nothing"
        if record.hold is not None:
            assert got.blockers[0] == record.hold
        elif record.state is UnitState.WAITING and record.info is not None:
            refused = engine.plugins.check(record.info) and engine.plugins.check(
                at_least(record.info)
            )
            kinds = {(each.reason, each.quota, each.resource) for each in got.blockers}
            limit = refused[0] if refused else None
            assert limit is None or (limit.reason, limit.quota, limit.resource) in kinds


@modes
@given(story=stories(*EVERYTHING, *NODES, least=30))
def test_to_explain_changes_nothing_that_the_engine_decides(mode: QuotaMode, story: Story) -> None:
    """The engine itself is asked, between all that happens, and must not notice."""
    world = prepared(mode)
    for act in story:
        world.play([act])
        for key in world.units:
            if not needs_fork(world.engine):
                explain(world.engine, key, WALL)
    world.engine.validate()
    world.check_rest()
