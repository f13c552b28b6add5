"""Upstream's tests of units' demands, and of which pod belongs to which set, on a real API server.

Ids stand for tests of upstream's (upstream/README.md). The scheduler of queue units is played.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.cluster.api_audit import CONTROLLERS_AGENT
from tests.cluster.job_side_world import (
    LONG,
    POD_SET,
    ROLE,
    JobSideWorld,
    Json,
    TfJob,
    job_side_world,
    template,
    widget,
)
from tests.cluster.queue_world import JOBS, MERGE, PODS, QUOTA_LABEL, running_of
from tests.controlplane.api_client import ApiError
from tests.object_states import is_true
from tests.waiting import stays, until

CPU = {"cpu": "1"}
PRIORITY = "scheduling.x-k8s.io/priority"
CLASSES = {"low": 10, "twin": 10, "high": 20, "five": 5}
GATE = "koord-queue/admission"
QUEUE = "koord-queue/queue-name"


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[JobSideWorld]:
    with job_side_world(controlplane_binaries) as world:
        yield world


# --- pod sets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "before", "change", "want"),
    [
        pytest.param(
            "same",
            {"PS": 2, "Worker": 3},
            {},
            [("ps", 2), ("worker", 3)],
            id="ctl-1 no change: nothing is written",
        ),
        pytest.param(
            "more",
            {"PS": 2, "Worker": 3},
            {"PS": {"replicas": 4}},
            [("ps", 4), ("worker", 3)],
            id="ctl-2 another count",
        ),
        pytest.param(
            "another",
            {"PS": 2},
            {"Worker": {"replicas": 3, "template": template(CPU)}},
            [("ps", 2), ("worker", 3)],
            id="ctl-3 another set is appended",
        ),
        pytest.param(
            "gone",
            {"PS": 2, "Worker": 3},
            {"Worker": None},
            [("ps", 2)],
            id="ctl-4 a set is removed",
        ),
    ],
)
def test_pod_sets_follow(
    world: JobSideWorld,
    name: str,
    before: Mapping[str, int],
    change: Json,
    want: list[tuple[str, int]],
) -> None:
    job = TfJob(world, f"sets-{name}")
    job.submit(before)
    until(lambda: world.has_unit(job.unit))
    said = [(role.lower(), count) for role, count in before.items()]
    assert world.counts(job.unit) == said
    is_written = writes_spec_after(job, {"spec": {"tfReplicaSpecs": change}})
    assert world.counts(job.unit) == want
    assert is_written is bool(change)


def writes_spec_after(job: TfJob, change: Json) -> bool:
    """Change a job and a label of it; return whether its unit's spec is written.

    The label is written in the same request; the audit log has requests that change nothing, too.
    """
    job.patch({**change, "metadata": {"labels": {"look": "again"}, **change.get("metadata", {})}})
    until(lambda: job.world.unit(job.unit)["metadata"]["labels"].get("look") == "again")

    def patches() -> list[Json]:
        written = job.world.audit.accepted(CONTROLLERS_AGENT, job.unit)
        return [each.body for each in written if each.verb == "patch"]

    return any("spec" in body for body in until(patches))


# --- priority -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def classes(world: JobSideWorld) -> None:
    """Priority classes that the controllers have seen."""
    for name, value in CLASSES.items():
        world.create_priority_class(name, value)
    last = {"priorityClassName": "five"}
    world.create_job("classes", "any", pod_spec=last)
    until(lambda: world.has_unit("classes") and priority_of(world, "classes") == (5, "five"))


@pytest.mark.usefixtures("classes")
@pytest.mark.parametrize(
    ("name", "before", "change", "annotation", "want"),
    [
        pytest.param("22", "high", "high", None, (20, "high"), id="ctl-22 the same"),
        pytest.param("23", "low", "high", None, (20, "high"), id="ctl-23 another class"),
        pytest.param("24", "low", "high", "99", (99, "high"), id="ctl-24 the annotation wins"),
        pytest.param("25", "", "", None, (0, ""), id="ctl-25 no class before or after"),
        pytest.param("26", "low", "twin", None, (10, "twin"), id="ctl-26 another class alone"),
        pytest.param("27", "", "five", None, (5, "five"), id="ctl-27 a first class"),
        pytest.param("28", "five", "", None, (0, ""), id="ctl-28 the class is removed"),
    ],
)
def test_priority_follows(
    world: JobSideWorld,
    name: str,
    before: str,
    change: str,
    annotation: str | None,
    want: tuple[int, str],
) -> None:
    job = TfJob(world, f"priority-{name}")
    job.submit({"PS": 1}, priorityClassName=before)
    until(lambda: world.has_unit(job.unit))
    assert priority_of(world, job.unit) == (CLASSES.get(before, 0), before)
    spec = {"template": {"spec": {"priorityClassName": change or None}}}
    annotations = {"metadata": {"annotations": {PRIORITY: annotation}}} if annotation else {}
    roles = {"tfReplicaSpecs": {"PS": spec}}
    is_written = writes_spec_after(job, {"spec": roles, **annotations})
    assert priority_of(world, job.unit) == want
    assert is_written is (before != change)


def priority_of(world: JobSideWorld, unit: str) -> tuple[int, str]:
    """Return the priority of a unit, and its class."""
    spec = world.unit(unit)["spec"]
    return spec["priority"], spec.get("priorityClassName", "")


# --- failed indexes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "completions", "needed"),
    [
        pytest.param("none", "", 5, 5, id="ctl-42 none"),
        pytest.param("four", "31,34,61,62", 78, 74, id="ctl-42 one by one"),
        pytest.param("range", "1,3-5,7", 10, 5, id="ctl-42 a range among them"),
    ],
)
def test_no_pod_is_requested_for_a_failed_index(
    world: JobSideWorld, name: str, text: str, completions: int, needed: int
) -> None:
    job = create_indexed(world, name, completions)
    say_failed(world, job, text)
    until(lambda: world.counts(job) == [(job, needed)])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("word", "x", id="ctl-42 not a number"),
        pytest.param("back", "5-3", id="ctl-42 a reversed range"),
        pytest.param("twice", "1-3,3-5", id="ctl-42 ranges that overlap"),
        pytest.param("order", "4,2", id="ctl-42 out of order"),
        pytest.param("beyond", "10", id="ctl-42 beyond the last"),
    ],
)
def test_the_server_refuses_lists_that_cannot_be_parsed(
    world: JobSideWorld, name: str, text: str
) -> None:
    """So none reaches the controllers, which would read it as empty."""
    job = create_indexed(world, name, 10)
    with pytest.raises(ApiError) as refused:
        say_failed(world, job, text)
    assert refused.value.status == HTTPStatus.UNPROCESSABLE_ENTITY
    world.patch_job(job, {"metadata": {"labels": {"look": "again"}}})
    until(lambda: world.unit(job)["metadata"]["labels"].get("look") == "again")
    assert world.counts(job) == [(job, 10)]


def create_indexed(world: JobSideWorld, name: str, completions: int) -> str:
    """Create a suspended Job of this many indexes, and wait for its unit; return its name."""
    job = f"failed-{name}"
    world.create_job(
        job,
        "any",
        parallelism=completions,
        completions=completions,
        completionMode="Indexed",
        backoffLimitPerIndex=0,
    )
    until(lambda: world.has_unit(job))
    assert world.counts(job) == [(job, completions)]
    return job


def say_failed(world: JobSideWorld, job: str, text: str) -> None:
    """Set the failed indexes, as the Job controller does."""
    path = f"{JOBS.format('default')}/{job}/status"
    world.api.request("PATCH", path, {"status": {"failedIndexes": text}}, content_type=MERGE)


# --- which pod belongs to which set -------------------------------------------------------------


def test_ctl_60_a_pods_annotation_precedes_the_rule_of_its_kind(
    world: JobSideWorld,
) -> None:
    job = TfJob(world, "whose")
    job.submit({"PS": 3, "Worker": 3})
    job.admit({"ps": 3, "worker": 3})
    job.start(1, labels={ROLE: "ps"})
    job.start(2, labels={ROLE: "ps"}, annotations={POD_SET: "worker"})
    job.say("Running")
    until(lambda: running_of(world.unit(job.unit)) == {"ps": 1, "worker": 2})


def test_ctl_60_where_the_kind_has_no_rule_the_annotation_counts(world: JobSideWorld) -> None:
    """The controllers report no pods of a unit without a job."""
    job = widget(world, "unsaid")
    job.create({"suspend": True, "first": 2, "second": 2, "template": template(CPU)})
    world.admit(job.unit, {"ps-1": 2, "ps-2": 2})
    until(lambda: job.body()["spec"]["suspend"] is False)
    job.start(2)
    job.start(1, annotations={POD_SET: "ps-2"})
    job.start(1, annotations={POD_SET: "ps-9"})
    until(lambda: world.phase(job.unit) == "Running")
    until(lambda: running_of(world.unit(job.unit)) == {"ps-1": 0, "ps-2": 1})
    stays(lambda: running_of(world.unit(job.unit)) == {"ps-1": 0, "ps-2": 1})


# --- gates --------------------------------------------------------------------------------------


def test_ctl_61_as_many_start_as_are_granted_and_no_gate_returns(world: JobSideWorld) -> None:
    """Upstream sets the gate of one of the second set again, which an API server forbids."""
    for number, cpu in enumerate(("1", "2", "2")):
        create_member(world, f"gates-{number}", cpu)
    unit = "gates-pg-qu"
    until(lambda: world.has_unit(unit))
    sets = {
        each["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]: each["name"]
        for each in world.unit(unit)["spec"]["podSet"]
    }
    one, two = sets["1"], sets["2"]
    world.admit(unit, {one: 1, two: 2})
    until(lambda: opened(world) == {"1": 1, "2": 2})
    until(lambda: running_of(world.unit(unit)) == {one: 1, two: 2})
    first = open_names(world)
    create_member(world, "gates-more-one", "1")
    create_member(world, "gates-more-two", "2")
    until(lambda: dict(world.counts(unit)) == {one: 2, two: 3})
    stays(lambda: open_names(world) == first)
    admissions = [
        {"name": one, "replicas": 2, "running": 1},
        {"name": two, "replicas": 1, "running": 2},
    ]
    world.patch_unit(unit, {"status": {"admissions": admissions}})
    until(lambda: open_names(world) != first)
    stays(lambda: open_names(world) == first | {"gates-more-one"})


def create_member(world: JobSideWorld, name: str, cpu: str) -> None:
    """Create a pod of a group of three, or more, behind its gate."""
    body = template({"cpu": cpu}, schedulingGates=[{"name": GATE}])
    body["metadata"] = {
        "name": name,
        "labels": {QUEUE: "any", QUOTA_LABEL: "any", "kueue.x-k8s.io/pod-group-name": "gates"},
        "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"},
    }
    world.api.request("POST", PODS, body)


def members(world: JobSideWorld) -> list[Json]:
    """Return the pods of the group whose gates are open."""
    path = f"{PODS}?labelSelector=kueue.x-k8s.io%2Fpod-group-name%3Dgates"
    pods = world.api.request("GET", path)["items"]
    return [pod for pod in pods if not pod["spec"].get("schedulingGates")]


def open_names(world: JobSideWorld) -> set[str]:
    """Return the names of those pods."""
    return {pod["metadata"]["name"] for pod in members(world)}


def opened(world: JobSideWorld) -> dict[str, int]:
    """Return how many of those pods request this many CPUs."""
    cpus = [pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in members(world)]
    return {cpu: cpus.count(cpu) for cpu in sorted(set(cpus))}


# --- jobs that have started ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def started(world: JobSideWorld) -> None:
    """Jobs that run before the controllers first see them."""
    world.stop_controllers()
    released = {"koord-queue/released-at": "2026-11-01T10:00:00Z"}
    world.create_job("started-unmarked", "", run_seconds=LONG, suspend=False)
    world.create_job("started-marked", "any", run_seconds=LONG, suspend=False)
    world.create_job("started-released", "", run_seconds=LONG, annotations=released, suspend=False)
    for name in STARTED:
        until(partial(world.running_pods, name))
    world.run_controllers()


STARTED = ("started-unmarked", "started-marked", "started-released")


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("started-marked", id="ctl-46 marked by its quota"),
        pytest.param("started-released", id="ctl-46 marked by its release"),
    ],
)
def test_a_started_job_that_is_marked_is_managed(world: JobSideWorld, name: str) -> None:
    """Upstream's mark is an annotation that stays when a Job was queued."""
    until(lambda: world.has_unit(name) and world.phase(name) == "Running")
    assert is_true(world.unit(name), "Adopted")
    assert not world.is_suspended(name)


@pytest.mark.usefixtures("started")
def test_ctl_46_one_that_is_not_marked_is_managed_only_if_all_are(world: JobSideWorld) -> None:
    name = "started-unmarked"
    stays(lambda: not world.has_unit(name))
    world.stop_controllers()
    world.run_controllers("--manage-all-jobs")
    until(lambda: world.has_unit(name) and world.phase(name) == "Running")
    assert not world.is_suspended(name)
    assert len(world.running_pods(name)) == 1
