"""The whole scheduler keeps accounts over restarts, and only if it is told to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from queue_scheduler.configuration import AccountsSettings, KoordQueueConfiguration
from queue_scheduler.tenants.shards import decode_shard
from shared_api.well_known_labels import USER
from tests.queue_scheduler.scheduler_world import MAX_MODE, SchedulerWorld, running_world
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE

ACCOUNTED = KoordQueueConfiguration(
    plugin_configs=MAX_MODE.plugin_configs, accounts=AccountsSettings(enabled=True)
)


@pytest.fixture
def world() -> Iterator[SchedulerWorld]:
    with running_world() as world:
        yield world


def kept(world: SchedulerWorld) -> dict[str, dict[str, int]]:
    """Return what users have used, as it is kept."""
    found = world.direct.get("configmaps", "koord-queue-accounts-0", QUEUE_NAMESPACE)
    shard = decode_shard(found["data"]["accounts"], int(world.clock.now().timestamp()))
    return {each.account.user: each.used for each in shard.accounts}


def config_maps(world: SchedulerWorld) -> list[str]:
    return [each["metadata"]["name"] for each in world.direct.list("configmaps", QUEUE_NAMESPACE)]


def test_use_is_counted_over_a_restart(world: SchedulerWorld) -> None:
    world.start(configuration=ACCOUNTED)
    world.add_quota()
    world.add_unit("a", cpu=3, metadata={"labels": {USER: "ann"}})
    world.settle(5.0)
    assert world.phase("a") == "Dequeued"
    world.clock.advance(100.0)
    world.stop()
    assert config_maps(world) == ["koord-queue-accounts-0"]
    before = kept(world)["ann"]["cpu"]
    assert 3000 * 103 <= before <= 3000 * 106
    world.clock.advance(20.0)
    world.start(configuration=ACCOUNTED, settle_seconds=1.0)
    world.finish("a")
    world.settle(3.0)
    assert world.metrics.registry.get_sample_value("koord_queue_accounts") == 1
    world.clock.advance(100.0)
    world.stop()
    assert before + 3000 * 21 <= kept(world)["ann"]["cpu"] <= before + 3000 * 24


def test_the_first_start_says_since_when_accounts_are_complete(world: SchedulerWorld) -> None:
    world.start(configuration=ACCOUNTED)
    world.settle(10.0)
    assert ("koord-queue-accounts-0", "AccountsRebuilt") in world.events()


def test_a_damaged_config_map_stops_nothing(world: SchedulerWorld) -> None:
    world.start(configuration=ACCOUNTED)
    world.add_quota()
    world.settle(70.0)
    world.stop()
    damaged = {"data": {"accounts": "nonsense"}}
    world.direct.patch("configmaps", "koord-queue-accounts-0", damaged, namespace=QUEUE_NAMESPACE)
    world.start(configuration=ACCOUNTED)
    world.add_unit("a")
    world.settle(2.0)
    assert world.phase("a") == "Dequeued"


def test_without_the_setting_nothing_is_counted_or_kept(world: SchedulerWorld) -> None:
    world.start()
    world.add_quota()
    world.add_unit("a")
    world.settle(70.0)
    assert world.metrics.registry.get_sample_value("koord_queue_accounts") is None
    world.stop()
    assert config_maps(world) == []
