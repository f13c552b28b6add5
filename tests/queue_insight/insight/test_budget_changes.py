"""What starts a unit that a budget refuses: more in the budget."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from queue_insight.insight.changes import Changes, find_changes
from shared_api.objects.quota_policy import Budget
from tests.budget_world import BudgetWorld, budget
from tests.queue_insight.insight.changes_kit import of_kind, the


def changes(world: BudgetWorld, name: str) -> Changes:
    wall = datetime.fromtimestamp(world.second, UTC)
    found = find_changes(world.engine.fork(), f"ns/{name}", wall)
    assert found is not None, f"{name} does not wait"
    return found


def spent(*budgets: Budget, **fields: Any) -> BudgetWorld:
    """Return a world with 8 of 10 hours promised."""
    world = BudgetWorld("2026-11-02T00:00", **fields)
    world.state(*(budgets or (budget(10),)))
    assert world.ask("runs", 2, 4) == ["runs"]
    return world


def test_the_hours_are_raised_by_what_is_missing() -> None:
    world = spent()
    assert world.ask("waits", 1, 4) == []
    change = the(changes(world, "waits"), "budget")
    assert change.description == (
        "Raise the hours of cpu in the budget of quota vision (QuotaPolicy budgets, budgets 0) to "
        "at least 12."
    )
    assert (change.sufficient, change.minimal, change.also_starts) == (True, True, ())
    (patch,) = change.patches
    at = "/spec/budgets/0/hours"
    assert patch.operations == (
        {"op": "test", "path": at, "value": 10},
        {"op": "replace", "path": at, "value": "12"},
    )


def test_what_starts_first_takes_its_share() -> None:
    world = spent()
    assert world.ask("first", 1, 3) == []
    assert world.ask("waits", 1, 4) == []
    change = the(changes(world, "waits"), "budget")
    assert "to at least 15." in change.description
    assert change.also_starts == ("ns/first",)


def test_two_budgets_are_raised_together() -> None:
    world = spent(budget(10), budget(11, period="Day"))
    assert world.ask("waits", 1, 4) == []
    change = the(changes(world, "waits"), "budget")
    (patch,) = change.patches
    values = [each["value"] for each in patch.operations if each["op"] == "replace"]
    assert values == ["12", "12"]
    assert change.minimal


def test_a_spent_budget_without_reserve_needs_anything_that_is_left() -> None:
    world = BudgetWorld("2026-11-02T00:00")
    world.state(budget(8, reserve="None"))
    world.use(9)
    assert world.ask("waits", 1, 4) == []
    change = the(changes(world, "waits"), "budget")
    assert change.description.endswith("to at least 9.001.")
    assert change.minimal


def test_an_amount_is_raised() -> None:
    world = spent(Budget(amount=20, price={"cpu": "2.5"}, period="Month"))
    assert world.ask("waits", 1, 4) == []
    change = the(changes(world, "waits"), "budget")
    assert "Raise the amount in the budget of quota vision" in change.description
    assert change.patches[0].operations[1]["value"] == "30"


@pytest.mark.parametrize("kind", ["budget", "executionTime"])
def test_nothing_is_said_that_does_not_start_it(kind: str) -> None:
    world = spent(cpu=2)
    assert world.ask("waits", 1, 4) == [], "there is no room either"
    assert of_kind(changes(world, "waits"), kind) == []
