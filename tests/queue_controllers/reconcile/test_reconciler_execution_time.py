"""Jobs with a maximum execution time, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared_api.fake_api_server.faults import EVERY_TIME, Match
from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

MAX_EXEC = "scheduling.x-k8s.io/max-exec-time-seconds"
ACTIVE = "scheduling.x-k8s.io/active"
USED_UP = "MaximumExecutionTimeExceeded"


def test_a_job_whose_time_is_used_up_is_stopped_for_good(world: World) -> None:
    """[ctl-39] No event on the job or elsewhere is needed meanwhile."""
    run(world, 60)
    written = len(writes_to(world.server))
    world.settle(55.0)
    assert len(writes_to(world.server)) == written, "until then nothing is written"
    world.settle(8.0)
    unit = world.get_unit()
    assert unit["spec"]["active"] is False
    assert told_by(unit)["Evicted"] == "True"
    assert world.is_suspended()
    assert unit["status"]["phase"] == "Running", "its pods live, so it is charged"
    stop(world)
    unit = world.get_unit()
    assert unit["status"]["phase"] == "Enqueued"
    assert unit["status"]["admissions"] == []
    assert (told_by(unit)["PodsReady"], told_by(unit)[USED_UP]) == ("False", "True")
    assert "accumulatedPastExecutionTimeSeconds" not in unit["status"]
    world.settle(120.0)
    assert world.get_unit()["spec"]["active"] is False
    note = world.notes_on_jobs()[USED_UP]
    assert note.endswith(f'annotate the job {ACTIVE}: "true"')
    assert {USED_UP, "Evicted"} == world.events()


def test_evicted_again_and_again_it_does_not_run_for_ever(world: World) -> None:
    run(world, 60)
    for seconds in (20, 41):
        world.settle(19.0)
        evict(world)
        stop(world)
        assert world.get_unit()["status"]["accumulatedPastExecutionTimeSeconds"] == pytest.approx(
            seconds, abs=3
        )
        world.admit()
        world.settle()
        world.run_pods()
        world.settle()
    assert not world.is_suspended()
    world.settle(20.0)
    assert world.is_suspended()
    assert world.get_unit()["spec"]["active"] is False


def test_the_time_runs_on_while_no_controller_runs(world: World) -> None:
    run(world, 60)
    world.settle(20.0)
    world.start()
    world.settle(30.0)
    assert not world.is_suspended()
    world.settle(15.0)
    assert world.is_suspended(), "the timer is set again"


def test_time_that_is_over_when_the_controllers_start_is_over(world: World) -> None:
    run(world, 60)
    world.clock.advance(600.0)
    world.start()
    assert world.get_unit()["spec"]["active"] is False
    assert world.is_suspended()


def test_the_limit_may_be_edited_while_it_runs(world: World) -> None:
    run(world, 60)
    world.settle(50.0)
    annotate(world, {MAX_EXEC: "600"})
    world.settle(100.0)
    assert not world.is_suspended(), "it has more time"
    annotate(world, {MAX_EXEC: None})
    world.settle(600.0)
    assert not world.is_suspended(), "it may run forever"
    annotate(world, {MAX_EXEC: "900"})
    world.settle(10.0)
    assert not world.is_suspended()
    annotate(world, {MAX_EXEC: "700"})
    world.settle()
    assert world.is_suspended(), "it has run for longer already"


@pytest.mark.parametrize("said", [None, "true"], ids=["nothing", "true"])
def test_requeued_by_its_user_it_has_all_of_its_time(world: World, said: str | None) -> None:
    run(world, 60, **({ACTIVE: said} if said else {}))
    world.settle(63.0)
    stop(world)
    world.settle(30.0)
    assert world.get_unit()["spec"]["active"] is False, "the earlier annotation does not undo it"
    if said:
        annotate(world, {ACTIVE: "false"})
        world.settle()
    annotate(world, {ACTIVE: "true"})
    world.settle()
    unit = world.get_unit()
    assert unit["spec"]["active"] is True
    assert told_by(unit)[USED_UP] == "False"
    assert not any("exceeded" in key for key in unit["metadata"]["annotations"])
    world.admit()
    world.settle()
    world.run_pods()
    world.settle(55.0)
    assert not world.is_suspended()
    world.settle(8.0)
    assert world.is_suspended()


@pytest.mark.parametrize("subresource", ["", "status"], ids=["active", "freed"])
def test_a_crash_between_the_writes_ends_right(world: World, subresource: str) -> None:
    run(world, 60)
    world.settle(50.0)
    if subresource:
        world.settle(13.0)
        assert world.is_suspended()
    failing = Match(verb="patch", plural="queueunits", subresource=subresource)
    world.server.faults.fail(503, times=EVERY_TIME, match=failing)
    world.settle(13.0)
    if subresource:
        stop(world)
    unit = world.get_unit()
    assert unit["status"]["phase"] == "Running"
    assert (unit["spec"].get("active") is False) is bool(subresource), "never released and active"
    world.server.faults.clear()
    world.start()
    if not subresource:
        stop(world)
    unit = world.get_unit()
    assert (unit["spec"]["active"], unit["status"]["phase"]) == (False, "Enqueued")
    assert told_by(unit)[USED_UP] == "True"


def run(world: World, seconds: int, **annotations: str) -> None:
    """Bring a job to Running whose pods may run for this long."""
    world.run_a_job(annotations={MAX_EXEC: str(seconds), **annotations})


def annotate(world: World, annotations: dict[str, str | None]) -> None:
    """Annotate the job as its user does."""
    world.patch_job({"metadata": {"annotations": annotations}})


def evict(world: World) -> None:
    """Request an eviction as the scheduler does."""
    unit = world.get_unit()
    others = [each for each in unit["status"]["conditions"] if each["type"] != "Evicted"]
    asked = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "x"}
    asked["lastTransitionTime"] = world.now()
    world.patch_unit_status({"conditions": [*others, asked]})
    world.settle()


def stop(world: World) -> None:
    """Delete the pods of a suspended job."""
    assert world.is_suspended()
    world.clock.advance(1.0)
    world.end_pods()
    world.settle()


def told_by(unit: dict[str, Any]) -> dict[str, str]:
    """Return the messages of the unit's conditions by type."""
    return {each["type"]: each["status"] for each in unit["status"]["conditions"]}
