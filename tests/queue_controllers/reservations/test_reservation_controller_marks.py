"""Reservations that have lost the label or annotation that names their unit."""

from __future__ import annotations

import pytest

from queue_controllers.reservations.execute import ReservationExecutor
from shared_api.well_known_labels import RELATED_QUEUE_UNIT, UNIT_UID
from tests.queue_controllers.reservations.reservation_kit import Json, StrictWorld


@pytest.fixture
def world() -> StrictWorld:
    return StrictWorld()


def take_off(world: StrictWorld, name: str, *, label: str = "", annotation: str = "") -> None:
    metadata: Json = {"labels": {label: None}} if label else {"annotations": {annotation: None}}
    world.koord_scheduler.patch(name, {"metadata": metadata})


def asked_about_reservations(world: StrictWorld) -> int:
    verbs = [each.info.verb for each in world.server.journal if each.info.plural == "reservations"]
    return sum(1 for verb in verbs if verb != "watch")


def test_one_that_has_lost_its_label_is_created_again(world: StrictWorld) -> None:
    world.begin()
    name = min(world.reservations())
    uid, before = world.reservations()[name]["metadata"]["uid"], asked_about_reservations(world)
    take_off(world, name, label=UNIT_UID)
    world.settle(5.0)
    assert asked_about_reservations(world) - before == 4, "create, get, delete, create"
    assert world.reservations()[name]["metadata"]["uid"] != uid
    world.grant()
    world.settle()
    assert world.phase() == "SchedSucceed"


def test_one_that_stays_is_checked_with_growing_delays(world: StrictWorld) -> None:
    world.begin()
    name, before = min(world.reservations()), asked_about_reservations(world)
    world.koord_scheduler.patch(name, {"metadata": {"finalizers": ["example.com/held"]}})
    take_off(world, name, label=UNIT_UID)
    world.settle(60.0)
    assert asked_about_reservations(world) - before < 60
    errors = {"controller": "reservations"}
    value = world.host.metrics.registry.get_sample_value
    assert value("controller_runtime_reconcile_errors_total", errors)
    world.koord_scheduler.patch(name, {"metadata": {"finalizers": None}})
    world.settle(120.0)
    assert world.reservations()[name]["metadata"]["labels"][UNIT_UID]


def test_a_futile_replacement_is_repeated_with_delays(
    world: StrictWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.begin()
    tries: list[object] = []
    monkeypatch.setattr(ReservationExecutor, "execute", lambda _, *said: tries.append(said))
    world.koord_scheduler.grant()
    world.settle(60.0)
    assert 0 < len(tries) < 60


@pytest.mark.parametrize("is_unit_there", [True, False], ids=["freed", "deleted"])
@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "during a restart"])
def test_one_that_has_lost_its_annotation_is_deleted_as_well(
    world: StrictWorld, *, is_unit_there: bool, is_seen: bool
) -> None:
    world.begin()
    take_off(world, min(world.reservations()), annotation=RELATED_QUEUE_UNIT)
    if is_seen:
        world.settle(5.0)
    if is_unit_there:
        world.patch_unit_status({"phase": "TimeoutBackoff", "admissions": []})
    else:
        world.direct.delete("jobs", "main", "team")
        world.direct.delete("queueunits", "main", "team")
    if not is_seen:
        world.start("--enable-reservation")
    world.settle(10.0)
    assert world.reservations() == {}


@pytest.mark.parametrize("is_taken_over", [False, True])
def test_without_its_annotation_its_result_counts(
    world: StrictWorld, *, is_taken_over: bool
) -> None:
    world.begin()
    before = {each["metadata"]["uid"] for each in world.reservations().values()}
    take_off(world, min(world.reservations()), annotation=RELATED_QUEUE_UNIT)
    if is_taken_over:
        world.start("--enable-reservation")
    world.settle(5.0)
    world.koord_scheduler.answer("Unknown", "Scheduling")
    world.settle(5.0)
    assert {each["metadata"]["uid"] for each in world.reservations().values()} == before
    world.grant()
    world.settle()
    assert world.phase() == "SchedSucceed"


def test_one_without_any_mark_is_left_and_the_next_attempt_has_other_names(
    world: StrictWorld,
) -> None:
    world.begin()
    name = min(world.reservations())
    uid = world.reservations()[name]["metadata"]["uid"]
    take_off(world, name, annotation=RELATED_QUEUE_UNIT)
    take_off(world, name, label=UNIT_UID)
    world.settle(5.0)
    assert world.phase() == "SchedFailed"
    assert world.message() == (
        f"A reservation is refused: {name} is there already, and does not name this unit"
    )
    world.free()
    world.ask_for_nodes(attempt=2)
    world.grant()
    world.settle()
    assert world.phase() == "SchedSucceed"
    assert world.reservations()[name]["metadata"]["uid"] == uid
