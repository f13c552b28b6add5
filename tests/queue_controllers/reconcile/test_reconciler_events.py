"""The events that the user of a job reads, over the fake API server, in all situations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

ACTIVE = "scheduling.x-k8s.io/active"


def test_a_job_that_is_held_admitted_and_ended_costs_no_event(world: World) -> None:
    world.run_a_job(suspend=False)
    world.complete()
    world.settle()
    assert world.phase() == "Succeed"
    assert world.notes_on_jobs() == {}


def test_all_that_is_done_to_a_job_against_its_user_is_reported_with_the_remedy(
    world: World,
) -> None:
    world.start()
    world.job()
    world.settle()
    world.patch_job({"spec": {"suspend": False}})
    world.settle()
    world.admit()
    world.settle()
    world.run_pods()
    world.settle()
    asked = {
        "type": "Evicted",
        "status": "True",
        "reason": "Preempted",
        "message": "for team/urgent",
    }
    world.patch_unit_status({"conditions": [{**asked, "lastTransitionTime": world.now()}]})
    world.settle()
    world.end_pods()
    world.settle()
    assert world.notes_on_jobs() == {
        "SuspendedAgain": (
            "Suspended again: queue gold has not admitted it yet."
            " When it is its turn, the queue resumes it"
        ),
        "Preempted": (
            "Evicted: for team/urgent. It keeps its quota until its pods are gone,"
            " then it waits in the queue again"
        ),
    }


def test_an_adopted_job_that_grows_reports_what_it_is_charged_to(world: World) -> None:
    world.job(suspend=False, completions=10)
    world.run_pods()
    world.start()
    world.patch_job({"spec": {"parallelism": 4}})
    world.settle(5.0)
    assert world.notes_on_jobs() == {
        "Adopted": "It already ran when it was first seen: it goes on, charged to quota gold",
        "Grown": (
            "It has grown beyond its admission: its new pods count at once, and are granted when"
            " its quota has room for them; until then they run as far as koord-scheduler lets them"
        ),
    }


def test_a_job_that_others_suspend_and_resume_reports_how_to_stop_it(world: World) -> None:
    world.run_a_job()
    world.clock.advance(5.0)
    world.patch_job({"spec": {"suspend": True}})
    world.settle()
    world.end_pods()
    world.settle()
    world.patch_job({"metadata": {"annotations": {ACTIVE: "false"}}})
    world.settle()
    got = world.notes_on_jobs()
    assert got.keys() == {"Resumed", "Deactivated"}
    assert all(ACTIVE in note for note in got.values())


def test_a_job_that_an_old_pod_keeps_from_its_release_reports_it(
    world: World,
) -> None:
    world.run_a_job()
    held = {"metadata": {"finalizers": ["example.com/node-lost"]}}
    world.direct.patch("pods", "main-0", held, namespace="team")
    world.clock.advance(5.0)
    world.patch_job({"spec": {"suspend": True}})
    world.end_pods()
    world.settle(55.0)
    assert world.notes_on_jobs() == {}
    world.settle(60.0)
    assert world.notes_on_jobs() == {
        "OldPodsLeft": (
            "It is admitted, and resumed when the pods of its earlier run are gone:"
            " 1 of them live, 1 are being deleted."
            " One whose node is lost must be deleted by force"
        )
    }
    free = {"metadata": {"finalizers": None}}
    world.direct.patch("pods", "main-0", free, namespace="team")
    world.settle()
    assert not world.is_suspended()
