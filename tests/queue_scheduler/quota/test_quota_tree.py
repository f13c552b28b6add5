from __future__ import annotations

import pytest

from queue_scheduler.quota.quota_spec import QuotaSpec, parse_quota
from queue_scheduler.quota.quota_tree import (
    MAX_DEPTH,
    QuotaForest,
    build_forest,
    tree_totals,
)
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.well_known_labels import (
    DEFAULT_QUOTA,
    QUOTA_IS_ROOT,
    QUOTA_TOTAL_RESOURCE,
    QUOTA_TREE_ID,
    ROOT_QUOTA,
)
from tests.properties.quota_cases import build_quota


def forest_of(*quotas: ElasticQuota, multi_quota_tree: bool = False) -> QuotaForest:
    return build_forest(map(parse_quota, quotas), multi_quota_tree=multi_quota_tree)


def kinds(forest: QuotaForest) -> list[tuple[str, str, bool]]:
    return [(problem.quota, problem.kind, problem.fatal) for problem in forest.problems]


def test_chains_go_up_without_the_root() -> None:
    forest = forest_of(
        build_quota("c", parent="b", maximum={"x": 1}),
        build_quota("b", parent="a", is_parent=True, maximum={"x": 1}),
        build_quota("a", is_parent=True, maximum={"x": 1}),
    )
    assert [node.name for node in forest.nodes["c"].chain] == ["c", "b", "a"]
    assert [node.name for node in forest.trees[""].top_down()] == ["a", "b", "c"]
    assert forest.problems == []


def test_siblings_are_sorted_and_the_root_governs_what_any_of_them_does() -> None:
    forest = forest_of(build_quota("b", maximum={"y": 1}), build_quota("a", maximum={"x": 1}))
    root = forest.trees[""].root
    assert [child.name for child in root.children] == ["a", "b"]
    assert root.governed_keys == ("x", "y")


@pytest.mark.parametrize(
    ("quotas", "broken", "problem"),
    [
        pytest.param(
            [build_quota("a", parent="a")], {"a": "a"}, ("a", "Cycle", True), id="its own parent"
        ),
        pytest.param(
            [
                build_quota("a", parent="b"),
                build_quota("b", parent="a"),
                build_quota("c", parent="b"),
            ],
            {"a": "a", "b": "b", "c": "b"},
            ("a", "Cycle", True),
            id="a cycle, and one below it",
        ),
        pytest.param(
            [build_quota("a", parent="gone"), build_quota("b", parent="a")],
            {"a": "a", "b": "a"},
            ("a", "ParentMissing", True),
            id="no such parent, and one below",
        ),
        pytest.param(
            [build_quota("a", parent=DEFAULT_QUOTA)],
            {"a": "a"},
            ("a", "ParentMissing", True),
            id="the default quota is no parent",
        ),
        pytest.param(
            [build_quota("a", maximum={"x": -1}), build_quota("b", parent="a")],
            {"a": "a", "b": "a"},
            ("a", "NegativeAmount", True),
            id="unusable amounts",
        ),
    ],
)
def test_broken_chains_are_in_no_tree(
    quotas: list[ElasticQuota], broken: dict[str, str], problem: tuple[str, str, bool]
) -> None:
    forest = forest_of(*quotas, build_quota("sound", maximum={"x": 1}))
    assert forest.broken == broken
    assert set(forest.nodes) == {"sound"}
    assert problem in kinds(forest)


def test_a_chain_has_a_limit() -> None:
    names = [f"q{number:02}" for number in range(MAX_DEPTH + 2)]
    quotas = [
        build_quota(name, parent=parent, is_parent=True)
        for name, parent in zip(names, ["", *names], strict=False)
    ]
    forest = forest_of(*reversed(quotas))
    assert set(forest.broken) == set(names[MAX_DEPTH:])
    assert (names[MAX_DEPTH], "TooDeep", True) in kinds(forest)


def test_the_oldest_of_a_name_counts() -> None:
    forest = forest_of(
        build_quota("a", namespace="n1", created="2026-02-01T00:00:00Z", maximum={"x": 1}),
        build_quota("a", namespace="n2", created="2026-01-01T00:00:00Z", maximum={"x": 2}),
    )
    assert forest.nodes["a"].spec.max == {"x": 2}
    assert [(one.namespace, one.kind, one.fatal) for one in forest.problems] == [
        ("n1", "DuplicateName", True), ("n2", "DuplicateName", False),
    ]  # fmt: skip
    younger, older = (one.text for one in forest.problems)
    assert "the older n2/a counts" in younger
    assert older.startswith("n1/a has its name")
    assert all("the one that was changed last" in text for text in (younger, older))


@pytest.mark.parametrize(
    ("quotas", "want"),
    [
        pytest.param(
            [
                build_quota("p", is_parent=True, minimum={"x": 1}, maximum={"x": 9}),
                build_quota("a", parent="p", minimum={"x": 2}, maximum={"x": 9}),
            ],
            [("p", "ChildrenMinOverMin", False)],
            id="min of the children over its own",
        ),
        pytest.param(
            [
                build_quota("p", maximum={"x": 9}),
                build_quota("a", parent="p", maximum={"x": 9}),
            ],
            [("p", "NotMarkedAsParent", False)],
            id="no parent by its label",
        ),
        pytest.param(
            [
                build_quota("p", is_parent=True, maximum={"x": 9}),
                build_quota("a", parent="p", maximum={"y": 9}),
            ],
            [("a", "ResourcesDiffer", False)],
            id="other resources than its parent",
        ),
        pytest.param(
            [
                build_quota("p", is_parent=True, maximum={"x": 9}),
                build_quota("a", parent="p", maximum={"x": 9}, labels={QUOTA_TREE_ID: "t"}),
            ],
            [("a", "TreeIdDiffers", False)],
            id="another tree than its parent",
        ),
    ],
)
def test_an_object_that_the_webhook_would_refuse_gets_a_warning(
    quotas: list[ElasticQuota], want: list[tuple[str, str, bool]]
) -> None:
    forest = forest_of(*quotas)
    assert kinds(forest) == want
    assert not forest.broken


