"""The whole scheduler with units that may run with fewer pods, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared_api.testing.object_builders import pod_set
from tests.queue_scheduler.scheduler_world import SchedulerWorld, running_world


@pytest.fixture
def world() -> Iterator[SchedulerWorld]:
    with running_world() as world:
        world.add_quota(cpu=6)
        world.start()
        yield world


def add(world: SchedulerWorld, name: str, count: int, least: int | None = None) -> None:
    body = pod_set(count=count, requests={"cpu": 1})
    if least is not None:
        body["minCount"] = least
    world.add_unit(name, podSet=[body])
    world.settle()


def granted(world: SchedulerWorld, name: str) -> tuple[int, str] | None:
    """Return replicas and CPU of a unit's one admission, or None without one."""
    admissions = world.unit(name).get("status", {}).get("admissions")
    if not admissions:
        return None
    (admission,) = admissions
    return admission["replicas"], admission["resources"]["cpu"]


def test_a_unit_is_admitted_with_the_pods_that_fit(world: SchedulerWorld) -> None:
    add(world, "x", 4)
    add(world, "part", 5, 2)
    assert granted(world, "part") == (2, "2")
    assert world.phase("part") == "Dequeued"
    assert world.unit("part")["spec"]["podSet"][0]["count"] == 5


def test_below_its_least_it_says_so_and_starts_as_soon_as_that_fits(world: SchedulerWorld) -> None:
    add(world, "x", 3)
    add(world, "y", 2)
    add(world, "part", 5, 3)
    world.settle(10.0)
    assert granted(world, "part") is None
    assert world.reason("part") == "OverQuotaMax"
    world.finish("y")
    world.settle(5.0)
    assert granted(world, "part") == (3, "3")


def test_it_grows_into_room_that_no_unit_waits_for(world: SchedulerWorld) -> None:
    add(world, "x", 4)
    add(world, "part", 5, 2)
    add(world, "waits", 5)
    world.finish("x")
    world.settle(20.0)
    assert granted(world, "part") == (2, "2"), "four cores are free, and a unit waits for five"
    world.direct.delete("queueunits", "waits", "default")
    world.settle(20.0)
    assert granted(world, "part") == (5, "5")
