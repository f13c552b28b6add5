"""What is said of admitted units agrees with what the engine has done, and does next."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_insight.insight.admitted import Admitted, describe_admitted, find_evictors
from queue_scheduler.decision import BEGINNING, Decision, Dequeue, Preempt
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from queue_scheduler.quota_cache.reclaim import find_borrowed
from tests.properties.quota_cases import NAMES, random_amounts, random_quotas, random_settings
from tests.properties.test_engine_preemption import World

pytestmark = pytest.mark.properties

seeds = st.integers(0, 2**32 - 1)


@given(seed=seeds)
def test_what_was_admitted_fitted_every_limit_that_is_noted(seed: int) -> None:
    rng = random.Random(seed)
    quotas = random_quotas(rng, random_settings(rng))
    for number in range(5):
        quota, demand = (
            rng.choice(NAMES),
            Demand(random_amounts(rng, 4), non_preemptible=rng.random() < 0.3),
        )
        if quotas.check(quota, demand) is not None:
            continue
        views = {name: quotas.view(name) for name in quotas.chain(quota)}
        record = quotas.charge(f"new-{number}", quota, demand, notes=True)
        assert record is not None
        for row in record.limits():
            assert row.used + row.requested <= row.limit, row
            assert row.requested == demand.amounts[row.resource], row
            view = views.get(row.quota)
            if row.kind == "max":
                assert view is not None
                assert row.limit == view.limits[row.resource], row
        assert quotas.check_without(quota, demand, [f"new-{number}"]) is None


@given(seed=seeds)
def test_what_is_borrowed_adds_up_to_the_usage_above_the_guarantee(seed: int) -> None:
    rng = random.Random(seed)
    quotas = random_quotas(rng, random_settings(rng))
    quota, demand = rng.choice(NAMES), Demand(random_amounts(rng, 6))
    rows = find_borrowed(quotas.trees, quota, demand)
    got = {(each.quota, each.resource): each.amount for each in rows}
    assert got == above_guarantee(quotas, quota, demand)
    for row in rows:
        for name, amount in row.lenders:
            view = quotas.view(name)
            assert view is not None
            unused = view.scaled_min[row.resource] - view.used.get(row.resource, 0)
            assert 0 < amount <= min(unused, row.amount), row


def above_guarantee(quotas: QuotaCache, quota: str, demand: Demand) -> dict[tuple[str, str], int]:
    """Return the same, by what the debug API shows of each quota."""
    node = quotas.trees.nodes.get(quota)
    keys = (
        () if node is None or node.is_special else [key for key, _ in node.counted(demand.amounts)]
    )
    views = [view for name in quotas.chain(quota) if (view := quotas.view(name)) is not None]
    above = {
        (view.name, key): view.used.get(key, 0) - view.scaled_min.get(key, 0)
        for view in views
        for key in keys
    }
    return {place: amount for place, amount in above.items() if amount > 0}


class AskedWorld(World):
    """Asks, before each decision, what could evict each admitted unit."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.said: dict[str, Admitted] = {}
        self.evictors: dict[str, tuple[set[str], bool]] = {}
        self.was_idle = False

    def ask(self) -> None:
        self.look()
        super().ask()

    def look(self) -> None:
        engine, self.said, self.evictors = self.engine, {}, {}
        self.was_idle = engine.rounds.is_idle
        for key in self.units:
            reported = describe_admitted(engine, key, BEGINNING)
            if reported is not None:
                self.said[key] = reported
                found, has_more = find_evictors(engine.fork(), key, BEGINNING)
                self.evictors[key] = {each.info.key for each in found}, has_more

    def take(self, decision: Decision) -> None:
        if isinstance(decision, Preempt):
            for victim in decision.victims:
                self.check_foretold(decision, victim.unit)
        super().take(decision)
        if isinstance(decision, Preempt | Dequeue):
            self.look()

    def check_foretold(self, decision: Preempt, victim: str) -> None:
        """Check that a victim was said to be one, of this kind and for this unit."""
        reported = self.said[victim]
        assert reported.is_possible_victim, f"{decision.unit} evicts {victim}: {reported}"
        record, queue = self.engine.record(victim), self.engine.queues.find(decision.queue)
        assert record is not None
        assert queue is not None
        if decision.reason == "Preempted" or record.uid in queue.in_flight:
            assert reported.is_in_reach, f"{decision.unit} evicts {victim}: {reported}"
        else:
            owners = {each.quota for each in reported.reclaimers}
            assert decision.quota in owners, f"{decision.unit} evicts {victim}: {reported}"
        units, has_more = self.evictors[victim]
        if self.was_idle:
            assert has_more or decision.unit in units, f"{decision.unit} evicts {victim}: {units}"


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_only_units_that_were_said_to_be_possible_victims_are_evicted(seed: int) -> None:
    world = AskedWorld(seed)
    for _ in range(60):
        world.turn()
    world.engine.validate()
