"""What a patch would write, as lines."""

from __future__ import annotations

from typing import Any

import pytest

from koord_queue.show.patches import patch_lines


@pytest.mark.parametrize(
    ("patch", "want"),
    [
        pytest.param(
            {"metadata": {"annotations": {"a/b": "true"}, "labels": {"c/d": "x"}}},
            ["annotation a/b: true", "label c/d: x"],
            id="annotations and labels",
        ),
        pytest.param(
            {"metadata": {"annotations": {"a/b": None}}},
            ["annotation a/b: removed"],
            id="what is removed",
        ),
        pytest.param(
            {"metadata": {"resourceVersion": "7"}, "spec": {"active": False, "queue": "night"}},
            ["spec.active: false", "spec.queue: night"],
            id="fields, without the guard",
        ),
        pytest.param(
            {
                "status": {
                    "message": "asked",
                    "lastUpdateTime": "now",
                    "conditions": [
                        {"type": "Admitted", "status": "True", "reason": "Fits", "message": "old"},
                        {"type": "Evicted", "status": "True", "reason": "Why", "message": "asked"},
                    ],
                }
            },
            ["condition Evicted: True, reason Why"],
            id="of a status the condition that is new",
        ),
    ],
)
def test_a_patch_is_told_by_its_fields(patch: dict[str, Any], want: list[str]) -> None:
    assert list(patch_lines(patch)) == want
