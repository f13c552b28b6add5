"""Pages of the units that wait: all of them once, in an order that depends on nothing else."""

from __future__ import annotations

import random

import pytest

from queue_insight.visibility.pages import find_page
from queue_insight.visibility.queries import Selection, read_selection
from queue_scheduler.engine.engine import Engine
from tests.properties.engine_kit import build_queue, build_quota, build_unit
from tests.queue_insight.insight_kit import new_engine

ALL = Selection()


def filled(seed: int) -> Engine:
    """Return an engine with units in two queues and on hold, told in the order of a seed."""
    engine = new_engine()
    for name, policy in (("b", "Block"), ("a", "Priority")):
        engine.on_quota(build_quota(name, cpu=4))
        engine.on_queue(build_queue(name, policy))
    rows = [
        (f"{quota}-{name}", quota, namespace, priority)
        for namespace in ("y", "x")
        for quota in ("a", "b", "lost")
        for name, priority in (("m", 1), ("k", 2))
    ]
    numbered = list(enumerate(rows))
    random.Random(seed).shuffle(numbered)
    for number, (name, quota, namespace, priority) in numbered:
        cpu = 1 + number % 3
        unit = build_unit(
            name, quota, namespace=namespace, priority=priority, cpu=cpu, created=number
        )
        engine.on_queue_unit(unit)
    return engine


def test_the_order_is_that_of_the_queues() -> None:
    engine = new_engine()
    for name in ("b", "a"):
        engine.on_quota(build_quota(name, cpu=4))
        engine.on_queue(build_queue(name, "Priority"))
    for number, (key, quota) in enumerate(
        (("y/m", "b"), ("x/k", "lost"), ("x/k2", "a"), ("z/k", "b"), ("y/h", "lost"))
    ):
        namespace, _, name = key.partition("/")
        engine.on_queue_unit(build_unit(name, quota, namespace=namespace, created=number))
    want = [("x/k", 0), ("y/h", 0), ("x/k2", 1), ("y/m", 1), ("z/k", 2)]
    assert find_page(engine, ALL, 0, 10).places == want


@pytest.mark.parametrize("seed", range(5))
def test_the_order_does_not_depend_on_what_came_first(seed: int) -> None:
    got = find_page(filled(seed), ALL, 0, 100)
    assert got == find_page(filled(99), ALL, 0, 100)
    assert got.total == len(got.places) == len(set(got.places))


@pytest.mark.parametrize("selector", ["", "metadata.namespace=x", "spec.queue=a", "spec.queue!=a"])
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_follow_each_other(selector: str, limit: int) -> None:
    engine, selection = filled(1), read_selection(selector)
    whole = find_page(engine, selection, 0, 100)
    found = []
    for offset in range(0, whole.total, limit):
        page = find_page(engine, selection, offset, limit)
        assert page.total == whole.total
        found += page.places
    assert found == whole.places
    assert find_page(engine, selection, whole.total, limit).places == []


def test_a_selection_keeps_positions() -> None:
    engine = filled(2)
    places = dict.fromkeys(find_page(engine, ALL, 0, 100).places)
    for selector in ("metadata.namespace=x", "metadata.name=b-k", "spec.queue=b"):
        part = find_page(engine, read_selection(selector), 0, 100).places
        assert part == [place for place in places if place in part]
        assert part


def test_admitted_and_ended_units_are_not_there() -> None:
    engine = filled(3)
    before = find_page(engine, ALL, 0, 100)
    decision = engine.decide_next("a", 0.0)
    gone = decision.unit  # type: ignore[union-attr] # a Dequeue: the quota has room
    after = find_page(engine, read_selection("spec.queue=a"), 0, 100).places
    assert gone not in dict(after)
    assert find_page(engine, ALL, 0, 100).total == before.total - 1
    assert [position for _, position in after] == list(range(1, len(after) + 1))
