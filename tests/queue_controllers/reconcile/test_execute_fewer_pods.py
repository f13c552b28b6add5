"""Partially admitted jobs, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

LEAST = "koord-queue/min-parallelism"
KUEUES = "kueue.x-k8s.io/job-min-parallelism"
NOTE = "koord-queue/released-parallelism"


def submit(world: World, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    """Create a job of ten pods that needs three at least."""
    world.start()
    said = {LEAST: "3"} if annotations is None else annotations
    world.job(annotations=said, **{"parallelism": 10, "completions": 20, **spec})
    world.settle()


def run(world: World, replicas: int = 4, **spec: Any) -> None:
    submit(world, **spec)
    world.admit(replicas=replicas)
    world.settle()
    world.run_pods(replicas)
    world.settle()
    assert world.phase() == "Running"


def pod_set(world: World) -> tuple[int, int | None]:
    """Return (count, minCount) of the unit."""
    (found,) = world.get_unit()["spec"]["podSet"]
    return found["count"], found.get("minCount")


def parallelism(world: World) -> tuple[int, str | None]:
    """Return the job's parallelism, and the note about it."""
    job = world.get_job()
    return job["spec"]["parallelism"], job["metadata"]["annotations"].get(NOTE)


def grant(world: World, replicas: int) -> None:
    (admission,) = world.get_unit()["status"]["admissions"]
    world.patch_unit_status({"admissions": [{**admission, "replicas": replicas}]})
    world.settle()


def evict(world: World) -> None:
    asked = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "x"}
    world.patch_unit_status({"conditions": [{**asked, "lastTransitionTime": world.now()}]})
    world.settle()


@pytest.mark.parametrize("key", [LEAST, KUEUES, "kube-queue/min-parallelism"])
def test_the_unit_has_the_minimum(world: World, key: str) -> None:
    submit(world, {key: "3"})
    assert pod_set(world) == (10, 3)


def test_it_is_released_with_what_was_granted_in_one_write(world: World) -> None:
    submit(world)
    world.admit(replicas=4)
    before = len(writes_to(world.server))
    world.settle()
    assert writes_to(world.server)[before:] == ["patch jobs"]
    assert not world.is_suspended()
    assert parallelism(world) == (4, "4/10")
    assert world.get_job()["spec"]["completions"] == 20
    assert pod_set(world) == (10, 3), "the unit always requests all"


def test_all_reports_count_the_granted_pods(world: World) -> None:
    run(world)
    world.settle(60.0)
    (admission,) = world.get_unit()["status"]["admissions"]
    assert (admission["replicas"], admission["running"]) == (4, 4)
    assert "reclaimablePods" not in world.get_unit()["status"]
    assert "Grown" not in world.events()
    world.complete()
    world.settle()
    assert world.phase() == "Succeed"


def test_it_is_running_when_all_granted_pods_run(world: World) -> None:
    submit(world)
    world.admit(replicas=4)
    world.settle()
    world.run_pods(4)
    world.settle(0.2)
    assert world.phase() == "Running", "the other six are not waited for"


def test_pods_granted_later_are_started(world: World) -> None:
    run(world)
    grant(world, 7)
    assert parallelism(world) == (7, "7/10")
    grant(world, 10)
    assert parallelism(world) == (10, None)


def test_a_suspended_job_has_its_parallelism_back(world: World) -> None:
    run(world)
    evict(world)
    assert world.is_suspended()
    assert parallelism(world) == (10, None)
    world.end_pods(4)
    world.settle()
    assert world.phase() == "Enqueued"
    assert pod_set(world) == (10, 3)
    world.admit(replicas=10)
    world.settle(3.0)
    assert not world.is_suspended()
    assert parallelism(world) == (10, None)


def test_one_suspended_by_its_user_has_it_back_when_its_unit_is_released(world: World) -> None:
    run(world)
    world.patch_job({"spec": {"suspend": True}})
    evict(world)
    world.end_pods(4)
    world.settle()
    assert world.phase() == "Enqueued"
    assert parallelism(world) == (10, None)


