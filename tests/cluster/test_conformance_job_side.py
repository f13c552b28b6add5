"""Upstream's tests of what the controllers report and evict, on a real API server.

Ids stand for tests of upstream's (upstream/README.md). The scheduler of queue units is played.
Upstream's controllers lower `admissions[].replicas` and choose which pods go. Here the scheduler
writes replicas (DECISIONS.md 37), the controllers report in `reclaimablePods` what is not needed
any more, and an evicted job is stopped whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from shared_api.timestamps import rfc3339
from tests.cluster.job_side_world import (
    LONG,
    PARTLY,
    POD_SET,
    ROLE,
    JobSideWorld,
    Json,
    TfJob,
    job_side_world,
    stays_since,
    template,
    widget,
)
from tests.cluster.queue_world import PODS, let_the_second_of_the_release_pass
from tests.cluster.served_kinds import install_crds
from tests.object_states import condition_of, is_true
from tests.sample_jobs import KUEUE_WORKLOADS
from tests.waiting import PATIENCE_SECONDS, stays, until

ACTIVE = "scheduling.x-k8s.io/active"
MAX_EXEC = "scheduling.x-k8s.io/max-exec-time-seconds"
RELEASED_AT = "koord-queue/released-at"
LATE = {PARTLY: "2"}
NEVER_LATE = {PARTLY: "600"}


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[JobSideWorld]:
    with job_side_world(controlplane_binaries) as world:
        yield world


GOING_ON: Mapping[str, Json] = {"nothing": {}, "zero": {"replicas": 0}, "one": {"replicas": 1}}
"""Jobs whose unit has this `reclaimState`, and that are not evicted."""
GIVING_BACK: Mapping[str, tuple[int, int]] = {"two-of-three": (3, 2), "three-of-four": (4, 3)}
"""Jobs of this many pods, one of which runs, and how many of them `reclaimState` reclaims."""
PARTS: Mapping[str, tuple[int, int]] = {
    "first-look": (4, 2),
    "not-yet": (4, 2),
    "whole": (3, 2),
    "one-of-four": (4, 1),
}
"""Jobs of this many pods, of which this many run."""
BANKING = ("banks-never", "banks-no-more", "banks-ten", "banks-more")
"""Jobs of one pod."""


@pytest.fixture(scope="module")
def begun(world: JobSideWorld) -> float:
    """Running jobs, for tests of whether they run on; return since when they run."""
    for name, state in GOING_ON.items():
        world.create_job(name, "any", run_seconds=LONG, parallelism=2, completions=2)
        world.admit(name, {name: 2}, **({"reclaimState": {name: state}} if state else {}))
    for name, (pods, asked) in GIVING_BACK.items():
        world.create_partial_job(name, pods, 1)
        world.admit(name, {name: pods}, reclaimState={name: {"replicas": asked}})
    for name, (pods, running) in PARTS.items():
        world.create_partial_job(name, pods, running, annotations=NEVER_LATE)
        world.admit(name, {name: pods})
    for name in BANKING:
        world.create_job(name, "any", run_seconds=LONG)
        world.admit(name, {name: 1})
    sizes = {**dict.fromkeys(BANKING, (1, 1)), **dict.fromkeys(GOING_ON, (2, 2)), **PARTS}
    sizes |= {name: (pods, 1) for name, (pods, _) in GIVING_BACK.items()}
    for name, (pods, running) in sizes.items():
        until(partial(is_counted, world, name, pods, running))
    return time.monotonic()


def is_counted(world: JobSideWorld, name: str, pods: int, running: int) -> bool:
    """Return whether the unit of a Job has the right counts of its pods."""
    said = world.admissions(name).get(name, {})
    counts = tuple(said.get(each, 0) for each in ("replicas", "running", "pending"))
    return counts == (pods, running, pods - running) and world.phase(name) == "Running"


def goes_on(world: JobSideWorld, name: str) -> bool:
    """Return whether a Job runs and its eviction is not requested."""
    return (
        world.phase(name) == "Running"
        and not is_true(world.unit(name), "Evicted")
        and not world.is_suspended(name)
    )


# --- more was admitted than is needed -----------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "admitted", "demand", "running", "pending", "given_back"),
    [
        pytest.param("same", 2, 2, 1, 0, 0, id="ctl-5 as many are needed as were admitted"),
        pytest.param("live", 3, 1, 3, 0, 2, id="ctl-6 living pods stay charged"),
        pytest.param("spare", 4, 2, 1, 1, 2, id="ctl-7 two of four are not needed"),
    ],
)
def test_a_demand_below_the_admission(
    world: JobSideWorld,
    name: str,
    admitted: int,
    demand: int,
    running: int,
    pending: int,
    given_back: int,
) -> None:
    job = TfJob(world, name)
    job.submit({"Worker": admitted})
    job.admit({"worker": admitted})
    job.run({"worker": running}, {"worker": pending})
    job.scale(Worker=demand)
    reported = [{"name": "worker", "count": given_back}] if given_back else []

    def is_so() -> bool:
        status = world.unit(job.unit)["status"]
        return bool(status.get("reclaimablePods", []) == reported)

    until(is_so)
    stays(is_so)
    said = world.admissions(job.unit)["worker"]
    assert (said["replicas"], said["running"], said.get("pending", 0)) == (
        admitted,
        running,
        pending,
    )
    assert world.phase(job.unit) == "Running"


def test_ctl_8_the_reclaim_state_goes_with_the_admission(world: JobSideWorld) -> None:
    """A smaller demand does not change `reclaimState`, which is the scheduler's field."""
    world.create_job("asked", "any", run_seconds=LONG, parallelism=4, completions=8)
    asked = {"replicas": 2}
    world.admit("asked", {"asked": 4}, reclaimState={"asked": asked})
    world.await_running("asked", 4)
    until(lambda: world.phase("asked") == "Running")
    world.patch_job("asked", {"spec": {"parallelism": 2}})
    reported = [{"name": "asked", "count": 2}]
    until(lambda: world.unit("asked")["status"].get("reclaimablePods") == reported)
    said = world.admissions("asked")["asked"]
    assert (said["replicas"], said["reclaimState"]) == (4, asked)
    let_the_second_of_the_release_pass()
    world.ask_back("asked")
    until(lambda: world.phase("asked") == "Enqueued")
    assert world.admissions("asked") == {}
    assert world.living_pods("asked") == []


