"""A queue made for a quota is changed where the quota states it: elsewhere it would be put back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queue_insight.insight.change import Change, annotated, labeled
from queue_insight.what_if.apply import apply_edits
from queue_insight.what_if.edit import Edit, EditError
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queue_objects.queue_reconciler import CreateQueue, decide_queue
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.queue import Queue
from shared_api.testing.object_builders import to_struct
from shared_api.well_known_labels import (
    ENABLE_PREEMPTION,
    MAX_DEPTH,
    PREEMPT_RUNNING,
    QUEUE_POLICY,
    STOP_POLICY,
)
from tests.properties.engine_kit import Workers, build_quota
from tests.queue_insight.insight.changes_kit import WALL, SmallCluster, the

BLOCK = {QUEUE_POLICY: "Block"}


def cluster_of(
    annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None
) -> SmallCluster:
    """Return a cluster whose queue `a` was made for a quota with these."""
    plain = build_quota("a", cpu=4)
    meta = plain.metadata
    meta = replace(
        meta, labels={**meta.labels, **(labels or {})}, annotations=dict(annotations or {})
    )
    quota = replace(plain, metadata=meta)
    made = decide_queue("a", "kq", quota, None)
    assert isinstance(made, CreateQueue)
    return SmallCluster(quota, to_struct(Queue, made.body))


def patched(cluster: SmallCluster, change: Change) -> Engine:
    """Return the engine after the patches of a change, and what follows from them."""
    engine = cluster.engine.fork()
    edits = [
        Edit(kind=each.kind, namespace=each.namespace, name=each.name, patch=each.patch)
        for each in change.patches
    ]
    apply_edits(engine, edits, WALL)
    return engine


def is_settled(engine: Engine) -> bool:
    """Return whether the reconciler of queues has nothing to write."""
    (quota,) = engine.objects.of_kind(ElasticQuota)
    return decide_queue("a", "kq", quota, engine.queues.queue("a")) is None


def starts(engine: Engine) -> list[str]:
    """Return the units that start."""
    workers = Workers(engine)
    workers.wake(["a"])
    return [each.unit for each in workers.run() if isinstance(each, Dequeue)]


def behind_a_head(cluster: SmallCluster) -> None:
    cluster.run("old", cpu=3)
    cluster.wait("head", cpu=4, priority=5)
    cluster.wait("new", cpu=1)


def test_a_policy_that_the_quota_states_is_changed_there() -> None:
    cluster = cluster_of(labels=BLOCK)
    behind_a_head(cluster)
    change = the(cluster.changes("new"), "queueOption")
    (patch,) = change.patches
    assert (patch.kind, patch.name, patch.patch) == (
        *("ElasticQuota", "a"),
        labeled({QUEUE_POLICY: "Priority"}),
    )
    after = patched(cluster, change)
    assert is_settled(after)
    assert starts(after) == ["ns/new"]


def test_a_policy_that_it_does_not_state_is_the_queues() -> None:
    cluster = cluster_of()
    queue = cluster.engine.queues.queue("a")
    assert queue is not None
    cluster.apply(replace(queue, spec=replace(queue.spec, queue_policy="Block")))
    behind_a_head(cluster)
    change = the(cluster.changes("new"), "queueOption")
    assert [patch.kind for patch in change.patches] == ["Queue"]
    after = patched(cluster, change)
    assert is_settled(after)
    assert starts(after) == ["ns/new"]


@pytest.mark.parametrize("spelling", [STOP_POLICY, STOP_POLICY.replace("koord-", "kube-")])
def test_a_stop_policy_that_the_quota_states(spelling: str) -> None:
    cluster = cluster_of({spelling: "Hold"})
    cluster.wait("new", cpu=1)
    change = the(cluster.changes("new"), "stopPolicy")
    (patch,) = change.patches
    assert (patch.kind, patch.patch) == ("ElasticQuota", annotated({STOP_POLICY: "None"}))
    after = patched(cluster, change)
    assert is_settled(after)
    assert (starts(after), change.sufficient) == (["ns/new"], True)


def test_a_quota_is_patched_once_where_it_stops_its_queue_and_is_full() -> None:
    cluster = cluster_of({STOP_POLICY: "Hold"})
    cluster.wait("new", cpu=5)
    change = the(cluster.changes("new"), "several")
    (patch,) = change.patches
    assert patch.patch == {**annotated({STOP_POLICY: "None"}), "spec": {"max": {"cpu": "5"}}}
    after = patched(cluster, change)
    assert is_settled(after)
    assert starts(after) == ["ns/new"]


def test_a_depth_that_the_quota_states() -> None:
    cluster = cluster_of({MAX_DEPTH: "1"})
    cluster.run("old", cpu=3)
    cluster.wait("ahead", cpu=4, priority=5)
    cluster.wait("new", cpu=1)
    change = the(cluster.changes("new"), "queueOption")
    (patch,) = change.patches
    assert (patch.kind, patch.patch) == ("ElasticQuota", annotated({MAX_DEPTH: "2"}))
    assert is_settled(patched(cluster, change))


def test_each_option_is_changed_on_the_object_that_states_it() -> None:
    cluster = cluster_of({ENABLE_PREEMPTION: "false"})
    cluster.run("low", cpu=4)
    cluster.wait("new", cpu=2, priority=5)
    change = the(cluster.changes("new"), "preemption")
    assert {patch.kind: patch.patch for patch in change.patches} == {
        "Queue": annotated({PREEMPT_RUNNING: "true"}),
        "ElasticQuota": annotated({ENABLE_PREEMPTION: "true"}),
    }
    assert is_settled(patched(cluster, change))


# --- what if ------------------------------------------------------------------------------------


def edit(kind: str, patch: Any, namespace: str = "") -> Edit:
    return Edit(kind=kind, name="a", namespace=namespace, patch=patch)


def policy_after(cluster: SmallCluster, *edits: Edit) -> str:
    """Return the policy of the queue after edits."""
    engine = cluster.engine.fork()
    apply_edits(engine, edits, WALL)
    queue = engine.queues.queue("a")
    assert queue is not None
    return queue.spec.queue_policy


def test_an_edit_of_the_queue_is_tried_as_it_is() -> None:
    fifo = edit("Queue", {"spec": {"queuePolicy": "FIFO"}})
    assert policy_after(cluster_of(labels=BLOCK), fifo) == "FIFO"


def test_an_edit_of_the_quota_that_is_not_about_its_queue_leaves_that_as_it_is() -> None:
    fifo = Edit(kind="SchedulerSettings", patch={"queuePolicy": "FIFO"})
    more = edit("ElasticQuota", {"spec": {"max": {"cpu": 9}}})
    cluster = cluster_of(labels=BLOCK)
    assert policy_after(cluster, fifo, more) == policy_after(cluster, more, fifo) == "FIFO"


def test_a_quota_that_is_created_is_younger_than_those_of_its_name() -> None:
    other = edit("ElasticQuota", labeled({QUEUE_POLICY: "FIFO"}), namespace="other")
    gone = edit("ElasticQuota", None, namespace="kq")
    cluster = cluster_of(labels=BLOCK)
    assert policy_after(cluster, other) == "Block"
    assert policy_after(cluster, other, gone) == "FIFO"


def test_a_wrong_policy_of_a_quota_is_refused() -> None:
    engine = cluster_of(labels=BLOCK).engine.fork()
    with pytest.raises(EditError, match="queue policy 'No' is unknown") as caught:
        apply_edits(engine, [edit("ElasticQuota", labeled({QUEUE_POLICY: "No"}))], WALL)
    assert str(caught.value).startswith(f"edits[0].patch.metadata.labels[{QUEUE_POLICY}]")
