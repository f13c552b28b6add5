"""Jobs that do not run in time, over the fake API server: evicted, requeued, evicted again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from queue_controllers.configuration import read_configuration
from shared_api.fake_api_server.faults import EVERY_TIME, Match
from shared_api.timestamps import read_time
from tests.queue_controllers.controllers_world import pod_of
from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

OPTIONS = {"job": {"runningTimeout": "30s", "backoffTimeout": "10s"}}
LIMITED = {"job": {**OPTIONS["job"], "backoffLimit": 1}}
MARK = "koord-queue/backoff-limit-reached"
STATUS_WRITES = Match(verb="patch", plural="queueunits", subresource="status")
SPEC_WRITES = Match(verb="patch", plural="queueunits", subresource="")
HOLD = "example.com/hold"
SUSPENDED = {
    "conditions": [
        {"type": "Suspended", "status": "True", "lastTransitionTime": "2026-06-01T00:00:00Z"}
    ]
}


def test_a_late_job_is_stopped_backs_off_and_is_released_again(world: World) -> None:
    start(world)
    for turn in (1, 2, 3):
        be_late(world)
        assert world.phase() == "Dequeued", "its pods live, so it is charged"
        assert world.get_unit()["status"]["admissions"] != []
        world.end_pods()
        world.settle()
        status = world.get_unit()["status"]
        assert status["phase"] == "TimeoutBackoff"
        assert status["admissions"] == []
        assert status["requeueState"]["count"] == turn
        assert wait_of(status) == pytest.approx(10 * 2 ** (turn - 1), rel=0.1, abs=1.0)
        world.return_to_line()
        world.settle(5.0)
        assert world.phase() == "Enqueued"
        assert world.is_suspended()
    assert "Resumed" not in world.events(), "no other client has suspended it"


def test_it_is_not_released_again_while_an_old_pod_exists(world: World) -> None:
    start(world)
    be_late(world)
    held = {"metadata": {"finalizers": [HOLD]}}
    world.direct.patch("pods", "main-0", held, namespace="team")
    world.patch_pod_status("main-0", phase="Failed")
    world.end_pods()
    world.settle()
    world.return_to_line()
    world.admit()
    world.settle(5.0)
    assert world.is_suspended()
    free = {"metadata": {"finalizers": None}}
    world.direct.patch("pods", "main-0", free, namespace="team")
    world.settle()
    assert not world.is_suspended()


def test_a_run_resets_the_count(world: World) -> None:
    start(world)
    be_late(world)
    world.end_pods()
    world.settle()
    world.return_to_line()
    world.admit()
    world.settle()
    world.run_pods()
    world.settle(60.0)
    assert world.phase() == "Running"
    assert "requeueState" not in world.get_unit()["status"]
    world.complete()
    world.settle()
    assert world.phase() == "Succeed"


def test_resumed_by_hand_in_backoff_it_is_suspended_again(world: World) -> None:
    start(world)
    be_late(world)
    world.end_pods()
    world.settle()
    world.patch_job({"spec": {"suspend": False}})
    world.settle()
    assert world.is_suspended()
    assert world.phase() == "TimeoutBackoff"


def test_resumed_by_others_its_time_counts_from_the_admission(world: World) -> None:
    long_ago = {"koord-queue/released-at": "2026-01-01T00:00:00Z"}
    for name, marks in (("never", {}), ("before", long_ago)):
        world.job(name, annotations=marks)
        world.patch_job_status(SUSPENDED, name)
    world.start(configuration=read_configuration(OPTIONS, {"job"}))
    for name in ("never", "before"):
        world.admit(name)
        world.patch_job({"spec": {"suspend": False}}, name)
    world.settle(25.0)
    assert (world.is_suspended("never"), world.is_suspended("before")) == (False, False)
    world.settle(10.0)
    assert (world.is_suspended("never"), world.is_suspended("before")) == (True, True)


def test_a_job_of_pods_shorter_than_the_wait_for_the_others_is_not_late(world: World) -> None:
    start(world)
    world.admit()
    world.settle()
    world.patch_job_status({"startTime": world.now()})
    for number in range(1, 3):
        world.direct.create(pod_of(world.get_job(), "main-0"))
        world.patch_pod_status("main-0", phase="Running")
        world.patch_job_status({"active": 1})
        world.settle(0.3)
        world.direct.delete("pods", "main-0", "team")
        world.patch_job_status({"active": None, "failed": number})
        world.settle(0.3)
    assert world.phase() == "Running"
    world.settle(60.0)
    assert not world.is_suspended()


def test_the_times_of_a_job_may_be_edited_while_they_run(world: World) -> None:
    start(world)
    annotate(world, {"koord-queue/running-timeout": "1h"})
    world.admit()
    world.settle()
    world.run_pods(phase="Pending")
    world.settle(100.0)
    assert not world.is_suspended(), "the other jobs have thirty seconds"
    annotate(world, {"koord-queue/running-timeout": "110s"})
    world.settle(5.0)
    assert not world.is_suspended()
    world.settle(6.0)
    assert world.is_suspended()
    world.end_pods()
    world.settle()
    for first_wait in (100, 5):
        annotate(world, {"koord-queue/backoff-timeout": f"{first_wait}s"})
        world.settle()
        status = world.get_unit()["status"]
        assert status["requeueState"]["count"] == 1
        assert wait_of(status) == pytest.approx(first_wait, rel=0.1, abs=1.0)
    written = len(writes_to(world.server))
    world.settle(30.0)
    assert len(writes_to(world.server)) == written, "it is where it should be"


def test_a_crash_between_the_writes_of_the_limit_ends_right(world: World) -> None:
    start(world, backoffLimit=1)
    be_late(world)
    world.server.faults.fail(503, times=EVERY_TIME, match=STATUS_WRITES)
    world.end_pods()
    world.settle()
    unit = world.get_unit()
    assert (unit["spec"]["active"], unit["status"]["phase"]) == (False, "Dequeued")
    crash(world)
    status = world.get_unit()["status"]
    assert (status["phase"], status["requeueState"]) == ("Enqueued", {"count": 1})
    assert ("BackoffLimitReached", "True") in told_by(status)
    world.settle(60.0)
    assert world.get_unit()["spec"]["active"] is False
    assert world.is_suspended()


def test_a_crash_between_the_writes_of_the_way_back_ends_right(world: World) -> None:
    start(world, backoffLimit=1)
    be_late(world)
    world.end_pods()
    world.settle()
    passes = iter([False])  # the annotation's copy on the unit
    later = msgspec.structs.replace(SPEC_WRITES, when=lambda _: next(passes, True))
    world.server.faults.fail(503, times=EVERY_TIME, match=later)
    annotate(world, {"scheduling.x-k8s.io/active": "true"})
    world.settle()
    unit = world.get_unit()
    assert unit["spec"]["active"] is False
    assert "requeueState" not in unit["status"]
    crash(world)
    unit = world.get_unit()
    assert unit["spec"]["active"] is True
    assert MARK not in unit["metadata"]["annotations"]
    assert ("BackoffLimitReached", "False") in told_by(unit["status"])
    be_late(world)
    world.end_pods()
    world.settle(5.0)
    unit = world.get_unit()
    assert unit["spec"]["active"] is False, "the earlier annotation does not undo it"
    assert unit["metadata"]["annotations"][MARK] == "true"


def test_at_the_limit_the_event_says_once_what_to_do(world: World) -> None:
    start(world, backoffLimit=1)
    annotate(world, {"scheduling.x-k8s.io/active": "true"})
    be_late(world)
    world.end_pods()
    world.settle()
    conditions = world.get_unit()["status"]["conditions"]
    reserved = next(each for each in conditions if each["type"] == "QuotaReserved")
    reserved |= {"reason": "Inactive", "message": "is not active"}  # as the scheduler does
    world.patch_unit_status({"conditions": conditions})
    world.settle()
    assert world.events() == {"Evicted", "BackoffTimeout", "BackoffLimitReached"}
    notes = world.notes_on_jobs()
    assert notes["BackoffTimeout"].endswith(
        "stays suspended: that was its last try, by its backoff limit"
    )
    assert notes["BackoffLimitReached"].endswith('active: "false", then "true"')


def test_a_unit_made_active_by_hand_counts_as_well(world: World) -> None:
    start(world, backoffLimit=1)
    be_late(world)
    world.end_pods()
    world.settle()
    world.direct.patch("queueunits", "main", {"spec": {"active": True}}, namespace="team")
    world.settle(10.0)
    unit = world.get_unit()
    assert unit["spec"]["active"] is True
    assert "requeueState" not in unit["status"]
    assert MARK not in unit["metadata"]["annotations"]


def told_by(status: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the messages of conditions by type."""
    return [(each["type"], each["status"]) for each in status["conditions"]]


def crash(world: World) -> None:
    """Let another process continue where this one can no longer write."""
    world.server.faults.clear()
    world.start(configuration=read_configuration(LIMITED, {"job"}))


def annotate(world: World, annotations: dict[str, str]) -> None:
    """Annotate the job as its user does."""
    world.patch_job({"metadata": {"annotations": annotations}})


def start(world: World, **more: int) -> None:
    """Create a job in the queue."""
    options = {"job": {**OPTIONS["job"], **more}}
    world.start(configuration=read_configuration(options, {"job"}))
    world.job()
    world.settle()


def be_late(world: World) -> None:
    """Admit the job, and keep its pods pending until its time is over."""
    world.admit()
    world.settle()
    assert not world.is_suspended()
    world.run_pods(phase="Pending")
    world.settle(25.0)
    assert not world.is_suspended(), "it still has time"
    world.settle(5.0)
    assert world.is_suspended()


def wait_of(status: dict[str, Any]) -> float:
    """Return how long a unit backs off, in seconds."""
    until = read_time(status["requeueState"]["requeueAt"])
    since = read_time(status["lastUpdateTime"])
    assert until is not None
    assert since is not None
    return (until - since).total_seconds()
