"""All controllers over the fake API server: how they start, and lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shared_api.program_flags import FlagError
from shared_api.testing.object_builders import elastic_quota_body
from tests.follower import Follower
from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World


def test_an_unknown_extension_is_refused_with_the_known_ones(world: World) -> None:
    with pytest.raises(FlagError, match=r"nosuchjob not known; there are: .*\bjob\b"):
        world.start("--enabled-extensions=job,nosuchjob")


def test_the_quota_kind_may_be_missing_and_served_later(world_without_quotas: World) -> None:
    world = world_without_quotas
    controllers = world.start()
    world.job()
    world.job("plain", labelled=False)
    world.settle()
    assert world.units() == ["main"]
    assert all(ok for ok, _ in (check() for check in controllers.ready_checks().values()))
    world.install_quotas()
    world.direct.create(elastic_quota_body("team", namespace="team", max={"cpu": "4"}))
    world.settle(12.0)
    assert sorted(world.units()) == ["main", "plain"]


def test_a_follower_is_ready_and_writes_nothing_until_it_leads(world: World) -> None:
    follower = Follower()
    controllers = world.start(leadership=follower)
    world.job()
    world.settle(5.0)
    assert all(ok for ok, _ in (check() for check in controllers.ready_checks().values()))
    assert writes_to(world.server) == []
    follower.leads = True
    world.settle(5.0)
    assert world.units() == ["main"]


def test_jobs_that_came_before_it_led_get_their_units_in_the_order_of_their_creation(
    world: World,
) -> None:
    names = [f"job-{number}" for number in reversed(range(8))]
    for name in names:
        world.job(name)
        world.clock.advance(1.0)
    follower = Follower()
    world.start(leadership=follower)
    follower.leads = True
    world.settle(5.0)
    made = [world.get_unit(name)["metadata"] for name in names]
    versions = [int(each["resourceVersion"]) for each in made]
    assert versions == sorted(versions)


def test_duplicate_controllers_are_harmless(world: World) -> None:
    first = world.start()
    second = world.start()
    for number in range(5):
        world.job(f"job-{number}", suspend=False)
    for _ in range(3):
        for controllers in (first, second):
            world.controllers = controllers
            world.settle(0.1)
    assert len(world.units()) == 5
    assert all(world.is_suspended(f"job-{number}") for number in range(5))
