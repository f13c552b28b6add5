"""The samples of an engine: its own numbers, and whose units are in them."""

from __future__ import annotations

import random
from typing import Any, Final

import pytest

from queue_insight.insight_program.sources import Source
from queue_insight.page.hidden_sums import QuotaNode, show_trees
from queue_insight.page.known_state import read_state
from queue_insight.page.visitors import Visitor
from queue_insight.record.engine_samples import Admitted, take_samples
from queue_insight.record.samples import WHOLE, Sample, bin_of, of_queue, of_quota
from queue_scheduler.cycles.engine_reader import OwnEngine
from queue_scheduler.debug_api.hiding import may_sum
from queue_scheduler.engine.engine import Engine
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.queue_unit import QueueUnit
from shared_api.quantity import amount
from shared_api.testing.object_builders import (
    elastic_quota,
    pod_set,
    queue,
    queue_unit_body,
    to_struct,
    with_status,
)
from shared_api.testing.virtual_clock import VirtualClock
from tests.properties.real_quotas import new_engine

LEAVES: Final = ("a", "b", "c")
SPACES: Final = ("n1", "n2", "n3", "n4", "n5")


def tree_engine() -> Engine:
    """Return an engine with the quota `root` of `left` (of `a` and `b`) and `c`, and queues."""
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    for name, parent, is_parent in (
        ("root", "", True), ("left", "root", True), ("a", "left", False),
        ("b", "left", False), ("c", "root", False),
    ):  # fmt: skip
        more: dict[str, Any] = {"parent": parent} if parent else {}
        engine.on_quota(elastic_quota(name, max={"cpu": 99}, is_parent=is_parent, **more))
    for name in (*LEAVES, "shared"):
        engine.on_queue(queue(name))
    return engine


def put(
    engine: Engine, name: str, quota: str, namespace: str, *, runs: bool = False, **spec: Any
) -> None:
    """Add a unit of one core."""
    meta = {"uid": name, "resourceVersion": "1", "creationTimestamp": "2026-11-01T10:00:00Z"}
    sets = [pod_set("main", requests={"cpu": 1})]
    body = queue_unit_body(
        name, namespace=namespace, quota=quota, metadata=meta, podSet=sets, **spec
    )
    if runs:
        grant = {"name": "main", "replicas": 1, "running": 1, "resources": {"cpu": 1}}
        body = with_status(body, phase="Running", admissions=[grant])
    engine.on_queue_unit(to_struct(QueueUnit, body))


def test_numbers_of_queues_quotas_and_the_whole() -> None:
    engine = tree_engine()
    put(engine, "u1", "a", "n1", runs=True)
    put(engine, "u2", "a", "n2")
    put(engine, "u3", "b", "n3", runs=True)
    got = take_samples(engine, [])
    for of, pending, admitted, cpu in (
        (WHOLE, 1, 2, 2_000), (of_queue("a"), 1, 1, 1_000), (of_queue("b"), 0, 1, 1_000),
        (of_quota("a"), 1, 1, 1_000), (of_quota("b"), 0, 1, 1_000), (of_quota("left"), 1, 2, 2_000),
        (of_quota("root"), 1, 2, 2_000),
    ):  # fmt: skip
        sample = got.pop(of)
        assert (sample.pending, sample.admitted, sample.used) == (pending, admitted, {"cpu": cpu})
    assert got == {}, "what has nothing has no sample"


def test_the_whole_always_has_a_sample() -> None:
    assert take_samples(tree_engine(), []) == {WHOLE: Sample()}


def test_waits_are_those_of_a_queue_a_quota_and_all_above() -> None:
    engine = tree_engine()
    admitted = [Admitted("a", "a", "n1", 60.0), Admitted("shared", "c", "n2", 5.0)]
    got = take_samples(engine, admitted)
    first, second = {bin_of(60.0): 1}, {bin_of(5.0): 1}
    for of, waits, names in (
        (WHOLE, first | second, ("n1", "n2")), (of_queue("a"), first, ("n1",)),
        (of_quota("a"), first, ("n1",)), (of_quota("left"), first, ("n1",)),
        (of_quota("root"), first | second, ("n1", "n2")), (of_queue("shared"), second, ("n2",)),
    ):  # fmt: skip
        assert (got[of].waits, got[of].admitted_from) == (waits, names), of


