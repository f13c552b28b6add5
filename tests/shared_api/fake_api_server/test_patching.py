"""Tests of shared_api.fake_api_server.patching."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_api.fake_api_server.patching import (
    PatchFailed,
    json_patch,
    merge_patch,
    share,
    strategic_merge_patch,
)

Json = Any

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from(["", "a", "b"]))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=12,
)


def textbook_merge(target: Json, patch: Json) -> Json:
    """Apply a merge patch as in RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = textbook_merge(result.get(name), value)
    return result


def strictly(value: Json) -> str:
    """Return a text in which true and 1 differ, and the order of keys does not matter."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{strictly(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(strictly, value)) + "]"
    return repr(value)


@pytest.mark.properties
@given(VALUES, VALUES)
def test_merge_patch_agrees_with_the_rfc(target: Json, patch: Json) -> None:
    before = copy.deepcopy((target, patch))
    assert strictly(merge_patch(target, patch)) == strictly(textbook_merge(target, patch))
    assert (target, patch) == before


@pytest.mark.properties
@given(VALUES)
def test_a_merge_that_changes_nothing_returns_the_target_itself(target: Json) -> None:
    same = copy.deepcopy(target)
    if "None" not in strictly(target):
        assert merge_patch(target, same) is target


@pytest.mark.properties
@given(VALUES, VALUES)
def test_sharing_changes_no_value(new: Json, old: Json) -> None:
    assert strictly(share(new, old)) == strictly(new)
    assert share(copy.deepcopy(old), old) is old


def test_parts_that_a_patch_does_not_touch_stay_the_same_object() -> None:
    target = {"spec": {"deep": [1]}, "status": {"phase": "A", "list": [{"x": 1}]}}
    got = merge_patch(target, {"status": {"phase": "B"}})
    assert got["spec"] is target["spec"]
    assert got["status"]["list"] is target["status"]["list"]  # type: ignore[index]  # a mixed dict


def test_true_is_not_one() -> None:
    assert merge_patch({"a": 1}, {"a": True})["a"] is True
    assert json_patch({"a": [1]}, [{"op": "replace", "path": "/a", "value": [True]}])["a"] == [True]


DOCUMENT = {"a": {"b": [1, 2, 3]}, "x/y": 1, "m~n": 2}


@pytest.mark.parametrize(
    ("operation", "want"),
    [
        pytest.param({"op": "add", "path": "/a/b/1", "value": 9}, [1, 9, 2, 3], id="insert"),
        pytest.param({"op": "add", "path": "/a/b/-", "value": 9}, [1, 2, 3, 9], id="append"),
        pytest.param({"op": "remove", "path": "/a/b/0"}, [2, 3], id="remove"),
        pytest.param({"op": "replace", "path": "/a/b/2", "value": 9}, [1, 2, 9], id="replace"),
        pytest.param({"op": "copy", "from": "/x~1y", "path": "/a/b/0"}, [1, 1, 2, 3], id="copy"),
        pytest.param({"op": "move", "from": "/a/b/0", "path": "/a/b/2"}, [2, 3, 1], id="move"),
        pytest.param({"op": "test", "path": "/m~0n", "value": 2}, [1, 2, 3], id="test"),
        pytest.param({"op": "test", "path": "/none", "value": None}, [1, 2, 3], id="test for none"),
    ],
)
def test_json_patch_operations(operation: Json, want: list[int]) -> None:
    before = copy.deepcopy(DOCUMENT)
    assert json_patch(DOCUMENT, [operation])["a"]["b"] == want
    assert before == DOCUMENT


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "add", "path": "/a/b/9", "value": 1}, id="beyond the end"),
        pytest.param({"op": "replace", "path": "/a/b/3", "value": 1}, id="just beyond the end"),
        pytest.param({"op": "remove", "path": "/none"}, id="no such key"),
        pytest.param({"op": "add", "path": "/none/x", "value": 1}, id="no such parent"),
        pytest.param({"op": "add", "path": "/m~0n/x", "value": 1}, id="parent is a number"),
        pytest.param({"op": "test", "path": "/a/b/0", "value": True}, id="true is not 1"),
        pytest.param({"op": "copy", "from": "/none", "path": "/a"}, id="nothing to copy"),
        pytest.param({"op": "add", "path": "a", "value": 1}, id="no pointer"),
        pytest.param({"op": "leap", "path": "/a"}, id="unknown"),
        pytest.param({"op": "remove", "path": "/a/b/-1"}, id="negative index"),
    ],
)
def test_json_patch_failures(operation: Json) -> None:
    with pytest.raises(PatchFailed):
        json_patch(DOCUMENT, [operation])


def test_a_json_patch_can_replace_the_whole_document() -> None:
    assert json_patch({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}]) == {"b": 2}


@pytest.mark.parametrize(
    ("patch", "want"),
    [
        pytest.param(
            {"containers": [{"name": "b", "image": "new"}]},
            {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "new"}]},
            id="by name",
        ),
        pytest.param(
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": [{"name": "b", "image": "2"}]},
            id="delete an item",
        ),
        pytest.param(
            {"containers": [{"$patch": "replace"}, {"name": "c"}]},
            {"containers": [{"name": "c"}]},
            id="replace the list",
        ),
        pytest.param(
            {"containers": [{"name": "c"}], "$setElementOrder/containers": [{"name": "c"}]},
            {
                "containers": [
                    {"name": "a", "image": "1"},
                    {"name": "b", "image": "2"},
                    {"name": "c"},
                ]
            },
            id="a new item",
        ),
        pytest.param({"finalizers": ["x"]}, {"finalizers": ["f", "x"]}, id="a set"),
        pytest.param(
            {"$deleteFromPrimitiveList/finalizers": ["f"]},
            {"finalizers": []},
            id="delete from a set",
        ),
        pytest.param({"args": ["z"]}, {"args": ["z"]}, id="other lists are replaced"),
        pytest.param({"args": None}, {"args": None}, id="null removes"),
        pytest.param(
            {"$retainKeys": ["args"]}, {"containers": None, "finalizers": None}, id="retain keys"
        ),
    ],
)
def test_strategic_merge_patch(patch: Json, want: Json) -> None:
    target = {
        "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}],
        "finalizers": ["f"],
        "args": ["y"],
    }
    got = strategic_merge_patch(target, patch)
    changed = {key: value for key, value in got.items() if value is not target.get(key)}
    removed = dict.fromkeys(target.keys() - got.keys())
    assert {**changed, **removed} == want
