"""Which units run into a window, and how many wait for one."""

from __future__ import annotations

import pytest

from queue_scheduler.engine.reservation_questions import RunningUnits, count_waiting
from queue_scheduler.reservations.schedules import Window
from shared_api.objects.queue_reservation import ReservationScope
from tests.budget_world import at
from tests.reserved_world import ReservedWorld

NIGHT = Window(at("2026-12-03T18:00"), at("2026-12-03T20:00"))


@pytest.fixture
def world() -> ReservedWorld:
    """Return a world with units that run, made before there was a window."""
    world = ReservedWorld()
    for name, hours, quota in (
        ("short", 1, "vision"),
        ("exact", 2, "vision"),
        ("over", 2.5, "vision"),
        ("long", 9, "speech"),
        ("open", None, "speech"),
    ):
        assert world.ask(name, 1, hours, quota) == [name]
    return world


def found(world: ReservedWorld, most: int = 9) -> tuple[int, list[tuple[str, int | None]]]:
    running = RunningUnits(world.engine, world.second)
    count, units = running.find("upgrade", NIGHT, most)
    return count, [(each.record.unit.metadata.name, each.end) for each in units]


def test_what_ends_after_a_window_has_begun_runs_into_it(world: ReservedWorld) -> None:
    world.reserve()
    assert found(world) == (
        3,
        [("open", None), ("long", at("2026-12-04T01:00")), ("over", at("2026-12-03T18:30"))],
    )


def test_some_are_named_and_all_are_counted(world: ReservedWorld) -> None:
    world.reserve()
    assert found(world, 1) == (3, [("open", None)])


def test_only_units_of_the_scope_run_into_it(world: ReservedWorld) -> None:
    world.reserve(scope=ReservationScope(quotas=("vision",)))
    assert [name for name, _ in found(world)[1]] == ["over"]
    world.reserve(scope=ReservationScope(quotas=("top",)))
    assert found(world)[0] == 3


def test_in_a_window_all_that_run_are_in_it(world: ReservedWorld) -> None:
    world.reserve()
    world.wait("2026-12-03T18:00")
    # The first two are still there, whatever they have declared.
    assert found(world)[0] == 5


def test_a_time_that_waits_is_no_part_of_it(world: ReservedWorld) -> None:
    world.reserve()
    assert world.ask("late", 1, 3) == []
    assert found(world)[0] == 3


def test_who_waits_is_counted_by_reservation(world: ReservedWorld) -> None:
    assert count_waiting(world.engine) == {}
    world.reserve()
    world.reserve("later", "2026-12-04T12:00")
    world.ask("a", 1, 3)
    world.ask("b", 1, 3)
    world.ask("c", 2, None)
    world.ask("big", 2000, 1)  # for its quota
    assert count_waiting(world.engine) == {"upgrade": 3}
    world.unreserve()
    assert count_waiting(world.engine) == {"later": 1}
