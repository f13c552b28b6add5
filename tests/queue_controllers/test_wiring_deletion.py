"""Jobs that are deleted, over the fake API server: what goes with them, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shared_api.testing.faults import Match, RequestInfo
from tests.queue_controllers.conftest import exhaust

if TYPE_CHECKING:
    from tests.queue_controllers.conftest import World


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
def test_what_a_deleted_job_books_goes_with_its_pods_though_the_object_stays(
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
    writes = len(world.writes())
    world.settle(60.0)
    assert len(world.writes()) == writes
    assert "deletionTimestamp" in world.get_job()["metadata"]


def test_nothing_is_remembered_of_a_job_that_went_while_it_was_looked_at(world: World) -> None:
    controllers = world.start()

    def while_its_unit_is_made(info: RequestInfo) -> bool:
        """Delete the job, and have its watch tell so, before the answer."""
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
def test_a_unit_that_goes_with_a_job_is_not_made_again_though_nobody_heard_of_the_job(
    world: World, is_made_again: bool
) -> None:
    world.start()
    world.job()
    world.settle()
    world.server.stall_watches(Match(plural="jobs"))
    world.direct.delete("jobs", "main", "team", propagation="Background")
    if is_made_again:
        world.job()
    world.settle(5.0)
    assert world.writes().count("create queueunits") == (2 if is_made_again else 1)
    owners = [unit["spec"]["consumerRef"]["uid"] for unit in world.direct.list("queueunits")]
    assert owners == ([world.get_job()["metadata"]["uid"]] if is_made_again else [])


def test_a_unit_that_somebody_deletes_is_made_again(world: World) -> None:
    world.start()
    world.job()
    world.settle()
    for _ in range(2):
        world.direct.delete("queueunits", "main", "team")
        world.settle()
        assert world.units() == ["main"]
