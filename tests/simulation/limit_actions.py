"""What administrators do with limits of users and groups, and who submits jobs."""

from __future__ import annotations

from typing import Final

from shared_api.well_known_labels import GROUP, USER
from tests.simulation.action_table import action, edit, label, one_of, patch, some
from tests.simulation.change_feed import Json
from tests.simulation.world import World
from tests.simulation.world_plan import QUEUE_NAMESPACE

USERS: Final = ("ann", "bob", "eve")
GROUPS: Final = ("staff", "interns")
POLICIES: Final = ("p", "q", "r")
LIMITED: Final = ("top", "mid", "a", "b", "c", "other", "nowhere")
"""The quotas that policies name; one does not exist."""


def has_limits(world: World) -> bool:
    return world.plan.has_limits


def lacks_policies(world: World) -> bool:
    return has_limits(world) and len(world.all("quotapolicies")) < len(POLICIES)


def has_policies(world: World) -> bool:
    return has_limits(world) and bool(world.all("quotapolicies"))


def policy_body(name: str, spec: Json) -> Json:
    """Return a QuotaPolicy."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "QuotaPolicy",
        "metadata": {"name": name, "namespace": QUEUE_NAMESPACE},
        "spec": spec,
    }


def _some_limits(world: World) -> list[Json]:
    """Return entries for some users and groups."""
    rng = world.rng
    whose: list[Json] = [
        {"users": [rng.choice(USERS)]},
        {"users": ["*"]},
        {"groups": [rng.choice(GROUPS)]},
        {"groups": ["*"]},
    ]
    entries = []
    for each in whose:
        limits: Json = {
            "max": {"cpu": rng.choice(("1", "2", "3500m"))},
            "running": rng.choice((0, 1, 1, 2)),
            "pending": rng.choice((0, 1, 2)),
        }
        chosen = {key: limit for key, limit in limits.items() if rng.random() < 0.4}
        if chosen and rng.random() < 0.6:
            entries.append({**each, **chosen})
    return entries or [{"users": ["*"], "running": 2}]


@action(weight=8, when=lacks_policies)
def create_policy(world: World) -> str:
    there = {key.partition("/")[2] for key in world.all("quotapolicies")}
    name = one_of(world.rng, [name for name in POLICIES if name not in there])
    quotas = sorted(world.rng.sample(LIMITED, world.rng.choice((1, 1, 2, 3))))
    entries = _some_limits(world)
    world.direct.create(policy_body(name, {"quotas": quotas, "userLimits": entries}))
    return f"{name} of {quotas} {entries}"


@action(weight=5, when=has_policies)
def edit_policy(world: World) -> str:
    """Change the numbers of a policy, or whom it concerns."""
    key, policy = some(world.rng, world.all("quotapolicies"))
    entries = _some_limits(world)
    if world.rng.random() < 0.5:
        entries = [dict(each) for each in policy["spec"]["userLimits"]]
        entries[0]["running"] = world.rng.choice((0, 1, 2, 3))
    patch(world, "quotapolicies", key, {"spec": {"userLimits": entries}})
    return f"{key} {entries}"


@action(weight=3, when=has_policies)
def delete_policy(world: World) -> str:
    key, _ = some(world.rng, world.all("quotapolicies"))
    world.direct.delete("quotapolicies", key.partition("/")[2], QUEUE_NAMESPACE)
    return key


edit("edit_user", "queueunits", label(USER), (*USERS, None), weight=2, when=has_limits)
edit("edit_group", "queueunits", label(GROUP), (*GROUPS, None), weight=1, when=has_limits)


def sign(world: World, job: Json) -> None:
    """Let a new job name who submits it."""
    if not has_limits(world) and not world.plan.keeps_accounts:
        return
    who = {USER: world.rng.choice((*USERS, "")), GROUP: world.rng.choice((*GROUPS, ""))}
    job["metadata"].setdefault("labels", {}).update({k: v for k, v in who.items() if v})


def end_policies(world: World) -> None:
    """Let all units start that their quotas have room for."""
    for key in sorted(world.all("quotapolicies")):
        world.direct.delete("quotapolicies", key.partition("/")[2], QUEUE_NAMESPACE)
