"""A wrong edit is refused with its number, its field, and what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from queue_insight.what_if.apply import apply_edits
from queue_insight.what_if.edit import Edit, EditError
from queue_scheduler.engine.engine import Engine
from queue_scheduler.preemption.eviction_rates import ALL
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.testing.object_builders import node
from shared_api.well_known_labels import BACKFILL, MAX_DEPTH
from tests.properties.engine_kit import build_quota
from tests.queue_insight.insight.changes_kit import WALL, SmallCluster

NO_EDIT = Edit(kind="ElasticQuota", name="a", patch={})


def cluster() -> SmallCluster:
    cluster = SmallCluster(node("n1", allocatable={"cpu": 4}))
    cluster.run("busy", cpu=3, job="uid-of-job")
    cluster.wait("first", "a", cpu=2)
    return cluster


def queue(patch: Any) -> Edit:
    return Edit(kind="Queue", name="a", patch=patch)


def unit(patch: Any, **more: Any) -> Edit:
    return Edit(kind="QueueUnit", namespace="ns", name="first", patch=patch, **more)


WRONG = [
    (Edit(kind="Pod", name="x", patch={}), "kind: must be one of Queue, ElasticQuota,"),
    (Edit(kind="PriorityClass", name="x", patch={}), "kind: units have their priority as a number"),
    (Edit(kind="Queue", api_version="v1", name="a", patch={}), "apiVersion: must be 'scheduling."),
    (Edit(kind="Queue", name="a"), "patch: is required; null deletes the object"),
    (Edit(kind="Queue", name="", patch={}), "name: is required"),
    (Edit(kind="Queue", name="x", patch=None), "name: there is no Queue 'x'"),
    (Edit(kind="Queue", namespace="ns", name="a", patch={}), "namespace: queues are in 'kq'"),
    (queue({"spec": {"queuePolicy": "No"}}), "patch.spec.queuePolicy: queue policy 'No' is"),
    (queue({"spec": {"queuePolicy": 3}}), "patch.spec.queuePolicy: must be of type string"),
    (queue({"spec": {"priority": 2**40}}), "patch.spec.priority: must be at most 2147483647"),
    (queue({"spec": []}), "patch.spec: must be of type object"),
    (queue({"metadata": {"name": "b"}}), "patch.metadata.name: cannot be changed"),
    (queue({"metadata": {"labels": {"a": 1}}}), "patch.metadata.labels[...]: Expected `str`"),
    (
        queue({"metadata": {"annotations": {MAX_DEPTH: "many"}}}),
        f"patch.metadata.annotations: annotation {MAX_DEPTH}: 'many' is not a whole number",
    ),
    (
        queue({"spec": {"admissionChecks": [{"labelSelector": {}}]}}),
        "patch.spec.admissionChecks[0].name: is required",
    ),
    (
        queue({"spec": {"admissionChecks": [{"name": "c"}] * 9}}),
        "patch.spec.admissionChecks: must have at most 8 entries",
    ),
    (unit({"spec": {"priority": True}}), "patch.spec.priority: must be of type integer"),
    (unit({"spec": {"podSet": []}}), "patch.spec.podSet: must have at least 1 entries"),
    (unit({"spec": {"podSet": [{"name": "X"}]}}), "patch.spec.podSet[0].name: must match"),
    (unit({"metadata": {"uid": "other"}}), "patch.metadata.uid: cannot be changed"),
    (unit(None, end=True), "patch: cannot stand beside end"),
    (Edit(kind="QueueUnit", name="x", patch={}), "namespace: is required"),
    (
        Edit(kind="QueueUnit", namespace="ns", name="x", end=True),
        "name: there is no QueueUnit 'ns/x'",
    ),
    (
        Edit(kind="QueueUnit", namespace="ns", name="first", end=True),
        "end: ns/first is not admitted",
    ),
    (
        Edit(
            kind="QueueUnit",
            namespace="ns",
            name="busy",
            patch={"spec": {"consumerRef": {"name": "other"}}},
        ),
        "patch.spec.consumerRef: cannot be changed",
    ),
    (Edit(kind="Queue", name="a", end=True), "end: is for a QueueUnit"),
    (Edit(kind="Queue", name="a", requeue=True), "requeue: is for a QueueUnit"),
    (
        Edit(kind="QueueUnit", namespace="ns", name="first", requeue=True),
        "requeue: ns/first is not admitted",
    ),
    (Edit(kind="Queue", name="a", copies=2), "copies: is for a Node"),
    (Edit(kind="Node", name="x", copies=2), "name: there is no Node 'x'"),
    (
        Edit(kind="Node", name="n1", copies=9999),
        "copies: all edits together may add at most 5000 nodes",
    ),
    (Edit(kind="Node", name="n1", copies=-1), "copies: must be a positive number"),
    (
        Edit(kind="Node", name="n1", patch={"status": {"allocatable": {"cpu": "x"}}}),
        "patch.status.allocatable.cpu: ",
    ),
    (
        Edit(kind="ElasticQuota", name="a", patch={"spec": {"max": {"cpu": "-1"}}}),
        "patch.spec.max.cpu: must not be negative",
    ),
    (
        Edit(kind="ElasticQuota", name="a", patch={"spec": {"max": 3}}),
        "patch.spec.max: Expected `object`, got `int`",
    ),
    (
        Edit(
            kind="ElasticQuotaTree",
            name="t",
            patch={"spec": {"root": {"children": [{"name": "x", "max": {"cpu": "?"}}]}}},
        ),
        "patch.spec.root.children[0].max.cpu: ",
    ),
    (Edit(kind="SchedulerSettings"), "patch: is required: the settings to change"),
    (
        Edit(kind="SchedulerSettings", patch={"pluginConfigs": {}}),
        "patch.pluginConfigs: a copy of the engine keeps it",
    ),
    (
        Edit(kind="SchedulerSettings", patch={"namesAreProved": True}),
        "patch.namesAreProved: a copy of the engine keeps it",
    ),
    (Edit(kind="SchedulerSettings", patch={"speed": 1}), "patch.speed: is no setting; there are"),
    (
        Edit(kind="SchedulerSettings", patch={"backfill": "yes"}),
        "patch.backfill: must be true or false, or null",
    ),
    (
        Edit(kind="SchedulerSettings", patch={"queuePolicy": "No"}),
        "patch.queuePolicy: queue policy 'No' is unknown",
    ),
    (
        Edit(kind="SchedulerSettings", patch={"stopPolicy": "Maybe"}),
        "patch.stopPolicy: annotation koord-queue/stop-policy: 'Maybe' is not",
    ),
    (
        Edit(kind="SchedulerSettings", patch={"defaultReclaimProtectTime": "soon"}),
        "patch.defaultReclaimProtectTime: ",
    ),
    (
        Edit(kind="SchedulerSettings", patch={"evictionsPerHour": -1}),
        "patch.evictionsPerHour: must be from 0 to 100000",
    ),
    (
        Edit(kind="SchedulerSettings", patch={"boostPerEviction": 1}),
        "patch.boostPerEviction: a copy of the engine keeps it",
    ),
]


@pytest.mark.parametrize(("edit", "want"), WRONG, ids=[want for _, want in WRONG])
def test_a_wrong_edit_is_named_with_its_field(edit: Edit, want: str) -> None:
    with pytest.raises(EditError) as caught:
        apply_edits(cluster().engine.fork(), [NO_EDIT, edit], WALL)
    assert str(caught.value).startswith(f"edits[1].{want}"), str(caught.value)
    assert caught.value.number == 1


def test_a_name_of_several_quotas_needs_a_namespace() -> None:
    engine = cluster().engine.fork()
    other = build_quota("a", cpu=1)
    engine.on_quota(other.__class__(metadata=_elsewhere(other), spec=other.spec))
    with pytest.raises(EditError, match="there are 2 of this name"):
        apply_edits(engine, [NO_EDIT], WALL)
    apply_edits(engine, [Edit(kind="ElasticQuota", namespace="kq", name="a", patch={})], WALL)


def _elsewhere(quota: ElasticQuota) -> Any:
    return quota.metadata.__class__(name=quota.metadata.name, namespace="other")


def test_settings_of_all_queues_are_their_annotations() -> None:
    engine = cluster().engine.fork()
    patch = {"backfill": True, "maxDepth": 3, "defaultReclaimProtectTime": "5m"}
    apply_edits(engine, [Edit(kind="SchedulerSettings", patch=patch)], WALL)
    options = options_of(engine)
    assert (options.backfill, options.max_depth) == (True, 3)
    assert engine.candidates.protect_seconds == 300.0
    rates = {"evictionsPerHour": 7, "evictionDelay": "5m", "preemptMinRuntime": "2m"}
    apply_edits(engine, [Edit(kind="SchedulerSettings", patch=rates)], WALL)
    assert engine.rounds.rates.limit_of(ALL) == 7
    assert options_of(engine).eviction_delay_seconds == 300.0
    assert options_of(engine).preempt_min_seconds == 120.0
    off = Edit(kind="SchedulerSettings", patch={"backfill": None, "maxDepth": None})
    apply_edits(engine, [off], WALL)
    assert (options_of(engine).backfill, options_of(engine).max_depth) == (False, None)


def options_of(engine: Engine) -> Any:
    queue = engine.queues.find("a")
    assert queue is not None
    return queue.rules.options


def test_a_problem_that_a_queue_had_before_is_not_an_edits() -> None:
    engine = cluster().engine.fork()
    bad = queue({"metadata": {"annotations": {BACKFILL: "maybe"}}})
    with pytest.raises(EditError):
        apply_edits(engine, [bad], WALL)
    apply_edits(engine, [queue({"spec": {"queuePolicy": "FIFO"}})], WALL)


def test_an_edit_stands_on_those_before_it() -> None:
    engine = cluster().engine.fork()
    new = Edit(kind="ElasticQuota", name="new", patch={"spec": {"max": {"cpu": 1}}})
    more = Edit(kind="ElasticQuota", name="new", patch={"spec": {"min": {"cpu": 1}}})
    apply_edits(engine, [new, more], WALL)
    quotas = {each.metadata.name: each for each in engine.objects.of_kind(ElasticQuota)}
    assert (quotas["new"].spec.max, quotas["new"].spec.min) == ({"cpu": 1}, {"cpu": 1})
