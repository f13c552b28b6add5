"""Deleted jobs, over the fake API server: what is deleted with them, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shared_api.fake_api_server.faults import Match, RequestInfo
from tests.queue_controllers.pod_kit import KINDS, make_set, of_set
from tests.stepped_host import exhaust, writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World


def test_an_orphaned_unit_is_deleted(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    world.direct.delete("jobs", "main", "team", propagation="Orphan")
    world.settle()
    assert world.units() == ["main"]
    world.settle(6.0)
    assert world.units() == []


@pytest.mark.parametrize("admitted", [True, False])
def test_a_deleted_jobs_usage_ends_with_its_pods_though_the_object_stays(
    world: World, admitted: bool
) -> None:
    world.start()
    world.job()
    world.settle()
    if admitted:
        world.admit()
        world.settle()
        world.run_pods()
        world.settle()
    world.patch_job({"metadata": {"finalizers": ["example.com/archive"]}})
    world.direct.delete("jobs", "main", "team", propagation="Background")
    world.settle(20.0)
    if admitted:
        assert world.phase() == "Running"
        for name in ("main-0", "main-1"):
            world.direct.delete("pods", name, "team")
        world.settle(10.0)
    assert world.phase() == "Failed"
    writes = len(writes_to(world.server))
    world.settle(60.0)
    assert len(writes_to(world.server)) == writes
    assert "deletionTimestamp" in world.get_job()["metadata"]


def test_nothing_is_kept_of_a_job_deleted_during_its_reconcile(world: World) -> None:
    controllers = world.start()

    def while_its_unit_is_made(info: RequestInfo) -> bool:
        """Delete the job, with the event of its watch, before the response."""
        if info.verb == "create" and info.plural == "queueunits":
            world.direct.delete("jobs", "main", "team")
            for step in controllers.steps():
                exhaust(step)
        return False

    world.server.faults.fail(500, match=Match(when=while_its_unit_is_made))
    world.job()
    world.settle(10.0)
    assert world.units() == []
    assert [server.reconciler.remembered_jobs for server in controllers.servers] == [0]


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_unit_deleted_with_its_job_is_not_created_again(
    world: World, is_made_again: bool
) -> None:
    world.start()
    world.job()
    world.settle()
    world.server.watches.stall(Match(plural="jobs"))
    world.direct.delete("jobs", "main", "team", propagation="Background")
    if is_made_again:
        world.job()
    world.settle(5.0)
    assert writes_to(world.server).count("create queueunits") == (2 if is_made_again else 1)
    owners = [unit["spec"]["consumerRef"]["uid"] for unit in world.direct.list("queueunits")]
    assert owners == ([world.get_job()["metadata"]["uid"]] if is_made_again else [])


def test_a_unit_deleted_by_hand_is_created_again(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    for _ in range(2):
        world.direct.delete("queueunits", "main", "team")
        world.settle()
        assert world.units() == ["main"]


def add_a_second_unit(world: World) -> None:
    """Create the unit that other controllers create before they see the job's unit."""
    body = world.get_unit()
    meta = body["metadata"]
    kept = ("namespace", "labels", "annotations", "ownerReferences")
    body["metadata"] = {"name": "main-again"} | {key: meta[key] for key in kept if key in meta}
    world.direct.create(body)


def test_a_second_unit_of_a_job_is_deleted_at_once(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    add_a_second_unit(world)
    world.settle()
    assert world.units() == ["main"]


def test_of_two_units_the_admitted_one_stays(world: World) -> None:
    """If the first one stayed in the queue, the two would count in turns, without end."""
    world.start()
    world.job()
    world.settle()
    add_a_second_unit(world)
    world.admit("main-again")
    world.settle()
    assert world.units() == ["main-again"]
    assert not world.is_suspended()


def without_pods(world: World, *, seconds: float, replicas: int = 1) -> None:
    """Keep a StatefulSet with a pending unit without pods for this long."""
    world.start(KINDS)
    of_set(world, make_set(world, replicas), 0)
    world.settle()
    assert world.units() == ["db-sts-qu"]
    world.direct.delete("pods", "db-0", "team")
    world.settle(seconds)


def test_a_unit_waits_for_its_sets_new_pods(world: World) -> None:
    """Decisions about the job are recorded in the unit alone."""
    without_pods(world, seconds=1.0)
    world.direct.patch("queueunits", "db-sts-qu", {"spec": {"active": False}}, namespace="team")
    world.settle(60.0)
    assert world.get_unit("db-sts-qu")["spec"]["active"] is False


def test_a_set_that_wants_no_pods_has_no_unit(world: World) -> None:
    without_pods(world, seconds=8.0)
    assert world.units() == ["db-sts-qu"]
    world.direct.patch("statefulsets", "db", {"spec": {"replicas": 0}}, namespace="team")
    world.settle(8.0)
    assert world.units() == []


def test_an_admitted_unit_without_pods_is_released(world: World) -> None:
    world.start(KINDS)
    of_set(world, make_set(world, 1), 0)
    world.settle()
    world.admit_unit("db-sts-qu")
    world.settle()
    world.direct.delete("pods", "db-0", "team")
    world.settle(8.0)
    assert world.units() == []


def test_a_unit_whose_pods_came_back_has_the_whole_time_again(world: World) -> None:
    world.start(KINDS)
    made = make_set(world, 1)
    of_set(world, made, 0)
    world.settle()
    world.direct.patch("statefulsets", "db", {"spec": {"replicas": 0}}, namespace="team")
    for _ in range(3):
        world.direct.delete("pods", "db-0", "team")
        world.settle(3.0)
        of_set(world, made, 0)
        world.settle(3.0)
    assert world.units() == ["db-sts-qu"]
    assert writes_to(world.server).count("create queueunits") == 1
