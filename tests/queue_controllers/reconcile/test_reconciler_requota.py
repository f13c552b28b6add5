"""Jobs that move to another quota between two runs, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shared_api.fake_api_server.faults import EVERY_TIME, Match
from shared_api.testing.object_builders import elastic_quota_body
from tests.queue_controllers.controllers_world import evict_after_release

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

QUOTA = "quota.scheduling.koordinator.sh/name"
QUEUE = "koord-queue/queue-name"
ACTIVE = "scheduling.x-k8s.io/active"


@pytest.mark.parametrize("by", ["label", "namespace"])
def test_moved_to_another_quota_after_a_run_its_pods_are_charged_there(
    world: World, by: str
) -> None:
    make_quota(world, "gold", '["team"]')
    make_quota(world, "silver", "[]")
    world.start()
    world.job(labelled=by == "label")
    world.settle()
    world.admit()
    world.settle()
    evict_after_release(world)
    if by == "label":
        world.patch_job({"metadata": {"labels": {QUOTA: "silver"}}})
    else:
        world.direct.delete("elasticquotas", "gold", "kube-system")
        make_quota(world, "bronze", '["team"]')
    world.settle()
    moved = "silver" if by == "label" else "bronze"
    assert world.get_unit()["spec"]["queue"] == moved
    world.admit()
    world.settle()
    assert not world.is_suspended()
    assert world.get_job()["spec"]["template"]["metadata"]["labels"][QUOTA] == moved


@pytest.mark.parametrize("phase", ["Reserved", "Dequeued", "Running"])
@pytest.mark.parametrize("to", ["silver", None], ids=["another", "none"])
def test_moved_after_its_admission_a_stopped_job_waits_in_its_new_quota(
    world: World, phase: str, to: str | None
) -> None:
    """Its pods are never charged to one quota while its admission is in another."""
    make_quota(world, "bronze", '["team"]')
    world.start()
    stop(world, phase)
    world.patch_job({"metadata": {"labels": {QUOTA: to}}})
    world.server.faults.clear()
    world.settle(10.0)
    assert world.is_suspended()
    assert world.phase() == "Enqueued"
    assert world.get_unit()["spec"]["queue"] == (to or "bronze")
    assert "Evicted" in world.events()
    world.admit()
    world.settle()
    assert not world.is_suspended()
    stamped = world.get_job()["spec"]["template"]["metadata"]["labels"][QUOTA]
    assert stamped == (to or "bronze")


@pytest.mark.parametrize("phase", ["Reserved", "Dequeued", "Running"])
def test_moved_to_another_queue_a_stopped_job_waits_there(world: World, phase: str) -> None:
    world.start()
    stop(world, phase)
    world.patch_job({"metadata": {"labels": {QUEUE: "fast"}}})
    world.server.faults.clear()
    world.settle(10.0)
    assert (world.phase(), world.is_suspended()) == ("Enqueued", True)
    unit = world.get_unit()
    assert (unit["spec"]["queue"], unit["metadata"]["labels"][QUEUE]) == ("fast", "fast")
    world.admit()
    world.settle()
    assert not world.is_suspended()


def stop(world: World, phase: str) -> None:
    """Have a job admitted, or run and then suspended, while writes to it fail."""
    if phase == "Running":
        world.run_a_job()
        world.clock.advance(5.0)
    else:
        world.job()
        world.settle()
    world.server.faults.fail(503, times=EVERY_TIME, match=Match(plural="jobs", verb="patch"))
    if phase == "Running":
        world.patch_job({"spec": {"suspend": True}})
        world.end_pods()
    else:
        world.admit()
        world.patch_unit_status({"phase": phase})
    world.settle()
    assert world.is_suspended()


def make_quota(world: World, name: str, namespaces: str) -> None:
    annotations = {"quota.scheduling.koordinator.sh/namespaces": namespaces}
    world.direct.create(
        elastic_quota_body(name, namespace="kube-system", metadata={"annotations": annotations})
    )


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param(
            {QUOTA: "silver"}, "It names quota silver, and is charged to quota gold", id="quota"
        ),
        pytest.param(
            {QUOTA: None}, "It names no quota any more, and is charged to quota gold", id="no quota"
        ),
        pytest.param({QUEUE: "fast"}, "It names queue fast, and counts in queue gold", id="queue"),
        pytest.param({"team": "x"}, "", id="a label of its own"),
    ],
)
def test_a_running_job_is_told_once_that_it_stays_in_its_quota(
    world: World, labels: dict[str, str | None], want: str
) -> None:
    world.run_a_job()
    unit = world.get_unit()
    world.patch_job({"metadata": {"labels": labels}})
    note = world.notes_on_jobs().get("LabelChangeIgnored", "")
    assert note.startswith(want)
    assert bool(note) is bool(want)
    world.patch_job({"metadata": {"labels": {"other": "y"}}})
    world.settle(2.0)
    got = [each["reason"] for each in world.direct.list("events.events.k8s.io")]
    assert got.count("LabelChangeIgnored") == bool(want)
    assert world.phase() == "Running"
    assert world.get_unit()["metadata"]["labels"] == unit["metadata"]["labels"]


def test_a_job_that_is_told_so_moves_when_it_is_stopped(world: World) -> None:
    world.run_a_job()
    world.patch_job({"metadata": {"labels": {QUOTA: "silver"}}})
    assert "LabelChangeIgnored" in world.events()
    world.patch_job({"metadata": {"annotations": {ACTIVE: "false"}}})
    world.settle()
    world.end_pods()
    world.settle()
    world.patch_job({"metadata": {"annotations": {ACTIVE: "true"}}})
    world.settle()
    assert world.phase() == "Enqueued"
    assert world.get_unit()["spec"]["queue"] == "silver"
