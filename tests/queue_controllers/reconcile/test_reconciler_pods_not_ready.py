"""Released jobs that get no pods, or whose pods have no node, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queue_controllers.configuration import read_configuration
from queue_controllers.watches.event_lookup import NOT_TO_BE_READ
from shared_api.fake_api_server.faults import EVERY_TIME, Match
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import QUOTA_NAME as QUOTA
from tests.queue_controllers.controllers_world import pod_of

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

LISTS = Match(verb="list", plural="events")
WHY = 'Error creating: pods "main-" is forbidden: serviceaccount "x" not found'
SHOWN = f"No pod of it exists: FailedCreate: {WHY}"
ON_TIME = {"job": {"podCreationTimeout": "100s", "backoffTimeout": "10s"}}


def refuse_pods(world: World, message: str = WHY, **changes: Any) -> None:
    """Create an event on the job, as its own controller does."""
    job = world.get_job()["metadata"]
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "main.", "namespace": "team"},
        "involvedObject": {"kind": "Job", "name": "main", "namespace": "team", "uid": job["uid"]},
        "reason": "FailedCreate",
        "type": "Warning",
        "message": message,
        "lastTimestamp": rfc3339(world.clock.now()),
        "reportingComponent": "job-controller",
        **changes,
    }
    world.direct.create(body)


def release(world: World, options: dict[str, Any] | None = None, **changes: Any) -> None:
    configuration = read_configuration(options, {"job"}) if options else None
    world.start(configuration=configuration)
    world.job(**changes)
    world.settle()
    world.admit()
    world.settle()
    assert not world.is_suspended()


def said(world: World) -> tuple[str, str, str]:
    """Return status, reason and message of the condition, "" for none."""
    conditions = world.get_unit()["status"].get("conditions", [])
    found = (each for each in conditions if each["type"] == "PodsReady")
    one = next(found, {"status": "", "reason": "", "message": ""})
    return one["status"], one["reason"], one["message"]


def run_pods(world: World) -> None:
    """Run the existing pods."""
    bound = [{"type": "PodScheduled", "status": "True"}]
    for name in ("main-0", "main-1"):
        world.patch_pod_status(name, phase="Running", conditions=bound)


def lists(world: World) -> int:
    return sum(
        entry.info.verb == "list" and entry.info.plural == "events"
        for entry in world.server.journal
    )


def test_a_job_without_pods_reports_why_after_seconds(world: World) -> None:
    release(world)
    refuse_pods(world)
    world.settle(7.0)
    assert said(world) == ("", "", "")
    world.settle(4.0)
    status, reason, message = said(world)
    assert (status, reason) == ("False", "NoPods")
    assert message == f"{SHOWN}. If none comes within 300 s, it gives its quota back"
    assert lists(world) == 1


def test_our_own_events_and_those_of_an_earlier_run_do_not_count(world: World) -> None:
    world.start()
    world.job()
    refuse_pods(world, "of an earlier run")
    world.settle(100.0)
    world.admit()
    world.settle()
    refuse_pods(world, "ours", reportingComponent="koord-queue/koord-queue-controllers")
    refuse_pods(world, "no warning", type="Normal")
    world.settle(12.0)
    assert said(world)[2].startswith("No pod of it exists: no event of it says why")


def test_events_of_the_reconcile_that_looks_up_the_reason_come_with_the_next(world: World) -> None:
    release(world)
    refuse_pods(world)
    world.patch_job({"metadata": {"labels": {QUOTA: "silver"}}})
    world.clock.advance(12.0)
    world.settle(1.0)
    assert said(world)[1] == "NoPods"
    assert world.notes_on_jobs()["LabelChangeIgnored"].startswith("It names quota silver")


def test_events_that_may_not_be_read_are_reported(world: World) -> None:
    release(world)
    world.server.faults.fail(403, times=EVERY_TIME, match=LISTS)
    world.settle(12.0)
    assert said(world)[2].startswith(f"No pod of it exists: {NOT_TO_BE_READ}")
    world.settle(30.0)
    assert lists(world) == 1


def test_late_pods_withdraw_it_with_one_write(world: World) -> None:
    release(world)
    refuse_pods(world)
    world.settle(12.0)
    world.run_pods(phase="Pending")
    world.settle(2.0)
    assert said(world) == ("False", "PodsPending", "Pods of the job do not run yet")
    run_pods(world)
    world.settle(2.0)
    assert said(world)[:2] == ("True", "PodsRunning")


def test_a_job_without_pods_is_evicted_in_time_also_across_a_restart(
    world: World,
) -> None:
    """A restart in between neither loses nor renews the time, and needs no lookup again."""
    release(world, ON_TIME)
    refuse_pods(world)
    world.settle(50.0)
    assert said(world)[1] == "NoPods"
    world.start(configuration=read_configuration(ON_TIME, {"job"}))
    world.settle(45.0)
    assert world.phase() == "Dequeued"
    world.settle(10.0)
    assert world.is_suspended()
    world.end_pods(0)
    world.settle(2.0)
    assert world.phase() == "TimeoutBackoff"
    assert said(world)[:2] == ("False", "BackoffTimeout")
    note = world.notes_on_jobs()["BackoffTimeout"]
    assert f"no pod of it exists 100 s after its release: FailedCreate: {WHY}" in note
    assert lists(world) == 1
    world.return_to_line()
    world.settle()
    world.admit()
    world.settle(12.0)
    assert said(world)[1] == "NoPods"
    assert lists(world) == 2


def test_pods_that_existed_and_are_gone_restart_the_time(world: World) -> None:
    release(world, ON_TIME)
    world.run_pods(phase="Pending")
    world.settle(120.0)
    for number in range(2):
        world.direct.delete("pods", f"main-{number}", "team")
    world.patch_job_status({"active": None, "ready": None})
    world.settle(90.0)
    assert (world.phase(), said(world)[1]) == ("Dequeued", "NoPods")
    world.settle(15.0)
    assert world.is_suspended()


def test_a_unit_that_its_queue_waits_for_still_reports_that(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    waits = "queue gold waits until its pods run"
    condition = {
        "type": "PodsReady",
        "status": "False",
        "reason": "WaitForPodsRunning",
        "message": waits,
        "lastTransitionTime": world.now(),
    }
    world.patch_unit_status({"conditions": [condition]})
    world.admit()
    world.settle(15.0)
    status, reason, message = said(world)
    assert (status, reason) == ("False", "WaitForPodsRunning")
    assert message.startswith(f"{waits}; No pod of it exists: ")
    world.run_pods(phase="Pending")
    world.settle(2.0)
    assert said(world) == ("False", "WaitForPodsRunning", waits)


REFUSED = "0/3 nodes are available: Insufficient quotas, quotaName: gold, used: {cpu: 3}."


def refuse_node(world: World, message: str, since: str) -> None:
    """Report the scheduler's message on a job's second pod."""
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    said |= {"message": message, "lastTransitionTime": since}
    world.patch_pod_status("main-1", conditions=[said])


def refusals(world: World) -> list[str]:
    """Return the events about it on the job."""
    world.settle(2.0)
    events = world.direct.list("events.events.k8s.io", "team")
    return [each["note"] for each in events if each["reason"] == "PodsUnschedulable"]


def test_a_pod_without_a_node_is_reported_after_a_while_and_withdrawn(world: World) -> None:
    release(world)
    world.run_pods(phase="Pending")
    world.settle(2.0)
    looks, since = world.looks(), world.now()
    for number in range(20):
        refuse_node(world, f"{REFUSED} {number}", since)
        world.settle(1.0)
    assert world.looks() == looks, "no reconcile until it has lasted"
    world.settle(35.0)
    assert said(world) == ("", "", "")
    world.settle(10.0)
    status, reason, message = said(world)
    assert (status, reason) == ("False", "PodsUnschedulable")
    assert message.startswith(
        "For more than a minute pods of it are refused by their quota: Insufficient quotas, "
    )
    version = world.get_unit()["metadata"]["resourceVersion"]
    refuse_node(world, f"{REFUSED} again", since)
    world.settle(20.0)
    assert said(world)[2] == message, "changed numbers are not written"
    assert refusals(world) == [message]
    world.start()
    world.settle(70.0)
    assert refusals(world) == [message], "a restart does not repeat it"
    assert int(world.get_unit()["metadata"]["resourceVersion"]) - int(version) <= 1
    world.patch_pod_status("main-1", conditions=[{"type": "PodScheduled", "status": "True"}])
    world.settle(2.0)
    assert said(world)[:2] == ("False", "PodsPending")


def test_the_clock_of_a_running_job_goes_on_while_a_pod_has_no_node(world: World) -> None:
    world.run_a_job()
    world.direct.delete("pods", "main-1", "team")
    world.direct.create(pod_of(world.get_job(), "main-1"))
    refuse_node(world, "0/3 nodes are available: 3 Insufficient cpu.", world.now())
    world.settle(65.0)
    status, reason, message = said(world)
    assert (status, reason) == ("True", "PodsUnschedulable")
    assert message.startswith("For more than a minute pods of it fit no node: 0/3 nodes are")
    run_pods(world)
    world.settle(2.0)
    assert said(world) == ("True", "PodsRunning", "Pods of the job run")
