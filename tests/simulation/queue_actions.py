"""What administrators do with queues, quotas and nodes."""

from __future__ import annotations

from typing import Final

from shared_api.testing.object_builders import elastic_quota_body, node_body, queue_body
from shared_api.well_known_labels import (
    AVAILABLE_QUOTA,
    MAX_DEPTH,
    QUEUE_POLICY,
    QUOTA_PARENT,
    STOP_POLICY,
    WAIT_FOR_PODS_RUNNING,
)
from tests.simulation.action_table import action, annotate, one_of, patch, some
from tests.simulation.change_feed import Json
from tests.simulation.stepped_programs import QUEUE_NAMESPACE
from tests.simulation.world import World

QUOTA_TREE: Final = {
    "top": ("team", "", 5, 8),
    "mid": ("team", "top", 3, 6),
    "a": ("team", "mid", 2, 4),
    "b": ("team", "mid", 1, 5),
    "c": ("team", "top", 2, 3),
    "other": ("other", "", 2, 2),
}
"""name -> namespace, parent, min and max in CPUs."""
PARENTS: Final = ("top", "mid")
LEAVES: Final = tuple(name for name in QUOTA_TREE if name not in PARENTS)
MOST_NODES: Final = 4


def set_up(world: World) -> None:
    """Make the quotas, and a queue for all of them."""
    for name in QUOTA_TREE:
        _create_quota(world, name)
    _create_shared(world)


def has_queues(world: World) -> bool:
    return bool(world.all("queues"))


def has_quotas(world: World) -> bool:
    return bool(world.all("elasticquotas"))


def lacks_quotas(world: World) -> bool:
    return len(world.all("elasticquotas")) < len(QUOTA_TREE)


def lacks_shared_queue(world: World) -> bool:
    return f"{QUEUE_NAMESPACE}/shared" not in world.all("queues")


# --- queues --------------------------------------------------------------------------------------


@action(weight=3, when=has_queues)
def set_policy(world: World) -> str:
    key, _ = some(world.rng, world.all("queues"))
    policy = one_of(world.rng, ("Priority", "Block", "FIFO", "Intelligent", "Nonsense"))
    patch(world, "queues", key, {"spec": {"queuePolicy": policy}})
    return f"{key} {policy}"


@action(weight=2, when=has_queues)
def set_queue_priority(world: World) -> str:
    key, _ = some(world.rng, world.all("queues"))
    priority = one_of(world.rng, (0, 1, 5))
    patch(world, "queues", key, {"spec": {"priority": priority}})
    return f"{key} {priority}"


@action(weight=2, when=has_queues)
def set_max_depth(world: World) -> str:
    key, _ = some(world.rng, world.all("queues"))
    depth = one_of(world.rng, ("1", "2", "deep", None))
    annotate(world, "queues", key, MAX_DEPTH, depth)
    return f"{key} {depth}"


@action(weight=2, when=has_queues)
def set_wait_for_pods(world: World) -> str:
    key, _ = some(world.rng, world.all("queues"))
    said = one_of(world.rng, ("true", None))
    annotate(world, "queues", key, WAIT_FOR_PODS_RUNNING, said)
    return f"{key} {said}"


@action(weight=2, when=has_queues)
def set_stop_policy(world: World) -> str:
    key, _ = some(world.rng, world.all("queues"))
    said = one_of(world.rng, ("Hold", "HoldAndDrain", "None", None, None))
    annotate(world, "queues", key, STOP_POLICY, said)
    return f"{key} {said}"


@action(weight=2, when=has_queues)
def ask_for_checks(world: World) -> str:
    key, _ = some(world.rng, world.all("queues"))
    names = one_of(world.rng, (("nodes",), ("nodes", "budget"), (), ()))
    patch(world, "queues", key, {"spec": {"admissionChecks": [{"name": each} for each in names]}})
    return f"{key} {names}"


def end_stops(world: World) -> None:
    """Let all queues go on, and ask for nothing."""
    nothing: Json = {
        "metadata": {"annotations": {STOP_POLICY: None}},
        "spec": {"admissionChecks": None},
    }
    for key in sorted(world.all("queues")):
        patch(world, "queues", key, nothing)


@action(weight=1, when=has_queues)
def delete_queue(world: World) -> str:
    key, _ = some(world.rng, world.all("queues"))
    world.direct.delete("queues", key.partition("/")[2], QUEUE_NAMESPACE)
    return key


@action(weight=3, when=lacks_shared_queue)
def create_shared_queue(world: World) -> str:
    return _create_shared(world)


def _create_shared(world: World) -> str:
    takes = {AVAILABLE_QUOTA[0]: world.rng.choice(("*", "a,b"))}
    world.direct.create(
        queue_body("shared", namespace=QUEUE_NAMESPACE, metadata={"annotations": takes})
    )
    return str(takes)


# --- quotas --------------------------------------------------------------------------------------


@action(weight=4, when=has_quotas)
def set_quota_max(world: World) -> str:
    key, _ = some(world.rng, world.all("elasticquotas"))
    cpu = one_of(world.rng, (1, 2, 4, 7))
    patch(world, "elasticquotas", key, {"spec": {"max": {"cpu": cpu}}})
    return f"{key} {cpu}"


@action(weight=3, when=has_quotas)
def set_quota_min(world: World) -> str:
    key, _ = some(world.rng, world.all("elasticquotas"))
    cpu = one_of(world.rng, (0, 1, 3))
    patch(world, "elasticquotas", key, {"spec": {"min": {"cpu": cpu}}})
    return f"{key} {cpu}"


@action(weight=2, when=has_quotas)
def set_parent(world: World) -> str:
    key, _ = some(world.rng, world.all("elasticquotas"))
    parent = one_of(world.rng, (*PARENTS, "nobody", None))
    patch(world, "elasticquotas", key, {"metadata": {"labels": {QUOTA_PARENT: parent}}})
    return f"{key} under {parent}"


@action(weight=1, when=has_quotas)
def set_policy_of_quota(world: World) -> str:
    key, _ = some(world.rng, world.all("elasticquotas"))
    policy = one_of(world.rng, ("Block", "Priority", None))
    patch(world, "elasticquotas", key, {"metadata": {"labels": {QUEUE_POLICY: policy}}})
    return f"{key} {policy}"


@action(weight=2, when=has_quotas)
def delete_quota(world: World) -> str:
    key, _ = some(world.rng, world.all("elasticquotas"))
    namespace, _, name = key.partition("/")
    world.direct.delete("elasticquotas", name, namespace)
    return key


@action(weight=4, when=lacks_quotas)
def create_quota(world: World) -> str:
    there = {key.partition("/")[2] for key in world.all("elasticquotas")}
    name = one_of(world.rng, [name for name in QUOTA_TREE if name not in there])
    _create_quota(world, name)
    return name


def _create_quota(world: World, name: str) -> None:
    namespace, parent, least, most = QUOTA_TREE[name]
    world.direct.create(
        elastic_quota_body(
            name,
            namespace=namespace,
            min={"cpu": least},
            max={"cpu": most},
            parent=parent,
            is_parent=name in PARENTS,
        )
    )


# --- nodes ---------------------------------------------------------------------------------------


@action(weight=2)
def change_nodes(world: World) -> str:
    name = f"node-{world.rng.randrange(MOST_NODES)}"
    if name in world.all("nodes"):
        world.direct.delete("nodes", name)
        return f"{name} goes"
    world.direct.create(node_body(name, allocatable={"cpu": world.rng.choice(("2", "6"))}))
    return f"{name} comes"
