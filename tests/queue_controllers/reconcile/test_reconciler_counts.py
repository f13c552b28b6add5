"""The counts of jobs' pods in their units, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World


def test_pods_that_wait_or_fail_are_reported_once(world: World) -> None:
    world.run_a_job(completions=10)
    world.settle(40.0)
    for name, phase in (("main-0", "Failed"), ("main-1", "Pending")):
        world.patch_pod_status(name, phase=phase)
    world.patch_job_status({"active": 1, "ready": None})
    written = len(writes_to(world.server))
    world.settle(3.0)
    status = world.get_unit()["status"]
    assert status["admissions"] == [
        {"name": "main", "replicas": 2, "running": 0, "pending": 1, "failed": 1}
    ]
    assert status["podState"] == {"running": 0, "pending": 1}
    world.settle(120.0)
    assert len(writes_to(world.server)) == written + 1, "silence at rest"


def test_pods_that_wait_long_for_nodes_are_reported_before_any_runs(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    world.admit()
    world.settle()
    world.run_pods(phase="Pending")
    world.settle(25.0)
    assert world.get_unit()["status"]["admissions"][0].get("pending") is None
    world.settle(8.0)
    assert world.get_unit()["status"]["admissions"][0]["pending"] == 2
    for name in ("main-0", "main-1"):
        world.patch_pod_status(name, phase="Running")
    world.settle()
    assert world.get_unit()["status"]["admissions"] == [
        {"name": "main", "replicas": 2, "running": 2}
    ]


def test_a_life_without_trouble_costs_four_writes(world: World) -> None:
    world.run_a_job()
    world.settle(60.0)
    for name in ("main-0", "main-1"):
        world.patch_pod_status(name, phase="Succeeded")
    world.patch_job_status({"active": None, "ready": None, "succeeded": 2})
    world.settle(0.8)
    world.complete()
    world.settle(60.0)
    assert writes_to(world.server) == [
        "create queueunits",
        "patch jobs",
        "patch queueunits/status",
        "patch queueunits/status",
    ]
    assert world.phase() == "Succeed"
    assert "podState" not in world.get_unit()["status"]


def test_pods_of_a_large_job_are_counted_less_often(world: World) -> None:
    """Every reconcile counts all of them; the delay between two grows with their number."""
    world.start()
    world.job(parallelism=40_000, completions=40_000)
    world.settle()
    world.admit(replicas=40_000)
    world.settle()
    world.run_pods()
    world.settle(2.0)
    before = world.looks()
    world.patch_pod_status("main-0", phase="Failed")
    world.settle(0.7)
    assert world.looks() == before
    world.settle(0.5)
    assert world.looks() == before + 1
