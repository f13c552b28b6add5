"""The flags of `what-if` become edits of the objects that they name."""

from __future__ import annotations

from typing import Any

import pytest

from koord_queue.errors import CommandError
from koord_queue.session.edit_flags import node_edit, queue_edit, quota_edits, read_quota_flag

Json = dict[str, Any]


def quota(
    name: str, namespace: str = "kube-system", kind: str = "ElasticQuota", **spec: Any
) -> Json:
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


TREE = quota(
    "tree",
    kind="ElasticQuotaTree",
    root={"name": "root", "children": [{"name": "red", "max": {"cpu": "4"}}, {"name": "blue"}]},
)
QUOTAS = (
    quota("team-a", max={"cpu": "40", "nvidia.com/gpu": "8", "memory": "64Gi"}, min={"cpu": 20}),
    quota("v1.5", max={"cpu": "1"}),
    quota("twice", namespace="one", max={"cpu": "1"}),
    quota("twice", namespace="two", max={"cpu": "2"}),
    quota("hard", namespace="web", kind="ResourceQuota", hard={"cpu": "3"}),
    TREE,
)


def edits(*flags: str) -> list[Json]:
    return quota_edits([read_quota_flag(each) for each in flags], QUOTAS)


@pytest.mark.parametrize(
    ("flag", "want"),
    [
        pytest.param("team-a.max.cpu=+40", {"max": {"cpu": "80"}}, id="more"),
        pytest.param("team-a.max.cpu=-500m", {"max": {"cpu": "39500m"}}, id="less"),
        pytest.param("team-a.max.cpu=12", {"max": {"cpu": "12"}}, id="a value"),
        pytest.param("team-a.max.cpu=none", {"max": {"cpu": None}}, id="no bound"),
        pytest.param("team-a.min.cpu=+1", {"min": {"cpu": "21"}}, id="a number in the object"),
        pytest.param(
            "team-a.max.nvidia.com/gpu=+8", {"max": {"nvidia.com/gpu": "16"}}, id="dots and a slash"
        ),
        pytest.param("team-a.max.memory=+64Gi", {"max": {"memory": "128Gi"}}, id="bytes"),
        pytest.param("team-a.max.pods=7", {"max": {"pods": "7"}}, id="a resource without a bound"),
        pytest.param("v1.5.max.cpu=+1", {"max": {"cpu": "2"}}, id="a name with a dot"),
        pytest.param("two/twice.max.cpu=+1", {"max": {"cpu": "3"}}, id="one of two of that name"),
        pytest.param("web/hard.max.cpu=+1", {"hard": {"cpu": "4"}}, id="a ResourceQuota"),
    ],
)
def test_a_bound_of_a_quota(flag: str, want: Json) -> None:
    (edit,) = edits(flag)
    assert edit["patch"] == {"spec": want}


def test_a_node_of_a_tree_is_changed_with_the_whole_tree() -> None:
    (edit,) = edits("red.max.cpu=+1", "blue.min.cpu=2")
    assert (edit["kind"], edit["namespace"], edit["name"]) == (
        "ElasticQuotaTree",
        "kube-system",
        "tree",
    )
    children = edit["patch"]["spec"]["root"]["children"]
    assert children == [{"name": "red", "max": {"cpu": "5"}}, {"name": "blue", "min": {"cpu": "2"}}]
    assert TREE["spec"]["root"]["children"][0]["max"] == {"cpu": "4"}, "the object is not changed"


def test_later_flags_count_from_what_earlier_ones_have_made() -> None:
    (edit,) = edits("team-a.max.cpu=+1", "team-a.max.cpu=+1", "team-a.max.nvidia.com/gpu=0")
    assert edit["patch"] == {"spec": {"max": {"cpu": "42", "nvidia.com/gpu": "0"}}}


@pytest.mark.parametrize(
    ("flag", "want"),
    [
        ("team-a.cpu=1", "this cannot be read"),
        ("team-a.max.cpu=", "this cannot be read"),
        ("team-b.max.cpu=1", "there is no quota team-b"),
        ("twice.max.cpu=1", "several quotas are called twice: one/twice, two/twice"),
        ("team-a.max.pods=+1", "pods is not limited, so \\+1 has no base"),
        ("team-a.max.cpu=-41", "-41 is more than the 40 there are"),
        ("team-a.max.cpu=+", "--quota team-a: "),
        ("team-a.max.cpu=lots", "--quota team-a: "),
    ],
)
def test_a_quota_flag_that_cannot_be_followed(flag: str, want: str) -> None:
    with pytest.raises(CommandError, match=want):
        edits(flag)


@pytest.mark.parametrize(
    ("flag", "want"),
    [
        ("a.priority=7", {"spec": {"priority": 7}}),
        ("a.policy=FIFO", {"spec": {"queuePolicy": "FIFO"}}),
        ("a.backfill=true", {"metadata": {"annotations": {"koord-queue/backfill": "true"}}}),
        ("a.x.io/y=none", {"metadata": {"annotations": {"x.io/y": None}}}),
    ],
)
def test_a_queue_flag(flag: str, want: Json) -> None:
    assert queue_edit(flag) == {"kind": "Queue", "name": "a", "patch": want}


def test_a_node_flag() -> None:
    want = {"kind": "Node", "name": "n1.example.org", "copies": 3}
    assert node_edit("n1.example.org.copies=3") == want


@pytest.mark.parametrize("flag", ["a", "a.priority=high", "a=1"])
def test_a_queue_flag_that_cannot_be_read(flag: str) -> None:
    with pytest.raises(CommandError, match="--queue"):
        queue_edit(flag)


@pytest.mark.parametrize("flag", ["n1", "n1.copies=", "n1.copies=-1"])
def test_a_node_flag_that_cannot_be_read(flag: str) -> None:
    with pytest.raises(CommandError, match="--node"):
        node_edit(flag)
