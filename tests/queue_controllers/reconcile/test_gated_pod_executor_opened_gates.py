"""Pods whose gate another client removes: charged, reported, and marked with their unit."""

from __future__ import annotations

import pytest

from shared_api.fake_api_server.faults import EVERY_TIME, Match
from tests.queue_controllers.controllers_world import World
from tests.queue_controllers.pod_kit import (
    GATE,
    KINDS,
    RING,
    evict,
    gates,
    make_pod,
    make_ring,
    pod,
    reasons,
    run,
)

UNIT = "koord-queue/related-queueunit"
QUOTA = "quota.scheduling.koordinator.sh/name"


@pytest.fixture
def world() -> World:
    """A cluster with controllers for these kinds."""
    world = World()
    world.start(KINDS)
    return world


def open_gates(world: World, *names: str) -> None:
    for name in names:
        world.direct.patch("pods", name, {"spec": {"schedulingGates": None}}, namespace="team")


def units_of(world: World, *names: str) -> list[str]:
    """Return the unit that each of the pods names."""
    annotations = (pod(world, name)["metadata"].get("annotations", {}) for name in names)
    return [each.get(UNIT, "") for each in annotations]


def test_it_is_charged_and_reported(world: World) -> None:
    make_pod(world)
    world.settle()
    open_gates(world, "solo")
    world.settle()
    assert world.phase("solo-pod-qu") == "Enqueued", "it has taken nothing yet"
    run(world, "solo")
    world.settle()
    unit = world.get_unit("solo-pod-qu")
    shown = {each["type"]: each["status"] for each in unit["status"]["conditions"]}
    assert shown["Adopted"] == "True"
    assert "GateOpened" in reasons(world)
    assert "deletionTimestamp" not in pod(world)["metadata"]


def test_so_is_that_of_a_requeued_unit(world: World) -> None:
    make_pod(world)
    world.settle()
    evict(world, "solo-pod-qu")
    world.patch_unit_status({"phase": "TimeoutBackoff"}, "solo-pod-qu")
    open_gates(world, "solo")
    run(world, "solo")
    world.settle(5.0)
    assert world.phase("solo-pod-qu") == "Running"
    assert reasons(world).count("GateOpened") == 1


def test_a_pod_names_its_unit_so_that_it_is_charged_once(world: World) -> None:
    meta = {"name": "web", "namespace": "team"}
    replicas = world.direct.create(
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta}
    )
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    make_pod(world, "web-1", ownerReferences=[{**owner, "uid": replicas["metadata"]["uid"]}])
    make_pod(world, labels={QUOTA: "gold"})
    world.settle()
    open_gates(world, "solo", "web-1")
    world.settle()
    assert units_of(world, "solo", "web-1") == ["team/solo-pod-qu", "team/web-1-pod-qu"]
    written = world.server.resource_version
    world.settle(10.0)
    assert world.server.resource_version == written, "once"


def test_of_a_group_only_the_opened_pods_run(world: World) -> None:
    make_ring(world)
    (unit,) = world.units()
    open_gates(world, *RING[:2])
    world.settle(3.0)
    assert units_of(world, *RING) == [f"team/{unit}"] * 2 + [""]
    assert GATE in gates(world, RING[2])
    assert world.phase(unit) == "Enqueued", "the third waits in the queue"
    assert not world.get_unit(unit)["status"].get("admissions")
    assert reasons(world).count("GateOpened") == 1
    world.admit_unit(unit)
    world.settle(3.0)
    assert units_of(world, *RING) == [f"team/{unit}"] * 3
    assert GATE not in gates(world, RING[2])


def test_a_group_whose_pods_are_all_opened_is_admitted(world: World) -> None:
    make_ring(world)
    (unit,) = world.units()
    for name in RING:
        open_gates(world, name)
        world.settle(2.0)
    assert world.phase(unit) == "Enqueued", "none of them has a node"
    run(world, RING[0])
    world.settle(2.0)
    assert world.phase(unit) == "Running"
    assert units_of(world, *RING) == [f"team/{unit}"] * 3


def test_a_deleted_unit_of_a_group_with_one_opened_pod_is_pending_again(world: World) -> None:
    make_ring(world)
    (unit,) = world.units()
    open_gates(world, RING[0])
    world.settle(2.0)
    world.direct.delete("queueunits", unit, "team")
    world.settle(5.0)
    assert world.phase(unit) == "Enqueued"
    assert [GATE in gates(world, name) for name in RING] == [False, True, True]
    assert all("deletionTimestamp" not in pod(world, name)["metadata"] for name in RING)


@pytest.mark.parametrize("status", [403, 422])
def test_pods_that_may_not_be_marked_run_on(world: World, status: int) -> None:
    make_pod(world)
    world.settle()
    open_gates(world, "solo")
    patches = Match(verb="patch", plural="pods")
    world.server.faults.fail(status, times=EVERY_TIME, match=patches, message="policy says no")
    world.settle()
    run(world, "solo")
    world.settle(60.0)
    assert units_of(world, "solo") == [""]
    assert world.phase("solo-pod-qu") == "Running"
    assert reasons(world).count("MarkRefused") == 1, "and it is not retried forever"
