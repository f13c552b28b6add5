"""Objects with more room: nodes of a tree, ResourceQuotas, and what cannot be edited."""

from __future__ import annotations

from fractions import Fraction

from msgspec.structs import replace

from queue_insight.insight.changes import Changes, find_changes
from queue_scheduler.plugins.resource_quota import ResourceQuotaPlugin
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import ObjectMeta, Timestamp
from shared_api.objects.resource_quota import ResourceQuota, ResourceQuotaSpec
from shared_api.testing.object_builders import tree_node
from shared_api.well_known_labels import TREE_QUOTA_NAME
from tests.properties.engine_kit import build_queue, build_quota
from tests.queue_insight.insight.changes_kit import WALL, SmallCluster, the
from tests.queue_scheduler.quota_source_kit import SourceEngine, cpus, tree, tree_plugin


def waiting_in_tree(*, rate: Fraction = Fraction(1)) -> Changes:
    """Return what would start a unit of 3 cores in node `x` of 4."""
    children = (tree_node("x", **cpus(4)), tree_node("y", **cpus(9)))
    room = SourceEngine(tree_plugin(rate=rate))
    room.apply(tree(*children))
    room.add_queues("root-x", "root-y")
    used = 2 if rate == 1 else 4
    room.add("old", "x", cpu=used)
    assert room.start("root-x") == ["old"]
    room.write("old")
    room.add("new", "x", cpu=3)
    found = find_changes(room.engine.fork(), "ns/new", WALL)
    assert found is not None
    return found


def test_a_node_below_the_root_is_not_patched() -> None:
    change = the(waiting_in_tree(), "quotaMax")
    want = "Raise the max of quota root/x by 1 of cpu, to 5 of cpu."
    # A merge patch would replace the list of nodes by the fields that are read of them.
    assert (change.description, change.sufficient, change.patches) == (want, True, ())


def test_the_root_of_a_tree_is_patched() -> None:
    room = SourceEngine(tree_plugin())
    room.apply(tree(tree_node("x", **cpus(9)), **cpus(4)))
    room.add_queues("root-x")
    room.add("new", "x", cpu=6)
    found = find_changes(room.engine.fork(), "ns/new", WALL)
    assert found is not None
    (patch,) = the(found, "quotaMax").patches
    assert (patch.kind, patch.patch) == (
        "ElasticQuotaTree",
        {"spec": {"root": {"max": {"cpu": "6"}}}},
    )


def test_a_node_is_named_by_its_short_name() -> None:
    change = the(waiting_in_tree(), "quota")
    assert change.description == "Charge it to quota root/y."
    assert change.patches[0].patch == {"metadata": {"labels": {TREE_QUOTA_NAME: "y"}}}


def test_a_rate_makes_a_smaller_raise_suffice() -> None:
    change = the(waiting_in_tree(rate=Fraction(3, 2)), "quotaMax")
    # 4 cores are used of 4 x 3/2; 7 are needed, which 4667m x 3/2 has.
    want = "Raise the max of quota root/x by 667m of cpu, to 4.67 of cpu."
    assert (change.description, change.minimal) == (want, True)


def resource_quota(**hard: str) -> ResourceQuota:
    meta = ObjectMeta(name="team", namespace="ns")
    return ResourceQuota(metadata=meta, spec=ResourceQuotaSpec(hard=dict(hard)))


def test_both_keys_of_a_resource_are_raised() -> None:
    room = SourceEngine(ResourceQuotaPlugin())
    hard = {"cpu": "3", "requests.cpu": "2", "pods": "5"}
    room.apply(resource_quota(**hard))
    room.add_queues("ns")
    room.add("new", cpu=4)
    found = find_changes(room.engine.fork(), "ns/new", WALL)
    assert found is not None
    change = the(found, "quotaMax")
    assert change.sufficient
    (patch,) = change.patches
    assert (patch.api_version, patch.kind, patch.namespace) == ("v1", "ResourceQuota", "ns")
    assert patch.patch == {"spec": {"hard": {"cpu": "4", "requests.cpu": "4"}}}


def test_the_older_of_two_quotas_of_one_name_is_raised() -> None:
    cluster = SmallCluster()
    cluster.apply(
        in_namespace(build_quota("b", cpu=9), "second", "2026-02-01T00:00:00Z"),
        in_namespace(build_quota("b", cpu=2), "first", "2026-01-01T00:00:00Z"),
        build_queue("b"),
    )
    cluster.wait("new", "b", cpu=5)
    (patch,) = the(cluster.changes("new"), "quotaMax").patches
    assert (patch.namespace, patch.patch) == ("first", {"spec": {"max": {"cpu": "5"}}})


def in_namespace(quota: ElasticQuota, namespace: str, created: str) -> ElasticQuota:
    meta = replace(quota.metadata, namespace=namespace, creation_timestamp=Timestamp(created))
    return replace(quota, metadata=meta)
