"""Preemption on a real cluster, with Jobs and both programs.

Ids in brackets stand for tests of upstream's (upstream/README.md). Upstream's controllers lower the
victim's replicas when they see `reclaimState`, and the scheduler admits the victim again. Here the
victim is Evicted first, its Job is stopped, and then it is Enqueued with no admissions, so
`reclaimState` exists only for a moment: it is read from the server's audit log.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.api_audit import SCHEDULER_AGENT
from tests.cluster.queue_world import (
    Cluster,
    QueueWorld,
    let_the_second_of_the_release_pass,
    refusal_of,
)
from tests.object_states import condition_of
from tests.waiting import STILL_SECONDS, until

BOTH = {
    "koord-queue/wait-for-pods-running": "true",
    "koord-queue/enable-queueunit-preemption": "true",
}
LONG = 600


@pytest.fixture(scope="module")
def cluster(controlplane_binaries: Path) -> Iterator[Cluster]:
    """Both programs, without the Job that runs before them in other modules."""
    with QueueWorld(controlplane_binaries, jobs=True) as world:
        scheduler = world.start_scheduler("--leader-elect=false")
        yield Cluster(world, scheduler, world.start_controllers("--leader-elect=false"))


def open_queue(world: QueueWorld, name: str, cpu: int, policy: str = "Priority") -> None:
    """Create a queue before its quota, which leaves its annotations and policy unchanged."""
    world.create_queue(name, policy, BOTH)
    world.create_quota(name, cpu_max=cpu)


def assert_queue_stayed(world: QueueWorld, name: str, policy: str = "Priority") -> None:
    """Assert that a queue is unchanged, at the end of a test: its quota is reconciled by then."""
    found = world.queue(name)
    assert BOTH.items() <= found["metadata"]["annotations"].items()
    assert found["spec"]["queuePolicy"] == policy


def submit(world: QueueWorld, name: str, quota: str, priority: int, cpu: int = 1) -> None:
    """Create a Job whose pods stay pending until `let_run`."""
    world.create_job(
        name,
        quota,
        cpu=str(cpu),
        run_seconds=LONG,
        annotations={"scheduling.x-k8s.io/priority": str(priority)},
        pod_spec={"nodeSelector": {name: "may-run"}},
    )


def until_under_way(world: QueueWorld, name: str) -> None:
    """Wait until a Job is released, and its controller has seen that."""
    until(lambda: world.phase_of_job(name) == "Dequeued" and world.pods(name))
    let_the_second_of_the_release_pass()


def let_run(world: QueueWorld, name: str) -> None:
    """Add to the nodes what the Job's pods request."""
    world.plane.kubectl("label", "nodes", "--all", f"{name}=may-run")
    until(lambda: world.phase_of_job(name) == "Running")


def asked_back(world: QueueWorld, name: str) -> list[int]:
    """Return the replicas of a unit that the scheduler reclaimed, write by write."""
    bodies = [each.body.get("status", {}) for each in world.audit.requests(SCHEDULER_AGENT, name)]
    return [
        admission["reclaimState"]["replicas"]
        for body in bodies
        for admission in body.get("admissions", [])
        if "reclaimState" in admission
    ]


def was_stopped(world: QueueWorld, name: str) -> bool:
    """Return whether a victim's Job is suspended and its unit released."""
    unit = world.unit_of(name)
    status = unit.get("status", {})
    evicted = condition_of(unit, "Evicted")
    is_free = status.get("phase") == "Enqueued" and not status.get("admissions")
    return world.is_suspended(name) and is_free and evicted.get("status") == "False"


