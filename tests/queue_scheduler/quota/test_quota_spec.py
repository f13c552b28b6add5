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
        pytest.param('{"x":"much"}', {"x": 5}, id="not a quantity is as if absent"),
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
            id="max is not a quantity",
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
            id="namespaces are not a list",
        ),
        pytest.param(
            build_quota("q", maximum={"x": 1}, weight={"x": -1}),
            [("NegativeAmount", False)],
            id="weight is negative",
        ),
        pytest.param(
            build_quota("q", maximum={"kubernetes.io/gpu-core": 100}),
            [("ResourceWithoutEffect", False)],
            id="max has a name that is renamed in pods",
        ),
        pytest.param(
            build_quota("q", maximum={"cpu": 10, "pods": 2}),
            [("ResourceWithoutEffect", False)],
            id="max counts pods",
        ),
        pytest.param(
            build_quota("q", maximum={"x": 1}, annotations={QUOTA_TOTAL_RESOURCE: "[]"}),
            [("UnreadableAnnotation", False)],
            id="total is not an object",
        ),
    ],
)
def test_problems_are_values(quota: ElasticQuota, want: list[tuple[str, bool]]) -> None:
    assert kinds(quota) == want
    assert parse_quota(quota).is_usable is not want[0][1]


@pytest.mark.parametrize(
    ("resource", "want"),
    [
        ("kubernetes.io/gpu", "koord-scheduler reads it in pods as koordinator.sh/gpu; name that"),
        ("pods", "no container requests it"),
        ("limits.cpu", "no container requests it"),
        ("count/jobs.batch", "no container requests it"),
        ("services.loadbalancers", "no container requests it"),
        ("requests.storage", "no container requests it"),
        ("requests.cpu", "no container requests it; name cpu"),
        ("koord-queue/max-jobs", "only an ElasticQuotaTree counts jobs"),
        ("kube-queue/max-jobs", "only an ElasticQuotaTree counts jobs"),
    ],
)
def test_a_resource_that_limits_nothing_is_named_with_a_remedy(resource: str, want: str) -> None:
    (problem,) = parse_quota(build_quota("q", maximum={"cpu": 10, resource: 2})).problems
    assert (problem.kind, problem.text) == (
        "ResourceWithoutEffect",
        f"spec.max: {resource} limits nothing: {want}",
    )


@pytest.mark.parametrize(
    "resource", ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "koordinator.sh/gpu-core"]
)
def test_a_resource_that_pods_request_has_effect(resource: str) -> None:
    assert parse_quota(build_quota("q", maximum={resource: 2})).problems == ()


def test_batch_names_are_replaced_in_min_and_max_and_names_of_devices_are_not() -> None:
    amounts = {"koordinator.sh/batch-cpu": 5, "kubernetes.io/fpga": 2}
    spec = parse_quota(build_quota("q", minimum=amounts, maximum=amounts))
    want = {"kubernetes.io/batch-cpu": 5, "kubernetes.io/fpga": 2}
    assert (spec.min, spec.max, spec.weight) == (want, want, want)


def test_a_batch_name_is_kept_if_the_new_one_exists_too() -> None:
    amounts = {"koordinator.sh/batch-cpu": 5, "kubernetes.io/batch-cpu": 2}
    spec = parse_quota(build_quota("q", maximum=amounts))
    assert (spec.max, [each.kind for each in spec.problems]) == (amounts, ["ResourceWithoutEffect"])


def test_annotations_are_not_renamed() -> None:
    old, new = "koordinator.sh/batch-cpu", "kubernetes.io/batch-cpu"
    spec = parse_quota(
        build_quota(
            "q",
            maximum={old: 5},
            weight={old: 3},
            annotations={QUOTA_TOTAL_RESOURCE: f'{{"{old}": 9}}'},
        )
    )
    assert (spec.max, spec.weight, spec.total) == ({new: 5}, {old: 3}, {old: 9})
    key = QUOTA_SHARED_WEIGHT
    assert [each.text for each in spec.problems] == [
        f"annotation {key}: {old} weighs nothing: spec.max governs it as {new}"
    ]


def test_a_problem_says_where_and_how_much() -> None:
    problem = parse_quota(build_quota("q", minimum={"cpu": 2}, maximum={"cpu": 1})).problems[0]
    assert (problem.namespace, problem.quota) == ("ns", "q")
    assert problem.text == "spec.min cpu 2 is more than spec.max 1"
