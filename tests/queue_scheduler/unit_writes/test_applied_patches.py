"""A unit after a patch of its status."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.unit_writes.applied_patches import merged, with_status
from shared_api.fake_api_server.patching import merge_patch
from shared_api.objects.queue_unit import RequeueState
from tests.properties.engine_kit import build_unit, changed

PATCHES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a value is replaced": ({"a": 1, "b": 2}, {"a": 3}),
    "null removes": ({"a": 1, "b": 2}, {"a": None}),
    "null of what is missing": ({"b": 2}, {"a": None}),
    "objects are merged, nulls in them too": ({"a": {"x": 1, "y": 2}}, {"a": {"x": None, "z": 3}}),
    "an object in place of a value": ({"a": 1}, {"a": {"x": 1, "y": None}}),
    "a list is replaced whole": ({"a": [1, 2]}, {"a": [3]}),
}


@pytest.mark.parametrize("name", PATCHES)
def test_patches_merge_as_in_the_server(name: str) -> None:
    target, patch = PATCHES[name]
    assert merged(target, patch) == merge_patch(target, patch)


def test_the_rest_of_the_unit_stays() -> None:
    unit = changed(build_unit("x", "a"), 3, message="old", attempts=2)
    patch = {"message": "new", "requeueState": {"count": 1, "requeueAt": None}}
    got = with_status(unit, patch, 8)
    assert (got.status.message, got.status.attempts) == ("new", 2)
    assert got.status.requeue_state == RequeueState(count=1)
    assert got.metadata.resource_version == "8"
    assert (got.spec, got.metadata.uid) == (unit.spec, unit.metadata.uid)
