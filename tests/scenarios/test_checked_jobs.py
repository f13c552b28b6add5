"""A job whose queue requires admission checks; with both programs."""

from __future__ import annotations

import pytest

from shared_api.timestamps import parse_time
from tests.object_states import condition_of
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, Json
from tests.scenarios.town import RUNNING_TIMEOUT, Town

pytestmark = pytest.mark.scenario


@pytest.fixture(autouse=True)
def reserved(town: Town) -> None:
    """Set up a queue that requires a check, and a job with reserved quota."""
    spec = {"spec": {"admissionChecks": [{"name": "nodes"}]}}
    town.scheduling.direct.patch("queues", "gold", spec, namespace=QUEUE_NAMESPACE)
    town.pass_time(0.5)
    town.create_job()
    town.pass_until("Reserved", 5.0)


def states(town: Town) -> list[str]:
    return [entry["state"] for entry in town.jobs.get_unit()["status"]["admissionChecks"]]


def say(town: Town, state: str, **more: object) -> None:
    """Answer as the check."""
    entries = [
        {**e, "state": state, **more} for e in town.jobs.get_unit()["status"]["admissionChecks"]
    ]
    status = {"status": {"admissionChecks": entries}}
    town.scheduling.direct.patch(
        "queueunits", "main", status, namespace="team", subresource="status"
    )
    town.pass_time(1.0)


def run(town: Town) -> None:
    say(town, "Ready")
    assert (town.jobs.phase(), town.jobs.is_suspended()) == ("Dequeued", False)
    town.jobs.run_pods()
    town.pass_time(2.0)
    assert town.jobs.phase() == "Running"


def test_a_job_is_released_when_its_check_is_ready_with_its_full_running_timeout(
    town: Town,
) -> None:
    town.pass_time(3 * RUNNING_TIMEOUT)
    assert (town.jobs.phase(), town.jobs.is_suspended()) == ("Reserved", True)
    say(town, "Ready")
    town.pass_time(RUNNING_TIMEOUT - 5.0)
    assert (town.jobs.phase(), town.jobs.is_suspended()) == ("Dequeued", False)


def test_a_refused_job_stays_suspended_and_is_checked_again(town: Town) -> None:
    say(town, "Rejected", message="no such nodes")
    assert (town.jobs.phase(), town.jobs.is_suspended()) == ("TimeoutBackoff", True)
    town.pass_until("Reserved", 15.0)
    assert states(town) == ["Pending"]
    run(town)
    assert "requeueState" not in town.jobs.get_unit()["status"]


def test_the_backoff_of_a_job_does_not_shorten_that_of_its_check(town: Town) -> None:
    town.annotate("koord-queue/backoff-timeout", "5s")
    say(town, "Retry", requeueAfterSeconds=600)
    town.pass_time(60.0)
    assert town.jobs.phase() == "TimeoutBackoff"
    until = town.jobs.get_unit()["status"]["requeueState"]["requeueAt"]
    assert (parse_time(until) - town.scheduling.clock.now()).total_seconds() > 500.0


def test_revoked_capacity_stops_the_job_and_requeues_it(town: Town) -> None:
    run(town)
    say(town, "Retry", message="capacity revoked", requeueAfterSeconds=60)
    unit = town.jobs.get_unit()
    assert condition_of(unit, "Evicted")["reason"] == "AdmissionCheck"
    assert (unit["status"]["phase"], town.jobs.is_suspended()) == ("Running", True)
    town.jobs.end_pods()
    town.pass_time(2.0)
    unit = town.jobs.get_unit()
    assert unit["status"]["phase"] == "TimeoutBackoff"
    lost = parse_time(unit["status"]["lastUpdateTime"])
    until = parse_time(unit["status"]["requeueState"]["requeueAt"])
    assert (until - lost).total_seconds() == 60.0
    assert "AdmissionCheck" in town.jobs.events()
    town.pass_until("Reserved", 65.0)
    assert states(town) == ["Pending"]


def test_a_job_that_is_stopped_while_reserved_releases_its_quota(town: Town) -> None:
    town.annotate("scheduling.x-k8s.io/active", "false")
    town.pass_time(2.0)
    say(town, "Ready")
    assert (town.jobs.phase(), town.jobs.is_suspended()) == ("Enqueued", True)


def test_each_run_uses_the_nodes_that_its_check_has_found(town: Town) -> None:
    say(town, "Ready", podSetUpdates=[in_zone("z1")])
    town.pass_time(1.0)
    assert (town.jobs.is_suspended(), zone_of(town)) == (False, "z1")
    town.jobs.run_pods()
    town.pass_until("Running", 5.0)
    town.pass_time(2.0)
    say(town, "Retry", requeueAfterSeconds=60, podSetUpdates=[])
    town.jobs.end_pods()
    town.pass_until("TimeoutBackoff", 5.0)
    assert town.jobs.get_unit()["status"]["accumulatedPastExecutionTimeSeconds"] > 0
    town.pass_until("Reserved", 90.0)
    shown = town.jobs.get_unit()["spec"]["podSet"][0]["template"]["spec"]
    assert "nodeSelector" not in shown, "the user's own template"
    say(town, "Ready", podSetUpdates=[in_zone("z2")])
    town.pass_time(1.0)
    assert (town.jobs.is_suspended(), zone_of(town)) == (False, "z2")


def test_a_job_that_contradicts_its_check_releases_its_quota(town: Town) -> None:
    mine = {"nodeSelector": {"zone": "mine"}}
    town.jobs.patch_job({"spec": {"template": {"spec": mine}}})
    say(town, "Ready", podSetUpdates=[in_zone("z1")])
    town.pass_time(2.0)
    unit = town.jobs.get_unit()
    assert (unit["status"]["phase"], unit["spec"]["active"]) == ("Enqueued", False)
    assert town.jobs.is_suspended()
    why = "to be z1, and the job's template mine"
    assert any(
        reason == "PodSetUpdatesConflict" and why in note for reason, note in town.reported()
    )
    town.jobs.job("next")
    town.pass_time(5.0)
    assert town.jobs.phase("next") == "Reserved", "the quota of the first job is released"


def in_zone(zone: str) -> Json:
    return {"name": "main", "nodeSelector": {"zone": zone}}


def zone_of(town: Town) -> str:
    return str(town.jobs.get_job()["spec"]["template"]["spec"]["nodeSelector"]["zone"])