def visible(sample: Sample, readable: set[str]) -> bool:
    return sample.namespaces is not None and all(
        may_sum(set(names) - readable) for names in sample.namespaces
    )


@pytest.mark.parametrize("seed", range(40))
def test_a_quota_is_hidden_as_in_the_overview(seed: int) -> None:
    """What the present view of a quota leaves out, its sample leaves out as well."""
    rng, engine = random.Random(seed), tree_engine()
    for number in range(rng.randint(1, 14)):
        put(engine, f"u{number}", rng.choice(LEAVES), rng.choice(SPACES), runs=rng.random() < 0.6)
    readable = set(rng.sample(SPACES, rng.randint(0, 3)))
    clock = VirtualClock()
    source = Source(OwnEngine(engine), clock.now(), is_leader=True, now=clock.now)
    visitor = Visitor("ann", False, readable.__contains__, lambda _: None)  # noqa: FBT003 - a tuple
    state, got = read_state(source, 0), take_samples(engine, [])
    rest: list[QuotaNode] = show_trees(state.trees, state.units.users, visitor)
    while rest:
        node = rest.pop()
        rest.extend(node.children)
        sample = got.get(of_quota(node.name), Sample())
        assert visible(sample, readable) is not node.sums_hidden, node.name
        if not node.sums_hidden:
            assert sample.used.get("cpu", 0) == amount("cpu", node.used.get("cpu", "0"))


def test_a_queue_is_hidden_where_it_would_tell_about_its_neighbor_in_a_quota() -> None:
    """The use of quota `c` is shown, and less that of queue `shared` it would be that of n1."""
    engine = tree_engine()
    put(engine, "u1", "c", "n1", runs=True)
    for number in range(2, 5):
        put(engine, f"u{number}", "c", f"n{number}", runs=True, queue="shared")
    got = take_samples(engine, [])
    assert [got[of_queue(name)].used["cpu"] for name in ("c", "shared")] == [1_000, 3_000]
    assert visible(got[of_quota("c")], set())
    assert not visible(got[of_queue("shared")], set())
    assert not visible(got[of_queue("c")], set())


def test_a_unit_with_invented_resources_hides_no_use_of_others() -> None:
    engine = tree_engine()
    put(engine, "u1", "a", "n1", runs=True)
    invented = {f"a{each}.example.com/x": 1 for each in range(30)}
    meta = {"uid": "u2", "resourceVersion": "1"}
    sets = [pod_set("main", requests=invented)]
    grant = {"name": "main", "replicas": 1, "running": 1, "resources": invented}
    body = queue_unit_body("u2", namespace="n2", quota="a", metadata=meta, podSet=sets)
    body = with_status(body, phase="Running", admissions=[grant])
    engine.on_queue_unit(to_struct(QueueUnit, body))
    got = take_samples(engine, [])
    assert [got[of].used["cpu"] for of in (WHOLE, of_queue("a"), of_quota("a"))] == [1_000] * 3


def test_a_chain_of_many_quotas_is_summed_up() -> None:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    for number in range(1000):
        more: dict[str, Any] = {"parent": f"q{number - 1}"} if number else {}
        engine.on_quota(elastic_quota(f"q{number}", max={"cpu": 9}, is_parent=True, **more))
    engine.on_queue(queue("q20"))
    put(engine, "u1", "q20", "n1")
    got = take_samples(engine, [])
    assert [got[of_quota(name)].pending for name in ("q0", "q20")] == [1, 1]
    assert of_quota("q21") not in got


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_cycle_of_quotas_is_summed_up_once(length: int) -> None:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    for number in range(length):
        parent = f"q{(number + 1) % length}"
        engine.on_quota(elastic_quota(f"q{number}", max={"cpu": 9}, parent=parent))
    got = take_samples(engine, [Admitted("q0", "q0", "n1", 1.0)])
    assert sum(got[WHOLE].waits.values()) == 1
    assert got[of_quota("q0")].admitted_from == ("n1",)
