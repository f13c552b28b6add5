"""Partial admission of jobs on a real API server and Job controller."""

from __future__ import annotations

from typing import Any

from tests.cluster.queue_world import Cluster, QueueWorld, refusal_of, unit_view
from tests.waiting import until

LEAST = "koord-queue/min-parallelism"
NOTE = "koord-queue/released-parallelism"
ACTIVE = "scheduling.x-k8s.io/active"
LONG = 600


def pods_of(world: QueueWorld, job: str) -> int:
    return len(world.running_pods(job))


def granted(world: QueueWorld, job: str) -> int:
    return sum(each["replicas"] for each in world.unit_of(job)["status"].get("admissions", ()))


def test_a_job_starts_with_what_fits_grows_and_waits_below_its_minimum(
    cluster: Cluster, world: QueueWorld
) -> None:
    world.create_quota("partly", cpu_max=6)
    world.create_job("partly-x", "partly", run_seconds=LONG, parallelism=4)
    until(lambda: pods_of(world, "partly-x") == 4)
    partly: dict[str, Any] = {"annotations": {LEAST: "2"}, "run_seconds": LONG}
    world.create_job("partly-a", "partly", parallelism=5, completions=5, **partly)
    until(lambda: pods_of(world, "partly-a") == 2)
    assert world.job("partly-a")["spec"]["parallelism"] == 2
    assert world.unit_of("partly-a")["spec"]["podSet"][0]["count"] == 5
    assert granted(world, "partly-a") == 2
    view = unit_view(cluster.scheduler, "partly-a")
    assert (view["demand"], view["charged"]) == ({"cpu": "5"}, {"cpu": "2"})
    world.create_job("partly-b", "partly", parallelism=5, completions=5, **partly)
    until(lambda: refusal_of(cluster.scheduler, "partly-b").get("requested") == "2")
    world.delete_job("partly-x")
    until(lambda: pods_of(world, "partly-b") == 4)
    assert world.job("partly-b")["spec"]["parallelism"] == 4
    # No unit waits any more: units that were admitted partially grow as quota is released.
    world.delete_job("partly-b")
    until(lambda: pods_of(world, "partly-a") == 5)
    assert world.job("partly-a")["spec"]["parallelism"] == 5
    assert NOTE not in world.job("partly-a")["metadata"]["annotations"]
    world.patch_job("partly-a", {"metadata": {"annotations": {ACTIVE: "false"}}})
    until(lambda: world.is_suspended("partly-a"))
    assert world.job("partly-a")["spec"]["parallelism"] == 5
    world.delete_job("partly-a")
