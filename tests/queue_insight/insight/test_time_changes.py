"""What starts a unit that budgets or windows refuse: a shorter time to run."""

from __future__ import annotations

from queue_insight.insight.change import Change
from tests.budget_world import BudgetWorld, budget
from tests.queue_insight.insight.changes_kit import of_kind, the
from tests.queue_insight.insight.test_budget_changes import changes, spent
from tests.reserved_world import ReservedWorld, build_reservation, build_spec, schedules_at


def declares(world: BudgetWorld) -> Change:
    return the(changes(world, "waits"), "executionTime")


def test_a_shorter_time_starts_it() -> None:
    world = spent()
    assert world.ask("waits", 1, 4) == []
    change = declares(world)
    assert change.description == ("Declare that it runs for at most 2 h: then its budget has room.")
    assert (change.sufficient, change.minimal) == (True, True)
    assert change.patches[0].patch == {"spec": {"maximumExecutionTimeSeconds": 7200}}


def test_one_that_must_declare_a_time_is_told_the_longest() -> None:
    world = spent(budget(10, undeclared="Refuse"))
    assert world.ask("waits", 1, None) == []
    assert "at most 2 h" in declares(world).description


def test_the_smallest_refused_time_is_nothing() -> None:
    world = spent(budget(8))
    assert world.ask("waits", 1, 4) == []
    assert of_kind(changes(world, "waits"), "executionTime") == []


def test_what_ends_before_a_window_starts() -> None:
    world = ReservedWorld()
    world.reserve()
    assert world.ask("waits", 1, 4) == []
    change = declares(world)
    assert change.description == (
        "Declare that it runs for at most 1 h 50 min: then it ends before the window."
    )
    assert (change.sufficient, change.minimal) == (True, True)
    assert change.patches[0].patch == {"spec": {"maximumExecutionTimeSeconds": 6600}}


def test_one_that_declares_no_time_is_told_which_starts() -> None:
    world = ReservedWorld()
    world.reserve()
    assert world.ask("waits", 1, None) == []
    assert "at most 1 h 50 min" in declares(world).description


def test_a_budget_and_a_window_are_asked_together() -> None:
    world = spent(budget(9))
    reserved = build_reservation(spec=build_spec("2026-11-02T01:10"))
    world.workers.wake(world.engine.on_schedules(schedules_at(reserved, world.second)))
    world.workers.wake(world.engine.on_reservation(reserved))
    assert world.ask("waits", 1, 4) == []
    assert declares(world).description == (
        "Declare that it runs for at most 1 h: then its budget has room and it ends before the"
        " window."
    )


def test_in_a_window_no_time_starts_it() -> None:
    world = ReservedWorld("2026-12-03T18:30")
    world.reserve()
    assert world.ask("waits", 1, 4) == []
    assert of_kind(changes(world, "waits"), "executionTime") == []
