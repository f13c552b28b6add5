"""Random clusters keep Koordinator's rules, and repeat from their seed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from queue_scheduler.quota.quota_spec import parse_quota
from queue_scheduler.quota.quota_tree import build_forest
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.testing.object_builders import to_struct
from tests.koordinator.quota_shapes import (
    GPU,
    ClusterShape,
    QuotaShape,
    random_cluster,
    random_request,
)

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
    assert build_forest(specs, multi_quota_tree=drawn(seed).has_trees).problems == []


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
    weights = [each.weight.values() for each in quotas if each.weight]
    assert any(0 in each and any(each) for each in weights)
    assert any(not any(each) for each in weights)
    roots = [each for each in quotas if each.total is not None]
    assert {each.ignores_default_tree for each in roots} == {True, False}
    trees = [len({each.tree for each in shape.quotas if each.tree}) for shape in shapes]
    assert set(trees) == {0, 1, 2}


@pytest.mark.parametrize("seed", range(50))
def test_what_a_pod_asks_for_can_run_in_its_quota(seed: int) -> None:
    shape, rng = drawn(seed), random.Random(seed)
    for leaf in shape.leaves:
        most = shape.most(leaf)
        request = random_request(rng, most)
        assert all(0 < amount <= most[key] for key, amount in request.items())


def leaf_beside(rest: list[QuotaShape], **more: Any) -> dict[str, int]:
    """Return the most that can run in a quota of max 8 on a node of 10 CPUs."""
    leaf = QuotaShape("leaf", max={"cpu": 8000}, **more)
    return ClusterShape({"cpu": 10_000, GPU: 2}, [*rest, leaf]).most(leaf)


def test_the_most_that_can_run_is_what_a_quota_gets_alone() -> None:
    """What it does not govern, the node limits."""
    reserved = QuotaShape("reserved", lends=False, max={"cpu": 6000}, min={"cpu": 6000})
    assert leaf_beside([]) == {"cpu": 8000, GPU: 2}
    assert leaf_beside([reserved]) == {"cpu": 4000, GPU: 2}


def test_without_weight_a_quota_has_its_min_alone() -> None:
    by_gpu = {"cpu": 0, GPU: 1}
    assert leaf_beside([], weight=by_gpu, min={"cpu": 3000})["cpu"] == 3000
    assert leaf_beside([], weight={"cpu": 0})["cpu"] == 8000


def test_a_min_that_is_scaled_to_the_demand_may_be_too_little_for_any() -> None:
    """koord-scheduler gives the leaf 11 of 12 parts of what it asks for: its parent has no more."""
    parent = QuotaShape("p", is_parent=True, max={"cpu": 10_000})
    leaf = QuotaShape("leaf", parent="p", max={"cpu": 9000}, min={"cpu": 5500}, weight={"cpu": 0})
    leaf.weight[GPU] = 1
    beside = QuotaShape("beside", parent="p", max={"cpu": 9000}, min={"cpu": 500})
    cluster = ClusterShape({"cpu": 10_000, GPU: 1}, [parent, leaf, beside])
    assert cluster.most(leaf)["cpu"] == 5500
    assert not cluster.runs_alone(leaf, {"cpu": 1000}, 1)
    assert cluster.runs_alone(beside, {"cpu": 1000}, 3)
    assert not cluster.runs_alone(beside, {"cpu": 1000}, 11)
    parent.lends, parent.min = False, {"cpu": 6000}
    assert cluster.runs_alone(leaf, {"cpu": 1000}, 3), "the parent asks for its min all the same"


@pytest.mark.parametrize(
    ("ignores", "want"),
    [
        pytest.param(False, 6000, id="another tree takes its total from the default one"),
        pytest.param(True, 8000, id="unless it ignores that"),
    ],
)
def test_a_tree_has_its_own_total(ignores: bool, want: int) -> None:
    total = {"cpu": 4000}
    root = QuotaShape("t", tree="t", is_parent=True, max={"cpu": 10**9}, min=total, total=total)
    root.ignores_default_tree = ignores
    inside = QuotaShape("inside", parent="t", tree="t", max={"cpu": 9000})
    assert leaf_beside([root, inside])["cpu"] == want
    assert ClusterShape({"cpu": 10_000}, [root, inside]).most(inside) == total
