"""Where queues and quotas are stated, whatever kind of object their quotas come from."""

from __future__ import annotations

from fractions import Fraction

from queue_insight.page.stated_objects import (
    StatedObject,
    find_policy_object,
    find_queue_object,
    find_quota_object,
)
from queue_scheduler.engine.engine import Engine
from queue_scheduler.plugins.elastic_quota_tree import ElasticQuotaTreePlugin
from queue_scheduler.plugins.resource_quota import ResourceQuotaPlugin
from shared_api.objects.quota_policy import UserLimit
from shared_api.testing.object_builders import elastic_quota, resource_quota, tree_node
from tests.properties.engine_kit import build_policy
from tests.queue_scheduler.quota_source_kit import SourceEngine, cpus, tree
from tests.queue_scheduler.shell_kit import ShellKit


def place_of(found: StatedObject | None) -> tuple[str, str, str] | None:
    return None if found is None else (found.kind.kind, found.namespace, found.name)


def test_a_queue_and_an_elastic_quota_are_found_by_name(kit: ShellKit) -> None:
    assert place_of(find_queue_object(kit.engine, "team")) == ("Queue", "koord-queue", "team")
    assert place_of(find_quota_object(kit.engine, "team")) == ("ElasticQuota", "default", "team")
    assert find_queue_object(kit.engine, "none") is None
    assert find_quota_object(kit.engine, "none") is None


def test_the_older_of_two_elastic_quotas_is_found(kit: ShellKit) -> None:
    for year, namespace in (("2024", "b"), ("2023", "a"), ("2025", "c")):
        metadata = {"uid": f"of-{namespace}", "creationTimestamp": f"{year}-01-01T00:00:00Z"}
        quota = elastic_quota("other", namespace=namespace, max={"cpu": 4}, metadata=metadata)
        kit.shared.apply(Engine.on_quota, quota)
    assert place_of(find_quota_object(kit.engine, "other")) == ("ElasticQuota", "a", "other")


def test_the_nodes_of_a_tree_are_stated_in_one_object() -> None:
    world = SourceEngine(ElasticQuotaTreePlugin(Fraction(1)))
    world.apply(tree(tree_node("team", tree_node("a", **cpus(2)), **cpus(4))))
    want = ("ElasticQuotaTree", "kube-system", "elasticquotatree")
    for quota in ("root/team", "root/team/a"):
        assert place_of(find_quota_object(world.engine, quota)) == want
    assert find_quota_object(world.engine, "root/team/b") is None


def test_a_resource_quota_is_found_by_namespace_and_name() -> None:
    world = SourceEngine(ResourceQuotaPlugin())
    for number, namespace in enumerate(("red", "blue")):
        metadata = {"uid": f"rq-{number}"}
        hard = {"requests.cpu": 2}
        world.apply(resource_quota("q", namespace=namespace, metadata=metadata, hard=hard))
    for namespace in ("red", "blue"):
        found = find_quota_object(world.engine, f"{namespace}/q")
        assert place_of(found) == ("ResourceQuota", namespace, "q")


def test_the_policy_that_counts_is_found(kit: ShellKit) -> None:
    limit = UserLimit(users=("ann",), running=4)
    for second, name in enumerate(("older", "younger")):
        policy = build_policy(name, ["team"], limit, second=second)
        kit.shared.apply(Engine.on_quota_policy, policy)
    found = find_policy_object(kit.engine, "team")
    assert place_of(found) == ("QuotaPolicy", "koord-queue", "older")
    assert find_policy_object(kit.engine, "none") is None


def test_a_visitor_is_told_what_a_command_needs(kit: ShellKit) -> None:
    found = find_quota_object(kit.engine, "team")
    assert found is not None
    assert found.view().model_dump(by_alias=True) == {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "namespace": "default",
        "name": "team",
    }
