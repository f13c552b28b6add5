"""Jobs at which the controllers fail: they cost themselves a pause, and no other job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from queue_controllers.extensions.batch_job import BatchJobAdapter
from shared_api.fake_api_server.object_metadata import MAX_ANNOTATION_BYTES
from shared_api.well_known_labels import MARKED_UID as MARK
from shared_api.well_known_labels import SUSPEND
from shared_api.work_queue import FAILING_RETRIES

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

NOTE = "koord-queue/pod-set-updates"
DEEP = '{"a":' * 3000 + "1" + "}" * 3000


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Tracebacks that are written for a terminal take longer than all the rest."""
    with structlog.testing.capture_logs():
        yield


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of jobs at which the adapter raises; a test may change them."""
    names = {"bad"}
    real = BatchJobAdapter.pod_sets

    def pod_sets(self: BatchJobAdapter, job: Any) -> Any:
        if job.metadata.name in names:
            raise RecursionError("maximum recursion depth exceeded")
        return real(self, job)

    monkeypatch.setattr(BatchJobAdapter, "pod_sets", pod_sets)
    return names


def note_on(world: World, name: str, reason: str) -> str:
    """Return the note of the only event with this reason on a job, "" for none."""
    world.settle(2.0)
    found = [
        str(each["note"])
        for each in world.direct.list("events.events.k8s.io")
        if (each["regarding"]["name"], each["reason"]) == (name, reason)
    ]
    assert len(found) <= 1
    return "".join(found)


def failing(world: World) -> float:
    labels = {"name": "job"}
    return world.host.metrics.registry.get_sample_value("koord_queue_failing_keys", labels) or 0.0


def test_a_note_that_is_nested_too_deep_is_ignored_with_an_event(world: World) -> None:
    """Where no admission policy holds new jobs, it is created running."""
    world.start()
    world.job(suspend=False, annotations={NOTE: DEEP})
    world.settle()
    assert (world.is_suspended(), world.phase()) == (True, "Enqueued")
    assert "nested more than 64 levels" in note_on(world, "main", "IgnoredAnnotation")
    world.admit()
    world.settle()
    assert not world.is_suspended()


def test_others_are_released_at_once_beside_many_that_raise(
    world: World, poisoned: set[str]
) -> None:
    poisoned |= {f"bad-{number}" for number in range(85)}
    world.start()
    for name in sorted(poisoned):
        world.job(name)
    world.job("good")
    world.settle(0.2)
    world.admit_unit("good")
    world.settle(0.2)
    assert not world.is_suspended("good")
    assert world.units() == ["good"]


def test_a_job_that_cannot_be_judged_and_runs_nothing_is_suspended_and_told(
    world: World, poisoned: set[str]
) -> None:
    world.start()
    world.job("bad", suspend=False)
    world.settle()
    assert world.is_suspended("bad")
    note = note_on(world, "bad", "CannotBeJudged")
    assert note == (
        "The queue fails at this job, and tries again: RecursionError: maximum recursion depth"
        " exceeded. It is held until then"
    )
    poisoned.clear()
    world.settle(60.0)
    assert world.phase("bad") == "Enqueued"


@pytest.mark.usefixtures("poisoned")
def test_one_that_runs_is_left_alone_and_told(world: World) -> None:
    world.job("bad", suspend=False)
    world.run_pods(name="bad")
    world.start()
    assert not world.is_suspended("bad")
    assert "It is left alone" in note_on(world, "bad", "CannotBeJudged")
    assert world.units() == []


def test_one_that_was_admitted_is_left_alone(world: World, poisoned: set[str]) -> None:
    poisoned.clear()
    world.start()
    world.job("bad")
    world.settle()
    world.admit_unit("bad")
    world.settle()
    poisoned.add("bad")
    world.patch_job({"metadata": {"annotations": {"a": "b"}}}, "bad")
    world.settle()
    assert not world.is_suspended("bad")
    assert "It is left alone" in note_on(world, "bad", "CannotBeJudged")


@pytest.mark.usefixtures("poisoned")
def test_one_whose_pods_cannot_be_seen_runs_if_its_status_says_so(world: World) -> None:
    world.job("bad", suspend=False)
    world.patch_job_status({"active": 1, "ready": 1}, "bad")
    world.start()
    world.settle()
    assert not world.is_suspended("bad")
    assert "It is left alone" in note_on(world, "bad", "CannotBeJudged")


@pytest.mark.usefixtures("poisoned")
def test_one_without_room_for_another_annotation_is_held_without_the_mark(
    world: World,
) -> None:
    world.start()
    room = MAX_ANNOTATION_BYTES - len(f"{SUSPEND}x") - len("a")
    world.job("bad", suspend=False, annotations={SUSPEND: "x", "a": "x" * room})
    world.settle(0.1)  # it is not tried again yet
    assert world.is_suspended("bad")
    assert MARK not in world.get_job("bad")["metadata"].get("annotations", {})
    assert "It is held" in note_on(world, "bad", "CannotBeJudged")


OWNER = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "name": "set",
    "uid": "u-1",
    "controller": True,
}


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"labelled": False}, id="no queue manages it"),
        pytest.param({"owners": [OWNER]}, id="its owner manages it"),
        pytest.param({"managedBy": "kueue.x-k8s.io/multikueue"}, id="another manager does"),
    ],
)
def test_one_that_is_not_the_queues_own_is_not_touched(
    world: World, changes: dict[str, Any]
) -> None:
    world.start()
    world.job("bad", suspend=False, **changes)
    world.settle()
    assert (world.is_suspended("bad"), note_on(world, "bad", "CannotBeJudged")) == (False, "")


def test_keys_that_fail_again_and_again_are_shown_until_they_succeed(
    world: World, poisoned: set[str]
) -> None:
    world.start()
    world.job("bad")
    world.settle(60.0)
    assert failing(world) == 1
    is_ready, detail = world.host.metrics.work_queues.check_failing()
    assert (is_ready, detail) == (True, "fail again and again: job: 1")
    errors = {"name": "job"}
    value = world.host.metrics.registry.get_sample_value("koord_queue_key_errors_total", errors)
    assert (value or 0.0) >= FAILING_RETRIES
    poisoned.clear()
    world.settle(60.0)
    assert failing(world) == 0
