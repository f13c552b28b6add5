"""Reservations in the whole scheduler: what waits, what is shown, and what a restart knows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from queue_scheduler.debug_api.views import RESERVATIONS_NOT_SERVED, reservation_problems
from queue_scheduler.decision import Reason
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.refusal_texts import full_message
from shared_api.crds import QUEUE_RESERVATION
from tests.object_states import condition_of
from tests.queue_scheduler.scheduler_world import SchedulerWorld, running_world
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, Json
from tests.stepped_host import writes_to

WRITE = "patch queuereservations/status"


@pytest.fixture
def world() -> Iterator[SchedulerWorld]:
    with running_world() as found:
        yield found


def body(world: SchedulerWorld, **spec: Any) -> Json:
    """Return a reservation whose window of 20 seconds begins in a minute."""
    begins = world.clock.now() + timedelta(minutes=1)
    fields = {
        "scope": {"all": True},
        "start": f"{begins:%Y-%m-%dT%H:%M:%SZ}",
        "duration": "20s",
        "margin": "0",
        **spec,
    }
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QueueReservation",
        "metadata": {"name": "r", "namespace": QUEUE_NAMESPACE},
        "spec": fields,
    }


def reservation(world: SchedulerWorld) -> Json:
    return world.direct.get("queuereservations", "r", QUEUE_NAMESPACE)


def ready(world: SchedulerWorld) -> tuple[str, str]:
    found = condition_of(reservation(world), "Ready")
    return found["status"], found["reason"]


def edit(world: SchedulerWorld, spec: Json) -> None:
    world.direct.patch("queuereservations", "r", {"spec": spec}, namespace=QUEUE_NAMESPACE)
    world.settle(3.0)


def begin(world: SchedulerWorld, **spec: Any) -> None:
    """Start with a quota, a reservation, and units that declare 30 and 90 seconds."""
    world.add_quota()
    world.direct.create(body(world, **spec))
    world.add_unit("short", maximumExecutionTimeSeconds=30)
    world.add_unit("long", maximumExecutionTimeSeconds=90)
    world.start(settle_seconds=3.0)


def test_who_would_run_into_a_window_waits_until_it_is_over(world: SchedulerWorld) -> None:
    begin(world)
    assert world.phase("short") == "Dequeued"
    assert world.phase("long") in {"", "Enqueued"}
    refusal = world.ask(lambda engine: refusal_of_unit(engine, "default/long"))
    assert refusal is not None
    assert refusal.reason is Reason.RESERVED_FOR
    assert "it would start now if it declares at most " in full_message(refusal)
    world.settle(3.0)
    shown = condition_of(world.unit("long"), "QuotaReserved")
    assert shown["reason"] == "ReservedFor"
    assert shown["message"].startswith("would run into the window of QueueReservation r, in which")
    world.settle(67.0)
    assert world.phase("long") in {"", "Enqueued"}
    world.settle(10.0)
    assert world.phase("long") == "Dequeued"


def test_a_deleted_reservation_wakes(world: SchedulerWorld) -> None:
    begin(world)
    world.direct.delete("queuereservations", "r", QUEUE_NAMESPACE)
    world.settle(3.0)
    assert world.phase("long") == "Dequeued"


def test_the_status_has_the_next_windows_and_is_written_on_change(world: SchedulerWorld) -> None:
    begin(world, rrule="FREQ=DAILY")
    assert ready(world) == ("True", "Ready")
    found = reservation(world)
    assert found["status"]["inForce"] == [found["spec"]]
    first, second = found["status"]["windows"][:2]
    assert first["start"] == found["spec"]["start"]
    before = writes_to(world.server).count(WRITE)
    assert before == 1
    world.settle(20.0)
    world.start(settle_seconds=5.0)
    assert writes_to(world.server).count(WRITE) == before, "not after a restart either"
    world.settle(60.0)
    assert reservation(world)["status"]["windows"][0] == second, "once the first is over"


def test_an_edit_that_cannot_be_read_is_told_and_outlived_by_the_last_windows(
    world: SchedulerWorld,
) -> None:
    begin(world)
    good = reservation(world)["spec"]
    edit(world, {"timeZone": "Europe/Nowhere"})
    assert ready(world) == ("False", "UnreadableReservation")
    assert ("r", "UnreadableReservation") in world.events()
    problems = world.ask(reservation_problems)
    why = "timeZone: there is no time zone 'Europe/Nowhere'; the last valid spec stays in force"
    assert problems == [f"QueueReservation r: {why}"]
    world.start(settle_seconds=3.0)
    assert reservation(world)["status"]["inForce"] == [good]
    assert world.phase("long") in {"", "Enqueued"}


def test_without_the_kind_units_start_and_it_counts_once_it_is_served() -> None:
    with running_world(policies=False) as world:
        world.add_quota()
        world.add_unit("a", maximumExecutionTimeSeconds=90)
        world.start(settle_seconds=3.0)
        assert world.phase("a") == "Dequeued"
        assert world.ask(reservation_problems) == [RESERVATIONS_NOT_SERVED]
        world.direct.create(QUEUE_RESERVATION.body())
        world.settle(70.0)
        world.direct.create(body(world))
        world.settle(3.0)
        world.add_unit("b", maximumExecutionTimeSeconds=90)
        world.settle(3.0)
        assert world.phase("b") in {"", "Enqueued"}
        assert world.ask(reservation_problems) == []
