"""What administrators do with budgets, in worlds in which queues order their users as well."""

from __future__ import annotations

from typing import Any, Final

from tests.simulation.action_table import action, edit, one_of, patch, some, spec_field
from tests.simulation.change_feed import Json
from tests.simulation.limit_actions import LIMITED, policy_body
from tests.simulation.world import World
from tests.simulation.world_plan import QUEUE_NAMESPACE

POLICIES: Final = ("x", "y", "z")
PERIODS: Final = ("Day", "Day", "Rolling 30d", "None")
CPU_HOURS: Final = ("0", "20m", "60m", "200m", "1")
"""72 to 720 seconds of a core for the middle ones; the day ends soon after a world begins."""


def has_budgets(world: World) -> bool:
    return world.plan.has_budgets


def lacks_policies(world: World) -> bool:
    return has_budgets(world) and len(world.all("quotapolicies")) < len(POLICIES)


def has_policies(world: World) -> bool:
    return has_budgets(world) and bool(world.all("quotapolicies"))


def _some_budgets(world: World) -> list[Json]:
    rng = world.rng
    found: list[Json] = []
    for _ in range(rng.choice((1, 1, 2))):
        period = rng.choice(PERIODS)
        fields: dict[str, Any] = {
            "enforce": rng.choice(("Hold", "Hold", "Stop", "Warn")),
            "reserve": rng.choice(("Declared", "Declared", "None")),
            "undeclared": rng.choice(("24h", "30s", "Refuse")),
            "grace": rng.choice(("0s", "10s", "1m")),
        }
        if period == "Day":
            fields["carryOver"] = rng.choice((0, 50))
            fields["debt"] = rng.choice(("Count", "Forgive"))
        found.append(
            {"resource": "cpu", "hours": rng.choice(CPU_HOURS), "period": period, **fields}
        )
    return found


@action(weight=8, when=lacks_policies)
def create_budgets(world: World) -> str:
    there = {key.partition("/")[2] for key in world.all("quotapolicies")}
    name = one_of(world.rng, [name for name in POLICIES if name not in there])
    quotas = sorted(world.rng.sample(LIMITED, world.rng.choice((1, 1, 2, 3))))
    budgets = _some_budgets(world)
    world.direct.create(policy_body(name, {"quotas": quotas, "budgets": budgets}))
    return f"{name} of {quotas} {budgets}"


@action(weight=5, when=has_policies)
def edit_budgets(world: World) -> str:
    """Change how much may be used, or all that a policy says."""
    key, policy = some(world.rng, world.all("quotapolicies"))
    budgets = _some_budgets(world)
    if world.rng.random() < 0.6:
        budgets = [dict(each) for each in policy["spec"]["budgets"]]
        budgets[0]["hours"] = world.rng.choice(CPU_HOURS)
    patch(world, "quotapolicies", key, {"spec": {"budgets": budgets}})
    return f"{key} {budgets}"


@action(weight=3, when=has_policies)
def delete_budgets(world: World) -> str:
    key, _ = some(world.rng, world.all("quotapolicies"))
    world.direct.delete("quotapolicies", key.partition("/")[2], QUEUE_NAMESPACE)
    return key


def stop_all(world: World) -> None:
    """Let nothing go on to run: all quotas have a budget of nothing, and Stop."""
    for key in sorted(world.all("quotapolicies")):
        world.direct.delete("quotapolicies", key.partition("/")[2], QUEUE_NAMESPACE)
    nothing = {"resource": "cpu", "hours": 0, "period": "None", "enforce": "Stop", "grace": "0s"}
    spec = {"quotas": sorted(LIMITED), "budgets": [nothing]}
    world.direct.create(policy_body(POLICIES[0], spec))


edit(
    "order_by_user",
    "queues",
    spec_field("queuePolicy"),
    ("Fair", "Fair", "Priority"),
    weight=4,
    when=has_budgets,
)
