"""One unit more of a quota."""

from __future__ import annotations

import pytest

from queue_insight.replay.margins import raise_quota
from queue_insight.replay.quota_files import Objects
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.testing.object_builders import (
    elastic_quota,
    elastic_quota_tree,
    resource_quota,
    tree_node,
)

GPU = "nvidia.com/gpu"
QUOTA = elastic_quota("red", min={"cpu": 2}, max={"cpu": "2500m", "memory": "1Gi", GPU: 8})
HARD = resource_quota("q", namespace="ns", hard={"requests.cpu": 2})
TREE = elastic_quota_tree(tree_node("x", tree_node("red", max={"cpu": 2}, min={"cpu": 1})))
OBJECTS = Objects(quotas=(QUOTA, HARD, TREE))


def elastic(objects: Objects) -> ElasticQuota:
    """Return the first quota."""
    quota = objects.quotas[0]
    assert isinstance(quota, ElasticQuota)
    return quota


@pytest.mark.parametrize(("resource", "more", "most"), [
    ("cpu", "1", {"cpu": "3500m"}), ("memory", "1Gi", {"memory": "2Gi"}), (GPU, "1", {GPU: "9"}),
])  # fmt: skip
def test_max_grows_by_one(resource: str, more: str, most: dict[str, str]) -> None:
    raised = raise_quota(OBJECTS, "red", resource)
    assert raised is not None
    assert raised[1] == more
    assert elastic(raised[0]).spec.max == {**QUOTA.spec.max, **most}


def test_min_grows_where_there_is_one() -> None:
    raised = raise_quota(OBJECTS, "red", "cpu")
    assert raised is not None
    assert elastic(raised[0]).spec.min == {"cpu": "3"}
    assert raised[0].quotas[1:] == OBJECTS.quotas[1:]


def test_the_hard_limit_of_a_namespace_grows() -> None:
    raised = raise_quota(OBJECTS, "ns/q", "cpu")
    assert raised is not None
    hard = raised[0].quotas[1]
    assert isinstance(hard, ResourceQuota)
    assert hard.spec.hard == {"requests.cpu": "3"}


def test_a_node_of_a_tree_grows() -> None:
    raised = raise_quota(OBJECTS, "root/red", "cpu")
    assert raised is not None
    tree = raised[0].quotas[2]
    assert isinstance(tree, ElasticQuotaTree)
    node = tree.spec.root.children[0]
    assert (node.max, node.min) == ({"cpu": "3"}, {"cpu": "2"})


@pytest.mark.parametrize(("name", "resource"), [("green", "cpu"), ("red", "disk"), ("", "")])
def test_what_is_not_limited_does_not_grow(name: str, resource: str) -> None:
    assert raise_quota(OBJECTS, name, resource) is None
