from __future__ import annotations

import pytest

from queue_scheduler.quota.webhook_rules import (
    are_keys_consistent,
    do_mins_fit,
    do_tree_ids_agree,
)


@pytest.mark.parametrize(
    ("parent_min", "siblings", "children", "want"),
    [
        pytest.param(None, [{"x": 99}], [], True, id="under the root nothing is checked upwards"),
        pytest.param({"x": 10}, [{"x": 5}], [], True, id="with the siblings it just fits"),
        pytest.param({"x": 10}, [{"x": 6}], [], False, id="with the siblings it does not"),
        pytest.param({}, [], [], False, id="a missing key is 0"),
        pytest.param(None, [], [{"x": 3}, {"x": 2}], True, id="the children fit"),
        pytest.param(None, [], [{"x": 3}, {"x": 3}], False, id="the children do not"),
    ],
)
def test_do_mins_fit(
    parent_min: dict[str, int] | None,
    siblings: list[dict[str, int]],
    children: list[dict[str, int]],
    want: bool,
) -> None:
    assert do_mins_fit({"x": 5}, parent_min, siblings, children) is want


def test_keys_along_the_tree() -> None:
    wide = {"max": {"x": 1, "y": 1}, "min": {"x": 1, "y": 1}}
    narrow = {"max": {"x": 1}, "min": {"x": 1}}
    assert are_keys_consistent(narrow, wide, None, relaxed=True)
    assert not are_keys_consistent(narrow, wide, None, relaxed=False)
    assert not are_keys_consistent(narrow, None, wide, relaxed=True)
    assert not are_keys_consistent({"max": {"x": 1}}, None, narrow, relaxed=True)


def test_tree_ids() -> None:
    assert do_tree_ids_agree("t", "t", None)
    assert not do_tree_ids_agree("t", None, "")
