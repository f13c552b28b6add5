"""Tests of shared_api.fake_api_server.schema_validation beyond the conformance suite."""

from __future__ import annotations

from typing import Any

import pytest

from shared_api.fake_api_server.api_errors import Cause
from shared_api.fake_api_server.schema_validation import compile_schema

Json = Any


def problems(source: Json, value: Json, old: Json = None) -> set[str]:
    """Return the paths of what is invalid in `spec`."""
    causes: list[Cause] = []
    schema = compile_schema({"type": "object", "properties": {"spec": source}})
    schema.check({"spec": value}, None if old is None else {"spec": old}, "", causes)
    return {cause.field for cause in causes}


def normalised(source: Json, value: Json, old: Json = None) -> Json:
    """Return the value after pruning and defaulting."""
    schema = compile_schema({"type": "object", "properties": {"spec": source}})
    return schema.normalise({"spec": value}, old and {"spec": old}, "", [])["spec"]


@pytest.mark.parametrize(
    ("source", "value", "want"),
    [
        pytest.param(
            {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"b": 1}, set(), id="any"
        ),
        pytest.param(
            {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {}, {"spec"}, id="none of anyOf"
        ),
        pytest.param({"allOf": [{"required": ["a"]}]}, {}, {"spec.a"}, id="all"),
        pytest.param({"type": "number"}, 1, set(), id="an integer is a number"),
        pytest.param({"type": "integer"}, 2.0, set(), id="2.0 is an integer"),
        pytest.param({"type": "integer"}, True, {"spec"}, id="true is not an integer"),
        pytest.param({"type": "array", "minItems": 1}, [], {"spec"}, id="too few items"),
        pytest.param(
            {"type": "object", "maxProperties": 1}, {"a": 1, "b": 2}, {"spec"}, id="too many keys"
        ),
        pytest.param({"type": "string", "format": "date"}, "2026-11-01", set(), id="a date"),
        pytest.param({"type": "string", "format": "date"}, "tomorrow", {"spec"}, id="no date"),
        pytest.param({"type": "string", "pattern": "^(?i)ab$"}, "aB", set(), id="Go's flags"),
        pytest.param({"type": "string", "pattern": "^(?i)ab$"}, "aBc", {"spec"}, id="no match"),
        pytest.param({"type": "string", "nullable": True}, None, set(), id="null where allowed"),
    ],
)
def test_checks(source: Json, value: Json, want: set[str]) -> None:
    assert problems(source, value) == want


def test_an_unchanged_invalid_part_is_accepted() -> None:
    source = {
        "type": "object",
        "properties": {"a": {"type": "object", "required": ["x"]}, "b": {"type": "integer"}},
    }
    wrong: Json = {}
    assert problems(source, {"a": wrong, "b": 2}, {"a": wrong, "b": 1}) == set()
    assert problems(source, {"a": {}, "b": 2}, {"a": wrong, "b": 1}) == {"spec.a.x"}


def test_defaults_of_defaults() -> None:
    source = {
        "type": "object",
        "properties": {
            "a": {
                "type": "object",
                "default": {},
                "properties": {"b": {"type": "integer", "default": 7}},
            }
        },
    }
    assert normalised(source, {}) == {"a": {"b": 7}}


def test_a_valid_value_is_returned_itself() -> None:
    source = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}}
    value: Json = {"a": [{}]}
    assert normalised(source, value) is value


def test_embedded_objects_keep_their_metadata() -> None:
    source = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {}}
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "other": 1}
    assert normalised(source, value) == {k: v for k, v in value.items() if k != "other"}


def test_the_values_of_maps_are_checked() -> None:
    source = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert problems(source, {"a": 1, "b": "x"}) == {"spec.b"}
    assert normalised(source, {"a": None, "b": 1}) == {"b": 1}
