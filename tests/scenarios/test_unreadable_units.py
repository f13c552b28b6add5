"""Units that become unreadable are on hold until they are repaired."""

from __future__ import annotations

from typing import Any

import pytest

from shared_api.testing.object_builders import queue_unit_body
from tests.object_states import condition_of
from tests.queue_scheduler.scheduler_world import SchedulerWorld
from tests.queue_scheduler.shell_kit import UNIT_STATUS

TOLD_SECONDS = 10.0
PATH = "$.spec.podSet[0].template.spec.containers"


def break_unit(world: SchedulerWorld, name: str) -> dict[str, Any]:
    """Make a unit's demand unreadable; return the patch that repairs it."""
    good = world.unit(name)["spec"]["podSet"]
    bad = [{**good[0], "template": {"spec": {"containers": "x"}}}]
    world.direct.patch("queueunits", name, {"spec": {"podSet": bad}}, namespace="default")
    return {"spec": {"podSet": good}}


def held(world: SchedulerWorld) -> float | None:
    """Return how many units of the queue are on hold for an unreadable demand."""
    labels = {"queue": "team", "reason": "InvalidDemand"}
    return world.metrics.registry.get_sample_value("koord_queue_pending_units", labels)


@pytest.fixture(params=["Block", "FIFO"])
def full(world: SchedulerWorld, request: pytest.FixtureRequest) -> SchedulerWorld:
    """A queue that blocks, with one CPU free: `head` needs two, and `next`, behind it, one."""
    policy = {"metadata": {"labels": {"koord-queue/queue-policy": request.param}}}
    world.direct.patch("elasticquotas", "team", policy, namespace="default")
    world.settle()
    world.add_unit("runs", cpu=3)
    world.settle()
    world.add_unit("head", cpu=2, priority=9)
    world.settle(0.2)
    world.add_unit("next", cpu=1)
    world.settle()
    assert (world.phase("head"), world.phase("next")) == ("Enqueued", "Enqueued")
    return world


def test_a_pending_unit_that_becomes_unreadable_blocks_no_other_until_repaired(
    full: SchedulerWorld,
) -> None:
    fix = break_unit(full, "head")
    full.settle(TOLD_SECONDS)
    assert full.phase("next") == "Dequeued"
    assert held(full) == 1
    assert full.reason("head") == "Unreadable"
    assert PATH in condition_of(full.unit("head"), "QuotaReserved")["message"]
    full.finish("runs")
    full.settle(TOLD_SECONDS)
    assert full.phase("head") == "Enqueued"
    full.direct.patch("queueunits", "head", fix, namespace="default")
    full.settle()
    assert full.phase("head") == "Dequeued"


def test_it_stays_on_hold_when_its_quota_changes(full: SchedulerWorld) -> None:
    break_unit(full, "head")
    full.settle()
    more = {"spec": {"max": {"cpu": 9}, "min": {"cpu": 9}}}
    full.direct.patch("elasticquotas", "team", more, namespace="default")
    full.settle(TOLD_SECONDS)
    assert full.phase("head") == "Enqueued"
    assert held(full) == 1


def test_an_admitted_unit_that_becomes_unreadable_is_not_decided_again(
    world: SchedulerWorld,
) -> None:
    world.server.faults.fail(409, match=UNIT_STATUS)
    world.add_unit("a")
    world.settle(0.2)
    break_unit(world, "a")
    world.settle(TOLD_SECONDS)
    assert held(world) == 1
    world.add_unit("b", cpu=4)
    world.settle()
    assert (world.phase("a"), world.phase("b")) == ("Enqueued", "Dequeued")


BLOCKED = {"annotations": {"koord-queue/block-for-test": "true"}}
PROOF = {
    "type": "Adopted",
    "status": "True",
    "reason": "RanBefore",
    "message": "",
    "lastTransitionTime": "2026-11-01T09:00:00Z",
}


def test_an_adopted_unreadable_unit_is_charged_as_its_status_says(
    world: SchedulerWorld,
) -> None:
    world.direct.create(queue_unit_body("ran", quota="team", metadata=BLOCKED))
    adopted = {"status": {"phase": "Running", "conditions": [PROOF]}}
    world.direct.patch("queueunits", "ran", adopted, namespace="default", subresource="status")
    world.settle()
    break_unit(world, "ran")
    world.settle(TOLD_SECONDS)
    assert held(world) is None
    assert world.queue()["status"]["admitted"] == 1
    wiped = {"status": {"phase": "Enqueued", "conditions": []}}
    world.direct.patch("queueunits", "ran", wiped, namespace="default", subresource="status")
    world.settle(TOLD_SECONDS)
    assert held(world) == 1
    assert world.queue()["status"]["admitted"] == 0
