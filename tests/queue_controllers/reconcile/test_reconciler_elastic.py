"""Jobs whose number of pods is changed while they run, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World


@pytest.mark.parametrize("steps", [(0,), (1, 0)], ids=["at once", "one after the other"])
def test_scaled_to_zero_it_releases_everything(world: World, steps: tuple[int, ...]) -> None:
    world.run_a_job()
    for parallelism in steps:
        world.patch_job({"spec": {"parallelism": parallelism}})
        world.settle(5.0)
    assert given_back(world) == [{"name": "main", "count": 2}]
    assert world.phase() == "Running"
    world.patch_job({"spec": {"parallelism": 2}})
    world.settle(5.0)
    assert world.get_unit()["spec"]["podSet"][0]["count"] == 4, "two of them were released"


def test_the_last_share_of_finished_work_is_released_at_the_end(world: World) -> None:
    world.run_a_job()
    world.patch_job_status({"succeeded": 1})
    world.settle(5.0)
    assert given_back(world) == [{"name": "main", "count": 1}]
    world.patch_job_status({"succeeded": 2})
    world.settle(5.0)
    assert given_back(world) == [{"name": "main", "count": 1}]
    world.complete()
    world.settle()
    assert world.phase() == "Succeed"


def test_finished_and_failed_indexes_release_their_share(world: World) -> None:
    world.run_a_job(completions=4, completionMode="Indexed", backoffLimitPerIndex=0)
    assert given_back(world) is None
    world.patch_job_status({"succeeded": 1, "failedIndexes": "0,3"})
    world.settle()
    assert given_back(world) == [{"name": "main", "count": 1}], "of the two that were admitted"
    world.patch_job_status({"failedIndexes": "0"})
    world.settle(5.0)
    assert given_back(world) == [{"name": "main", "count": 1}], "it never shrinks"


@pytest.mark.parametrize("count", [3, 2**31 - 1])
def test_more_than_was_granted_by_hand_is_corrected(world: World, count: int) -> None:
    world.run_a_job(completions=10)
    world.patch_unit_status({"reclaimablePods": [{"name": "main", "count": count}]})
    world.settle(5.0)
    assert given_back(world) == [{"name": "main", "count": 2}]
    assert world.get_unit()["spec"]["podSet"][0]["count"] == 4, "its two pods are more than that"
    assert "UnitRefused" not in world.events()


def test_grown_and_then_suspended_by_hand_it_waits_for_its_new_demand(world: World) -> None:
    world.run_a_job(completions=10)
    world.patch_job({"spec": {"parallelism": 4}})
    world.settle(5.0)
    suspend(world)
    world.settle(5.0)
    assert world.phase() == "Enqueued"
    assert world.get_unit()["spec"]["podSet"][0]["count"] == 4
    world.admit(replicas=4)
    world.settle()
    assert not world.is_suspended()


def test_grown_and_shrunk_again_it_is_released_with_its_admission(world: World) -> None:
    world.run_a_job(completions=10)
    for parallelism in (4, 2):
        world.patch_job({"spec": {"parallelism": parallelism}})
        world.settle(5.0)
    assert given_back(world) is None, "its growth was never charged"
    suspend(world)
    world.settle(5.0)
    assert not world.is_suspended()
    assert world.phase() == "Running"


def test_released_usage_is_not_charged_again_while_it_is_stopped(world: World) -> None:
    world.run_a_job(completions=10)
    world.patch_job({"spec": {"parallelism": 1}})
    world.settle(5.0)
    assert given_back(world) == [{"name": "main", "count": 1}]
    suspend(world, parallelism=2)
    world.settle(5.0)
    assert world.is_suspended()
    assert world.phase() == "Enqueued"
    assert given_back(world) == []


def given_back(world: World) -> Any:
    return world.get_unit()["status"].get("reclaimablePods")


def suspend(world: World, **spec: int) -> None:
    """Suspend the job as another client, and delete its pods."""
    world.clock.advance(5.0)
    world.patch_job({"spec": {"suspend": True, **spec}})
    world.end_pods()
