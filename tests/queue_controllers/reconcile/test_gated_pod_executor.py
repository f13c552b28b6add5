"""Pods as jobs, over the fake API server: held by a gate, released, deleted, counted."""

from __future__ import annotations

from typing import Any

import pytest

from shared_api.fake_api_server.faults import Match, RequestInfo
from tests.queue_controllers.controllers_world import World
from tests.queue_controllers.pod_kit import (
    GATE,
    KINDS,
    QUEUE,
    RING,
    evict,
    gates,
    grouped,
    make_pod,
    make_ring,
    make_set,
    of_group,
    of_set,
    pod,
    pod_sets,
    reasons,
    run,
)
from tests.sample_jobs import KUEUE_WORKLOADS
from tests.stepped_host import exhaust, writes_to

Json = dict[str, Any]


@pytest.fixture
def world() -> World:
    """A cluster with controllers for all of these kinds."""
    world = World()
    world.start(KINDS)
    return world


def release_a_pod(world: World, **changes: Any) -> None:
    make_pod(world, **changes)
    world.settle()
    world.admit_unit("solo-pod-qu")
    world.settle()


def run_a_pod(world: World, **changes: Any) -> None:
    release_a_pod(world, **changes)
    run(world, "solo")
    world.settle()


def remembered(world: World) -> list[int]:
    assert world.controllers is not None
    return [each.reconciler.remembered_jobs for each in world.controllers.servers]


# --- a pod by itself ------------------------------------------------------------------------------


def test_the_whole_life_of_a_pod(world: World) -> None:
    made = make_pod(world, annotations={"scheduling.x-k8s.io/priority": "7"})
    world.settle()
    unit = world.get_unit("solo-pod-qu")
    assert unit["spec"]["consumerRef"]["uid"] == made["metadata"]["uid"]
    assert unit["spec"]["queue"] == "gold"
    assert unit["spec"]["priority"] == 7
    assert unit["spec"]["request"] == {"cpu": "1"}
    template = unit["spec"]["podSet"][0]["template"]["spec"]
    assert template["nodeSelector"] == {"zone": "a"}
    assert template["schedulingGates"] == [{"name": "example.com/other"}], "ours is not the user's"
    assert [each["uid"] for each in unit["metadata"]["ownerReferences"]] == [
        made["metadata"]["uid"]
    ]
    assert GATE in gates(world)
    world.admit_unit("solo-pod-qu")
    world.settle()
    assert gates(world) == ["example.com/other"], "gates of others are left alone"
    annotations = pod(world)["metadata"]["annotations"]
    assert annotations["koord-queue/related-queueunit"] == "team/solo-pod-qu"
    run(world, "solo")
    world.settle()
    assert world.phase("solo-pod-qu") == "Running"
    assert world.get_unit("solo-pod-qu")["status"]["admissions"][0]["running"] == 1
    run(world, "solo", phase="Succeeded")
    world.settle()
    assert world.phase("solo-pod-qu") == "Succeed"
    assert writes_to(world.server) == [
        "create queueunits",
        "patch pods",
        "patch queueunits/status",
        "patch queueunits/status",
    ]


def test_a_pod_that_fails(world: World) -> None:
    release_a_pod(world)
    run(world, "solo", phase="Failed")
    world.settle()
    assert world.phase("solo-pod-qu") == "Failed"


def test_an_edit_while_it_waits_moves_the_unit(world: World) -> None:
    make_pod(world)
    world.settle()
    label = {"metadata": {"labels": {QUEUE: "silver"}}}
    world.direct.patch("pods", "solo", label, namespace="team")
    world.settle()
    assert world.get_unit("solo-pod-qu")["spec"]["queue"] == "silver"


def test_an_evicted_pod_is_deleted_and_charged_until_it_is_gone(world: World) -> None:
    run_a_pod(world, finalizers=["example.com/keep"])
    evict(world, "solo-pod-qu")
    world.settle()
    assert pod(world)["metadata"]["deletionTimestamp"]
    assert world.phase("solo-pod-qu") == "Running"
    assert writes_to(world.server).count("delete pods") == 1
    assert "SuspendContested" not in reasons(world)
    (note,) = (
        each["message"] for each in world.direct.list("events") if "Evicted" in each["message"]
    )
    assert note == (
        "Evicted: Preempted by another. Its pods are deleted;"
        " those that are made in their stead wait in the queue again"
    )
    world.direct.patch("pods", "solo", {"metadata": {"finalizers": None}}, namespace="team")
    world.settle(8.0)
    assert world.units() == []


def test_a_pod_without_the_gate_is_left_alone_and_reported(world: World) -> None:
    make_pod(world, gated=False)
    world.settle(3.0)
    assert world.units() == []
    assert reasons(world) == ["CanNotBeHeld"]
    assert writes_to(world.server) == []
    assert remembered(world) == [1, 0, 0, 0]
    world.direct.delete("pods", "solo", "team")
    world.settle()
    assert remembered(world) == [0, 0, 0, 0]


