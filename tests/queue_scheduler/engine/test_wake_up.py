"""Which guarantees plugins learn of, when quotas begin or cease to share a limit."""

from __future__ import annotations

import pytest

from queue_scheduler.decision import Reason
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import WAIT_FOR_PODS_RUNNING
from tests.properties.engine_kit import (
    Workers,
    admitted,
    build_queue,
    build_quota,
    build_unit,
    started,
)
from tests.properties.real_quotas import new_engine

WAITS = build_unit("waits", "owner")


@pytest.fixture
def workers() -> Workers:
    """A quota with two guaranteed cores; one runs, and the next unit waits for its pods.

    Quota `neighbour` has two running; one more would take what the owner's next unit needs, where
    both are below the same limit of four.
    """
    workers = Workers(new_engine(QuotaSettings(mode=QuotaMode.MAX)))
    workers.wake(workers.engine.on_quota(build_quota("top", cpu=4)))
    move(workers, "neighbour", "top")
    owner = build_queue("owner", annotations={WAIT_FOR_PODS_RUNNING: "true"})
    for queue in (owner, build_queue("neighbour")):
        workers.wake((queue.metadata.name, *workers.engine.on_queue(queue)))
    for n in range(2):
        put(workers, admitted(build_unit(f"runs{n}", "neighbour"), 1, "Running"))
    return workers


def move(workers: Workers, name: str, parent: str, owned: int = 2) -> None:
    """Write a quota with another parent; the owner is guaranteed `owned` cores."""
    guaranteed = owned if name == "owner" else 0
    quota = build_quota(name, cpu=4, guaranteed=guaranteed, parent=parent)
    workers.wake(workers.engine.on_quota(quota))


def put(workers: Workers, unit: QueueUnit) -> list[str]:
    """Write a unit; return the units that start."""
    workers.wake(workers.engine.on_queue_unit(unit))
    return started(workers.run())


def start_and_end(workers: Workers, quota: str) -> None:
    """Start and end one more unit of a quota."""
    unit = build_unit("short", quota)
    assert put(workers, unit) == ["short"]
    workers.wake(workers.engine.on_queue_unit_gone(unit))


def test_a_quota_that_becomes_a_parent_has_its_guarantee_at_once(workers: Workers) -> None:
    move(workers, "owner", "", owned=4)
    start_and_end(workers, "neighbour")  # from now on the sharers of a limit are known
    assert put(workers, build_unit("first", "owner")) == ["first"]
    assert put(workers, WAITS) == []
    move(workers, "neighbour", "owner")
    assert put(workers, build_unit("more", "neighbour")) == []
    refusal = refusal_of_unit(workers.engine, "ns/more")
    assert refusal is not None
    assert (refusal.reason, refusal.other) == (Reason.GUARANTEE_OF_OTHERS, "owner")


def test_a_demand_that_ended_while_its_quota_shared_no_limit_is_forgotten(workers: Workers) -> None:
    move(workers, "owner", "top")
    assert put(workers, build_unit("first", "owner")) == ["first"]
    assert put(workers, WAITS) == []
    move(workers, "owner", "")
    start_and_end(workers, "neighbour")
    workers.wake(workers.engine.on_queue_unit_gone(WAITS))
    move(workers, "owner", "top")
    assert put(workers, build_unit("more", "neighbour")) == ["more"]
