"""The client's structs are those of the contracts, and read answers of other versions."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import msgspec
import pytest

from koord_queue.answers.decoding import Answer, decode
from koord_queue.answers.explanation import Explanation
from koord_queue.answers.forecast import Forecast
from koord_queue.answers.quotas import QuotaTreePage
from koord_queue.answers.what_if import WhatIf
from tests.client_structs import (
    ANSWERS,
    DEFAULTS,
    MODULES,
    NAMES,
    READ_AS,
    build_modules,
    build_struct,
    read_schemas,
    struct_name,
)

SCHEMAS: Final = read_schemas()
TEXTS: Final = build_modules(SCHEMAS)
ROOTS: Final = [(module, root) for module, (_, roots) in MODULES.items() for root in roots]
SCALARS: Final = {"string": "text", "integer": 7, "number": 7.5, "boolean": True}


def read_struct(module: str, root: str) -> type[Answer]:
    found: type[Answer] = getattr(import_module(f"koord_queue.answers.{module}"), struct_name(root))
    return found


def example(value: dict[str, Any], depth: int = 9) -> object:
    """Return a value of a schema in which nothing is missing, down to a depth of lists."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return example(SCHEMAS[READ_AS.get(name, name)], depth)
    if "anyOf" in value:
        return example(value["anyOf"][0], depth)
    if value["type"] == "array":
        return [example(value["items"], depth - 1)] if depth else []
    if "properties" in value:
        return {name: example(each, depth) for name, each in value["properties"].items()}
    if value["type"] == "object":
        values = value["additionalProperties"]
        return {"key": "any" if values is True else example(values, depth)}
    return SCALARS[value["type"]]


@pytest.mark.parametrize("module", MODULES)
def test_the_committed_module_is_what_is_generated(module: str) -> None:
    assert (ANSWERS / f"{module}.py").read_text() == TEXTS[module], "run: make openapi"


def test_the_tables_name_what_the_contracts_have() -> None:
    assert NAMES.keys() <= SCHEMAS.keys()
    for name, field in DEFAULTS:
        assert field in SCHEMAS[name]["properties"]
    for name, other in READ_AS.items():
        assert SCHEMAS[name]["properties"].items() <= SCHEMAS[other]["properties"].items()


@pytest.mark.parametrize(("module", "root"), ROOTS)
def test_an_answer_is_read_with_all_fields(module: str, root: str) -> None:
    sent = example(SCHEMAS[root])
    read = decode(msgspec.json.encode(sent), read_struct(module, root))
    assert msgspec.json.decode(msgspec.json.encode(read)) == sent


@pytest.mark.parametrize(("module", "root"), ROOTS)
def test_an_answer_of_another_version_is_read(module: str, root: str) -> None:
    struct = read_struct(module, root)
    assert decode(b"{}", struct) == struct()
    assert decode(b'{"ofTheFuture": {"name": [1]}}', struct) == struct()


def test_fields_that_older_servers_lack_have_meaningful_defaults() -> None:
    older = b'{"name": "a", "changes": [{"kind": "quota", "sufficient": true}]}'
    explanation = decode(older, Explanation)
    assert explanation.name == "a"
    assert explanation.changes is not None
    assert explanation.changes[0].practical
    assert explanation.admitted is None
    assert decode(b'{"startP50": "2026-11-26T10:00:00Z"}', Forecast).outlook == "times"
    assert decode(b'{"started": [{"unit": "a/b"}]}', WhatIf).complete
    (quota,) = decode(b'{"items": [{"name": "team"}]}', QuotaTreePage).items
    assert (quota.min, quota.scaled_min, quota.charged) == ({}, None, None)


def field(schema: dict[str, Any]) -> str:
    """Return the line of a field in a struct."""
    parts = {"PartView": {"properties": {}}, "Word": {"type": "string", "enum": ["a"]}}
    whole = {"description": "A whole.", "properties": {"startP50": schema}}
    return build_struct("WholeView", {**parts, "WholeView": whole}).splitlines()[3].strip()


@pytest.mark.parametrize(
    ("schema", "want"),
    [
        pytest.param({"type": "string"}, 'str = ""', id="text"),
        pytest.param({"type": "number"}, "float = 0.0", id="a number"),
        pytest.param({"type": "string", "default": "q"}, 'str = "q"', id="a default"),
        pytest.param({"type": "integer", "default": 2}, "int = 2", id="a number as default"),
        pytest.param(
            {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "bool | None = None",
            id="what may be null",
        ),
        pytest.param({"$ref": "#/x/PartView"}, "Part = Part()", id="a part"),
        pytest.param({"$ref": "#/x/Word"}, 'str = ""', id="an enumeration"),
        pytest.param(
            {"type": "array", "items": {"$ref": "#/x/PartView"}},
            "tuple[Part, ...] = ()",
            id="a list",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": True}, "dict[str, Any] = {}", id="any object"
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "integer"}},
            "dict[str, int] = {}",
            id="a map",
        ),
    ],
)
def test_a_schema_is_a_type_and_what_is_missing(schema: dict[str, Any], want: str) -> None:
    assert field(schema) == f"start_p50: {want}"


def test_a_schema_that_is_not_known_is_an_error() -> None:
    with pytest.raises(KeyError):
        field({"type": "file"})