def test_pods_that_are_ignored(world: World) -> None:
    world.direct.create(KUEUE_WORKLOADS)
    world.settle(6.0)
    make_pod(world, "kueues", labels={"kueue.x-k8s.io/queue-name": "q"})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    make_pod(world, "of-a-job", ownerReferences=[owner])
    world.settle(3.0)
    assert world.units() == []


def test_the_steps_of_a_workflow_are_queued_one_by_one(world: World) -> None:
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "w", "uid": "u"}
    make_pod(world, "w-step", ownerReferences=[{**owner, "controller": True}])
    world.settle()
    world.admit_unit("w-step-pod-qu")
    world.settle()
    assert GATE not in gates(world, "w-step")


def test_a_released_pod_whose_unit_vanishes_is_adopted(world: World) -> None:
    run_a_pod(world)
    world.direct.delete("queueunits", "solo-pod-qu", "team")
    world.settle()
    unit = world.get_unit("solo-pod-qu")
    shown = {each["type"]: each["status"] for each in unit["status"]["conditions"]}
    assert shown["Adopted"] == "True"
    assert world.phase("solo-pod-qu") == "Running"


def test_a_deleted_pending_pods_unit_is_deleted(world: World) -> None:
    make_pod(world)
    world.settle()
    world.direct.delete("pods", "solo", "team")
    world.settle(8.0)
    assert world.units() == []
    assert remembered(world) == [0, 0, 0, 0]


def test_a_restart_in_the_middle_changes_nothing(world: World) -> None:
    run_a_pod(world)
    before = world.server.resource_version
    world.start(KINDS)
    world.settle(5.0)
    assert world.server.resource_version == before


def test_a_release_without_a_response_is_repeated(world: World) -> None:
    make_pod(world)
    world.settle()
    world.server.faults.fail(500, match=Match(verb="patch", plural="pods"))
    world.admit_unit("solo-pod-qu")
    world.settle(3.0)
    assert GATE not in gates(world)


def test_an_evicted_pod_that_is_created_again_has_a_unit_of_its_own(world: World) -> None:
    release_a_pod(world)
    run(world, "solo")
    world.settle()
    evict(world, "solo-pod-qu")
    world.settle(0.3)
    assert world.direct.list("pods") == []
    again = make_pod(world)
    world.settle()
    (unit,) = world.direct.list("queueunits")
    assert unit["spec"]["consumerRef"]["uid"] == again["metadata"]["uid"]
    assert GATE in gates(world)
    world.admit_unit(unit["metadata"]["name"])
    world.settle()
    assert GATE not in gates(world)


# --- groups ---------------------------------------------------------------------------------------


def test_a_group_waits_for_all_of_its_pods_and_starts_together(world: World) -> None:
    grouped(world, "ring-0")
    grouped(world, "ring-1", cpu="2")
    world.settle(7.0)
    assert world.units() == []
    assert reasons(world) == ["DemandUnknown"]
    grouped(world, "ring-2", cpu="2")
    world.settle()
    counts = pod_sets(world, "ring-pg-qu")
    assert sorted(counts.values()) == [1, 2]
    unit = world.get_unit("ring-pg-qu")
    assert unit["spec"]["request"] == {"cpu": "5"}
    assert "ownerReferences" not in unit["metadata"], "the collector would look for the owner"
    world.admit_unit("ring-pg-qu")
    world.settle()
    assert all(GATE not in gates(world, f"ring-{n}") for n in range(3))
    run(world, "ring-0", "ring-1", "ring-2")
    world.settle()
    running = [each["running"] for each in world.get_unit("ring-pg-qu")["status"]["admissions"]]
    assert sorted(running) == [1, 2]
    run(world, "ring-0", "ring-1", phase="Succeeded")
    world.settle()
    assert world.phase("ring-pg-qu") == "Running"
    run(world, "ring-2", phase="Succeeded")
    world.settle()
    assert world.phase("ring-pg-qu") == "Succeed"


def test_an_evicted_group_with_new_pods_waits_and_starts_again(world: World) -> None:
    make_ring(world)
    world.admit_unit("ring-pg-qu")
    world.settle()
    run(world, *RING)
    world.settle()
    evict(world, "ring-pg-qu")
    world.settle(0.3)
    assert world.direct.list("pods") == []
    for name in RING:
        grouped(world, name)
    world.settle()
    assert world.phase("ring-pg-qu") == "Enqueued"
    assert all(GATE in gates(world, name) for name in RING)
    world.admit_unit("ring-pg-qu")
    world.settle()
    assert all(GATE not in gates(world, name) for name in RING)


def test_a_pod_that_replaces_a_failed_one_starts_at_once(world: World) -> None:
    make_ring(world)
    world.admit_unit("ring-pg-qu")
    world.settle()
    run(world, *RING)
    world.settle()
    run(world, "ring-1", phase="Failed")
    world.settle()
    assert world.phase("ring-pg-qu") == "Running"
    grouped(world, "ring-3")
    grouped(world, "ring-4")
    world.settle()
    assert GATE not in gates(world, "ring-3")
    assert GATE in gates(world, "ring-4"), "one more than was granted"
    evict(world, "ring-pg-qu")
    world.settle(0.3)
    left = [each["metadata"]["name"] for each in world.direct.list("pods")]
    assert left == ["ring-1", "ring-4"], "an ended pod, and one that uses nothing"