# --- what is reclaimed --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("nothing", id="ctl-9 nothing is reclaimed"),
        pytest.param("zero", id="ctl-33 none of them are reclaimed"),
        pytest.param("one", id="ctl-33 one of them is, and the condition counts"),
    ],
)
def test_a_job_runs_on_until_its_eviction_is_requested(
    world: JobSideWorld, begun: float, name: str
) -> None:
    """Upstream evicts by `reclaimState`; here the condition Evicted alone counts."""
    stays_since(begun, lambda: goes_on(world, name) and len(world.running_pods(name)) == 2)
    asked = world.admissions(name)[name].get("reclaimState", {}).get("replicas", 0)
    assert asked == GOING_ON[name].get("replicas", 0)
    world.ask_back(name)
    until(lambda: world.phase(name) == "Enqueued")
    assert world.is_suspended(name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("two-of-three", id="ctl-10 two of three"),
        pytest.param("three-of-four", id="ctl-11 three of four"),
    ],
)
def test_a_job_that_gives_pods_back_is_stopped_whole(
    world: JobSideWorld, begun: float, name: str
) -> None:
    """Upstream chooses the pods without a node, and the one with a node runs on."""
    pods, _ = GIVING_BACK[name]
    on_nodes = [pod for pod in world.pods(name) if pod["spec"].get("nodeName")]
    assert len(on_nodes) == 1
    stays_since(begun, lambda: goes_on(world, name) and len(world.living_pods(name)) == pods)
    world.ask_back(name)
    until(lambda: world.phase(name) == "Enqueued")
    assert world.pods(name) == []
    assert world.admissions(name) == {}
    assert world.is_suspended(name)


# --- counts -------------------------------------------------------------------------------------