ZERO = {"memory": 0, "cpu": 1}
PARENT = build_quota("p", is_parent=True, maximum={"cpu": 9, "memory": 9})
SIBLING = build_quota("b", parent="p", minimum={"memory": 1}, maximum={"cpu": 9, "memory": 9})


@pytest.mark.parametrize(
    ("weight", "minimum", "parent", "want"),
    [
        pytest.param(None, 1, PARENT, "", id="max is the weight"),
        pytest.param({"cpu": 0, "memory": 0}, 1, PARENT, "", id="all zero: max is the weight"),
        pytest.param(ZERO, 9, PARENT, "", id="its min is all that max allows"),
        pytest.param(ZERO, 0, PARENT, "of memory is 0: of that it gets its min alone", id="zero"),
        pytest.param({"cpu": 1}, 0, PARENT, "of memory is 0", id="not named"),
        pytest.param(ZERO, 1, PARENT, "its min alone, scaled down to what", id="beside a min"),
    ],
)
def test_a_quota_without_a_weight_is_told_where_shares_count(
    weight: dict[str, int] | None, minimum: int, parent: ElasticQuota, want: str
) -> None:
    quota = build_quota(
        "a", parent="p", minimum={"memory": minimum}, maximum={"cpu": 9, "memory": 9}, weight=weight
    )
    specs = [parse_quota(each) for each in (parent, quota, SIBLING)]
    got = build_forest(specs, are_divided=True).problems
    found = [each for each in got if each.kind == "NoWeight"]
    assert [each.quota for each in found] == (["a"] if want else [])
    assert all(want in each.text and not each.fatal for each in found)
    assert all(each.kind != "NoWeight" for each in build_forest(specs).problems)


def test_special_objects_are_left_out_and_specials_are_planted() -> None:
    special = QuotaSpec(name=DEFAULT_QUOTA, max={"z": 1})
    objects = [parse_quota(build_quota(name)) for name in (DEFAULT_QUOTA, ROOT_QUOTA, "a")]
    forest = build_forest(objects, specials=[special])
    assert set(forest.nodes) == {DEFAULT_QUOTA, "a"}
    assert forest.nodes[DEFAULT_QUOTA].is_special
    assert forest.trees[""].root.governed_keys == ()


def tree_root(name: str, total: str, **labels: str) -> ElasticQuota:
    return build_quota(
        name,
        is_parent=True,
        labels={QUOTA_TREE_ID: f"tree-{name}", QUOTA_IS_ROOT: "true", **labels},
        annotations={QUOTA_TOTAL_RESOURCE: total},
    )


def test_trees_share_the_nodes() -> None:
    quotas = (tree_root("a", '{"x":30}'), build_quota("child", parent="a"))
    forest = forest_of(*quotas, multi_quota_tree=True)
    assert set(forest.trees) == {"", "tree-a"}
    assert forest.nodes["child"].tree_id == "tree-a"
    assert tree_totals(forest, {"x": 100, "y": 5}) == {
        "": {"x": 70, "y": 5},
        "tree-a": {"x": 30},
    }


def test_a_quota_is_not_in_a_tree_without_its_parent() -> None:
    # koord-scheduler looks for the parent in the tree that the quota names, and divides nothing.
    child = build_quota("child", parent="a", labels={QUOTA_TREE_ID: "other"})
    quotas = (tree_root("a", '{"x":30}'), child, build_quota("below", parent="child"))
    forest = forest_of(*quotas, multi_quota_tree=True)
    assert forest.broken == {"child": "child", "below": "child"}
    assert kinds(forest) == [("child", "TreeIdDiffers", True)]


def test_an_ignored_tree_is_not_subtracted() -> None:
    label = {"quota.scheduling.koordinator.sh/ignore-default-tree": "true"}
    forest = forest_of(tree_root("a", '{"x":30}', **label), multi_quota_tree=True)
    assert tree_totals(forest, {"x": 100}) == {"": {"x": 100}, "tree-a": {"x": 30}}


def test_without_the_gate_there_is_one_tree() -> None:
    forest = forest_of(tree_root("a", '{"x":30}'))
    assert tree_totals(forest, {"x": 100}) == {"": {"x": 100}}
    assert forest.trees[""].special_names


@pytest.mark.parametrize(
    ("length", "want"),
    [
        pytest.param(8, "->".join("01234567"), id="all are named"),
        pytest.param(30, "0->1->2->3->4->5->6->22 more->29", id="of many the first and the last"),
    ],
)
def test_a_cycle_is_named_in_few_words(length: int, want: str) -> None:
    quotas = (
        build_quota(str(number), parent=str((number + 1) % length)) for number in range(length)
    )
    texts = {problem.text for problem in forest_of(*quotas).problems}
    assert texts == {f"its parents form a cycle: {want}->0".replace("->", " -> ")}