def test_one_that_others_suspend_continues_with_its_granted_pods(world: World) -> None:
    run(world)
    world.patch_job({"spec": {"suspend": True}})
    world.settle()
    world.end_pods(4)
    world.settle(3.0)
    assert not world.is_suspended()
    assert parallelism(world) == (4, "4/10")


def test_finished_work_is_released_from_the_granted_pods(world: World) -> None:
    run(world)
    world.patch_job_status({"succeeded": 17, "active": 3, "ready": 3})
    world.settle()
    assert world.get_unit()["status"]["reclaimablePods"] == [{"name": "main", "count": 1}]
    assert parallelism(world) == (4, "4/10")


def test_an_edited_parallelism_counts_from_then_on(world: World) -> None:
    run(world)
    world.patch_job({"spec": {"parallelism": 6}})
    world.settle()
    assert parallelism(world)[0] == 6
    grant(world, 10)
    assert parallelism(world)[0] == 6
    evict(world)
    assert parallelism(world)[0] == 6
    world.end_pods(4)
    world.settle()
    assert pod_set(world) == (6, 3), "that is its demand when it is requeued"


def test_scaled_beyond_what_it_wanted_it_has_grown(world: World) -> None:
    run(world)
    world.patch_job({"spec": {"parallelism": 12}})
    world.settle()
    assert pod_set(world) == (12, 3)
    assert "Grown" in world.events()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0", "is not a whole number from 1 on"),
        ("half", "is not a whole number from 1 on"),
        ("11", "is not at most its parallelism, 10"),
    ],
)
def test_an_invalid_minimum_is_ignored_and_reported(world: World, text: str, why: str) -> None:
    submit(world, {LEAST: text})
    assert pod_set(world) == (10, None)
    note = world.notes_on_jobs()["IgnoredAnnotation"]
    assert note.startswith(f"Annotation {LEAST} is ignored: '{text}' {why}")


@pytest.mark.parametrize(
    ("annotations", "replicas"), [({LEAST: "5"}, 4), ({}, 4)], ids=["below its minimum", "without"]
)
def test_with_fewer_than_its_minimum_it_is_not_resumed(
    world: World, annotations: dict[str, str], replicas: int
) -> None:
    submit(world, annotations)
    world.admit(replicas=replicas)
    world.settle()
    assert world.is_suspended()
    assert "PartialAdmission" in world.events()
    world.settle(40.0)
    assert world.phase() == "Dequeued"
    world.settle(30.0)
    assert (world.phase(), world.is_suspended()) == ("Enqueued", True)
    assert "JobChanged" in world.events()


def test_a_minimum_removed_after_the_admission_does_not_count(world: World) -> None:
    submit(world)
    world.admit(replicas=4)
    world.patch_job({"metadata": {"annotations": {LEAST: None}}})
    world.settle()
    assert world.is_suspended()
    world.settle(70.0)
    assert (world.phase(), world.is_suspended()) == ("Enqueued", True)
    assert pod_set(world) == (10, None)


def test_a_minimum_that_was_edited_into_the_unit_does_not_count(world: World) -> None:
    submit(world, {})
    (found,) = world.get_unit()["spec"]["podSet"]
    edited = {"spec": {"podSet": [{**found, "minCount": 4}]}}
    world.direct.patch("queueunits", "main", edited, namespace="team")
    world.admit(replicas=4)
    world.settle()
    assert world.is_suspended()
    world.settle(70.0)
    assert (world.phase(), world.is_suspended()) == ("Enqueued", True)
    assert pod_set(world) == (10, None)


def test_an_indexed_job_keeps_its_completions(world: World) -> None:
    submit(world, completionMode="Indexed")
    world.admit(replicas=4)
    world.settle()
    assert parallelism(world) == (4, "4/10")
    assert world.get_job()["spec"]["completions"] == 20
