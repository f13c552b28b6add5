"""What edits start, refuse and evict at once, in a small cluster."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queue_insight.what_if import at_once
from queue_insight.what_if.at_once import AtOnce, answer_at_once
from queue_insight.what_if.edit import Edit
from queue_scheduler.decision import Moment
from queue_scheduler.quota.quota_settings import QuotaMode
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.testing.object_builders import node
from shared_api.well_known_labels import ENABLE_PREEMPTION, PREEMPT_RUNNING, QUOTA_NAME, STOP_POLICY
from tests.properties.engine_kit import build_pod, build_queue, build_quota, build_unit, changed
from tests.queue_insight.insight.changes_kit import WALL, SmallCluster, names

PREEMPTS = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}


def ask(cluster: SmallCluster, *edits: Edit) -> AtOnce:
    found = answer_at_once(cluster.engine.fork(), edits, Moment(0.0, WALL))
    assert found.is_complete
    return found


def unit(name: str, **more: Any) -> Edit:
    return Edit(kind="QueueUnit", namespace="ns", name=name, **more)


def full() -> SmallCluster:
    """Return four cores, of which a unit has three, and two units that want two each."""
    cluster = SmallCluster()
    cluster.run("busy", cpu=3)
    cluster.wait("first", "a", cpu=2)
    cluster.wait("second", "a", cpu=2, created=9)
    return cluster


NEW = {"metadata": {"labels": {QUOTA_NAME: "a"}}, "spec": {"request": {"cpu": 1}}}


def quota(patch: dict[str, Any] | None) -> Edit:
    return Edit(kind="ElasticQuota", name="a", patch=patch)


def quota_max(cpu: int | str) -> Edit:
    return quota({"spec": {"max": {"cpu": cpu}}})


CASES = [
    pytest.param([], [], [], [], id="no edit changes nothing"),
    pytest.param(
        [quota_max(5)],
        *(["first"], [], []),
        id="a larger quota starts the next unit",
    ),
    pytest.param(
        [quota_max("7")],
        *(["first", "second"], [], []),
        id="a much larger one starts both",
    ),
    pytest.param(
        [quota(None)], [], ["first", "second"], [], id="a quota is deleted"
    ),
    pytest.param([unit("busy", end=True)], ["first", "second"], [], [], id="a unit ends"),
    pytest.param(
        [unit("busy", requeue=True)],
        *(["busy"], [], ["busy"]),
        id="a unit is requeued, and starts again",
    ),
    pytest.param(
        [unit("busy", requeue=True), unit("busy", patch={"spec": {"priority": -1}})],
        *(["first", "second"], [], ["busy"]),
        id="a unit is requeued, behind others",
    ),
    pytest.param(
        [unit("second", patch={"spec": {"priority": 9}}), unit("busy", end=True)],
        *(["second", "first"], [], []),
        id="two edits are made together",
    ),
    pytest.param(
        [unit("first", patch={"spec": {"request": {"cpu": 1}}})],
        *(["first"], [], []),
        id="a unit requests less",
    ),
    pytest.param(
        [unit("first", patch={"spec": {"active": False}})],
        *([], ["first"], []),
        id="a waiting unit is made inactive",
    ),
    pytest.param(
        [unit("busy", patch={"spec": {"active": False}})],
        *(["first", "second"], [], ["busy"]),
        id="an admitted unit is made inactive",
    ),
    pytest.param(
        [Edit(kind="Queue", name="a", patch={"metadata": {"annotations": {STOP_POLICY: "Hold"}}})],
        *([], ["first", "second"], []),
        id="a queue is stopped",
    ),
    pytest.param(
        [
            Edit(
                kind="Queue",
                name="a",
                patch={"metadata": {"annotations": {STOP_POLICY: "HoldAndDrain"}}},
            )
        ],
        *([], ["first", "second"], ["busy"]),
        id="a queue is drained",
    ),
    pytest.param(
        [unit("first", patch=None)], [], [], [], id="a unit is deleted that would not start"
    ),
    pytest.param(
        [unit("new", patch=NEW)],
        *(["new"], [], []),
        id="a unit is created",
    ),
    pytest.param(
        [
            unit("first", patch={"spec": {"priority": 5}}),
            Edit(
                kind="SchedulerSettings", patch={"preemption": True, "preemptRunning": True}
            ),
        ],
        *(["first", "second"], [], ["busy"]),
        id="a setting lets a unit evict another",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("edits", "started", "refused", "evicted"), CASES)
def test_edits_change_what_happens(
    edits: list[Edit], started: list[str], refused: list[str], evicted: list[str]
) -> None:
    found = ask(full(), *edits)
    got = [names(each.unit for each in group) for group in (found.started, found.refused)]
    assert (*got, names(each.unit for each in found.evicted)) == (started, refused, evicted)


def test_what_would_start_anyway_is_not_credited_to_an_edit() -> None:
    cluster = full()
    cluster.engine.on_quota(build_quota("a", cpu=5))  # no worker has asked since
    found = ask(cluster, quota_max(7))
    assert names(each.unit for each in found.started) == ["second"]


def test_a_unit_that_an_edit_keeps_from_starting_is_refused() -> None:
    cluster = full()
    cluster.engine.on_quota(build_quota("a", cpu=5))
    (wait,) = ask(cluster, quota_max(4)).refused
    assert (wait.unit, wait.would_start, wait.before) == ("ns/first", True, None)
    assert wait.refusal is not None
    assert wait.refusal.limit == 4000


def test_a_started_unit_says_why_it_would_wait() -> None:
    (start,) = ask(full(), quota_max(5)).started
    assert (start.queue, start.quota) == ("a", "a")
    assert start.before is not None
    assert start.before.missing == 1000


def test_an_eviction_says_for_whom_and_what_is_lost() -> None:
    cluster = SmallCluster(build_queue("a", annotations=PREEMPTS))
    cluster.run("busy", cpu=3)
    cluster.wait("first", "a", cpu=2)
    later = WALL.replace(hour=WALL.hour + 2)
    edit = unit("first", patch={"spec": {"priority": 5}})
    (left,) = answer_at_once(cluster.engine.fork(), [edit], Moment(0.0, later)).evicted
    assert (left.unit, left.by, left.reason) == ("ns/busy", "ns/first", "Preempted")
    assert left.lost_seconds == 7200


def test_a_unit_that_leaves_anyway_is_not_credited_to_an_edit() -> None:
    cluster = full()
    record = cluster.engine.record("ns/busy")
    assert record is not None
    inactive = replace(record.unit, spec=replace(record.unit.spec, active=False))
    cluster.engine.on_queue_unit(changed(inactive, 9))
    found = ask(cluster, quota_max(9))
    assert (found.evicted, found.spared, found.started) == ((), (), ())


def test_an_edit_spares_a_unit_that_would_be_evicted() -> None:
    cluster = SmallCluster(build_queue("a", annotations=PREEMPTS))
    cluster.run("busy", cpu=3)
    cluster.engine.on_queue_unit(build_unit("first", "a", cpu=2, priority=5))
    found = ask(cluster, quota_max(5))
    assert (found.spared, found.evicted, found.started) == (("ns/busy",), (), ())


def test_a_removed_node_takes_its_pods_with_it() -> None:
    cluster = SmallCluster(node("n1", allocatable={"cpu": 8}))
    cluster.run("busy", cpu=3)
    cluster.run("other", cpu=1)
    for name, where in (("busy", "n1"), ("other", "n2")):
        pod = build_pod(name, cpu=1, unit=f"ns/{name}", node=where, created=1)
        cluster.workers.wake(cluster.engine.on_pod(pod))
    cluster.wait("first", "a", cpu=2)
    found = ask(cluster, Edit(kind="Node", name="n1", patch=None))
    assert [(each.unit, each.reason) for each in found.evicted] == [("ns/busy", "NodeGone")]
    assert names(each.unit for each in found.started) == ["first"]


def test_copies_of_a_node_add_capacity_each_time() -> None:
    cluster = SmallCluster(
        build_quota("a", cpu=40, guaranteed=40),
        node("n1", allocatable={"cpu": 4}),
        mode=QuotaMode.RUNTIME,
    )
    cluster.run("busy", cpu=4)
    for number in range(3):
        cluster.wait(f"u{number}", "a", cpu=4, created=number)
    more = Edit(kind="Node", name="n1", copies=1)
    assert names(each.unit for each in ask(cluster, more).started) == ["u0"]
    assert names(each.unit for each in ask(cluster, more, more).started) == ["u0", "u1"]


def test_a_question_changes_nothing_in_the_engine() -> None:
    cluster = full()
    fork = cluster.engine.fork()
    ask(cluster, quota_max(9))
    assert list(cluster.engine.objects.of_kind(ElasticQuota)) == list(
        fork.objects.of_kind(ElasticQuota)
    )
    assert cluster.engine.record("ns/first") == fork.record("ns/first")


def test_paths_that_are_not_read_are_named() -> None:
    cluster = SmallCluster(node("n1", allocatable={"cpu": 4}))
    cordon = Edit(kind="Node", name="n1", patch={"spec": {"unschedulable": True}})
    status = unit("new", patch={"kind": "QueueUnit", "status": {"phase": "Running"}})
    found = ask(cluster, cordon, status)
    assert [each.unread for each in found.applied] == [("patch.spec",), ("patch.status",)]


def test_an_answer_is_incomplete_when_its_decisions_are_spent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(at_once, "MAX_DECISIONS", 0)
    found = answer_at_once(full().engine.fork(), [], Moment(0.0, WALL))
    assert not found.is_complete