PS = {"cpu": "1"}
WORKER = {"memory": "5Gi", "nvidia.com/gpu": "1"}
REQUEST = {"cpu": "1", **WORKER}
EIGHT = {"memory": "5Gi", "nvidia.com/gpu": "8"}


def two_sets(world: JobSideWorld, name: str) -> TfJob:
    """Return a TFJob of one pod of each role, both admitted."""
    job = TfJob(world, name)
    job.submit({"PS": 1, "Worker": 1}, {"PS": PS, "Worker": WORKER})
    job.admit({"ps": 1, "worker": 1}, resources={"ps": PS, "worker": WORKER})
    return job


def test_ctl_12_pods_are_counted_by_set_and_the_admission_stays(world: JobSideWorld) -> None:
    """Upstream writes usage into `spec.resource` and the admissions; here neither changes."""
    job = two_sets(world, "counted")
    job.start(requests=PS, annotations={POD_SET: "ps"})
    job.start(requests=EIGHT, annotations={POD_SET: "worker"})
    job.say("Running")
    one = {"replicas": 1, "running": 1}
    want = {"ps": {**one, "resources": PS}, "worker": {**one, "resources": WORKER}}
    until(lambda: world.admissions(job.unit) == want)
    job.patch({"metadata": {"labels": {"look": "again"}}})
    stays(lambda: world.admissions(job.unit) == want)
    unit = world.unit(job.unit)
    assert unit["spec"]["request"] == REQUEST
    assert "resource" not in unit["spec"]
    assert unit["status"]["phase"] == "Running"


def test_ctl_13_a_pod_on_a_node_that_does_not_run_yet_is_pending(world: JobSideWorld) -> None:
    """Upstream counts it as running."""
    job = TfJob(world, "on-node")
    job.submit({"PS": 1, "Worker": 2}, {"PS": PS, "Worker": WORKER})
    job.admit({"ps": 1, "worker": 2})
    [pod] = job.start(requests=PS, labels={ROLE: "ps"}, on_node=False, is_held=True)
    job.bind_without_running(pod)
    job.scale(Worker=1)  # counts alone are written after half a minute, released usage at once
    until(lambda: world.unit(job.unit)["status"].get("reclaimablePods"))
    assert world.admissions(job.unit) == {
        "ps": {"replicas": 1, "running": 0, "pending": 1},
        "worker": {"replicas": 2, "running": 0},
    }
    stays(lambda: world.phase(job.unit) == "Dequeued")
    assert world.api.request("GET", f"{PODS}/{pod}")["spec"]["nodeName"]
    assert "resource" not in world.unit(job.unit)["spec"]


def test_ctl_14_pods_that_name_no_set(world: JobSideWorld) -> None:
    """They run, and are counted for the job, but for no set."""
    job = two_sets(world, "unsaid")
    job.start(requests=PS)
    job.start(requests=EIGHT)
    job.say("Running")
    until(lambda: world.phase(job.unit) == "Running")
    none = {"replicas": 1, "running": 0}
    want = {"ps": {**none, "resources": PS}, "worker": {**none, "resources": WORKER}}
    stays(lambda: world.admissions(job.unit) == want)
    unit = world.unit(job.unit)
    assert unit["spec"]["request"] == REQUEST
    assert "resource" not in unit["spec"]


# --- partially running jobs ---------------------------------------------------------------------


def late(world: JobSideWorld, name: str) -> None:
    """Wait until a Job is evicted because only some of its pods run."""
    until(lambda: world.phase(name) == "TimeoutBackoff")
    unit = world.unit(name)
    assert condition_of(unit, "Evicted")["reason"] == "BackoffTimeout"
    assert unit["status"]["message"] == "Backoff due to partial running timeout"
    assert unit["status"]["requeueState"]["count"] == 1
    assert world.admissions(name) == {}
    assert world.pods(name) == []
    assert world.is_suspended(name)


def test_ctl_15_a_partial_run_is_not_late_at_once(world: JobSideWorld, begun: float) -> None:
    stays_since(begun, lambda: goes_on(world, "first-look"))
    said = world.admissions("first-look")["first-look"]
    assert said == {"replicas": 4, "running": 2, "pending": 2}


