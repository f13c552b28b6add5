"""The quotas and nodes as last seen."""

from __future__ import annotations

from queue_scheduler.engine.cluster_objects import ClusterObjects
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.node import Node
from shared_api.objects.resource_quota import ResourceQuota, ResourceQuotaSpec
from tests.properties.engine_kit import build_quota


def test_a_repeated_fact_is_no_change() -> None:
    objects = ClusterObjects()
    assert objects.put(build_quota("a", cpu=1))
    assert not objects.put(build_quota("a", cpu=1))
    assert objects.put(build_quota("a", cpu=2))
    assert list(objects.of_kind(ElasticQuota)) == [build_quota("a", cpu=2)]


def test_objects_of_two_kinds_may_have_one_name() -> None:
    objects = ClusterObjects()
    elastic = build_quota("a", cpu=1)
    hard = ResourceQuota(
        metadata=ObjectMeta(namespace="kq", name="a"), spec=ResourceQuotaSpec(hard={"cpu": "1"})
    )
    assert objects.put(elastic)
    assert objects.put(hard)
    assert not objects.put(elastic)
    assert objects.drop(ElasticQuota, "kq/a")
    assert list(objects.of_kind(ResourceQuota)) == [hard]


def test_what_is_unknown_cannot_be_dropped() -> None:
    objects = ClusterObjects()
    assert not objects.drop(Node, "n1")
    objects.put(Node(metadata=ObjectMeta(name="n1")))
    assert objects.drop(Node, "n1")
    assert not objects.drop(Node, "n1")


def test_a_copy_is_independent() -> None:
    objects = ClusterObjects()
    objects.put(build_quota("a", cpu=1))
    twin = objects.copy()
    twin.put(build_quota("b", cpu=1))
    objects.drop(ElasticQuota, "kq/a")
    assert [quota.metadata.name for quota in twin.of_kind(ElasticQuota)] == ["a", "b"]
    assert list(objects.of_kind(ElasticQuota)) == []
