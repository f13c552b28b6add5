"""Quotas on a real API server and Job controller: jobs start with what fits, to the last unit.

Amounts lost by rounding half up keep no job waiting, and let no quota exceed its max.
"""

from __future__ import annotations

from typing import Any

from tests.cluster.queue_world import (
    PODS,
    QUOTA_LABEL,
    Cluster,
    QueueWorld,
    quota_view,
    refusal_of,
    unit_view,
)
from tests.waiting import stays, until


def create_branch(
    world: QueueWorld, parent: str, limits: tuple[int, int], **children: tuple[int, int]
) -> None:
    """Create a parent with its children; limits are min and max in cores."""
    is_parent = {"quota.scheduling.koordinator.sh/is-parent": "true"}
    world.create_quota(parent, cpu_min=limits[0], cpu_max=limits[1], labels=is_parent)
    below = {"quota.scheduling.koordinator.sh/parent": parent}
    for name, (low, high) in children.items():
        world.create_quota(name, cpu_min=low, cpu_max=high, labels=below)


def create_pending_pod(world: QueueWorld, quota: str, cpu: str) -> None:
    """Create a pod that belongs to no job and no scheduler binds."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": f"pod-{quota}", "labels": {QUOTA_LABEL: quota}}
    spec = {"schedulerName": "nobody", "containers": [container]}
    world.api.request("POST", PODS, {"metadata": metadata, "spec": spec})


def test_a_job_that_lacks_only_what_rounding_lost_starts(
    cluster: Cluster, world: QueueWorld
) -> None:
    create_branch(world, "p", (40, 48), ra=(12, 30), rb=(10, 30), rc=(6, 40), rd=(5, 40))
    world.create_job("one", "ra", cpu="1", run_seconds=600)
    world.create_job("two", "rd", cpu="500m", run_seconds=600)
    until(lambda: world.running_pods("one") and world.running_pods("two"))
    world.create_job("three", "rc", cpu="750m", run_seconds=600)
    until(lambda: world.running_pods("three"))
    assert quota_view(cluster.scheduler, "rc")["runtime"]["cpu"] == "750m"


def test_a_unit_above_the_max_of_a_parent_waits(cluster: Cluster, world: QueueWorld) -> None:
    create_branch(world, "full", (0, 2), fa=(0, 2), fb=(0, 2))
    world.create_job("half", "fa", cpu="1", run_seconds=600)
    until(lambda: world.running_pods("half"))
    world.create_job("over", "fb", cpu="1001m")
    refusal = until(lambda: refusal_of(cluster.scheduler, "over"))
    assert (refusal["reason"], refusal["missing"]) == ("OverParentMax", "1m")
    stays(lambda: world.is_suspended("over"))


def test_a_refusal_for_what_rounding_lost_reports_it(cluster: Cluster, world: QueueWorld) -> None:
    # Of one core, three that request 334m get 333m each.
    create_branch(world, "third", (0, 1), ta=(0, 1), tb=(0, 1), tc=(0, 1))
    for quota in ("tb", "tc"):
        create_pending_pod(world, quota, "334m")
    until(lambda: quota_view(cluster.scheduler, "tc").get("foreign"))
    world.create_job("fourth", "ta", cpu="334m")
    refusal = until(lambda: refusal_of(cluster.scheduler, "fourth"))
    assert (refusal["reason"], refusal["missing"]) == ("OverRuntime", "1m")
    assert "loses by rounding" in refusal["message"]


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
