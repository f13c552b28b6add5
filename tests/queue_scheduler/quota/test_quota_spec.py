from __future__ import annotations

import pytest

from queue_scheduler.quota.quota_spec import parse_quota
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.well_known_labels import (
    QUOTA_IGNORE_DEFAULT_TREE,
    QUOTA_IS_ROOT,
    QUOTA_NAMESPACES,
    QUOTA_SHARED_WEIGHT,
    QUOTA_TOTAL_RESOURCE,
    QUOTA_TREE_ID,
    ROOT_QUOTA,
)
from tests.properties.quota_cases import build_quota


def kinds(quota: ElasticQuota) -> list[tuple[str, bool]]:
    return [(problem.kind, problem.fatal) for problem in parse_quota(quota).problems]


def test_everything_is_read() -> None:
    quota = build_quota(
        "q",
        minimum={"cpu": "500m"},
        maximum={"cpu": 2, "memory": "1Gi"},
        weight={"cpu": 3},
        parent="p",
        is_parent=True,
        lends=False,
        created="2026-01-01T00:00:00Z",
        uid="u1",
        labels={QUOTA_TREE_ID: "t", QUOTA_IS_ROOT: "true", QUOTA_IGNORE_DEFAULT_TREE: "true"},
        annotations={QUOTA_NAMESPACES: '["a","b"]', QUOTA_TOTAL_RESOURCE: '{"cpu":"7"}'},
    )
    spec = parse_quota(quota)
    assert (spec.name, spec.namespace, spec.uid, spec.parent) == ("q", "ns", "u1", "p")
    assert (spec.min, spec.max) == ({"cpu": 500}, {"cpu": 2000, "memory": 2**30})
    assert (spec.weight, spec.total) == ({"cpu": 3000}, {"cpu": 7000})
    assert (spec.is_parent, spec.lends, spec.tree_id) == (True, False, "t")
    assert (spec.is_tree_root, spec.ignores_default_tree) == (True, True)
    assert (spec.namespaces, spec.problems) == (("a", "b"), ())
    assert spec.age == ("2026-01-01T00:00:00Z", "ns", "q")


def test_defaults_are_those_of_the_scheduler() -> None:
    spec = parse_quota(build_quota("q", maximum={"x": 5}))
    assert (spec.parent, spec.is_parent, spec.lends, spec.weight) == (
        ROOT_QUOTA,
        False,
        True,
        {"x": 5},
    )
    assert spec.total is None


@pytest.mark.parametrize(
    ("annotation", "want"),
    [
        pytest.param('{"x":0,"y":"0"}', {"x": 5}, id="all zero is as if absent"),
        pytest.param("nonsense", {"x": 5}, id="unreadable is as if absent"),
        pytest.param('{"x":"much"}', {"x": 5}, id="no quantity is as if absent"),
        pytest.param('{"y":1}', {"y": 1}, id="what it lacks has no weight"),
        pytest.param('{"cpu":"1844674407370955161"}', {"cpu": -600}, id="it overflows"),
    ],
)
def test_weight_in_force(annotation: str, want: dict[str, int]) -> None:
    quota = build_quota("q", maximum={"x": 5}, annotations={QUOTA_SHARED_WEIGHT: annotation})
    assert parse_quota(quota).weight == want


@pytest.mark.parametrize(
    ("quota", "want"),
    [
        pytest.param(
            build_quota("q", maximum={"x": "lots"}),
            [("UnreadableAmount", True)],
            id="max is no quantity",
        ),
        pytest.param(
            build_quota("q", maximum={"x": "9e999999999"}),
            [("UnreadableAmount", True)],
            id="max is absurd",
        ),
        pytest.param(
            build_quota("q", minimum={"x": -1}, maximum={"x": 1}),
            [("NegativeAmount", True)],
            id="min is negative",
        ),
        pytest.param(
            build_quota("q", minimum={"x": 2}, maximum={"x": 1}),
            [("MinOverMax", False)],
            id="min is over max",
        ),
        pytest.param(
            build_quota("q", minimum={"y": 2}, maximum={"x": 1}),
            [("MinKeyNotInMax", False)],
            id="min has what max lacks",
        ),
        pytest.param(
            build_quota("q", maximum={"x": 1}, annotations={QUOTA_NAMESPACES: "ns1"}),
            [("UnreadableAnnotation", False)],
            id="namespaces are no list",
        ),
        pytest.param(
            build_quota("q", maximum={"x": 1}, weight={"x": -1}),
            [("NegativeAmount", False)],
            id="weight is negative",
        ),
        pytest.param(
            build_quota("q", maximum={"x": 1}, annotations={QUOTA_TOTAL_RESOURCE: "[]"}),
            [("UnreadableAnnotation", False)],
            id="total is no object",
        ),
    ],
)
def test_problems_are_values(quota: ElasticQuota, want: list[tuple[str, bool]]) -> None:
    assert kinds(quota) == want
    assert parse_quota(quota).is_usable is not want[0][1]


def test_a_problem_says_where_and_how_much() -> None:
    problem = parse_quota(build_quota("q", minimum={"cpu": 2}, maximum={"cpu": 1})).problems[0]
    assert (problem.namespace, problem.quota) == ("ns", "q")
    assert problem.text == "spec.min cpu 2 is more than spec.max 1"
