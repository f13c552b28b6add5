"""What the edits of a question cost is judged before one of them is tried."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from queue_insight.what_if import cost
from queue_insight.what_if.apply import apply_edits
from queue_insight.what_if.cost import check_cost
from queue_insight.what_if.edit import Edit, EditError
from queue_scheduler.engine.engine import Engine
from shared_api.objects.node import Node
from shared_api.testing.object_builders import node
from tests.queue_insight.insight.changes_kit import WALL, SmallCluster

UNITS = 20
MORE = Edit(kind="Node", name="n1", copies=1000)
ALL_QUEUES = Edit(kind="SchedulerSettings", patch={"stopPolicy": "Hold"})
QUOTA = Edit(kind="ElasticQuota", name="a", patch={"spec": {"max": {"cpu": "9"}}})
QUEUE = Edit(kind="Queue", name="a", patch={"spec": {"priority": 3}})
OTHER_QUEUE = Edit(kind="Queue", name="b", patch={"spec": {"priority": 3}})
UNIT = Edit(kind="QueueUnit", namespace="ns", name="u1", patch={"spec": {"priority": 3}})


@pytest.fixture
def engine() -> Engine:
    cluster = SmallCluster(node("n1", allocatable={"cpu": 4}))
    for number in range(UNITS):
        cluster.wait(f"u{number}", "a", cpu=40)
    return cluster.engine


def refusal(engine: Engine, edits: Sequence[Edit]) -> str:
    try:
        check_cost(engine, edits)
    except EditError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("edits", "want"),
    [
        pytest.param([], "", id="no edit"),
        pytest.param([UNIT] * 50, "", id="a unit is one object"),
        pytest.param([OTHER_QUEUE] * 50, "", id="a queue without units, too"),
        pytest.param([QUEUE] * 2, "", id="a queue has its units"),
        pytest.param([QUEUE] * 3, "edits[2].kind: up to here", id="which add up"),
        pytest.param([ALL_QUEUES] * 3, "edits[2].kind: up to here", id="a setting has all units"),
        pytest.param([QUOTA] * 3, "edits[2].kind: up to here", id="a quota has all quotas"),
        pytest.param([UNIT, QUOTA, QUEUE, ALL_QUEUES], "edits[3].kind", id="of several kinds"),
        pytest.param([Edit(kind="Pod")] * 50, "", id="what is wrong is told by who reads it"),
    ],
)
def test_edits_cost_what_they_go_through(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, edits: list[Edit], want: str
) -> None:
    monkeypatch.setattr(cost, "MAX_COST", 60)
    got = refusal(engine, edits)
    assert got.startswith(want)
    assert bool(got) is bool(want)


@pytest.mark.parametrize(
    ("edits", "want"),
    [
        ([MORE] * 5, ""),
        ([MORE] * 6, "edits[5].copies: all edits together may add at most 5000 nodes"),
        ([Edit(kind="Node", name="n1", copies=-5000), *[MORE] * 6], "edits[6].copies: all edits"),
    ],
)
def test_a_question_adds_so_many_nodes(engine: Engine, edits: list[Edit], want: str) -> None:
    assert refusal(engine, edits).startswith(want)
    assert bool(refusal(engine, edits)) is bool(want)


def test_nothing_is_tried_of_edits_that_cost_too_much(engine: Engine) -> None:
    with pytest.raises(EditError, match=r"edits\[5\]"):
        apply_edits(engine, [MORE] * 6, WALL)
    assert len(list(engine.objects.of_kind(Node))) == 1


def test_a_tree_counts_its_quotas(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    children = [{"name": f"c{number}", "min": {}, "max": {}} for number in range(100)]
    tree = Edit(
        kind="ElasticQuotaTree",
        namespace="kq",
        name="tree",
        patch={"spec": {"root": {"name": "root", "min": {}, "max": {}, "children": children}}},
    )
    apply_edits(engine, [tree], WALL)
    monkeypatch.setattr(cost, "MAX_COST", 150)
    assert refusal(engine, [tree]) == ""
    assert refusal(engine, [tree] * 2).startswith("edits[1].kind")
