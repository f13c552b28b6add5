"""What a release writes into the template of a real Job, and the Job's execution time.

The scheduler of queue units is played by the tests. Ids stand for tests of upstream's
(upstream/README.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.job_side_world import NOW, JobSideWorld
from tests.cluster.queue_world import Json, let_the_second_of_the_release_pass
from tests.object_states import condition_of
from tests.waiting import until

ACTIVE = "scheduling.x-k8s.io/active"
MAX_EXEC = "scheduling.x-k8s.io/max-exec-time-seconds"
USED_UP = "MaximumExecutionTimeExceeded"
NOTE = "koord-queue/pod-set-updates"
SPOT = {"key": "spot", "operator": "Exists"}


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[JobSideWorld]:
    """A cluster whose units only the tests admit."""
    with JobSideWorld(controlplane_binaries, jobs=True) as world:
        world.start_controllers("--leader-elect=false")
        yield world


def test_a_job_ends_when_its_time_is_used_up(world: JobSideWorld) -> None:
    """[ctl-39] The job is not written to meanwhile."""
    time = {MAX_EXEC: "2"}
    world.create_job("timed", "any", annotations=time, run_seconds=600)
    admit(world, "timed")
    until(lambda: world.unit_of("timed")["spec"].get("active") is False)
    until(lambda: world.phase_of_job("timed") == "Enqueued")
    unit = world.unit_of("timed")
    assert condition_of(unit, USED_UP)["status"] == "True"
    assert condition_of(unit, "PodsReady")["status"] == "False"
    assert "accumulatedPastExecutionTimeSeconds" not in unit["status"]
    assert world.is_suspended("timed")
    assert world.living_pods("timed") == []
    until(lambda: USED_UP in world.event_notes("timed"))
    world.patch_job("timed", {"metadata": {"annotations": {ACTIVE: "true", MAX_EXEC: "600"}}})
    until(lambda: condition_of(world.unit_of("timed"), USED_UP)["status"] == "False")
    until(lambda: world.unit_of("timed")["spec"]["active"] is True)
    admit(world, "timed")
    until(lambda: world.phase_of_job("timed") == "Running")


def test_each_run_has_the_template_that_its_checks_want(world: JobSideWorld) -> None:
    """Jobs accept it in the patch that resumes them, also after an earlier run."""
    world.create_job("checked", "any", run_seconds=600)
    one = {"nodeSelector": {"zone": "z1"}, "tolerations": [SPOT], "labels": {"from": "check"}}
    admit(world, "checked", one)
    [pod] = until(lambda: world.pods("checked"))
    assert pod["spec"]["nodeSelector"] == {"zone": "z1"}
    assert SPOT in pod["spec"]["tolerations"]
    assert pod["metadata"]["labels"]["from"] == "check"
    evict(world, "checked")
    assert "nodeSelector" not in world.unit_of("checked")["spec"]["podSet"][0]["template"]["spec"]
    admit(world, "checked", {"nodeSelector": {"zone": "z2"}, "annotations": {"why": "moved"}})
    [pod] = until(lambda: world.pods("checked"))
    assert pod["spec"]["nodeSelector"] == {"zone": "z2"}
    assert SPOT not in pod["spec"]["tolerations"]
    assert "from" not in pod["metadata"]["labels"]
    assert pod["metadata"]["annotations"]["why"] == "moved"
    evict(world, "checked")
    admit(world, "checked", {})
    until(lambda: world.phase_of_job("checked") == "Running")
    job = world.job("checked")
    assert not job["spec"]["template"]["spec"].get("nodeSelector")
    assert NOTE not in job["metadata"]["annotations"]


def test_checks_that_contradict_each_other_stop_the_job(world: JobSideWorld) -> None:
    world.create_job("torn", "any")
    admit(world, "torn", {"nodeSelector": {"zone": "z1"}}, {"nodeSelector": {"zone": "z2"}})
    until(lambda: world.unit_of("torn")["spec"].get("active") is False)
    until(lambda: world.phase_of_job("torn") == "Enqueued")
    said = condition_of(world.unit_of("torn"), "PodSetUpdatesConflict")["message"]
    assert "check b wants node selector zone of pod set torn to be z2" in said
    assert world.is_suspended("torn")
    assert world.pods("torn") == []


def admit(world: JobSideWorld, job: str, *wanted: Json) -> None:
    """Admit a unit as the scheduler does when its checks, which want this, are ready."""
    checks = [
        {
            "name": name,
            "state": "Ready",
            "message": "",
            "lastTransitionTime": NOW,
            "podSetUpdates": [{"name": job, **each}],
        }
        for name, each in zip("ab", wanted, strict=False)
    ]
    until(lambda: world.unit_of(job))
    status = {
        "phase": "Dequeued",
        "admissionChecks": checks,
        "admissions": [{"name": job, "replicas": 1, "running": 0}],
    }
    world.patch_unit(world.unit_of(job)["metadata"]["name"], {"status": status})


def evict(world: JobSideWorld, job: str) -> None:
    """Request the unit's eviction, and wait until it is released."""
    let_the_second_of_the_release_pass()
    world.ask_back(world.unit_of(job)["metadata"]["name"])
    until(lambda: world.phase_of_job(job) == "Enqueued")
    until(lambda: not world.pods(job))
    until(lambda: "Preempted" in world.event_notes(job))
