"""The flag `--policy` of `what-if` becomes JSON patches of policies."""

from __future__ import annotations

from typing import Any

import pytest

from koord_queue.errors import CommandError
from koord_queue.session.policy_flags import policy_edits, read_policy_flag

Json = dict[str, Any]

VISION: Json = {
    "metadata": {"name": "vision", "namespace": "kq"},
    "spec": {
        "quotas": ["vision"],
        "userLimits": [
            {"users": ["ann"], "max": {"nvidia.com/gpu": 8, "memory": "64Gi"}, "running": 4},
            {"users": ["*"], "pending": 50},
        ],
        "budgets": [{"resource": "cpu", "hours": "20000"}, {"amount": "2.5"}],
    },
}
DOTTED: Json = {"metadata": {"name": "v1.5"}, "spec": {"userLimits": [{"max": {"cpu": "1"}}]}}


def edits(*flags: str) -> list[Json]:
    return policy_edits([read_policy_flag(each) for each in flags], (VISION, DOTTED))


def change(path: str, before: Any, after: Any) -> list[Json]:
    return [
        {"op": "test", "path": f"/spec/{path}", "value": before},
        {"op": "replace", "path": f"/spec/{path}", "value": after},
    ]


GPU = "userLimits/0/max/nvidia.com~1gpu"


@pytest.mark.parametrize(
    ("flag", "want"),
    [
        pytest.param("vision.userLimits[0].max.nvidia.com/gpu=+4", change(GPU, 8, "12"), id="more"),
        pytest.param(
            "vision.userLimits[0].max.memory=-32Gi",
            change("userLimits/0/max/memory", "64Gi", "32Gi"),
            id="less",
        ),
        pytest.param(
            "vision.userLimits[0].running=+1", change("userLimits/0/running", 4, 5), id="a count"
        ),
        pytest.param(
            "vision.budgets[0].hours=+100", change("budgets/0/hours", "20000", "20100"), id="hours"
        ),
        pytest.param(
            "vision.budgets[1].amount=3.25", change("budgets/1/amount", "2.5", "3250m"), id="amount"
        ),
        pytest.param(
            "v1.5.userLimits[0].max.cpu=2", change("userLimits/0/max/cpu", "1", "2"), id="a dot"
        ),
        pytest.param(
            "vision.userLimits[0].running=none",
            [
                {"op": "test", "path": "/spec/userLimits/0/running", "value": 4},
                {"op": "remove", "path": "/spec/userLimits/0/running"},
            ],
            id="no limit",
        ),
        pytest.param(
            "vision.userLimits[1].max.cpu=2",
            [
                {"op": "add", "path": "/spec/userLimits/1/max", "value": {}},
                {"op": "add", "path": "/spec/userLimits/1/max/cpu", "value": "2"},
            ],
            id="the first of a max",
        ),
    ],
)
def test_a_value_of_a_policy(flag: str, want: list[Json]) -> None:
    (edit,) = edits(flag)
    assert edit["operations"] == want
    assert edit["kind"] == "QuotaPolicy"


def test_later_flags_count_from_what_earlier_ones_have_made() -> None:
    flag = "vision.userLimits[0].max.nvidia.com/gpu=+4"
    (edit,) = edits(flag, flag)
    assert edit["operations"] == [*change(GPU, 8, "12"), *change(GPU, "12", "16")]
    assert (edit["namespace"], edit["name"]) == ("kq", "vision")
    assert VISION["spec"]["userLimits"][0]["max"]["nvidia.com/gpu"] == 8


@pytest.mark.parametrize(
    ("flag", "want"),
    [
        pytest.param("vision.max.cpu=1", "cannot be read", id="another form"),
        pytest.param("audio.budgets[0].hours=1", "there is no QuotaPolicy audio", id="unknown"),
        pytest.param("vision.budgets[2].hours=1", "budgets has 2 entries", id="no such entry"),
        pytest.param("vision.userLimits[1].running=+1", "has no base", id="nothing to add to"),
        pytest.param("vision.userLimits[1].running=none", "no such limit", id="nothing to remove"),
        pytest.param("vision.budgets[0].hours=-20001", "more than the 20000", id="below zero"),
        pytest.param("vision.budgets[0].hours=many", "many", id="no number"),
    ],
)
def test_a_flag_that_cannot_be_followed(flag: str, want: str) -> None:
    with pytest.raises(CommandError, match=r"--policy|QuotaPolicy") as caught:
        edits(flag)
    assert want in str(caught.value)
