"""Merge patches that change items of lists."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from queue_controllers.jobframework.list_patches import BY_POSITION, fill_all, fill_lists

FOUND: dict[str, Any] = {
    "spec": {
        "suspend": True,
        "sets": [
            {"name": "a", "replicas": 2, "labels": {"x": "1"}, "parts": [{"p": 1}, {"p": 2}]},
            {"name": "b", "command": ["run"]},
        ],
    }
}
BY_NAME = {"spec.sets": "name"}


@pytest.mark.parametrize(
    ("keys", "change", "want"),
    [
        pytest.param(
            BY_NAME,
            [{"name": "b", "labels": {"y": "2"}}],
            [FOUND["spec"]["sets"][0], {"name": "b", "command": ["run"], "labels": {"y": "2"}}],
            id="all else stays",
        ),
        pytest.param(
            BY_NAME,
            [{"name": "a", "labels": {"x": None, "y": None}}],
            [{**FOUND["spec"]["sets"][0], "labels": {}}, FOUND["spec"]["sets"][1]],
            id="a null removes a field",
        ),
        pytest.param(
            BY_NAME,
            [{"name": "c", "labels": {"x": None, "y": "2"}}],
            [*FOUND["spec"]["sets"], {"name": "c", "labels": {"y": "2"}}],
            id="a new one comes last",
        ),
        pytest.param(
            BY_NAME,
            [{"name": "b", "command": ["stop"]}],
            [FOUND["spec"]["sets"][0], {"name": "b", "command": ["stop"]}],
            id="a list without a key is whole",
        ),
        pytest.param(
            {"spec.sets": BY_POSITION, "spec.sets.parts": BY_POSITION},
            [{"parts": [{}, {"q": 3}, {"r": 4}]}],
            [
                {**FOUND["spec"]["sets"][0], "parts": [{"p": 1}, {"p": 2, "q": 3}, {"r": 4}]},
                FOUND["spec"]["sets"][1],
            ],
            id="by position, in lists of lists",
        ),
    ],
)
def test_items_are_changed_in_their_list(
    keys: dict[str, str], change: list[dict[str, Any]], want: list[dict[str, Any]]
) -> None:
    before = copy.deepcopy(FOUND)
    got = fill_lists({"spec": {"suspend": False, "sets": change}}, FOUND, keys)
    assert got == {"spec": {"suspend": False, "sets": want}}
    assert before == FOUND


def test_a_missing_list_is_created_without_nulls() -> None:
    patch = {"spec": {"sets": [{"name": "a", "labels": {"x": None, "y": "2"}}]}}
    got = fill_lists(patch, {}, BY_NAME)
    assert got == {"spec": {"sets": [{"name": "a", "labels": {"y": "2"}}]}}


def test_each_of_several_patches_sees_the_earlier_ones() -> None:
    first = {"spec": {"suspend": False, "sets": [{"name": "b", "labels": {"y": "2", "z": "3"}}]}}
    second = {"spec": {"sets": [{"name": "b", "labels": {"z": None}}, {"name": "a", "parts": []}]}}
    got = fill_all([first, second], FOUND, BY_NAME)
    a, b = FOUND["spec"]["sets"]
    want = [{**a, "parts": []}, {**b, "labels": {"y": "2"}}]
    assert got == {"spec": {"suspend": False, "sets": want}}
