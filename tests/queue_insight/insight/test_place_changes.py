"""Where, and how early in its queue, a unit would start."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_insight.insight.changes import find_changes
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.namespace import Namespace
from shared_api.objects.queue_unit import ConsumerReference
from shared_api.testing.object_builders import tree_node
from shared_api.well_known_labels import (
    BACKFILL,
    ENABLE_PREEMPTION,
    MAX_PRIORITY,
    PRIORITY,
    QUEUE_NAME,
    QUOTA_NAME,
)
from tests.properties.engine_kit import (
    admitted,
    build_queue,
    build_quota,
    build_unit,
    declaring,
    running,
)
from tests.queue_insight.insight.changes_kit import (
    SINCE,
    WALL,
    SmallCluster,
    names,
    of_kind,
    the,
)
from tests.queue_scheduler.quota_source_kit import SourceEngine, cpus, tree, tree_plugin

AVAILABLE_HERE = "koord-queue/available-quota-in-namespace"


def test_the_least_priority_that_passes_a_refused_unit() -> None:
    cluster = SmallCluster(build_queue("a", "Block"))
    cluster.run("old", cpu=3)
    cluster.wait("head", cpu=4, priority=5)
    cluster.wait("new", cpu=1, created=9)
    change = the(cluster.changes("new"), "priority")
    assert change.description == "With priority 6 it is early enough in its queue."
    assert change.minimal
    assert change.patches[0].patch == {"spec": {"priority": 6}}


def test_the_priority_of_a_job_is_its_annotation() -> None:
    cluster = SmallCluster(build_queue("a", "Block"))
    cluster.run("old", cpu=3)
    cluster.wait("head", cpu=4, priority=5)
    unit = build_unit("new", "a", cpu=1, created=9)
    job = ConsumerReference(api_version="batch/v1", kind="Job", name="train")
    assert cluster.apply(replace(unit, spec=replace(unit.spec, consumer_ref=job))) == []
    (patch,) = the(cluster.changes("new"), "priority").patches
    assert patch.patch == {"metadata": {"annotations": {PRIORITY: "6"}}}


def test_no_priority_above_the_ceiling_of_the_queue_is_named() -> None:
    cluster = SmallCluster(build_queue("a", "Block", annotations={MAX_PRIORITY: "5"}))
    cluster.run("old", cpu=3)
    cluster.wait("head", cpu=4, priority=5)
    cluster.wait("new", cpu=1, created=9)
    assert of_kind(cluster.changes("new"), "priority") == []


def test_a_higher_priority_may_evict_where_the_queue_preempts() -> None:
    cluster = SmallCluster(build_queue("a", annotations={ENABLE_PREEMPTION: "true"}))
    cluster.apply(admitted(build_unit("old", "a", cpu=4, priority=3), 2))
    cluster.wait("new", cpu=2, priority=1)
    change = the(cluster.changes("new"), "priority")
    want = "With priority 4 it is early enough in its queue, and evicts 1 unit."
    assert (change.description, names(change.units)) == (want, ["old"])


def test_an_end_that_does_not_delay_the_head() -> None:
    cluster = SmallCluster(build_queue("a", annotations={BACKFILL: "true"}))
    old = declaring(build_unit("old", "a", cpu=3), 600)
    cluster.apply(running(old, 2, since=SINCE))
    cluster.wait("head", cpu=4, priority=5)
    cluster.wait("new", cpu=1, created=9)
    change = the(cluster.changes("new"), "executionTime")
    want = "Declare that it runs for at most 600 s: then it delays no unit ahead."
    assert (change.description, change.minimal) == (want, True)
    assert change.patches[0].patch == {"spec": {"maximumExecutionTimeSeconds": 600}}


def test_a_unit_that_is_not_active_is_made_active() -> None:
    cluster = SmallCluster()
    cluster.wait("new", cpu=1, active=False)
    change = the(cluster.changes("new"), "active")
    assert (change.description, change.sufficient) == ("Make the job active again.", True)
    assert change.patches[0].patch == {"spec": {"active": True}}


def test_making_active_a_unit_that_does_not_fit_is_not_enough() -> None:
    cluster = SmallCluster()
    cluster.wait("new", cpu=5, active=False)
    change = the(cluster.changes("new"), "several")
    want = "Make the job active again, and raise the max of quota a by 1 of cpu, to 5 of cpu."
    assert (change.description, change.sufficient) == (want, True)


def test_another_queue_in_which_it_starts() -> None:
    cluster = SmallCluster(build_queue("a", "Block"), build_queue("shared", takes="a"))
    cluster.run("old", cpu=3)
    cluster.wait("head", cpu=4, priority=5)
    cluster.wait("new", cpu=1, created=9)
    change = the(cluster.changes("new"), "queue")
    assert change.description == "Move it to queue shared."
    assert change.patches[0].patch == {"metadata": {"labels": {QUEUE_NAME: "shared"}}}


def test_no_queue_that_does_not_take_its_quota_is_named() -> None:
    cluster = SmallCluster(build_queue("a", "Block"), build_queue("b"))
    cluster.run("old", cpu=3)
    cluster.wait("head", cpu=4, priority=5)
    cluster.wait("new", cpu=1, created=9)
    assert of_kind(cluster.changes("new"), "queue") == []


def test_another_quota_with_room() -> None:
    cluster = SmallCluster(
        *(build_quota("b", cpu=1, parent="top"), build_queue("b")),
        *(build_quota("c", cpu=9, parent="top"), build_queue("c")),
        build_quota("top", cpu=20),
    )
    cluster.run("old", cpu=4)
    cluster.wait("new", cpu=2)
    change = the(cluster.changes("new"), "quota")
    assert change.description == "Charge it to quota c."
    assert change.patches[0].patch == {"metadata": {"labels": {QUOTA_NAME: "c"}}}


def beside(*quotas: ElasticQuota, namespaces: dict[str, str] | None = None) -> list[str]:
    """Return the quotas that are offered to a unit of namespace `ns`, whose own is full.

    With `namespaces` (annotations of `ns`), units may name only what is listed.
    """
    top = build_quota("top", cpu=90)
    own = build_quota("a", cpu=4, parent="top", namespaces='["ns"]')
    listed = namespaces is not None
    plugin = ElasticQuotaPlugin(QuotaSettings(mode=QuotaMode.MAX), checks_namespaces=listed)
    room = SourceEngine(plugin)
    for quota in (top, own, *quotas):
        room.engine.on_quota(quota)
    room.engine.on_quota(Namespace(metadata=ObjectMeta(name="ns", annotations=namespaces or {})))
    room.add_queues("a", *(each.metadata.name for each in quotas))
    unit = build_unit("new", "a", cpu=5)
    room.engine.on_queue_unit(unit)
    found = find_changes(room.engine.fork(), "ns/new", WALL)
    assert found is not None
    return [each.description for each in of_kind(found, "quota")]


def spare(name: str, *, namespace: str = "kq", namespaces: str = "") -> ElasticQuota:
    quota = build_quota(name, cpu=9, parent="top", namespaces=namespaces)
    return replace(quota, metadata=replace(quota.metadata, namespace=namespace))


@pytest.mark.parametrize(
    ("quota", "annotations", "is_offered"),
    [
        pytest.param(spare("b"), None, True, id="it is for all"),
        pytest.param(spare("b", namespaces='["ns", "x"]'), None, True, id="it lists it"),
        pytest.param(spare("b", namespaces='["other"]'), None, False, id="it lists another"),
        pytest.param(spare("b", namespace="b"), None, False, id="it is another namespace's"),
        pytest.param(spare("koordinator-default-quota"), None, False, id="the default quota"),
        pytest.param(spare("b"), {}, False, id="only what is listed, and it is not"),
        pytest.param(spare("b", namespaces='["ns"]'), {}, True, id="only listed, and it lists it"),
        pytest.param(spare("b"), {AVAILABLE_HERE: "b"}, True, id="only listed by its namespace"),
        pytest.param(
            spare("b", namespaces='["other"]'),
            {AVAILABLE_HERE: "b"},
            True,
            id="it lists another, and its namespace lists it",
        ),
    ],
)
def test_only_quotas_are_offered_that_the_namespace_may_use(
    quota: ElasticQuota, annotations: dict[str, str] | None, is_offered: bool
) -> None:
    want = [f"Charge it to quota {quota.metadata.name}."] if is_offered else []
    assert beside(quota, namespaces=annotations) == want


@pytest.mark.parametrize(("lists", "is_offered"), [("ns", True), ("*", True), ("other", False)])
def test_a_node_of_a_tree_is_offered_where_it_is_for_the_namespace(
    lists: str, is_offered: bool
) -> None:
    room = SourceEngine(tree_plugin())
    room.apply(tree(tree_node("x", **cpus(4)), tree_node("y", namespaces=[lists], **cpus(9))))
    room.add_queues("root-x", "root-y")
    room.add("new", "x", cpu=5)
    found = find_changes(room.engine.fork(), "ns/new", WALL)
    assert found is not None
    assert bool(of_kind(found, "quota")) == is_offered
