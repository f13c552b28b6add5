"""Jobs that become unmanaged while they have a unit, over the fake API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.queue_controllers.owner_kit import wrap_job
from tests.sample_jobs import KUEUE_WORKLOADS

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

KUEUE = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "x"}}}


def release(world: World) -> None:
    """Bring a job to its release, with Kueue served."""
    world.direct.create(KUEUE_WORKLOADS)
    world.start()
    world.job()
    world.settle()
    world.admit()
    world.settle()
    assert not world.is_suspended()


@pytest.mark.parametrize("by", ["Kueue", "an owner"])
def test_a_released_job_stays_charged_until_it_ends(world: World, by: str) -> None:
    release(world)
    owned = {"metadata": {"ownerReferences": [wrap_job(world.direct, "main", pods=2)]}}
    world.patch_job(KUEUE if by == "Kueue" else owned)
    world.settle()
    assert world.phase() == "Dequeued"
    world.run_pods()
    world.settle()
    assert world.phase() == "Running"
    assert "NotManaged" in world.events()
    world.complete()
    world.settle()
    assert world.phase() == "Succeed"
    assert world.get_unit()["status"]["admissions"] == []


def test_a_job_that_another_queue_suspends_is_released_with_its_last_pod(
    world: World,
) -> None:
    release(world)
    world.run_pods()
    world.settle()
    world.patch_job({**KUEUE, "spec": {"suspend": True}})
    world.settle()
    assert world.phase() == "Running"
    assert world.get_unit()["status"]["admissions"] != []
    world.clock.advance(5.0)
    world.end_pods()
    world.settle()
    assert world.units() == []
    assert world.is_suspended()
    world.patch_job({"spec": {"suspend": False}})
    before = world.server.resource_version
    world.settle(30.0)
    assert world.server.resource_version == before, "it is left alone from then on"


def test_a_pending_job_leaves_the_queue_and_may_come_back(world: World) -> None:
    world.direct.create(KUEUE_WORKLOADS)
    world.start()
    world.job()
    world.settle()
    world.patch_job(KUEUE)
    world.settle()
    assert world.units() == []
    assert "NotManaged" in world.events()
    assert world.is_suspended()
    world.patch_job({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}})
    world.settle()
    assert world.phase() == "Enqueued"


def test_a_deleted_jobs_unit_is_deleted(world: World) -> None:
    release(world)
    world.patch_job(KUEUE)
    world.settle()
    world.direct.delete("jobs", "main", "team", propagation="Orphan")
    world.settle(7.0)
    assert world.units() == []
