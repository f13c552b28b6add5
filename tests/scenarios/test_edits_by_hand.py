"""Manual edits of what only the programs write: emptied statuses and changed admissions.

With both programs. Whatever is edited, no quota is given twice while pods exist, and every job
finally runs.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE
from tests.scenarios.town import Town

pytestmark = pytest.mark.scenario

Json = dict[str, Any]

WHOLE = {"cpu": "2"}


def entry(replicas: int, *, name: str = "main", **more: Any) -> Json:
    """Return an entry of the admissions."""
    return {"name": name, "replicas": replicas, "running": 0, **more}


def run_main(town: Town) -> None:
    """Run job `main` with the whole quota, and let job `later` wait for it."""
    town.create_job()
    town.pass_until("Dequeued", 5.0)
    town.pass_time(1.5)
    for number in range(2):
        town.add_pod(number)
    town.jobs.patch_job_status({"startTime": town.jobs.now(), "active": 2, "ready": 2})
    town.pass_until("Running", 5.0)
    town.jobs.job("later")
    town.pass_time(3.0)
    assert town.jobs.phase("later") == "Enqueued"


def let_main_end(town: Town) -> None:
    """End `main`, and let the next job start."""
    for number in range(2):
        town.delete_pod(number)
    town.jobs.complete()
    town.pass_until("Succeed", 5.0)
    town.pass_time(2.0)
    assert town.jobs.phase("later") == "Dequeued"
    assert not town.jobs.is_suspended("later")


@pytest.mark.parametrize(
    "edited",
    [
        pytest.param([entry(1)], id="lowered"),
        pytest.param([entry(1, resources={"cpu": "1"})], id="lowered with its amounts"),
        pytest.param([entry(0)], id="lowered to zero"),
        pytest.param([entry(5)], id="raised"),
        pytest.param([entry(2**63 - 1)], id="raised to the largest integer"),
        pytest.param([entry(2, resources={"cpu": "90"})], id="its amounts raised"),
        pytest.param([entry(2, name="other", resources=WHOLE)], id="its set renamed"),
        pytest.param([entry(2, name="other")], id="its set renamed, without amounts"),
        pytest.param([entry(2, resources={"cpu": "9e99"})], id="its amounts unreadable"),
        pytest.param([entry(2), entry(2, name="other", resources=WHOLE)], id="a set added"),
        pytest.param([], id="removed"),
    ],
)
def test_admissions_edited_while_the_job_runs(town: Town, edited: list[Json]) -> None:
    run_main(town)
    town.jobs.patch_unit_status({"admissions": edited})
    town.pass_time(40.0)
    assert (town.jobs.phase(), town.jobs.phase("later")) == ("Running", "Enqueued")
    assert not town.jobs.is_suspended()
    assert "UnitRefused" not in town.jobs.notes_on_jobs()
    let_main_end(town)


def test_a_count_of_backoffs_that_cannot_be_incremented(town: Town) -> None:
    """The eviction still happens, and the unit waits for the longest backoff."""
    run_main(town)
    asked = {"type": "Evicted", "status": "True", "reason": "AdmissionCheck", "message": ""}
    others = town.jobs.get_unit()["status"]["conditions"]
    conditions = [*others, {**asked, "lastTransitionTime": town.jobs.now()}]
    most = {"count": 2**31 - 1}
    town.jobs.patch_unit_status({"conditions": conditions, "requeueState": most})
    town.pass_time(2.0)
    for number in range(2):
        town.delete_pod(number)
    town.jobs.end_pods(0)
    town.pass_until("TimeoutBackoff", 5.0)
    assert town.jobs.get_unit()["status"]["requeueState"]["count"] == 2**31 - 1
    town.pass_time(2.0)
    assert town.jobs.phase("later") == "Dequeued"


def wipe(town: Town, name: str = "main") -> None:
    """Empty a unit's status, as a replace by another client does."""
    status = town.jobs.get_unit(name)["status"]
    town.jobs.patch_unit_status(dict.fromkeys(status), name)
    assert town.jobs.get_unit(name)["status"] == {"phase": "Enqueued"}


def test_a_status_that_is_wiped_while_the_unit_waits(town: Town) -> None:
    run_main(town)
    before = town.jobs.get_unit("later")["status"]["conditions"]
    wipe(town, "later")
    town.pass_time(5.0)
    after = town.jobs.get_unit("later")["status"]["conditions"]
    assert [each["reason"] for each in after] == [each["reason"] for each in before]
    let_main_end(town)


def test_a_status_that_is_wiped_while_the_unit_is_reserved(town: Town) -> None:
    asks = {"spec": {"admissionChecks": [{"name": "nodes"}]}}
    town.jobs.direct.patch("queues", "gold", asks, namespace=QUEUE_NAMESPACE)
    town.create_job()
    town.pass_until("Reserved", 5.0)
    wipe(town)
    town.pass_until("Reserved", 5.0)
    assert [each["state"] for each in checks_of(town)] == ["Pending"]
    assert town.jobs.is_suspended()
    ready = [{**each, "state": "Ready"} for each in checks_of(town)]
    town.jobs.patch_unit_status({"admissionChecks": ready})
    town.pass_until("Dequeued", 5.0)


def checks_of(town: Town) -> list[Json]:
    found: list[Json] = town.jobs.get_unit()["status"]["admissionChecks"]
    return found


def test_a_status_that_is_wiped_between_the_release_and_the_pods(town: Town) -> None:
    town.create_job()
    town.pass_until("Dequeued", 5.0)
    town.pass_time(1.5)
    assert not town.jobs.is_suspended()
    wipe(town)
    town.pass_until("Dequeued", 5.0)
    town.pass_time(20.0)
    assert not town.jobs.is_suspended()


def test_a_status_that_is_wiped_while_pods_live(town: Town) -> None:
    """The emptied status applies: the job is held again; its quota is free without its pods."""
    run_main(town)
    wipe(town)
    town.pass_time(5.0)
    assert town.jobs.is_suspended()
    assert (town.jobs.phase(), town.jobs.phase("later")) == ("Enqueued", "Enqueued")
    town.jobs.end_pods()
    town.pass_until("Dequeued", 5.0)
    town.pass_time(2.0)
    assert not town.jobs.is_suspended()
    assert town.jobs.phase("later") == "Enqueued"


@pytest.mark.parametrize("replicas", [0, 1])
def test_admissions_lowered_before_the_release(town: Town, replicas: int) -> None:
    """The missing replicas are admitted again, and the complete job is released."""
    asks = {"spec": {"admissionChecks": [{"name": "nodes"}]}}
    town.jobs.direct.patch("queues", "gold", asks, namespace=QUEUE_NAMESPACE)
    town.create_job()
    town.pass_until("Reserved", 5.0)
    ready = [{**each, "state": "Ready"} for each in checks_of(town)]
    lowered = [entry(replicas)]
    town.jobs.patch_unit_status({"admissions": lowered, "admissionChecks": ready})
    town.pass_until("Dequeued", 5.0)
    town.pass_time(10.0)
    assert not town.jobs.is_suspended()
    (granted,) = town.jobs.get_unit()["status"]["admissions"]
    assert (granted["replicas"], granted["resources"]) == (2, WHOLE)
