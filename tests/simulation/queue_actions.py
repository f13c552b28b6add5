"""What administrators do with queues, quotas and nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from shared_api.testing.object_builders import elastic_quota_body, node_body, queue_body
from shared_api.well_known_labels import (
    AVAILABLE_QUOTA,
    BACKFILL,
    ENABLE_PREEMPTION,
    MAX_DEPTH,
    MAX_PRIORITY,
    PREEMPT_RUNNING,
    QUEUE_POLICY,
    QUOTA_IS_ROOT,
    QUOTA_PARENT,
    QUOTA_TOTAL_RESOURCE,
    QUOTA_TREE_ID,
    RECLAIM_POLICY,
    STOP_POLICY,
    WAIT_FOR_PODS_RUNNING,
)
from tests.simulation.action_table import (
    action,
    annotation,
    edit,
    label,
    one_of,
    patch,
    some,
    spec_field,
)
from tests.simulation.change_feed import Json
from tests.simulation.world import World
from tests.simulation.world_plan import QUEUE_NAMESPACE

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
TREES: Final = {"top": "x", "other": "y"}
"""The trees of the roots, where there are several trees."""
CROWDED_CPUS: Final = 2
"""By how much all quotas are smaller in a crowded world."""
MOST_NODES: Final = 4


def set_up(world: World) -> None:
    """Create the quotas, and a queue for all of them."""
    for name in QUOTA_TREE:
        _create_quota(world, name)
    _create_shared(world)


def has_queues(world: World) -> bool:
    return bool(world.all("queues"))


def has_quotas(world: World) -> bool:
    return bool(world.all("elasticquotas"))


def trees(world: World) -> bool:
    return world.plan.has_trees


def backfills(world: World) -> bool:
    return world.plan.backfills


def lacks_quotas(world: World) -> bool:
    return len(world.all("elasticquotas")) < len(QUOTA_TREE)


def lacks_shared_queue(world: World) -> bool:
    return f"{QUEUE_NAMESPACE}/shared" not in world.all("queues")


# --- queues --------------------------------------------------------------------------------------


edit(
    "set_policy",
    "queues",
    spec_field("queuePolicy"),
    ("Priority", "Block", "FIFO", "Intelligent", "Nonsense"),
    weight=3,
)
edit("set_queue_priority", "queues", spec_field("priority"), (0, 1, 5), weight=2)
edit("set_max_depth", "queues", annotation(MAX_DEPTH), ("1", "2", "deep", None), weight=2)
edit("set_ceiling", "queues", annotation(MAX_PRIORITY), ("0", "8", "high", None), weight=2)
edit("set_wait_for_pods", "queues", annotation(WAIT_FOR_PODS_RUNNING), ("true", None), weight=2)
edit(
    "set_stop_policy",
    "queues",
    annotation(STOP_POLICY),
    ("Hold", "HoldAndDrain", "None", None, None),
    weight=2,
)
edit(
    "ask_for_checks",
    "queues",
    lambda names: {"spec": {"admissionChecks": [{"name": each} for each in names]}},
    (("nodes",), ("nodes", "budget"), (), ()),
    weight=2,
)
edit("set_preemption", "queues", annotation(ENABLE_PREEMPTION), ("true", "true", None), weight=4)
edit("set_preempt_running", "queues", annotation(PREEMPT_RUNNING), ("true", None), weight=2)
edit(
    "set_backfill", "queues", annotation(BACKFILL), ("true", "true", None), weight=4, when=backfills
)


def end_stops(world: World) -> None:
    """Let all queues go on without asking for nodes or checks."""
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
    said = {AVAILABLE_QUOTA[0]: world.rng.choice(("*", "a,b"))}
    if world.plan.evicts:
        said[ENABLE_PREEMPTION] = "true"
        said[PREEMPT_RUNNING] = world.rng.choice(("true", "false"))
    if world.plan.backfills:
        said[BACKFILL] = "true"
    world.direct.create(
        queue_body("shared", namespace=QUEUE_NAMESPACE, metadata={"annotations": said})
    )
    return str(said)


# --- quotas --------------------------------------------------------------------------------------


def _amount_of(field: str) -> Callable[[int], Json]:
    return lambda cpu: {"spec": {field: {"cpu": cpu}}}


edit("set_quota_max", "elasticquotas", _amount_of("max"), (1, 2, 4, 7), weight=4)
edit("set_quota_min", "elasticquotas", _amount_of("min"), (0, 1, 3), weight=3)
edit(
    "set_parent",
    "elasticquotas",
    label(QUOTA_PARENT),
    (*PARENTS, *PARENTS, "nobody", None),
    weight=2,
)
edit(
    "set_policy_of_quota",
    "elasticquotas",
    label(QUEUE_POLICY),
    ("Block", "Priority", None),
    weight=1,
)
edit(
    "set_reclaim_policy",
    "elasticquotas",
    annotation(RECLAIM_POLICY),
    ("Any", "LowerPriority", "Never", "Somebody", None),
    weight=3,
)
edit("move_to_tree", "elasticquotas", label(QUOTA_TREE_ID), ("x", "y", None), weight=1, when=trees)
edit(
    "set_tree_total",
    "elasticquotas",
    annotation(QUOTA_TOTAL_RESOURCE),
    ('{"cpu": 3}', '{"cpu": 8}', None),
    weight=1,
    when=trees,
)


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
    if world.plan.is_crowded:
        most = max(least, most - CROWDED_CPUS)
    labels, annotations = {}, {}
    if world.plan.evicts:
        annotations[RECLAIM_POLICY] = world.rng.choice(("LowerPriority", "Any"))
    if world.plan.has_trees and name in TREES:
        labels = {QUOTA_TREE_ID: TREES[name], QUOTA_IS_ROOT: "true"}
        annotations[QUOTA_TOTAL_RESOURCE] = json.dumps({"cpu": most})
    body = elastic_quota_body(
        name,
        namespace=namespace,
        min={"cpu": least},
        max={"cpu": most},
        parent=parent,
        is_parent=name in PARENTS,
        metadata={"annotations": annotations},
    )
    body["metadata"]["labels"].update(labels)
    world.direct.create(body)


# --- nodes ---------------------------------------------------------------------------------------


@action(weight=2)
def change_nodes(world: World) -> str:
    name = f"node-{world.rng.randrange(MOST_NODES)}"
    if name in world.all("nodes"):
        world.direct.delete("nodes", name)
        return f"{name} goes"
    world.direct.create(node_body(name, allocatable={"cpu": world.rng.choice(("2", "6"))}))
    return f"{name} comes"
