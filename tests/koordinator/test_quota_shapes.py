"""Random clusters keep Koordinator's rules, and repeat from their seed."""

from __future__ import annotations

import random

import pytest

from queue_scheduler.quota.quota_spec import parse_quota
from queue_scheduler.quota.quota_tree import build_forest
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.testing.object_builders import to_struct
from tests.koordinator.quota_shapes import GPU, ClusterShape, random_cluster, random_request

SEEDS = range(200)


def drawn(seed: int) -> ClusterShape:
    """Return the cluster of a seed."""
    return random_cluster(random.Random(seed))


def test_a_seed_repeats_its_cluster() -> None:
    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_quotas_are_what_koordinators_webhook_would_take(seed: int) -> None:
    specs = [parse_quota(to_struct(ElasticQuota, each.body())) for each in drawn(seed).quotas]
    assert build_forest(specs).problems == []


def test_every_shape_is_drawn() -> None:
    shapes = [drawn(seed) for seed in SEEDS]
    quotas = [each for shape in shapes for each in shape.quotas]
    assert any(each.parent for each in quotas)
    assert any(not each.lends and each.min for each in quotas)
    assert any(each.weight for each in quotas)
    assert any(not each.weight for each in quotas)
    assert any(GPU in each.max for each in quotas)
    assert any(GPU not in each.max for each in quotas)
    assert all(shape.leaves for shape in shapes)


@pytest.mark.parametrize("seed", range(50))
def test_what_a_pod_asks_for_can_run_in_its_quota(seed: int) -> None:
    shape, rng = drawn(seed), random.Random(seed)
    for leaf in shape.leaves:
        most = shape.most(leaf)
        request = random_request(rng, most)
        assert all(0 < amount <= most[key] for key, amount in request.items())
