"""The same of trees and ResourceQuotas: changes start a unit as they say, and none is missing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_insight.insight.change import ChangeKind
from queue_insight.insight.trials import Edit
from queue_scheduler.engine.engine import Engine
from queue_scheduler.plugins.resource_quota import ResourceQuotaPlugin
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree, ElasticQuotaTreeNode
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.pod import ResourceQuantities
from shared_api.objects.resource_quota import ResourceQuota, ResourceQuotaSpec
from shared_api.quantity import amount as amount_of
from shared_api.testing.object_builders import tree_node
from tests.properties.test_changes import check_missing, check_named
from tests.queue_scheduler.quota_source_kit import SourceEngine, tree, tree_plugin

pytestmark = pytest.mark.properties

LEAVES = ("a", "b", "c")
MORE = range(1, 9)

Unit = tuple[int, int, int, int]
"""Where (0 to 2), cores, priority, and whether it runs already (0 to 3; 0: it waits)."""

units = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 2), st.integers(0, 3)),
    min_size=2,
    max_size=7,
)
limits = st.one_of(st.none(), st.integers(0, 6))
pick = st.integers(0, 6)


@st.composite
def trees(draw: st.DrawFn) -> ElasticQuotaTree:
    """Return a tree: `a` and `b` below one parent, `c` beside it."""

    def node(name: str, *children: Any) -> dict[str, Any]:
        most, least = draw(limits), draw(limits)
        high = {"cpu": most} if most is not None else {}
        low = {"cpu": least} if least is not None else {}
        return tree_node(name, *children, max=high, min=low)

    parent = node("p", node("a"), node("b"))
    most = draw(limits)
    root: dict[str, Any] = {"max": {"cpu": most}} if most is not None else {}
    return tree(parent, node("c"), **root)


def tree_story(found: ElasticQuotaTree, story: list[Unit]) -> SourceEngine:
    room = SourceEngine(tree_plugin())
    room.apply(found)
    room.add_queues("root-p-a", "root-p-b", "root-c")
    for number, (where, cpu, priority, runs) in enumerate(story):
        name = f"u{number}"
        room.add(name, LEAVES[where], cpu=cpu, priority=priority)
        if runs:
            play(room)
    play(room)
    return room


@st.composite
def resource_quotas(draw: st.DrawFn) -> dict[str, ResourceQuota]:
    """Return up to two ResourceQuotas of one namespace."""
    found = {}
    for name in ("one", "two")[: draw(st.integers(1, 2))]:
        keys = draw(st.lists(st.sampled_from(("cpu", "requests.cpu")), min_size=1, unique=True))
        hard: ResourceQuantities = {key: draw(st.integers(0, 6)) for key in keys}
        meta = ObjectMeta(name=name, namespace="ns")
        found[name] = ResourceQuota(metadata=meta, spec=ResourceQuotaSpec(hard=hard))
    return found


def resource_quota_story(found: dict[str, ResourceQuota], story: list[Unit]) -> SourceEngine:
    room = SourceEngine(ResourceQuotaPlugin())
    for quota in found.values():
        room.apply(quota)
    room.add_queues("ns")
    for number, (_, cpu, priority, runs) in enumerate(story):
        room.add(f"u{number}", cpu=cpu, priority=priority)
        if runs:
            play(room)
    play(room)
    return room


def play(room: SourceEngine) -> None:
    """Let everything start that can."""
    for name in room.start(*(queue.name for queue in room.engine.queues)):
        room.write(name)


@given(found=trees(), story=units)
def test_a_change_in_a_tree_starts_the_unit_as_it_says(
    found: ElasticQuotaTree, story: list[Unit]
) -> None:
    check_named(tree_story(found, story).engine)


@given(found=trees(), story=units, number=pick)
def test_no_change_in_a_tree_is_missing(
    found: ElasticQuotaTree, story: list[Unit], number: int
) -> None:
    engine = tree_story(found, story).engine
    check_missing(engine, f"ns/u{number % len(story)}", every_node(found))


@given(found=resource_quotas(), story=units)
def test_a_change_of_resource_quotas_starts_the_unit_as_it_says(
    found: dict[str, ResourceQuota], story: list[Unit]
) -> None:
    check_named(resource_quota_story(found, story).engine)


@given(found=resource_quotas(), story=units, number=pick)
def test_no_change_of_resource_quotas_is_missing(
    found: dict[str, ResourceQuota], story: list[Unit], number: int
) -> None:
    engine = resource_quota_story(found, story).engine
    check_missing(engine, f"ns/u{number % len(story)}", every_hard(found))


def every_node(found: ElasticQuotaTree) -> Iterator[tuple[ChangeKind, Edit]]:
    """Yield the tree with up to eight cores more in the max or min of each node."""

    def raised(node: ElasticQuotaTreeNode, field: str) -> Iterator[ElasticQuotaTreeNode]:
        listed = getattr(node, field)
        if field == "min" or "cpu" in listed:
            has = amount_of("cpu", listed.get("cpu", 0)) // 1000
            for more in MORE:
                yield replace(node, **{field: {**listed, "cpu": has + more}})
        for at, child in enumerate(node.children):
            for other in raised(child, field):
                children = (*node.children[:at], other, *node.children[at + 1 :])
                yield replace(node, children=children)

    for field, kind in (("max", ChangeKind.QUOTA_MAX), ("min", ChangeKind.QUOTA_MIN)):
        for root in raised(found.spec.root, field):
            edited = replace(found, spec=replace(found.spec, root=root))
            yield kind, partial(Engine.on_quota, quota=edited)


def every_hard(found: dict[str, ResourceQuota]) -> Iterator[tuple[ChangeKind, Edit]]:
    """Yield each ResourceQuota with up to eight cores more."""
    for quota, more in product(found.values(), MORE):
        hard = {key: int(amount) + more for key, amount in quota.spec.hard.items()}
        edited = replace(quota, spec=replace(quota.spec, hard=hard))
        yield ChangeKind.QUOTA_MAX, partial(Engine.on_quota, quota=edited)
