"""An owner within its min is never starved by borrowers that come after it."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from queue_scheduler.decision import Reason
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings, Rounding
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from tests.properties.quota_cases import KEYS, NAMES, build_quota

pytestmark = pytest.mark.properties


class Cluster:
    """Quotas whose mins add up, or do not; one owner, and others that take what they can."""

    def __init__(self, seed: int, mode: QuotaMode) -> None:
        self.rng = random.Random(seed)
        self.quotas = QuotaCache(
            QuotaSettings(mode=mode, rounding_override=Rounding.LARGEST_REMAINDER)
        )
        left = {"": {key: self.rng.randint(10, 40) for key in KEYS}}
        self.quotas.on_capacity(left[""])
        is_over_promised = self.rng.random() < 0.3
        parents: dict[str, str] = {}
        for number, name in enumerate(NAMES[: self.rng.randint(2, 7)]):
            parent = self.rng.choice(["", "", *NAMES[:number]])
            minimum = {key: self.rng.randint(0, left[parent][key]) for key in KEYS}
            if not is_over_promised:
                left[parent] = {key: left[parent][key] - minimum[key] for key in KEYS}
            left[name] = dict(minimum)
            maximum = {key: minimum[key] + self.rng.randint(0, 20) for key in KEYS}
            self.quotas.on_quota(build_quota(name, minimum=minimum, maximum=maximum, parent=parent))
            parents[name] = parent
        leaves = [name for name in parents if name not in parents.values()]
        self.owner = self.rng.choice(leaves)
        self.others = [name for name in leaves if name != self.owner]
        self.running: dict[str, str] = {}

    def demand_within_min(self) -> Demand:
        view = self.quotas.view(self.owner)
        assert view is not None
        amounts = {key: self.rng.randint(0, view.scaled_min.get(key, 0)) for key in KEYS}
        return Demand(amounts)

    def borrowing(self, quota: str) -> bool:
        view = self.quotas.view(quota)
        assert view is not None
        return any(amount > view.scaled_min.get(key, 0) for key, amount in view.used.items())

    def take_what_fits(self, turn: int) -> bool:
        """Start a unit of another quota if it fits; return whether it borrows."""
        quota = self.rng.choice(self.others)
        demand = Demand({key: self.rng.randint(0, 8) for key in KEYS})
        if self.quotas.check(quota, demand) is not None:
            return False
        self.quotas.charge(f"unit-{turn}", quota, demand)
        self.running[f"unit-{turn}"] = quota
        view = self.quotas.view(quota)
        assert view is not None
        taken = (key for key, amount in demand.amounts.items() if amount)
        return any(view.used[key] > view.scaled_min.get(key, 0) for key in taken)

    def end_a_borrower(self) -> bool:
        """End one unit of a quota that borrows; return whether there was one."""
        borrowed = sorted(unit for unit, quota in self.running.items() if self.borrowing(quota))
        if borrowed:
            unit = self.rng.choice(borrowed)
            self.quotas.release(unit)
            del self.running[unit]
        return bool(borrowed)

    def owner_fits(self, demand: Demand) -> bool:
        return self.quotas.check(self.owner, demand) is None


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([QuotaMode.RUNTIME, QuotaMode.MAX]))
def test_an_owner_gets_its_min_as_borrowers_end(seed: int, mode: QuotaMode) -> None:
    cluster = Cluster(seed, mode)
    demand = cluster.demand_within_min()
    assume(any(demand.amounts.values()) and cluster.others)
    for turn in range(30):
        cluster.take_what_fits(-turn)
    cluster.quotas.protect(cluster.owner, demand)
    for turn in range(1, 2000, 4):
        for number in range(4):
            # What the owner could take once, a borrower does not take from it.
            did_fit = cluster.owner_fits(demand)
            if cluster.take_what_fits(turn + number) and did_fit:
                assert cluster.owner_fits(demand)
        if cluster.owner_fits(demand):
            return
        assert cluster.end_a_borrower(), cluster.quotas.check(cluster.owner, demand)
    pytest.fail("the owner never got its turn")


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([QuotaMode.RUNTIME, QuotaMode.MAX]))
def test_borrowers_never_block_each_other(seed: int, mode: QuotaMode) -> None:
    cluster = Cluster(seed, mode)
    for turn in range(20):
        if cluster.others:
            cluster.take_what_fits(turn)
    for name in (cluster.owner, *cluster.others):
        view = cluster.quotas.view(name)
        assert view is not None
        too_much = {key: view.scaled_min.get(key, 0) + 1 for key in KEYS}
        cluster.quotas.protect(name, Demand(too_much))
        refusal = cluster.quotas.check(name, Demand(too_much))
        assert refusal is None or refusal.reason is not Reason.GUARANTEE_OF_OTHERS