def test_ctl_16_a_long_partial_run_is_evicted_whole(world: JobSideWorld) -> None:
    """DECISIONS.md 37: upstream lowers the replicas to two."""
    world.create_partial_job("for-long", 4, 2, annotations=LATE)
    world.admit("for-long", {"for-long": 4})
    late(world, "for-long")


def test_ctl_17_late_only_by_a_shorter_timeout(world: JobSideWorld, begun: float) -> None:
    """The start of the partial run is recorded: a new timeout counts from there."""
    stays_since(begun, lambda: goes_on(world, "not-yet"), seconds=2.5)
    world.patch_job("not-yet", {"metadata": {"annotations": LATE}})
    late(world, "not-yet")


def test_ctl_18_once_all_pods_run_the_partial_run_is_forgotten(
    world: JobSideWorld, begun: float
) -> None:
    """One of them was missing for longer than the timeout that is set then."""
    stays_since(begun, lambda: goes_on(world, "whole"))
    [missing] = [pod for pod in world.pods("whole") if pod["status"]["phase"] == "Pending"]
    world.bind(missing["metadata"]["name"])
    world.await_running("whole", 3)
    # Controllers receive pods in order: the last one of these before that of a later job.
    world.create_job("later", "any", run_seconds=LONG)
    world.admit("later", {"later": 1})
    until(lambda: world.phase("later") == "Running")
    world.patch_job("whole", {"metadata": {"annotations": {PARTLY: "1"}}})
    until(lambda: world.admissions("whole")["whole"] == {"replicas": 3, "running": 3})
    stays(lambda: goes_on(world, "whole"))


def test_ctl_19_a_job_in_the_queue_may_not_run_at_all(world: JobSideWorld) -> None:
    """Counts of a unit that is not admitted are ignored; a job that runs so is suspended again."""
    world.create_partial_job("in-line", 4, 2, annotations={PARTLY: "1"})
    until(lambda: world.has_unit("in-line"))
    said = {"name": "in-line", "replicas": 4, "running": 2, "pending": 2}
    world.patch_unit("in-line", {"status": {"phase": "Enqueued", "admissions": [said]}})
    world.patch_job("in-line", {"spec": {"suspend": False}})
    until(lambda: "SuspendedAgain" in world.event_notes("in-line"))
    until(lambda: world.is_suspended("in-line") and not world.pods("in-line"))
    stays(lambda: world.phase("in-line") == "Enqueued", seconds=2)
    assert not is_true(world.unit("in-line"), "Evicted")


def test_ctl_20_with_the_first_pod_it_is_running_and_late_as_such(
    world: JobSideWorld, begun: float
) -> None:
    """Upstream has it Dequeued with one of four; here it is Running just after the first pod.

    DECISIONS.md 37: upstream lowers the replicas to one.
    """
    stays_since(begun, lambda: goes_on(world, "one-of-four"))
    world.patch_job("one-of-four", {"metadata": {"annotations": {PARTLY: "1"}}})
    late(world, "one-of-four")


def test_ctl_21_of_two_sets_the_incomplete_one_counts(world: JobSideWorld) -> None:
    """DECISIONS.md 37: upstream lowers that set's replicas; a job that needs both cannot run so."""
    job = TfJob(world, "one-set")
    job.submit({"PS": 4, "Worker": 3}, annotations=NEVER_LATE)
    job.admit({"ps": 4, "worker": 3})
    job.run({"ps": 4, "worker": 1}, {"worker": 2})
    said = {
        "ps": {"replicas": 4, "running": 4},
        "worker": {"replicas": 3, "running": 1, "pending": 2},
    }
    until(lambda: world.admissions(job.unit) == said)
    job.patch({"metadata": {"annotations": LATE}})
    until(lambda: is_true(world.unit(job.unit), "Evicted"))
    assert world.admissions(job.unit) == said
    until(lambda: job.body()["spec"]["runPolicy"]["suspend"])
    job.stop()
    until(lambda: world.phase(job.unit) == "TimeoutBackoff")
    assert world.admissions(job.unit) == {}


# --- activation, and the maximum execution time -------------------------------------------------


