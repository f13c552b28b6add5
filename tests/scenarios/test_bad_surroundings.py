"""The scheduler continues after an outage of the API server, a missing kind, or a clock jump."""

from __future__ import annotations

import random

import pytest

from shared_api.informer.reflector import REMIND_SECONDS
from shared_api.leader_election import LeaderElector, LeaseSettings
from shared_api.lease_lock import ApiLeaseLock
from tests.client_kit import client_to
from tests.queue_scheduler.scheduler_world import (
    TOLD_SECONDS,
    Logs,
    SchedulerWorld,
    assert_all_else_goes_on,
    running_world,
    warnings_of,
)
from tests.sample_jobs import QUOTA_CRD

pytestmark = pytest.mark.scenario


def test_the_api_server_is_down_at_the_start(logs: Logs) -> None:
    with running_world() as world:
        world.add_quota()
        world.add_unit("early")
        world.server.go_down()
        world.start(settle_seconds=60.0)
        assert world.scheduler is not None
        assert not all(check()[0] for check in world.scheduler.ready_checks().values())
        assert "connection refused" in warnings_of(logs, "cannot follow")[0]
        world.server.come_up()
        world.settle(10.0)
        assert all(check()[0] for check in world.scheduler.ready_checks().values())
        assert world.phase("early") == "Dequeued"


def test_the_api_server_is_down_for_a_minute(logs: Logs, world: SchedulerWorld) -> None:
    world.add_unit("first", cpu=4)
    world.settle()
    world.server.go_down()
    world.settle(60.0)
    assert "connection refused" in warnings_of(logs, "cannot follow")[0]
    world.add_unit("second", cpu=4)  # it comes back with changes
    world.finish("first")
    world.server.come_up()
    world.settle(10.0)
    assert world.phase("second") == "Dequeued"
    assert_all_else_goes_on(world)


def test_a_unit_that_is_being_written_when_the_server_goes_down(world: SchedulerWorld) -> None:
    """It is charged once, whether the write was done or not."""
    world.add_unit("a", cpu=3)
    world.add_unit("b", cpu=3)
    world.server.faults.lose_answer(times=30)
    world.settle(5.0)
    world.server.faults.clear()
    world.settle(15.0)
    phases = sorted(world.phase(name) for name in ("a", "b"))
    assert phases == ["Dequeued", "Enqueued"]


def test_the_quota_kind_is_missing_and_is_installed_later(logs: Logs) -> None:
    with running_world(quotas=False) as world:
        world.start()
        assert world.scheduler is not None
        assert all(check()[0] for check in world.scheduler.ready_checks().values())
        world.add_unit("early")
        world.settle(TOLD_SECONDS)
        assert world.reason("early") == "NoQuota"
        (warning,) = warnings_of(logs, "cannot follow")
        assert "the CRD elasticquotas.scheduling.sigs.k8s.io must be installed" in warning
        assert "scheduling.sigs.k8s.io/v1alpha1" in warning
        assert "every unit waits with reason NoQuota until then" in warning
        world.settle(REMIND_SECONDS)
        assert warnings_of(logs, "cannot follow") == [warning] * 2
        world.direct.create(QUOTA_CRD)
        world.add_quota()
        world.settle(TOLD_SECONDS)
        assert world.phase("early") == "Dequeued"


@pytest.mark.parametrize("seconds", [3600.0, -3600.0, 10 * 365 * 86400.0])
def test_the_clock_jumps(world: SchedulerWorld, seconds: float) -> None:
    """Order is by the server's creation times; durations are measured on the monotonic clock."""
    world.add_unit("first", cpu=4)
    world.settle()
    world.add_unit("older", cpu=4)
    world.settle(2.0)
    world.clock.jump_wall_clock(seconds)
    world.add_unit("younger", cpu=4)
    world.settle(TOLD_SECONDS)
    world.finish("first")
    world.settle(1.0)
    want = {"older": "Dequeued", "younger": "Enqueued"}
    if seconds < 0:  # the server's clock jumped too: by its times the other unit is older
        want = {"older": "Enqueued", "younger": "Dequeued"}
    assert {name: world.phase(name) for name in want} == want


def test_the_leader_keeps_its_lease_when_the_clock_jumps(world: SchedulerWorld) -> None:
    """Leases expire by the monotonic clock since the last observed change."""

    def elector(name: str) -> LeaderElector:
        rng = random.Random(name)
        client = client_to(world.server, world.clock)
        lock = ApiLeaseLock(client, "default", "lease")
        return LeaderElector(
            lock,
            name,
            LeaseSettings(),
            clock=world.clock,
            rng=rng,
            on_started_leading=lambda: None,
            on_stopped_leading=lambda _: None,
        )

    first, second = elector("first"), elector("second")
    first.step()
    for jump in (7200.0, -7200.0, 86400.0, 0.0):
        world.clock.jump_wall_clock(jump)
        for _ in range(20):
            world.clock.advance(2.0)
            first.step()
            second.step()
            assert first.is_leader()
            assert not second.is_leader()
