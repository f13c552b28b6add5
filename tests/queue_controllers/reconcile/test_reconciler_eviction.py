"""Evictions by the scheduler, over the fake API server: from each phase to the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shared_api.timestamps import parse_time
from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

CREATED_AT = "koord-queue/job-created-at"


@pytest.mark.parametrize("reason", ["Preempted", "Reclaimed", "HoldAndDrain"])
def test_preempted_while_it_runs_it_is_requeued_at_its_place(world: World, reason: str) -> None:
    world.run_a_job()
    created = world.get_unit()["metadata"]["annotations"][CREATED_AT]
    world.settle(60.0)
    ask_back(world, reason)
    assert world.is_suspended()
    assert world.phase() == "Running", "its pods live, so it is charged"
    world.clock.advance(1.0)
    world.end_pods()
    world.settle()
    unit = world.get_unit()
    assert (unit["status"]["phase"], unit["status"]["admissions"]) == ("Enqueued", [])
    assert "requeueState" not in unit["status"]
    assert unit["metadata"]["annotations"][CREATED_AT] == created
    note = world.notes_on_jobs()[reason]
    assert note.startswith("Evicted: team/urgent needs its place. ")
    world.admit()
    world.settle()
    assert not world.is_suspended()


@pytest.mark.parametrize("phase", ["Reserved", "Dequeued", "SchedReady", "SchedSucceed"])
def test_preempted_before_it_runs_it_is_released_at_once(world: World, phase: str) -> None:
    world.start()
    world.job()
    world.settle()
    world.admit()
    world.patch_unit_status({"phase": phase})
    ask_back(world, "Preempted")
    unit = world.get_unit()
    assert (unit["status"]["phase"], unit["status"]["admissions"]) == ("Enqueued", [])
    assert world.is_suspended()
    assert "Preempted" in world.notes_on_jobs()


def test_a_check_that_refuses_a_running_job_sets_its_backoff(world: World) -> None:
    world.run_a_job()
    said = {"name": "nodes", "state": "Retry", "requeueAfterSeconds": 120, "message": ""}
    said["lastTransitionTime"] = world.now()
    ask_back(world, "AdmissionCheck", admissionChecks=[said])
    world.clock.advance(1.0)
    world.end_pods()
    world.settle()
    status = world.get_unit()["status"]
    assert (status["phase"], status["requeueState"]["count"]) == ("TimeoutBackoff", 1)
    waits = parse_time(status["requeueState"]["requeueAt"]) - world.clock.now()
    assert 115 < waits.total_seconds() <= 120
    assert status["admissions"] == []
    written = len(writes_to(world.server))
    world.settle(60.0)
    assert len(writes_to(world.server)) == written, "nobody moves the time"


def ask_back(world: World, reason: str, **more: object) -> None:
    """Request an eviction as the scheduler does, in one write."""
    status = world.get_unit()["status"]
    others = [each for each in status.get("conditions", ()) if each["type"] != "Evicted"]
    asked = {
        "type": "Evicted",
        "status": "True",
        "reason": reason,
        "message": "team/urgent needs its place",
        "lastTransitionTime": world.now(),
    }
    admissions = [{**each, "reclaimState": {"replicas": 2}} for each in status["admissions"]]
    world.patch_unit_status({"conditions": [*others, asked], "admissions": admissions, **more})
    world.settle()
