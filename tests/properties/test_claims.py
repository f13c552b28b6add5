"""What is promised beside pods that only claim a share holds with them, and without."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_scheduler.quota.quota_decision import Demand, PodStage
from queue_scheduler.quota.quota_settings import QuotaMode
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from shared_api.objects.meta import Uid
from shared_api.well_known_labels import SPECIAL_QUOTAS
from tests.properties.quota_cases import random_amounts, random_quotas, random_settings

pytestmark = pytest.mark.properties

SEEDS = st.integers(0, 2**32)
JOBS = (Uid("one"), Uid("two"))


def with_held_pods(rng: random.Random) -> QuotaCache:
    quotas = random_quotas(rng, random_settings(rng, QuotaMode.RUNTIME), 1)
    for job in JOBS:
        for quota in rng.sample(quotas.stated.names(), min(2, len(quotas.stated.names()))):
            asked = random_amounts(rng, 8)
            quotas.on_foreign(f"held:{job}:{quota}", quota, asked, stage=PodStage.HELD, job=job)
    quotas.validate()
    return quotas


def without_claims(quotas: QuotaCache) -> QuotaCache:
    """Return a copy in which every pod is deleted that only claims."""
    twin = quotas.fork()
    for key in twin.ledger.pods():
        pod = twin.ledger.pod(key)
        assert pod is not None
        is_special = twin.trees.node_of_pod(pod.quota).name in SPECIAL_QUOTAS
        if pod.stage is PodStage.HELD or (pod.stage is PodStage.STUCK and is_special):
            twin.on_foreign(key, "", None)
    return twin


def released(quotas: QuotaCache, quota: str, demand: Demand) -> QuotaCache:
    """Return a copy in which the job's held pods are no larger than what they are beyond it."""
    twin = quotas.fork()
    left = dict(demand.amounts)
    for key in twin.ledger.pods():
        pod = twin.ledger.pod(key)
        assert pod is not None
        if pod.job != demand.job or pod.quota != quota:
            continue
        rest = {}
        for each, amount in pod.demand.amounts.items():
            covered = min(amount, left.get(each, 0))
            left[each] = left.get(each, 0) - covered
            rest[each] = amount - covered
        twin.on_foreign(key, quota, rest, stage=PodStage.HELD, job=pod.job)
    return twin


@settings(max_examples=600, deadline=None)
@given(SEEDS)
def test_a_demand_fits_where_it_fits_with_and_without_claims(seed: int) -> None:
    rng = random.Random(seed)
    quotas = with_held_pods(rng)
    for quota in quotas.stated.names():
        demand = Demand(random_amounts(rng, 8), job=rng.choice(JOBS))
        got = quotas.check(quota, demand)
        node = quotas.trees.nodes.get(quota)
        if node is None:
            continue
        answers = []
        for twin in (released(quotas, quota, demand), without_claims(quotas)):
            there = twin.trees.nodes[quota]
            answers.append(twin.trees.check(there, there.counted(demand.amounts), demand))
        assert (got is None) == (answers == [None, None]), (quota, demand, got, answers)


@settings(max_examples=300, deadline=None)
@given(SEEDS)
def test_a_question_beside_claims_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    quotas = with_held_pods(rng)
    before = {name: quotas.trees.nodes[name].sums() for name in quotas.trees.nodes}
    for quota in quotas.stated.names():
        demand = Demand(random_amounts(rng, 8), job=rng.choice(JOBS))
        twin = quotas.fork()
        assert quotas.every_refusal(quota, demand) == twin.every_refusal(quota, demand)
        assert quotas.check(quota, demand) == twin.check(quota, demand)
    quotas.validate()
    assert before == {name: quotas.trees.nodes[name].sums() for name in quotas.trees.nodes}
