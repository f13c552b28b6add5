"""Budgets in the whole scheduler: what holds, what is shown, and what is kept over restarts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from queue_scheduler.configuration import AccountsSettings, KoordQueueConfiguration
from queue_scheduler.decision import Reason
from queue_scheduler.engine.unit_questions import refusal_of_unit
from tests.object_states import condition_of
from tests.queue_scheduler.scheduler_world import MAX_MODE, SchedulerWorld, running_world
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, Json

ACCOUNTED = KoordQueueConfiguration(
    plugin_configs=MAX_MODE.plugin_configs, accounts=AccountsSettings(enabled=True)
)
TEN = {"resource": "cpu", "hours": 10, "period": "Month"}
NO_ZONE = {**TEN, "hours": 99, "timeZone": "Europe/Nowhere"}


@pytest.fixture
def world() -> Iterator[SchedulerWorld]:
    with running_world() as found:
        yield found


def begin(world: SchedulerWorld, *budgets: Json, **started: Any) -> None:
    """Start with a quota and a policy with these budgets."""
    world.add_quota(cpu=100)
    world.direct.create(
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "QuotaPolicy",
            "metadata": {"name": "p", "namespace": QUEUE_NAMESPACE},
            "spec": {"quotas": ["team"], "budgets": list(budgets)},
        }
    )
    world.start(settle_seconds=3.0, **{"configuration": ACCOUNTED, **started})


def edit(world: SchedulerWorld, *budgets: Json) -> None:
    body = {"spec": {"budgets": list(budgets)}}
    world.direct.patch("quotapolicies", "p", body, namespace=QUEUE_NAMESPACE)
    world.settle(3.0)


def add(world: SchedulerWorld, name: str, cpu: int, seconds: int | None) -> str:
    """Create a unit that declares so many seconds; return its phase after a while."""
    spec: Json = {} if seconds is None else {"maximumExecutionTimeSeconds": seconds}
    world.add_unit(name, cpu=cpu, **spec)
    world.settle(3.0)
    return world.phase(name)


def policy(world: SchedulerWorld) -> Json:
    return world.direct.get("quotapolicies", "p", QUEUE_NAMESPACE)


def ready(world: SchedulerWorld) -> tuple[str, str]:
    found = condition_of(policy(world), "Ready")
    return found["status"], found["reason"]


def figures(world: SchedulerWorld) -> Json:
    (quota,) = policy(world)["status"]["quotas"]
    (found,) = quota["budgets"]
    return {name: found.get(name) for name in ("resource", "spent", "committed", "left")}


def test_a_budget_holds_and_its_status_says_what_is_left(world: SchedulerWorld) -> None:
    begin(world, TEN)
    assert ready(world) == ("True", "Ready")
    assert policy(world)["status"]["budgetsInForce"] == [TEN]
    assert figures(world) == {"resource": "cpu", "spent": "0", "committed": "0", "left": "10"}
    assert add(world, "a", 4, 3600) == "Dequeued"
    assert add(world, "b", 4, 7200) in {"", "Enqueued"}
    refusal = world.ask(lambda engine: refusal_of_unit(engine, "default/b"))
    assert refusal is not None
    assert refusal.reason is Reason.BUDGET_SPENT
    edit(world, {**TEN, "hours": 20})
    assert world.phase("b") == "Dequeued"


def test_figures_are_written_every_ten_minutes(world: SchedulerWorld) -> None:
    begin(world, TEN)
    add(world, "a", 1, 3600)
    seen: list[str] = []
    for number in range(65):
        world.settle(10.0)
        if number % 10 == 0:
            add(world, f"u{number}", 1, 1)
        (found,) = policy(world)["status"]["quotas"][0]["budgets"]
        seen += [found["at"]] if found["at"] not in seen else []
    first, second = seen
    assert second > first


def test_what_is_spent_is_kept_over_a_restart(world: SchedulerWorld) -> None:
    begin(world, {**TEN, "period": "Rolling 30d"})  # which no account knows
    add(world, "a", 6, 3600)
    world.clock.advance(3600.0)
    world.stop()
    world.start(configuration=ACCOUNTED, settle_seconds=3.0)
    world.finish("a")
    world.settle(3.0)
    assert add(world, "b", 5, 3600) in {"", "Enqueued"}, "6 of 10 are spent"
    refusal = world.ask(lambda engine: refusal_of_unit(engine, "default/b"))
    assert refusal is not None
    assert refusal.budget is not None
    assert 3.9 < refusal.budget.left / refusal.budget.scale < 4


def test_bad_settings_of_budgets_leave_what_was_in_force_over_a_restart(
    world: SchedulerWorld,
) -> None:
    begin(world, TEN)
    edit(world, NO_ZONE)
    for _ in range(2):
        assert ready(world) == ("False", "UnreadableBudget")
        assert policy(world)["status"]["budgetsInForce"] == [TEN]
        assert ("p", "UnreadableBudget") in world.events()
        assert add(world, f"u{_}", 11, 3600) in {"", "Enqueued"}
        world.start(configuration=ACCOUNTED, settle_seconds=3.0)
    assert "budgets[0].timeZone: there is no time zone 'Europe/Nowhere'" in (
        world.note("p", "UnreadableBudget")
    )


def test_without_accounts_no_budget_counts_and_the_status_says_so(world: SchedulerWorld) -> None:
    begin(world, TEN, configuration=MAX_MODE)
    assert ready(world) == ("False", "AccountsDisabled")
    assert add(world, "a", 50, 3600) == "Dequeued"
