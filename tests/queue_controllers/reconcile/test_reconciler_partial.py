"""Partially running jobs, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queue_controllers.configuration import read_configuration
from tests.queue_controllers.controllers_world import pod_of

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

OPTIONS = {"job": {"partialRunningTimeout": "60s", "backoffLimit": 2}}


def start(world: World) -> None:
    """Start the controllers, in place of those that ran before."""
    world.start(configuration=read_configuration(OPTIONS, {"job"}))


def run_partly(world: World) -> None:
    """Admit the job, with one of its two pods running, and the other pending."""
    world.admit()
    world.settle()
    assert not world.is_suspended()
    world.run_pods()
    world.patch_pod_status("main-1", phase="Pending")
    world.settle()
    assert world.phase() == "Running"
    assert world.get_unit()["status"]["admissions"][0]["running"] == 1


def evicted(world: World) -> dict[str, Any]:
    """Return the condition Evicted, {} for none."""
    conditions = world.get_unit()["status"]["conditions"]
    return next((each for each in conditions if each["type"] == "Evicted"), {})


@pytest.fixture
def waiting(world: World) -> World:
    """A world with a queued job of a hundred pods, two at a time."""
    start(world)
    world.job(completions=100)
    world.settle()
    return world


def test_it_is_evicted_whichever_replica_leads(waiting: World) -> None:
    run_partly(waiting)
    waiting.settle(40.0)
    start(waiting)
    waiting.settle(15.0)
    assert not waiting.is_suspended()
    waiting.settle(6.0)
    assert waiting.is_suspended()
    assert evicted(waiting)["message"] == "Backoff due to partial running timeout"
    waiting.end_pods()
    waiting.settle()
    status = waiting.get_unit()["status"]
    assert (status["phase"], status["requeueState"]["count"]) == ("TimeoutBackoff", 1)


def test_repeated_partial_runs_reach_the_backoff_limit(waiting: World) -> None:
    run_partly(waiting)
    waiting.settle(62.0)
    waiting.end_pods()
    waiting.settle()
    waiting.return_to_line()
    run_partly(waiting)
    waiting.settle(62.0)
    assert waiting.is_suspended()
    waiting.end_pods()
    waiting.settle()
    assert waiting.phase() == "Enqueued"
    assert waiting.get_unit()["spec"]["active"] is False


def test_a_late_pod_ends_it(waiting: World) -> None:
    waiting.patch_unit_status({"requeueState": {"count": 1}})
    run_partly(waiting)
    waiting.settle(50.0)
    assert waiting.get_unit()["status"]["requeueState"] == {"count": 1}
    waiting.patch_pod_status("main-1", phase="Running")
    waiting.settle(100.0)
    assert not waiting.is_suspended()
    assert "requeueState" not in waiting.get_unit()["status"]


def test_a_pod_that_is_not_replaced_is_missing_from_then_on(waiting: World) -> None:
    waiting.admit()
    waiting.settle()
    waiting.run_pods()
    waiting.settle(600.0)
    waiting.direct.delete("pods", "main-1", "team")
    waiting.patch_job_status({"active": 1, "ready": 1, "failed": 1})
    waiting.settle(58.0)
    assert not waiting.is_suspended(), "for ten minutes all have run"
    waiting.settle(35.0)
    assert waiting.is_suspended()


def test_a_finished_pod_is_not_missing(world: World) -> None:
    start(world)
    world.job()
    world.settle()
    world.admit()
    world.settle()
    world.run_pods()
    world.settle(100.0)
    world.patch_pod_status("main-1", phase="Succeeded")
    world.settle(200.0)
    assert not world.is_suspended(), "the job's status does not show it yet"
    world.patch_job_status({"active": 1, "succeeded": 1})
    world.settle(200.0)
    assert not world.is_suspended()
    assert evicted(world) == {}


def test_pods_that_take_turns_are_not_missing(waiting: World) -> None:
    """Twenty seconds each, five of them pending: one of the two is nearly always starting."""
    waiting.admit()
    waiting.settle()
    waiting.run_pods()
    job = waiting.get_job()
    for turn in range(2, 16):
        waiting.settle(10.0)
        waiting.patch_pod_status(f"main-{turn - 2}", phase="Succeeded")
        waiting.settle(0.5)
        waiting.direct.create(pod_of(job, f"main-{turn}"))
        waiting.patch_job_status({"active": 2, "succeeded": turn - 1})
        waiting.settle(5.0)
        waiting.patch_pod_status(f"main-{turn}", phase="Running")
    assert not waiting.is_suspended()
    assert waiting.phase() == "Running"
