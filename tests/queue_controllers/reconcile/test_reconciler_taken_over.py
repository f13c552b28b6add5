"""Jobs that another queue has started and that are handed over, over the fake API server.

An import takes Kueue's label off and writes ours. However late the controllers see any of it, a job
that runs runs on; one that Kueue has suspended waits, and is released once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from shared_api.testing.faults import EVERY_TIME, Match
from tests.follower import Follower
from tests.queue_controllers.controllers_world import QUOTA_LABEL, World
from tests.sample_jobs import KUEUE_WORKLOADS
from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

JOBS: Final = Match(plural="jobs")
PODS: Final = Match(plural="pods")
KUEUE: Final = {"kueue.x-k8s.io/queue-name": "user-queue"}
TAKEN_OVER: Final[Json] = {
    "metadata": {"labels": {**dict.fromkeys(KUEUE), QUOTA_LABEL: "gold"}},
}
"""What an import writes."""


@pytest.fixture
def beside_kueue(world: World) -> World:
    """A cluster that serves Kueue's Workloads."""
    world.direct.create(KUEUE_WORKLOADS)
    return world


def run_for_kueue(world: World) -> None:
    """Create a job that Kueue has released, with its pods."""
    world.job(suspend=False, labels=KUEUE)
    world.run_pods()


def at_once(world: World) -> None:
    """Relabel it before any worker has looked at it."""
    world.start()
    run_for_kueue(world)
    world.patch_job(TAKEN_OVER)
    world.settle()


def while_jobs_are_not_watched(world: World) -> None:
    """Relabel it while the watch of jobs is broken: a list finds it, with its new label."""
    world.start()
    world.server.watches.drop(JOBS)
    run_for_kueue(world)
    world.patch_job(TAKEN_OVER)
    world.server.compact("jobs")
    world.settle(5.0)


def while_the_next_leader_only_follows(world: World) -> None:
    """Relabel it just before the leader is gone: its follower has never decided about it."""
    follower = Follower()
    world.start(leadership=follower)
    run_for_kueue(world)
    world.settle(60.0)
    world.patch_job(TAKEN_OVER)
    world.settle()
    follower.leads = True
    world.settle(5.0)


def while_its_pods_are_not_watched(world: World) -> None:
    """Relabel it while only its status says that it has pods."""
    world.start()
    world.server.watches.drop(PODS)
    for verb in ("list", "watch"):
        world.server.faults.fail(503, times=EVERY_TIME, match=Match(plural="pods", verb=verb))
    run_for_kueue(world)
    world.settle()
    world.patch_job(TAKEN_OVER)
    world.settle()
    world.server.faults.clear()
    world.settle(60.0)


@pytest.mark.parametrize(
    "relabel",
    [
        at_once,
        while_jobs_are_not_watched,
        while_the_next_leader_only_follows,
        while_its_pods_are_not_watched,
    ],
)
def test_a_job_that_runs_is_never_suspended(
    beside_kueue: World, relabel: Callable[[World], None]
) -> None:
    relabel(beside_kueue)
    assert "patch jobs" not in writes_to(beside_kueue.server)
    assert beside_kueue.phase() == "Running"
    assert beside_kueue.get_unit()["status"]["admissions"]
    assert "Adopted" in beside_kueue.events()


def test_a_count_of_pods_that_are_not_ready_proves_nothing(beside_kueue: World) -> None:
    beside_kueue.start()
    beside_kueue.job(suspend=False, labels=KUEUE)
    beside_kueue.patch_job_status({"startTime": beside_kueue.now(), "active": 500, "ready": 0})
    beside_kueue.settle()
    beside_kueue.patch_job(TAKEN_OVER)
    beside_kueue.settle()
    assert "Adopted" not in beside_kueue.events()
    assert beside_kueue.get_job()["spec"]["suspend"] is True


def test_a_job_that_is_created_with_our_label_is_held_whatever_runs_of_it(
    beside_kueue: World,
) -> None:
    beside_kueue.start()
    beside_kueue.job(suspend=False)
    beside_kueue.run_pods()
    beside_kueue.settle()
    assert beside_kueue.is_suspended()
    assert beside_kueue.phase() == "Enqueued"


@pytest.mark.parametrize("relabelled_first", [True, False])
def test_a_job_that_kueue_suspends_meanwhile_waits_and_is_released_once(
    beside_kueue: World, *, relabelled_first: bool
) -> None:
    world = beside_kueue
    world.start()
    run_for_kueue(world)
    world.settle()
    patches: list[Json] = [TAKEN_OVER, {"spec": {"suspend": True}}]
    for patch in patches if relabelled_first else reversed(patches):
        world.patch_job(patch)
    world.settle()
    assert world.phase() == "Enqueued"
    world.patch_job({"spec": {"suspend": False}})  # Kueue has not heard of it yet
    world.settle()
    assert world.is_suspended()
    world.clock.advance(5.0)
    world.end_pods()
    world.settle()
    before = len(writes_to(world.server))
    world.admit()
    world.settle(5.0)
    assert not world.is_suspended()
    assert writes_to(world.server)[before:].count("patch jobs") == 1