@pytest.fixture(scope="module")
def with_kueue(world: JobSideWorld) -> None:
    """Have Kueue served."""
    install_crds(world.plane, KUEUE_WORKLOADS)


@pytest.mark.usefixtures("with_kueue")
def test_ctl_34_an_unmanaged_job_runs_on_though_inactive(world: JobSideWorld) -> None:
    """There it is a kind that cannot be requeued; here every kind can be, except Kueue's jobs."""
    world.create_job("theirs", "any", run_seconds=LONG)
    world.admit("theirs", {"theirs": 1})
    until(lambda: world.phase("theirs") == "Running")
    world.patch_job("theirs", {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "theirs"}}})
    until(lambda: "NotManaged" in world.event_notes("theirs"))
    world.patch_unit("theirs", {"spec": {"active": False}})
    stays(lambda: goes_on(world, "theirs"))
    assert len(world.running_pods("theirs")) == 1


def test_ctl_34_a_job_that_cannot_be_held_is_left_alone(world: JobSideWorld) -> None:
    """It has no unit that could be inactive; an event tells its user why."""
    job = widget(world, "unreadable")
    job.create({"first": "many", "template": template(PS)}, {ACTIVE: "false"})
    job.start()
    until(lambda: "CanNotBeHeld" in world.event_notes("unreadable"))
    stays(lambda: not world.has_unit(job.unit))
    assert "suspend" not in job.body()["spec"]


@pytest.mark.usefixtures("begun")
@pytest.mark.parametrize(
    ("name", "ready", "banked", "least"),
    [
        pytest.param("never", None, None, 0, id="ctl-35 its pods were never ready"),
        pytest.param("no-more", "False", None, 0, id="ctl-35 they are no longer ready"),
        pytest.param("ten", "True", None, 10, id="ctl-35 for ten seconds"),
        pytest.param("more", "True", 100, 110, id="ctl-35 and a hundred before"),
    ],
)
def test_the_time_of_a_run_is_added_when_it_ends(
    world: JobSideWorld,
    name: str,
    ready: str | None,
    banked: int | None,
    least: int,
) -> None:
    """No feature gate disables it here."""
    job = f"banks-{name}"
    since = rfc3339(datetime.now(UTC) - timedelta(seconds=10))
    said = {"type": "PodsReady", "status": ready, "reason": "x", "message": ""}
    if banked is not None:
        before = {"status": {"accumulatedPastExecutionTimeSeconds": banked}}
        world.patch_unit(job, before)
    world.ask_back(job, *([{**said, "lastTransitionTime": since}] if ready else []))
    until(lambda: world.phase(job) == "Enqueued")
    got = world.unit(job)["status"].get("accumulatedPastExecutionTimeSeconds", 0)
    assert least <= got <= least + (PATIENCE_SECONDS if least else 0)


def test_ctl_36_the_execution_time_ends_on_time_whatever_happens_meanwhile(
    world: JobSideWorld,
) -> None:
    """Upstream shortens another step's delay; here the unit records the time of its own."""
    names = ["untouched", "touched"]
    for name in names:
        world.create_job(name, "any", run_seconds=LONG, annotations={MAX_EXEC: "2"})
        world.admit(name, {name: 1})
    touches = count()

    def are_over() -> bool:
        world.patch_job("touched", {"metadata": {"labels": {"touch": str(next(touches))}}})
        return all(world.unit(name)["spec"].get("active") is False for name in names)

    until(are_over)
    for name in names:
        until(partial(is_in_line, world, name))
        over = condition_of(world.unit(name), "MaximumExecutionTimeExceeded")
        assert over["status"] == "True"
        released = world.job(name)["metadata"]["annotations"][RELEASED_AT]
        began = datetime.fromisoformat(released).replace(microsecond=0)  # as in conditions
        lasted = datetime.fromisoformat(over["lastTransitionTime"]) - began
        assert timedelta(seconds=2) <= lasted <= timedelta(seconds=PATIENCE_SECONDS)
    assert next(touches) > 2


def is_in_line(world: JobSideWorld, name: str) -> bool:
    """Return whether the unit of a Job is released."""
    return world.phase(name) == "Enqueued"
