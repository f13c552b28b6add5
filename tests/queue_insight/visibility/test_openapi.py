"""The contract in the forms of Kubernetes: complete, and readable for its clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.routing import Route

from queue_insight.visibility import openapi
from queue_insight.visibility.resources import RESOURCES, PendingUnit
from tests.queue_insight.visibility.visibility_kit import Desk

Json = dict[str, Any]
DOCUMENTS = {
    openapi.V2: (openapi.document_v2(), openapi.document_v2()["definitions"]),
    openapi.V3: (openapi.document_v3(), openapi.document_v3()["components"]["schemas"]),
}


def parts(value: Any) -> Iterator[Json]:
    """Iterate over all objects of a document."""
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from parts(each)
    elif isinstance(value, list):
        for each in value:
            yield from parts(each)


def nodes(schemas: Json) -> Iterator[Json]:
    """Iterate over all schemas, and those of their fields and items."""
    for schema in schemas.values():
        yield schema
        yield from nodes(schema.get("properties", {}))
        below = {key: schema.get(key) for key in ("items", "additionalProperties")}
        yield from nodes({key: each for key, each in below.items() if isinstance(each, dict)})


@pytest.mark.parametrize("refs", DOCUMENTS)
def test_each_reference_leads_somewhere(refs: str) -> None:
    document, schemas = DOCUMENTS[refs]
    named = {each["$ref"] for each in parts(document) if isinstance(each.get("$ref"), str)}
    assert {each.removeprefix(refs) for each in named} <= set(schemas)
    assert len(named) > 10


@pytest.mark.parametrize("refs", DOCUMENTS)
def test_schemas_have_nothing_that_kubernetes_does_not_read(refs: str) -> None:
    _, schemas = DOCUMENTS[refs]
    for schema in nodes(schemas):
        assert not set(schema) & {"anyOf", "oneOf", "const", "title", "default", "$defs"}, schema
    if refs == openapi.V3:
        assert [each for each in parts(schemas) if "$ref" in each and len(each) > 1] == []
    else:
        assert [each for each in parts(schemas) if "nullable" in each or "allOf" in each] == []


@pytest.mark.parametrize("refs", DOCUMENTS)
def test_each_kind_is_named(refs: str) -> None:
    """By that kubectl explain finds it."""
    document, schemas = DOCUMENTS[refs]
    marked = {
        each["x-kubernetes-group-version-kind"][0]["kind"]
        for each in schemas.values()
        if "x-kubernetes-group-version-kind" in each
    }
    assert marked == {each.kind.KIND for each in RESOURCES}
    shown = document["paths"][f"{openapi.BASE}/namespaces/{{namespace}}/pendingunits"]["get"]
    assert shown["x-kubernetes-group-version-kind"]["kind"] == PendingUnit.KIND


def test_each_field_of_a_unit_is_described() -> None:
    _, schemas = DOCUMENTS[openapi.V3]
    for name in ("PendingUnit", "PendingUnitSpec", "PendingUnitStatus", "PendingUnitList"):
        schema = schemas[f"{openapi.PREFIX}.{name}"]
        missing = [key for key, each in schema["properties"].items() if not each.get("description")]
        assert missing == []
        assert schema["description"]


@pytest.mark.parametrize("refs", DOCUMENTS)
def test_the_paths_are_those_of_the_application(refs: str) -> None:
    app: Any = Desk().app()
    routes = {
        (route.path, method.lower())
        for route in app.router.routes
        if isinstance(route, Route) and route.path.startswith(f"{openapi.BASE}/")
        for method in route.methods or ()
        if method != "HEAD"
    }
    document, _ = DOCUMENTS[refs]
    got = {
        (path, method)
        for path, item in document["paths"].items()
        for method in item
        if method != "parameters"
    }
    assert got == routes


def test_operations_have_names_of_their_own() -> None:
    document, _ = DOCUMENTS[openapi.V3]
    found = [each["operationId"] for each in parts(document) if "operationId" in each]
    assert len(found) == len(set(found)) > 6


def test_the_index_names_the_present_document() -> None:
    ((path, got),) = openapi.index_v3()["paths"].items()
    assert f"/{path}" == openapi.BASE
    assert got["serverRelativeURL"].startswith(f"{openapi.DOCUMENT_V3}?hash=")
    assert openapi.index_v3() == openapi.index_v3()
