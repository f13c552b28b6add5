"""Trees and ResourceQuotas in the whole scheduler: what is watched, created and reported."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from queue_scheduler.configuration import (
    KoordQueueConfiguration,
    PluginEntry,
)
from queue_scheduler.cycles.event_handlers import EventHandlers
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.debug_api.snapshots import Snapshots
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_questions import list_quotas, view_all_quotas
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota_tree import ElasticQuotaTreePlugin
from queue_scheduler.plugins.resource_quota import ResourceQuotaPlugin
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.reporting.metrics import SchedulerMetrics, StateCollector
from shared_api.quota_names import QuotaNamespaces
from shared_api.testing.object_builders import (
    elastic_quota_tree,
    elastic_quota_tree_body,
    queue,
    queue_body,
    queue_unit_body,
    resource_quota,
    resource_quota_body,
    tree_node,
)
from shared_api.testing.virtual_clock import VirtualClock
from tests.object_states import condition_of
from tests.queue_scheduler.quota_source_kit import FULLNAME
from tests.queue_scheduler.scheduler_world import MAX_MODE, SchedulerWorld, running_world
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE
from tests.sample_jobs import crd

TREE = tree_node(
    "any",
    tree_node("a", namespaces=["default"], max={"cpu": 2}),
    tree_node("b", max={"cpu": 2, "koord-queue/max-jobs": 1}),
)


def plugins(*names: str, **arguments: dict[str, Any]) -> KoordQueueConfiguration:
    listed = tuple(PluginEntry(name) for name in ("Priority", *names))
    return KoordQueueConfiguration(plugins=listed, plugin_configs=arguments)


@pytest.fixture
def world() -> Iterator[SchedulerWorld]:
    with running_world() as found:
        yield found


@pytest.fixture
def tree_world(world: SchedulerWorld) -> SchedulerWorld:
    world.direct.create(crd("elasticquotatrees"))
    world.direct.create(elastic_quota_tree_body(TREE))
    world.start(configuration=plugins("ElasticQuota"))
    return world


def queues(world: SchedulerWorld) -> set[str]:
    return {each["metadata"]["name"] for each in world.direct.list("queues")}


def add_unit(world: SchedulerWorld, name: str, node: str = "", **more: Any) -> None:
    labels = {"quota.scheduling.alibabacloud.com/name": node} if node else {}
    body = queue_unit_body(name, metadata={"labels": labels}, **more)
    world.direct.create(body)


def test_nodes_get_queues_and_units_start_within_them(tree_world: SchedulerWorld) -> None:
    world = tree_world
    assert queues(world) == {"root", "root-a", "root-b"}
    add_unit(world, "one", count=2)
    add_unit(world, "two", "a")
    add_unit(world, "named", "b")
    add_unit(world, "next", "b")
    world.settle(4.0)
    assert [world.phase(name) for name in ("one", "named")] == ["Dequeued", "Dequeued"]
    assert world.reason("two") == "OverQuotaMax"
    assert world.reason("next") == "OverMaxJobs"
    world.finish("named")
    world.settle()
    assert world.phase("next") == "Dequeued"


def test_queues_follow_the_tree(tree_world: SchedulerWorld) -> None:
    world = tree_world
    world.direct.create(queue_body("root-mine"))
    edited = tree_node("any", tree_node("a"), tree_node("c"), tree_node("mine"))
    patch = {"spec": {"root": edited}}
    world.direct.patch("elasticquotatrees", "elasticquotatree", patch, namespace="kube-system")
    world.settle()
    assert queues(world) == {"root", "root-a", "root-c", "root-mine"}
    world.direct.delete("elasticquotatrees", "elasticquotatree", "kube-system")
    world.settle()
    assert queues(world) == {"root-mine"}, "a queue made by a user stays"


def test_a_stopped_node_stays_stopped_when_another_gets_its_name(
    tree_world: SchedulerWorld,
) -> None:
    world = tree_world

    def edit(*nodes: Any) -> None:
        patch = {"spec": {"root": tree_node("any", *nodes)}}
        world.direct.patch("elasticquotatrees", "elasticquotatree", patch, namespace="kube-system")
        world.settle(4.0)

    nested = tree_node("a", tree_node("b", max={"cpu": 2}), max={"cpu": 2})
    edit(nested)
    stop = {"metadata": {"annotations": {"koord-queue/stop-policy": "Hold"}}}
    world.direct.patch("queues", "root-a-b", stop, namespace=QUEUE_NAMESPACE)
    world.settle()
    add_unit(world, "held", "b")
    world.settle()
    edit(nested, tree_node("a-b", max={"cpu": 2}))
    add_unit(world, "free", "a-b")
    world.settle(4.0)
    (beside,) = queues(world) - {"root", "root-a", "root-a-b"}
    for _ in range(2):
        assert (world.phase("held"), world.reason("held")) == ("Enqueued", "StoppedQueue")
        assert world.phase("free") == "Dequeued"
        annotations = world.direct.get("queues", "root-a-b", QUEUE_NAMESPACE)["metadata"]
        assert annotations["annotations"][FULLNAME] == "root/a/b"
        world.start(configuration=plugins("ElasticQuota"))
        world.settle(4.0)
    edit(tree_node("a-b", max={"cpu": 2}))
    assert queues(world) == {"root", beside}


def test_two_nodes_that_get_one_name_at_once_have_two_queues(
    tree_world: SchedulerWorld,
) -> None:
    world = tree_world
    edited = tree_node("any", tree_node("a", tree_node("b")), tree_node("a-b"))
    patch = {"spec": {"root": edited}}
    world.direct.patch("elasticquotatrees", "elasticquotatree", patch, namespace="kube-system")
    world.settle()
    made = [each["metadata"]["annotations"][FULLNAME] for each in world.direct.list("queues")]
    assert sorted(made) == ["root", "root/a", "root/a-b", "root/a/b"]
    assert "root-a-b" in queues(world)


def test_a_deleted_queue_is_created_again(tree_world: SchedulerWorld) -> None:
    world = tree_world
    world.direct.delete("queues", "root-a", QUEUE_NAMESPACE)
    world.settle()
    assert "root-a" in queues(world)


def test_elastic_quotas_get_no_queue_where_their_plugin_is_not_listed(
    tree_world: SchedulerWorld,
) -> None:
    world = tree_world
    world.add_quota("team")
    world.settle()
    assert "team" not in queues(world)


def test_both_kinds_of_quotas_side_by_side(world: SchedulerWorld) -> None:
    world.direct.create(crd("elasticquotatrees"))
    world.direct.create(elastic_quota_tree_body(TREE))
    world.add_quota("team", cpu=1)
    arguments = {"ElasticQuotaV2": {"mode": "max"}}
    world.start(configuration=plugins("ElasticQuota", "ElasticQuotaV2", **arguments))
    assert queues(world) == {"root", "root-a", "root-b", "team"}
    add_unit(world, "of-tree", "b")
    world.add_unit("of-team", "team")
    world.add_unit("second-of-team", "team")
    world.settle(4.0)
    assert world.phase("of-tree") == world.phase("of-team") == "Dequeued"
    assert world.reason("second-of-team") == "OverQuotaMax"
    world.direct.delete("elasticquotas", "team", "default")
    world.settle(8.0)
    assert queues(world) == {"root", "root-a", "root-b"}
    for name in ("root-a", "root-b"):
        assert condition_of(world.queue(name), "Ready")["status"] == "True"


def test_without_the_crd_of_trees_units_wait_until_it_exists(world: SchedulerWorld) -> None:
    world.start(configuration=plugins("ElasticQuota"))
    assert world.scheduler is not None
    checks = world.scheduler.ready_checks()
    ok, detail = checks["elasticquotatrees-synced"]()
    assert ok
    assert "ElasticQuotaTree is not served here; every unit waits with reason NoQuota" in detail
    add_unit(world, "u", "b")
    world.settle(4.0)
    assert world.reason("u") == "NoQuota"
    world.direct.create(crd("elasticquotatrees"))
    world.direct.create(elastic_quota_tree_body(TREE))
    world.settle(10.0)
    assert world.phase("u") == "Dequeued"


def test_only_kinds_that_a_plugin_needs_are_watched(world: SchedulerWorld) -> None:
    world.start()
    assert world.scheduler is not None
    names = {"queues", "queueunits", "elasticquotas", "pods", "nodes"}
    names |= {"quotapolicies", "queuereservations"}
    assert set(world.scheduler.ready_checks()) == {f"{name}-synced" for name in names}
    gate = "--feature-gates=ElasticQuotaTreeCheckAvailableQuota=true"
    configuration = plugins("ElasticQuota", "ResourceQuota")
    world.start(gate, configuration=configuration)
    assert world.scheduler is not None
    more = {"elasticquotatrees", "namespaces", "resourcequotas"}
    assert set(world.scheduler.ready_checks()) == {f"{name}-synced" for name in names | more}


def test_the_gate_is_honored(world: SchedulerWorld) -> None:
    world.direct.create(crd("elasticquotatrees"))
    world.direct.create(elastic_quota_tree_body(TREE))
    gate = "--feature-gates=ElasticQuotaTreeCheckAvailableQuota=true"
    world.start(gate, configuration=plugins("ElasticQuota"))
    add_unit(world, "u", "b")
    world.settle(4.0)
    assert world.reason("u") == "QuotaNotInNamespace"
    lists = {"metadata": {"annotations": {"koord-queue/available-quota-in-namespace": "b"}}}
    world.direct.patch("namespaces", "default", lists)
    world.settle()
    assert world.phase("u") == "Dequeued"


LISTED = "--quota-namespaces=listed"


@pytest.mark.parametrize(
    ("flags", "file"), [((LISTED,), "open"), ((), "listed")], ids=["by flag", "by file"]
)
def test_a_namespace_must_list_an_elastic_quota(
    world: SchedulerWorld, flags: tuple[str, ...], file: str
) -> None:
    world.add_quota("team", namespace=QUEUE_NAMESPACE)
    configuration = msgspec.structs.replace(MAX_MODE, quota_namespaces=QuotaNamespaces(file))
    world.start(*flags, configuration=configuration)
    assert world.scheduler is not None
    assert "namespaces-synced" in world.scheduler.ready_checks()
    world.add_unit("u")
    world.settle(4.0)
    assert world.reason("u") == "QuotaNotInNamespace"
    got = condition_of(world.unit("u"), "QuotaReserved")["message"]
    assert "list it in the namespace's annotation" in got
    lists = {"metadata": {"annotations": {"koord-queue/available-quota-in-namespace": "team"}}}
    world.direct.patch("namespaces", "default", lists)
    world.settle()
    assert world.phase("u") == "Dequeued"


@pytest.mark.parametrize("rule", ["open", "listed"])
def test_namespaces_are_followed_once(world: SchedulerWorld, rule: str) -> None:
    world.start(f"--quota-namespaces={rule}", settle_seconds=5.0)
    asked = [each.info for each in world.server.journal if each.info.plural == "namespaces"]
    assert [each.verb for each in asked].count("watch") == 1


def adopted_status(now: str, **reserved: str) -> dict[str, Any]:
    proof = {"type": "Adopted", "status": "True", "reason": "RanBefore", "message": "it ran"}
    said = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "x"}
    conditions = [{**each, "lastTransitionTime": now} for each in (proof, said | reserved)]
    return {"status": {"phase": "Running", "conditions": conditions}}


@pytest.mark.parametrize("is_restarted", [False, True], ids=["at once", "after a restart"])
def test_an_adopted_unit_shows_that_its_namespace_may_name_its_quota_by_now(
    world: SchedulerWorld, *, is_restarted: bool
) -> None:
    world.add_quota("team", namespace=QUEUE_NAMESPACE)
    world.add_unit("u")
    status = adopted_status("2026-11-01T10:00:00Z")
    world.direct.patch("queueunits", "u", status, namespace="default", subresource="status")
    world.start("--quota-namespaces=listed", configuration=MAX_MODE)
    world.settle(8.0)
    assert world.reason("u") == "QuotaNotInNamespace"
    if is_restarted:
        world.stop()
    lists = {"metadata": {"annotations": {"koord-queue/available-quota-in-namespace": "team"}}}
    world.direct.patch("namespaces", "default", lists)
    if is_restarted:
        world.start("--quota-namespaces=listed", configuration=MAX_MODE)
    world.settle(15.0)
    got = condition_of(world.unit("u"), "QuotaReserved")
    assert (got["status"], got["reason"]) == ("True", "QuotaReserved")
    assert world.phase("u") == "Running"
    written = world.server.resource_version
    world.settle(10.0)
    assert world.server.resource_version == written, "once"


def test_the_flag_precedes_the_file(world: SchedulerWorld) -> None:
    listed = msgspec.structs.replace(MAX_MODE, quota_namespaces=QuotaNamespaces.LISTED)
    world.start("--quota-namespaces=open", configuration=listed)
    assert world.scheduler is not None
    assert "namespaces-synced" not in world.scheduler.ready_checks()


def test_it_applies_to_nodes_of_trees_as_well(world: SchedulerWorld) -> None:
    world.direct.create(crd("elasticquotatrees"))
    world.direct.create(elastic_quota_tree_body(TREE))
    world.start(LISTED, configuration=plugins("ElasticQuota"))
    add_unit(world, "theirs", "b")
    add_unit(world, "own", "a")
    world.settle(4.0)
    assert world.reason("theirs") == "QuotaNotInNamespace"
    assert world.phase("own") == "Dequeued", "the node lists the namespace"


def test_a_problem_of_a_tree_is_an_event_on_it(world: SchedulerWorld) -> None:
    world.direct.create(crd("elasticquotatrees"))
    broken = tree_node("any", tree_node("a", max={"cpu": "lots"}))
    world.direct.create(elastic_quota_tree_body(broken))
    world.start(configuration=plugins("ElasticQuota"), settle_seconds=8.0)
    assert ("elasticquotatree", "UnreadableAmount") in world.events()
    assert condition_of(world.queue("root-a"), "Ready")["reason"] == "BrokenChain"


def test_units_of_a_namespace_share_its_resource_quota(world: SchedulerWorld) -> None:
    world.direct.create(resource_quota_body("rq", hard={"requests.cpu": 2, "pods": 10}))
    world.start(configuration=plugins("defaultgroup", "ResourceQuota"))
    assert queues(world) == {"default"}
    for name in ("one", "two"):
        add_unit(world, name, count=2)
    world.settle(4.0)
    assert (world.phase("one"), world.reason("two")) == ("Dequeued", "OverQuotaMax")
    world.finish("one")
    world.settle()
    assert world.phase("two") == "Dequeued"


def test_an_existing_default_queue_is_used(world: SchedulerWorld) -> None:
    world.direct.create(queue_body("default", policy="Block"))
    world.start(configuration=plugins("defaultgroup"))
    add_unit(world, "u")
    world.settle()
    assert world.phase("u") == "Dequeued"
    assert world.queue("default")["spec"]["queuePolicy"] == "Block"


def test_quotas_of_all_plugins_are_shown_and_measured() -> None:
    keepers = PluginRunner([ElasticQuotaTreePlugin(Fraction(1)), ResourceQuotaPlugin()])
    engine = Engine(keepers, BUILT_IN_POLICIES)
    shared = SharedEngine(engine, lambda _: None)
    handlers = EventHandlers(shared, NoWorkers(), lambda _: None, lambda: False)
    handlers.on_quota(None, elastic_quota_tree(TREE))
    quota = resource_quota("rq", hard={"cpu": 4})
    handlers.on_quota(None, quota)
    assert shared.ask(lambda engine: list_quotas(engine.plugins)) == (
        "root",
        "root/a",
        "root/b",
        "default/rq",
    )
    assert [view.name for view in shared.ask(lambda engine: view_all_quotas(engine.plugins))] == [
        *shared.ask(lambda engine: list_quotas(engine.plugins))
    ]
    registry = CollectorRegistry()
    registry.register(StateCollector(shared, SchedulerMetrics(registry)))
    for name, cpu in (("root/a", 2000), ("default/rq", 4000)):
        labels = {"quota": name, "resource": "cpu"}
        assert registry.get_sample_value("koord_queue_quota_max", labels) == cpu
    handlers.on_queue(None, queue("q", metadata={"annotations": {FULLNAME: "root/a"}}))
    (facts,) = Snapshots(shared, VirtualClock().now).queues(["q"])
    assert facts.quotas == ["root/a"]
    handlers.on_quota(quota, None)
    assert "default/rq" not in shared.ask(lambda engine: list_quotas(engine.plugins))


class NoWorkers:
    """Nobody decides."""

    def run_for(self, queue: str) -> None: ...

    def end_for(self, queue: str) -> None: ...
