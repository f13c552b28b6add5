"""Nodes of an ElasticQuotaTree as quotas; unusable values are problems, and never errors."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.quota.quota_spec import QuotaSpec
from queue_scheduler.quota.quota_tree_spec import parse_tree
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.testing.object_builders import elastic_quota_tree, tree_node

LENDLIMIT = "alibabacloud.com/lendlimit"


def specs_of(tree: ElasticQuotaTree) -> dict[str, QuotaSpec]:
    return {spec.name: spec for spec in parse_tree(tree)}


def test_a_node_is_its_path_and_the_root_is_called_root() -> None:
    tree = elastic_quota_tree(tree_node("any", tree_node("a", tree_node("x")), tree_node("b")))
    specs = specs_of(tree)
    assert {name: spec.parent for name, spec in specs.items()} == {
        "root": "koordinator-root-quota",
        "root/a": "root",
        "root/b": "root",
        "root/a/x": "root/a",
    }
    assert (specs["root/a"].is_parent, specs["root/b"].is_parent) == (True, False)


def test_amounts_and_jobs_are_exact_however_large() -> None:
    limits: dict[str, str | int | float] = {
        "memory": "64Ti",
        "cpu": "1500m",
        "kube-queue/max-jobs": 3,
    }
    spec = specs_of(elastic_quota_tree(tree_node("root", max=limits)))["root"]
    assert spec.max == {"memory": 64 * 2**40, "cpu": 1500, "koord-queue/max-jobs": 3}


def test_the_current_name_wins_over_the_older_one() -> None:
    limits = {"kube-queue/max-jobs": 3, "koord-queue/max-jobs": 2}
    spec = specs_of(elastic_quota_tree(tree_node("root", max=limits)))["root"]
    assert spec.max == {"koord-queue/max-jobs": 2}


def test_either_spelling_of_a_renamed_resource_governs_either() -> None:
    limits = {"kubernetes.io/gpu-core": 100, "koordinator.sh/batch-cpu": 6000}
    lent = {LENDLIMIT: '{"kubernetes.io/gpu-core": 30}'}
    node = tree_node("a", min=limits, max=limits, attributes=lent)
    spec = specs_of(elastic_quota_tree(tree_node("root", node)))["root/a"]
    want = {"koordinator.sh/gpu-core": 100, "kubernetes.io/batch-cpu": 6000}
    assert (spec.min, spec.max, spec.problems) == (want, want, ())
    assert spec.kept == {"koordinator.sh/gpu-core": 70}


@pytest.mark.parametrize(
    ("lent", "want"),
    [
        pytest.param('{"cpu": 3}', {"cpu": 7000}, id="a part: the rest is kept"),
        pytest.param('{"cpu": "0"}', {"cpu": 10_000}, id="nothing: all is kept"),
        pytest.param('{"cpu": 12}', {}, id="more than there is: nothing is kept"),
        pytest.param('{"memory": 1}', {}, id="a resource that min does not name"),
        pytest.param("", {}, id="no limit: all is lent"),
    ],
)
def test_an_amount_that_is_not_lent_is_kept(lent: str, want: dict[str, int]) -> None:
    node = tree_node("a", min={"cpu": 10}, attributes={LENDLIMIT: lent})
    spec = specs_of(elastic_quota_tree(tree_node("root", node)))["root/a"]
    assert spec.kept == want


@pytest.mark.parametrize(
    "key", ["koord-queue/max-preempible-jobs", "kube-queue/max-preempible-jobs"]
)
def test_the_label_of_the_tree_limits_preemptible_jobs(key: str) -> None:
    tree = elastic_quota_tree(tree_node("root", tree_node("a")), metadata={"labels": {key: "7"}})
    specs = specs_of(tree)
    assert specs["root"].max == {"koord-queue/max-preempible-jobs": 7}
    assert specs["root/a"].max == {}


@pytest.mark.parametrize(
    ("root", "labels", "want"),
    [
        pytest.param(
            tree_node("r", max={"cpu": "lots"}), {}, ("UnreadableAmount", "root"), id="amount"
        ),
        pytest.param(
            tree_node("r", min={"cpu": -1}), {}, ("NegativeAmount", "root"), id="negative"
        ),
        pytest.param(
            tree_node("r", max={"cpu": 1}, min={"cpu": 2}), {}, ("MinOverMax", "root"), id="min"
        ),
        pytest.param(
            tree_node("r", tree_node("a", min={"cpu": 2}), min={"cpu": 1}),
            {},
            ("ChildrenMinOverMin", "root"),
            id="mins of the children",
        ),
        pytest.param(tree_node("r", tree_node("")), {}, ("BadName", "root"), id="no name"),
        pytest.param(tree_node("r", tree_node("a/b")), {}, ("BadName", "root"), id="a slash"),
        pytest.param(
            tree_node("r", tree_node("a"), tree_node("a")), {}, ("BadName", "root"), id="a twin"
        ),
        pytest.param(
            tree_node("r", tree_node("a", attributes={LENDLIMIT: "x"})),
            {},
            ("UnreadableAttribute", "root/a"),
            id="lend limit",
        ),
        pytest.param(
            tree_node("r", tree_node("a", attributes={"preempt-policy": "PreemptLowerPriority"})),
            {},
            ("AttributeWithoutEffect", "root/a"),
            id="a preemption policy",
        ),
        pytest.param(
            tree_node("r", tree_node("a", namespaces=["n"]), tree_node("b", namespaces=["n"])),
            {},
            ("NamespaceTwice", "root/b"),
            id="a namespace at two nodes",
        ),
        pytest.param(
            tree_node("r"),
            {"koord-queue/max-preempible-jobs": "many"},
            ("UnreadableLabel", "root"),
            id="label",
        ),
    ],
)
def test_a_problem_is_reported(root: Any, labels: dict[str, str], want: tuple[str, str]) -> None:
    specs = parse_tree(elastic_quota_tree(root, metadata={"labels": labels}))
    problems = [problem for spec in specs for problem in spec.problems]
    assert [(problem.kind, problem.quota) for problem in problems] == [want]
    assert problems[0].fatal == (want[0] in {"UnreadableAmount", "NegativeAmount"})


def test_a_node_with_an_invalid_name_is_dropped_with_its_children() -> None:
    bad = tree_node("a/b", tree_node("c"))
    assert set(specs_of(elastic_quota_tree(tree_node("r", bad, tree_node("d"))))) == {
        "root",
        "root/d",
    }
