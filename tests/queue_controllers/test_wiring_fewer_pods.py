"""Jobs that are admitted with fewer pods than they want, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.conftest import World

LEAST = "koord-queue/min-parallelism"
KUEUES = "kueue.x-k8s.io/job-min-parallelism"
NOTE = "koord-queue/released-parallelism"


def submit(world: World, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    """A job of ten pods that can do with three."""
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
    """(count, minCount) of the unit."""
    (found,) = world.get_unit()["spec"]["podSet"]
    return found["count"], found.get("minCount")


def parallelism(world: World) -> tuple[int, str | None]:
    """The job's, and the note about it."""
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
def test_the_unit_says_the_least(world: World, key: str) -> None:
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
    assert pod_set(world) == (10, 3), "the unit asks for all, all the time"


def test_all_that_it_does_is_told_of_the_pods_that_were_granted(world: World) -> None:
    run(world)
    world.settle(60.0)
    (admission,) = world.get_unit()["status"]["admissions"]
    assert (admission["replicas"], admission["running"]) == (4, 4)
    assert "reclaimablePods" not in world.get_unit()["status"]
    assert "Grown" not in world.events()
    world.complete()
    world.settle()
    assert world.phase() == "Succeed"


def test_it_runs_as_soon_as_all_pods_do_that_were_granted(world: World) -> None:
    submit(world)
    world.admit(replicas=4)
    world.settle()
    world.run_pods(4)
    world.settle(0.2)
    assert world.phase() == "Running", "nobody waits for the other six"


def test_what_is_granted_later_is_let_run(world: World) -> None:
    run(world)
    grant(world, 7)
    assert parallelism(world) == (7, "7/10")
    grant(world, 10)
    assert parallelism(world) == (10, None)


def test_a_job_that_is_suspended_has_its_pods_back(world: World) -> None:
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


def test_one_that_its_user_had_suspended_has_them_back_when_its_unit_is_free(world: World) -> None:
    run(world)
    world.patch_job({"spec": {"suspend": True}})
    evict(world)
    world.end_pods(4)
    world.settle()
    assert world.phase() == "Enqueued"
    assert parallelism(world) == (10, None)


def test_one_that_somebody_suspends_goes_on_with_what_it_had(world: World) -> None:
    run(world)
    world.patch_job({"spec": {"suspend": True}})
    world.settle()
    world.end_pods(4)
    world.settle(3.0)
    assert not world.is_suspended()
    assert parallelism(world) == (4, "4/10")


def test_work_that_is_done_is_given_back_of_what_was_granted(world: World) -> None:
    run(world)
    world.patch_job_status({"succeeded": 17, "active": 3, "ready": 3})
    world.settle()
    assert world.get_unit()["status"]["reclaimablePods"] == [{"name": "main", "count": 1}]
    assert parallelism(world) == (4, "4/10")


def test_whoever_edits_the_parallelism_takes_it_over(world: World) -> None:
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
    assert pod_set(world) == (6, 3), "that is what it asks for when it waits again"


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
def test_a_least_that_can_not_be_is_ignored_and_told(world: World, text: str, why: str) -> None:
    submit(world, {LEAST: text})
    assert pod_set(world) == (10, None)
    note = world.notes_on_jobs()["IgnoredAnnotation"]
    assert note.startswith(f"Annotation {LEAST} is ignored: '{text}' {why}")


@pytest.mark.parametrize(
    ("annotations", "replicas"), [({LEAST: "5"}, 4), ({}, 4)], ids=["below its least", "without"]
)
def test_with_fewer_than_it_can_do_with_it_is_not_resumed(
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


def test_a_minimum_that_was_taken_off_after_the_admission_does_not_count(world: World) -> None:
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