def test_p1_a_refused_unit_evicts_one_that_does_not_run(cluster: Cluster) -> None:
    """[P1] A quota of 2; the victim holds both when a unit of a higher priority comes."""
    world = cluster.world
    open_queue(world, "p1", 2)
    submit(world, "p1-victim", "p1", 10, cpu=2)
    until_under_way(world, "p1-victim")
    assert world.unit_of("p1-victim")["status"]["admissions"][0]["replicas"] == 1
    assert asked_back(world, "p1-victim") == []
    submit(world, "p1-preemptor", "p1", 100, cpu=2)
    until(lambda: asked_back(world, "p1-victim") == [1])
    until(lambda: world.phase_of_job("p1-preemptor") == "Dequeued")
    until(lambda: was_stopped(world, "p1-victim"))
    note = until(lambda: world.event_notes("p1-victim").get("Preempted", ""))
    assert "default/p1-preemptor" in note
    until(lambda: "Preempting" in world.event_notes("p1-preemptor"))
    assert_queue_stayed(world, "p1")


@pytest.mark.parametrize("policy", ["Priority", "Block"])
def test_p2_p3_p4_a_unit_that_fits_starts_in_place_of_one_in_flight(
    cluster: Cluster, policy: str
) -> None:
    """[P2, P3, P4] A quota of 4; the victim starts again when the preemptor runs."""
    world, name = cluster.world, f"p2-{policy.lower()}"
    victim, preemptor = f"{name}-victim", f"{name}-preemptor"
    open_queue(world, name, 4, policy)
    submit(world, victim, name, 10)
    until_under_way(world, victim)
    submit(world, preemptor, name, 100)
    until(lambda: world.phase_of_job(preemptor) == "Dequeued")
    until(lambda: asked_back(world, victim) == [1])
    until(lambda: was_stopped(world, victim))
    let_run(world, preemptor)
    until(lambda: world.phase_of_job(victim) == "Dequeued")
    admission = world.unit_of(victim)["status"]["admissions"][0]
    assert (admission["replicas"], "reclaimState" in admission) == (1, False)
    assert_queue_stayed(world, name, policy)


def test_p5_the_order_after_a_preemption(cluster: Cluster) -> None:
    """[P5] A unit that arrives meanwhile waits for the preemptor's pods, before the victim."""
    world = cluster.world
    open_queue(world, "p5", 4)
    submit(world, "p5-a", "p5", 1)
    until_under_way(world, "p5-a")
    submit(world, "p5-c", "p5", 100)
    until(lambda: world.phase_of_job("p5-c") == "Dequeued")
    until(lambda: asked_back(world, "p5-a") == [1])
    submit(world, "p5-b", "p5", 2)
    until(lambda: was_stopped(world, "p5-a"))
    until(lambda: refusal_of(cluster.scheduler, "p5-b"))
    time.sleep(STILL_SECONDS)
    assert world.phase_of_job("p5-b") == "Enqueued"
    let_run(world, "p5-c")
    until(lambda: world.phase_of_job("p5-b") == "Dequeued")
    time.sleep(STILL_SECONDS)
    assert world.phase_of_job("p5-a") == "Enqueued"
    let_run(world, "p5-b")
    until(lambda: world.phase_of_job("p5-a") == "Dequeued")
    assert_queue_stayed(world, "p5")


def test_an_owner_reclaims_its_quota_from_a_running_borrower(cluster: Cluster) -> None:
    """The borrower's pods run; its Job is stopped, and runs again when there is room."""
    world = cluster.world
    reclaims = {"koord-queue/reclaim-policy": "Any"}
    # Sixty-four cores in all: the lender owns sixteen, and the borrower uses most of them.
    world.create_quota("rc-lender", cpu_min=16, cpu_max=64, annotations=reclaims)
    world.create_quota("rc-borrower", cpu_min=0, cpu_max=64)
    for number in range(4):
        submit(world, f"rc-{number}", "rc-borrower", number, cpu=11)
        let_run(world, f"rc-{number}")
    submit(world, "rc-owner", "rc-lender", 0, cpu=16)
    until(lambda: world.phase_of_job("rc-owner") == "Dequeued")
    until(lambda: was_stopped(world, "rc-0"))
    until(lambda: asked_back(world, "rc-0") == [1])
    assert [asked_back(world, f"rc-{number}") for number in (1, 2, 3)] == [[], [], []]
