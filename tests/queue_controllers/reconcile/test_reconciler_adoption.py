"""Jobs that run before they have a unit, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared_api.testing.object_builders import elastic_quota_body
from tests.queue_controllers.controllers_world import make_unit, pod_of

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World


def is_proved(unit: dict[str, Any]) -> bool:
    """Return whether a unit's status proves that its job ran before, with the admissions."""
    status = unit.get("status", {})
    shown = {each["type"]: each["status"] for each in status.get("conditions", ())}
    return shown.get("Adopted") == "True" and bool(status["admissions"] and status["placement"])


def test_a_job_that_runs_when_first_seen_is_adopted(world: World) -> None:
    world.job(suspend=False)
    world.run_pods()
    world.start()
    assert not world.is_suspended()
    assert is_proved(world.get_unit())
    assert world.phase() == "Running"
    assert "Adopted" in world.events()


def test_with_adopt_never_it_is_suspended(world: World) -> None:
    world.job(suspend=False)
    world.run_pods()
    world.start("--adopt=never")
    assert world.is_suspended()
    assert not is_proved(world.get_unit())


def test_an_unmanaged_job_that_becomes_managed_while_it_runs_is_adopted(world: World) -> None:
    world.start()
    world.job(suspend=False, labelled=False)
    world.run_pods()
    world.settle()
    assert world.units() == []
    world.patch_job({"metadata": {"labels": {"quota.scheduling.koordinator.sh/name": "gold"}}})
    world.settle()
    assert not world.is_suspended()
    assert world.phase() == "Running"


def label(world: World) -> None:
    world.patch_job({"metadata": {"labels": {"quota.scheduling.koordinator.sh/name": "gold"}}})


def test_pods_that_never_ran_do_not_make_a_labeled_job_running(world: World) -> None:
    """Otherwise a label would charge hundreds of them to a quota without room."""
    world.start()
    world.job(suspend=False, labelled=False, parallelism=50, completions=50)
    world.run_pods(50, phase="Pending")
    world.settle()
    label(world)
    world.settle()
    assert (world.is_suspended(), world.phase()) == (True, "Enqueued")
    assert not world.get_unit()["status"].get("admissions")
    assert "Adopted" not in world.events()


def test_nor_do_they_after_a_restart(world: World) -> None:
    world.job(suspend=False)
    world.run_pods(phase="Pending")
    world.start()
    assert (world.is_suspended(), world.phase()) == (True, "Enqueued")


def test_one_pod_with_a_node_has_the_whole_job_adopted(world: World) -> None:
    world.start()
    world.job(suspend=False, labelled=False, parallelism=5, completions=5)
    world.run_pods(4, phase="Pending")
    bound = pod_of(world.get_job(), "main-4")
    world.direct.create({**bound, "spec": {**bound["spec"], "nodeName": "n1"}})
    world.settle()
    label(world)
    world.settle()
    assert (world.is_suspended(), world.phase()) == (False, "Running")
    (granted,) = world.get_unit()["status"]["admissions"]
    assert (granted["replicas"], granted["running"]) == (5, 0)


def test_nor_is_it_adopted_in_a_quota_that_its_namespace_may_not_name(world: World) -> None:
    world.direct.create(elastic_quota_body("gold", namespace="other"))
    world.start("--quota-namespaces=listed")
    world.job(suspend=False, labelled=False)
    world.run_pods()
    world.settle()
    world.patch_job({"metadata": {"labels": {"quota.scheduling.koordinator.sh/name": "gold"}}})
    world.settle()
    assert (world.is_suspended(), world.units()) == (False, [])
    assert world.events() == {"NotAdopted"}
    lists = {"koord-queue/available-quota-in-namespace": "gold"}
    world.direct.patch("namespaces", "team", {"metadata": {"annotations": lists}})
    world.settle()
    assert (world.is_suspended(), world.phase()) == (False, "Running")


@pytest.mark.parametrize("adopt", ["running", "never"])
def test_a_running_job_that_gets_a_unit_by_hand_runs_on(world: World, adopt: str) -> None:
    world.start(f"--adopt={adopt}")
    world.job(suspend=False, labelled=False)
    world.run_pods()
    world.settle()
    make_unit(world, consumer={"uid": world.get_job()["metadata"]["uid"]})
    world.settle()
    assert world.is_suspended() is (adopt == "never")
    assert world.phase() == ("Enqueued" if adopt == "never" else "Running")
    got = {"Adopted"} if adopt == "running" else {"SuspendedAgain"}
    assert world.events() == got, "it has not grown"


def test_a_new_job_with_a_unit_by_hand_waits(world: World) -> None:
    world.start()
    make_unit(world, consumer={})
    world.job(suspend=False, labelled=False)
    world.run_pods()
    world.settle()
    assert world.is_suspended()
    assert world.phase() == "Enqueued"


@pytest.mark.parametrize("prefix", ["koord-queue/", "kube-queue/"])
def test_marking_a_waiting_unit_as_adopted_releases_nothing(world: World, prefix: str) -> None:
    world.start()
    world.job()
    world.settle()
    marked = {"metadata": {"annotations": {f"{prefix}adopted": "true"}}}
    world.direct.patch("queueunits", "main", marked, namespace="team")
    world.settle()
    assert world.is_suspended()
    assert world.phase() == "Enqueued"
    assert world.events() == set()
    world.admit()
    world.settle()
    assert not world.is_suspended()


def test_a_unit_that_vanishes_while_its_job_runs_is_created_again(world: World) -> None:
    world.run_a_job()
    world.direct.delete("queueunits", "main", "team")
    world.settle()
    assert not world.is_suspended()
    assert is_proved(world.get_unit())


@pytest.mark.parametrize(
    ("changes", "flags", "managed"),
    [
        pytest.param({"labelled": False}, (), False, id="not marked"),
        pytest.param({}, (), True, id="marked by a quota"),
        pytest.param(
            {"labelled": False, "annotations": {"koord-queue/released-at": "2026-11-01T10:00:00Z"}},
            (),
            True,
            id="marked by its release",
        ),
        pytest.param({"labelled": False}, ("--manage-all-jobs",), True, id="all are managed"),
    ],
)
def test_a_started_job_is_managed_when_it_is_marked(
    world: World, changes: dict[str, Any], flags: tuple[str, ...], managed: bool
) -> None:
    """Conformance item ctl-46."""
    world.job(suspend=False, **changes)
    world.run_pods()
    world.start(*flags)
    assert world.units() == (["main"] if managed else [])
    assert not world.is_suspended(), "managed or not, it runs on"
