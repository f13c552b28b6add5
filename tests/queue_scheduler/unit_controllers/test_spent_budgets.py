"""What follows a spent budget: an event on its policy, and evictions where it asks for them."""

from __future__ import annotations

from dataclasses import replace as replace_dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.ledger import Ledger
from queue_scheduler.tenants.periods import find_calendars
from queue_scheduler.unit_controllers.spent_budgets import SWEEP_SECONDS, SpentBudgets
from shared_api.objects.quota_policy import Budget
from tests.budget_world import HOUR
from tests.object_states import condition_of
from tests.properties.engine_kit import build_policy
from tests.queue_scheduler.shell_kit import ShellKit
from tests.queue_scheduler.unit_news import access_of
from tests.stepped_host import exhaust


class Spending:
    """A unit with two cores that runs in the quota team, whose budget is two hours of a core."""

    def __init__(self, **fields: Any) -> None:
        self.kit = kit = ShellKit()
        kit.shared._engine.usage.ledger = Ledger()  # noqa: SLF001 - before its first call
        kit.shared.apply(Engine.on_time, kit.clock.now())
        kit.add_quota("team", cpu=4)
        kit.add_unit("a")
        self.write(
            {
                "phase": "Running",
                "admissions": [
                    {"name": "main", "replicas": 2, "running": 2, "resources": {"cpu": "2"}}
                ],
            }
        )
        self.watch = SpentBudgets(access_of(kit), kit.clock)
        self.state(2, **fields)

    def state(self, hours: int, **fields: Any) -> None:
        budget = Budget(resource="cpu", hours=hours, **{"period": "None", **fields})
        policy = build_policy("budgets", ["team"])
        policy = replace(policy, spec=replace(policy.spec, budgets=(budget,)))
        second = int(self.kit.clock.now().timestamp())
        self.kit.shared.apply(Engine.on_calendars, find_calendars((budget,), second))
        self.kit.shared.apply(Engine.on_quota_policy, policy)

    def write(self, status: dict[str, Any]) -> None:
        patch = {"namespace": "default", "subresource": "status"}
        self.kit.direct.patch("queueunits", "a", {"status": status}, **patch)
        self.kit.learn("a")

    def work(self, seconds: float) -> None:
        self.kit.clock.advance(seconds)
        self.kit.shared.apply(Engine.on_time, self.kit.clock.now())
        for _ in range(2):
            exhaust(self.watch.step)
            self.kit.send()

    def told(self) -> list[tuple[str, str, str]]:
        return [(each.kind, each.key, each.reason) for each in self.kit.reported]

    def evicted(self) -> tuple[str, str]:
        found = condition_of(self.kit.unit("a"), "Evicted")
        return found.get("status", ""), found.get("reason", "")


@pytest.mark.parametrize("enforce", ["Hold", "Warn"])
def test_what_runs_goes_on(enforce: str) -> None:
    spending = Spending(enforce=enforce)
    spending.work(HOUR - 2 * SWEEP_SECONDS)
    assert spending.told() == []
    for _ in range(3):
        spending.work(HOUR)
    assert spending.told() == [("QuotaPolicy", "koord-queue/budgets", "BudgetSpent")], "once"
    assert "the budget of quota team (2 cpu hours, budgets 0) is spent: " in (
        spending.kit.reported[0].note
    )
    assert spending.evicted() == ("", "")


def test_stop_evicts_after_the_grace() -> None:
    spending = Spending(enforce="Stop", grace="10m")
    spending.work(HOUR + 590)
    assert len(spending.told()) == 1
    assert spending.evicted() == ("", "")
    spending.work(10)
    assert spending.evicted() == ("True", "BudgetSpent")


def test_a_raised_budget_evicts_nothing() -> None:
    spending = Spending(enforce="Stop", grace="10m")
    spending.work(HOUR + 300)
    spending.state(20, enforce="Stop", grace="10m")
    spending.work(HOUR)
    assert spending.evicted() == ("", "")


def test_a_follower_reports_nothing_and_the_next_leader_does() -> None:
    spending = Spending()
    leads = False
    access = replace_dataclass(access_of(spending.kit), may_write=lambda: leads)
    spending.watch = SpentBudgets(access, spending.kit.clock)
    spending.work(2 * HOUR)
    assert (spending.told(), spending.watch.step()) == ([], SWEEP_SECONDS)
    leads = True
    spending.work(SWEEP_SECONDS)
    assert len(spending.told()) == 1
