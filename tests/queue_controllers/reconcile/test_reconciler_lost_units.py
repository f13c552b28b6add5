"""Units that are deleted by hand while their job waits: nothing is gained by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

KUEUE = "kueue.x-k8s.io/queue-name"


def resume(world: World) -> None:
    world.patch_job({"spec": {"suspend": False}})


def contested(world: World) -> dict[str, Any]:
    """Return the condition that puts a unit at the end of its queue."""
    found = [
        each
        for each in world.get_unit()["status"].get("conditions", [])
        if each["type"] == "SuspendContested"
    ]
    return found[0] if found else {}


def created(world: World) -> str:
    return str(world.get_job()["metadata"]["creationTimestamp"])


@pytest.fixture
def at_the_end(world: World) -> dict[str, Any]:
    """Put a job at the end of its queue; return its condition."""
    world.start("--leave-to-kueue=true")
    world.job()
    for _ in range(4):
        world.settle(2.0)
        resume(world)
    world.settle(2.0)
    said = contested(world)
    assert said["status"] == "True"
    world.settle(30.0)
    return said


def test_the_next_unit_has_the_place_of_the_deleted_one(
    world: World, at_the_end: dict[str, Any]
) -> None:
    for _ in range(2):
        world.direct.delete("queueunits", "main", "team")
        world.settle(10.0)
        assert contested(world) == at_the_end
        assert world.get_unit()["status"]["jobCreationTimestamp"] == created(world), "and before"
    writes = len(writes_to(world.server))
    world.settle(30.0)
    assert len(writes_to(world.server)) == writes


def test_a_unit_that_is_deleted_again_and_again_keeps_its_place(world: World) -> None:
    world.start()
    world.job()
    for _ in range(3):
        world.settle(10.0)
        world.direct.delete("queueunits", "main", "team")
        world.settle(3.0)
        assert world.get_unit()["status"]["jobCreationTimestamp"] == created(world)


def test_so_does_one_whose_job_left_the_queue_and_came_back(
    world: World, at_the_end: dict[str, Any]
) -> None:
    world.patch_job({"metadata": {"labels": {KUEUE: "other"}}})
    world.settle(5.0)
    assert world.units() == []
    world.patch_job({"metadata": {"labels": {KUEUE: None}}})
    world.settle(10.0)
    assert contested(world) == at_the_end


def test_once_it_ran_in_its_turn_that_is_over(world: World, at_the_end: dict[str, Any]) -> None:
    assert at_the_end
    world.admit()
    world.settle()
    world.run_pods()
    world.settle(2.0)
    assert contested(world)["status"] == "False"
    world.direct.delete("queueunits", "main", "team")
    world.settle(5.0)
    assert world.phase() == "Running"
    assert not contested(world)


def test_a_job_that_is_resumed_as_its_unit_is_deleted_is_suspended(world: World) -> None:
    """At its reconcile it has a pod and no unit, like a job that ran unmanaged."""
    world.start()
    world.job()
    world.settle(10.0)
    world.patch_job({"metadata": {"annotations": {"koord-queue/priority": "7"}}})
    world.settle(10.0)
    resume(world)
    world.run_pods()
    world.direct.delete("queueunits", "main", "team")
    world.settle(5.0)
    assert world.is_suspended()
    assert world.phase() == "Enqueued"


def test_one_whose_unit_was_admitted_runs_on(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    world.admit()
    world.settle()
    world.run_pods()
    world.settle()
    world.direct.delete("queueunits", "main", "team")
    world.settle(5.0)
    assert not world.is_suspended()
    assert world.phase() == "Running"
