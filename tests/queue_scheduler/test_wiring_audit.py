"""A unit that a handler has lost is found by the self-audit of the whole scheduler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.self_audit import DIFFERS, ROUND_SECONDS
from tests.queue_scheduler.scheduler_world import SchedulerWorld, running_world


@pytest.fixture
def world() -> Iterator[SchedulerWorld]:
    """Give a world with a quota, and no scheduler yet."""
    with running_world() as world:
        world.add_quota()
        yield world


def lose_a_unit(world: SchedulerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(Engine, "on_queue_unit", lambda *_args, **_more: 1 / 0)
        world.add_unit("lost")
        world.settle(2.0)
    assert world.phase("lost") == "Enqueued"


def let_rounds_pass(world: SchedulerWorld, rounds: int) -> None:
    for _ in range(rounds):
        world.clock.advance(ROUND_SECONDS)
        world.settle(2.0)


def differences(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value(
        "koord_queue_audit_differences_total", {"kind": "unknown_unit"}
    )


def test_a_lost_unit_is_reported_and_starts(
    world: SchedulerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start()
    lose_a_unit(world, monkeypatch)
    let_rounds_pass(world, 1)
    assert (differences(world.metrics.registry), world.phase("lost")) == (0.0, "Enqueued")
    let_rounds_pass(world, 1)
    assert (differences(world.metrics.registry), world.phase("lost")) == (1.0, "Dequeued")
    assert "it was placed again" in world.note("lost", DIFFERS)
    age = world.metrics.registry.get_sample_value("koord_queue_audit_age_seconds")
    assert age is not None
    assert age < ROUND_SECONDS


def test_without_repair_it_is_only_reported(
    world: SchedulerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start("--audit-repair=false")
    lose_a_unit(world, monkeypatch)
    let_rounds_pass(world, 3)
    assert (differences(world.metrics.registry), world.phase("lost")) == (1.0, "Enqueued")
    assert "--audit-repair=false" in world.note("lost", DIFFERS)
    assert world.scheduler is not None
    assert all(check()[0] for check in world.scheduler.ready_checks().values())
