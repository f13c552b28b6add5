from __future__ import annotations

from typing import Any

import pytest

from koord_queue.answers.quotas import Quota
from koord_queue.show.bars import ASCII
from koord_queue.show.quota_rows import (
    documents_of,
    fit,
    plain_rows,
    share_of,
    styles_of,
    top_quotas,
    tree_table,
    uses_of,
)

LEAF = Quota(
    name="team",
    namespace="default",
    parent="org",
    min={"cpu": "2"},
    scaled_min={"cpu": "2"},
    max={"cpu": "4", "memory": "8Gi"},
    runtime={"cpu": "3"},
    used={"cpu": "3500m", "memory": "1Gi"},
    charged={"cpu": "3"},
)
ORG = Quota(name="org", max={"cpu": "10"}, used={"cpu": "3500m"}, children=(LEAF,))


def test_a_pipe_has_a_line_for_each_quota_and_resource() -> None:
    assert plain_rows(uses_of([ORG])) == [
        ["org", "cpu", "3500m", "", "", "10", "", ""],
        ["org/team", "cpu", "3500m", "3", "2", "4", "3", "1500m"],
        ["org/team", "memory", "1Gi", "0", "", "8Gi", "", "1Gi"],
    ]
    assert [each.path for each in uses_of([ORG], "memory")] == ["org/team"]
    several = Quota(name="q", used={"amd.com/gpu": "1", "memory": "1", "cpu": "1"})
    assert [each.resource for each in uses_of([several])] == ["cpu", "memory", "amd.com/gpu"]


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({"used": {"cpu": "5"}, "scaled_min": {"cpu": "2"}}, "3", id="it borrows"),
        pytest.param({"used": {"cpu": "1"}, "scaled_min": {"cpu": "2"}}, "0", id="it does not"),
        pytest.param({"used": {"cpu": "1"}, "scaled_min": None}, "", id="it is not known"),
        pytest.param(
            {"used": {"cpu": "1"}, "scaled_min": {}, "name": "a/q", "namespace": "a"},
            "",
            id="a ResourceQuota does not borrow",
        ),
        pytest.param(
            {"used": {"cpu": "x"}, "scaled_min": {"cpu": "2"}}, "", id="it cannot be read"
        ),
    ],
)
def test_what_is_borrowed_is_above_the_guarantee(changes: dict[str, Any], want: str) -> None:
    [use] = uses_of([Quota(**{"name": "q", **changes})])
    assert use.borrowed == want


@pytest.mark.parametrize(
    ("used", "limit", "want"),
    [
        pytest.param("500m", "2", 0.25, id="a part"),
        pytest.param("3", "2", 1.5, id="more than all"),
        pytest.param("0", "0", 0.0, id="nothing of nothing"),
        pytest.param("1", "0", 1.0, id="something of nothing"),
        pytest.param("1", None, None, id="no limit"),
        pytest.param("1", "much", None, id="a limit that cannot be read"),
    ],
)
def test_the_share_is_that_of_the_limit(used: str, limit: str | None, want: float | None) -> None:
    assert share_of("cpu", used, limit) == want


def test_a_node_of_an_elastic_quota_tree_has_its_path_in_its_name() -> None:
    node = Quota(name="root/team", used={"cpu": "1"})
    root = Quota(name="root", max={"cpu": "1"}, children=(node,))
    columns, rows = tree_table(list(uses_of([root])), 40, ASCII)
    assert [each.path for each in uses_of([root])] == ["root", "root/team"]
    assert [row[0] for row in rows] == ["root", "`- team"]
    assert columns[:3] == ["QUOTA", "RESOURCE", "USE"]


def test_a_terminal_has_bars_as_wide_as_fits() -> None:
    uses = list(uses_of([ORG]))
    columns, rows = tree_table(uses, 100, ASCII)
    assert columns[:4] == ["QUOTA", "RESOURCE", "", "USE"]
    assert [row[:4] for row in rows] == [
        ["org", "cpu", "##########...................", "35%"],
        ["`- team", "cpu", "#########################....", "88%"],
        [" ", "memory", "####.........................", "12%"],
    ]
    assert tree_table(uses, 72, ASCII)[0][2] == "USE"


def test_a_use_close_to_the_limit_is_a_warning() -> None:
    quotas = [Quota(name="q", max={"a": "10", "b": "10", "c": "10"}, used={"a": "9", "b": "11"})]
    assert styles_of(uses_of(quotas)) == {"90%": "warn", "110%": "bad"}


def test_a_document_leaves_out_what_is_not_known() -> None:
    problem = ("MinOverMax: no",)
    quota = Quota(name="q", namespace="n", max={"cpu": "2"}, used={"cpu": "1"}, problems=problem)
    assert documents_of(uses_of([quota])) == [
        {
            "path": "q",
            "quota": "q",
            "resource": "cpu",
            "used": "1",
            "max": "2",
            "share": 0.5,
            "problems": ["MinOverMax: no"],
        }
    ]


def test_the_quota_that_uses_most_comes_first() -> None:
    small = Quota(name="small", max={"cpu": "1", "memory": "1Gi"}, used={"memory": "1Gi"})
    free = Quota(name="free", used={"cpu": "100"})
    quotas = [ORG, small, free]
    counts = {"team": (3, 1)}
    got = top_quotas(uses_of(quotas), counts)
    assert [(row.use.path, row.use.resource, row.pending) for row in got] == [
        ("small", "memory", None),
        ("org/team", "cpu", 3),
        ("org", "cpu", None),
    ]
    assert [row.use.path for row in top_quotas(uses_of(quotas), {}, "cpu")] == [
        "org/team",
        "org",
        "small",
    ]


def cells(width: int) -> tuple[list[str], list[list[str]]]:
    return fit(
        ["NAME", "A", "B"], [["a-long-name-of-a-quota", "10", "100k"]], width, left_out=("B", "A")
    )


@pytest.mark.parametrize(
    ("width", "columns", "name"),
    [
        pytest.param(80, ["NAME", "A", "B"], "a-long-name-of-a-quota", id="all fits"),
        pytest.param(30, ["NAME", "A", "B"], "a-long-name-of-a-…", id="the name is cut"),
        pytest.param(24, ["NAME", "A"], "a-long-name-of-a-…", id="without a column"),
        pytest.param(8, ["NAME"], "a-lon…", id="the name alone, cut"),
    ],
)
def test_no_number_is_cut_on_a_narrow_terminal(width: int, columns: list[str], name: str) -> None:
    headings, [row] = cells(width)
    assert (headings, row[0]) == (columns, name)
    assert row[1:] == ["10", "100k"][: len(columns) - 1]
    assert sum(map(len, row)) + 2 * len(row) <= width
