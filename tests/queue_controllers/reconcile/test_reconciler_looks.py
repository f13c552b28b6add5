"""Which changes cost a reconcile in the life of a job, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared_api.client.transport import Request, Response
    from tests.queue_controllers.controllers_world import World

SUCCEEDED = {"active": None, "succeeded": 2}


def end_pods_well(world: World) -> None:
    for name in ("main-0", "main-1"):
        world.patch_pod_status(name, phase="Succeeded")


def before_each_answer(
    world: World, monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]
) -> None:
    """Let something happen between each write of the controllers and its answer."""
    send = world.server.send

    def sent(request: Request, timeout_seconds: float) -> Response:
        answer = send(request, timeout_seconds)
        if request.method in {"POST", "PATCH"}:
            happens()
        return answer

    monkeypatch.setattr(world.server, "send", sent)


def test_pods_that_succeed_before_their_job_cost_no_look(world: World) -> None:
    world.run_a_job()
    looks = world.looks()
    end_pods_well(world)
    world.settle(0.9)
    assert world.looks() == looks
    world.patch_job_status(SUCCEEDED)
    world.complete()
    world.settle()
    assert (world.looks(), world.phase()) == (looks + 1, "Succeed")


def test_counts_of_a_job_that_goes_on_are_corrected_after_a_second(world: World) -> None:
    world.run_a_job(completions=10)
    world.settle(40.0)
    looks = world.looks()
    world.patch_pod_status("main-0", phase="Succeeded")
    world.settle(1.3)
    assert world.get_unit()["status"]["admissions"][0]["running"] == 1
    assert world.looks() == looks + 1


@pytest.mark.parametrize(
    "restarted", [pytest.param(True, id="restarted"), pytest.param(False, id="not restarted")]
)
def test_counts_are_corrected_thirty_seconds_after_the_last_time(
    world: World, restarted: bool
) -> None:
    world.run_a_job(completions=10)
    world.patch_pod_status("main-0", phase="Succeeded")
    if restarted:
        world.settle(0.5)
        world.start()
    world.settle(31.0)
    assert world.get_unit()["status"]["admissions"][0]["running"] == 1


def test_pods_of_a_deleted_job_free_its_quota_when_they_succeed(world: World) -> None:
    world.run_a_job()
    world.patch_job({"metadata": {"finalizers": ["example.com/keep"]}})
    world.settle()
    world.direct.delete("jobs", "main", "team", propagation="Background")
    world.settle()
    assert world.phase() == "Running"
    end_pods_well(world)
    world.settle(0.3)
    assert world.phase() == "Failed"


def test_the_echo_of_a_write_is_no_news_before_its_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_each_answer(world, monkeypatch, world.deliver)
    world.run_a_job()
    world.complete()
    world.settle(60.0)
    assert (world.looks(), world.phase()) == (4, "Succeed")


def test_what_others_change_during_a_write_is_handled_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def admitted() -> None:
        if world.phase() == "Enqueued":
            world.admit()
        world.deliver()

    world.start()
    before_each_answer(world, monkeypatch, admitted)
    world.job()
    world.settle(0.1)
    assert not world.is_suspended()


def test_a_change_during_a_write_that_fails_is_handled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start()
    world.job()
    world.settle()

    def suspended_again() -> None:
        monkeypatch.undo()
        world.patch_job({"metadata": {"annotations": {"a": "b"}}})
        world.deliver()
        raise RuntimeError("the answer is lost")

    before_each_answer(world, monkeypatch, suspended_again)
    world.admit()
    world.settle(2.0)
    assert not world.is_suspended()
    world.run_pods()
    world.settle()
    assert world.phase() == "Running"