def test_a_group_under_the_name_of_an_ended_one_is_a_new_job(world: World) -> None:
    make_ring(world)
    world.admit_unit("ring-pg-qu")
    world.settle()
    run(world, *RING, phase="Succeeded")
    world.settle()
    assert world.phase("ring-pg-qu") == "Succeed"
    for name in RING:
        world.direct.delete("pods", name, "team")
    for name in RING:
        grouped(world, name)
    world.settle()
    assert world.phase("ring-pg-qu") in {"", "Enqueued"}
    assert all(GATE in gates(world, name) for name in RING)


# --- sets -----------------------------------------------------------------------------------------


def test_a_stateful_set_is_admitted_whole_and_starts_one_by_one(world: World) -> None:
    made = make_set(world)
    of_set(world, made, 0)
    world.settle()
    assert pod_sets(world, "db-sts-qu") == {"main": 3}
    assert world.get_unit("db-sts-qu")["spec"]["request"] == {"cpu": "3"}
    world.admit_unit("db-sts-qu")
    for number in range(3):
        world.settle()
        assert GATE not in gates(world, f"db-{number}")
        run(world, f"db-{number}")
        if number < 2:
            of_set(world, made, number + 1)
    world.settle(40.0)
    assert world.get_unit("db-sts-qu")["status"]["admissions"][0]["running"] == 3
    of_set(world, made, 3)
    world.settle()
    assert GATE in gates(world, "db-3"), "no fourth was granted"


def test_a_stateful_set_that_grows_waits_for_its_grant(world: World) -> None:
    made = make_set(world, 1)
    of_set(world, made, 0)
    world.settle()
    world.admit_unit("db-sts-qu")
    world.settle()
    run(world, "db-0")
    world.settle()
    grown = {"spec": {"replicas": 2}}
    world.direct.patch("statefulsets", "db", grown, namespace="team")
    of_set(world, made, 1)
    world.settle()
    assert pod_sets(world, "db-sts-qu") == {"main": 2}
    assert GATE in gates(world, "db-1")
    granted = [{"name": "main", "replicas": 2, "running": 1}]
    world.patch_unit_status({"admissions": granted}, "db-sts-qu")
    world.settle()
    assert GATE not in gates(world, "db-1")


def test_a_group_of_a_leader_worker_set_is_a_unit(world: World) -> None:
    of_group(world, 0)
    world.settle()
    assert world.units() == [], "the demand of its workers is not known yet"
    of_group(world, 1)
    world.settle()
    unit = "llm-1-lws-qu"
    assert pod_sets(world, unit) == {"leader": 1, "workers": 2}
    assert world.get_unit(unit)["spec"]["request"] == {"cpu": "5"}
    world.admit_unit(unit)
    world.settle()
    assert GATE not in gates(world, "llm-1")
    assert GATE not in gates(world, "llm-1-1")
    of_group(world, 2)
    world.settle()
    assert GATE not in gates(world, "llm-1-2")


@pytest.mark.parametrize("finalizers", [[], ["example.com/keep"]], ids=["gone", "going"])
def test_the_pods_that_a_deleted_set_leaves_behind_get_no_unit(
    world: World, finalizers: list[str]
) -> None:
    """They may take long to stop, and their set's unit is deleted with the set."""
    made = make_set(world, 1, finalizers=finalizers)
    of_set(world, made, 0, finalizers=["example.com/keep"])
    world.settle()
    world.admit_unit("db-sts-qu")
    world.settle()
    run(world, "db-0")
    world.settle()
    world.direct.delete("statefulsets", "db", "team")
    if finalizers:  # deleted in the foreground: its dependents are deleted first
        world.direct.delete("pods", "db-0", "team")
        world.direct.delete("queueunits", "db-sts-qu", "team")
    world.settle()
    assert pod(world, "db-0")["metadata"]["deletionTimestamp"]
    assert world.units() == []
    assert writes_to(world.server).count("create queueunits") == 1


def test_no_unit_is_created_for_a_job_deleted_during_its_reconcile(world: World) -> None:
    controllers = world.controllers
    assert controllers is not None

    def while_its_set_is_read(info: RequestInfo) -> bool:
        """Delete its pod, with the event of the watch, before the response."""
        if info.verb == "get" and info.plural == "statefulsets" and world.direct.list("pods"):
            world.direct.delete("pods", "db-0", "team")
            for step in controllers.steps():
                exhaust(step)
        return False

    world.server.faults.fail(500, match=Match(when=while_its_set_is_read))
    of_set(world, make_set(world, 1), 0)
    world.settle()
    assert world.direct.list("pods") == []
    assert writes_to(world.server) == []
