"""The contract, as kubectl and the API server read it: OpenAPI 2 and 3 in the form of Kubernetes.

The schemas are made of the models of the answers. A reader of the API server's documents expects
less than pydantic writes: references beside nothing else, one type each, no titles.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from pydantic.json_schema import models_json_schema

from queue_insight.api_registration.api_service import GROUP, VERSION
from queue_insight.visibility.resources import (
    RESOURCES,
    TRIES,
    ApiResource,
    KindView,
    PendingUnitList,
)

Json = dict[str, Any]

BASE: Final = f"/apis/{GROUP}/{VERSION}"
DOCUMENT_V3: Final = f"/openapi/v3{BASE}"

PREFIX: Final = f"koord-queue.visibility.{VERSION}"
"""The prefix of schema names: the API server merges them with its own and those of other APIs."""

V2, V3 = "#/definitions/", "#/components/schemas/"

_DROPPED: Final = frozenset({"title", "default", "$defs"})
_FORMATS: Final = {"integer": "int64", "number": "double"}

_LIST_PARAMETERS: Final = (
    ("limit", "integer", "Units at most, up to 1000; 100 without it."),
    ("continue", "string", "From the page before: the next one."),
    ("fieldSelector", "string", "By metadata.name, metadata.namespace and spec.queue."),
)
_FLAGS: Final = {
    "pendingunits/explain": (("changes", "boolean", "Also what would start it now."),),
    TRIES: (
        ("changes", "boolean", "Also what would start a job now."),
        ("defaulted", "boolean", "The manifest is what the API server returned for a dry run."),
    ),
}


def document_v3() -> Json:
    """Return the document of the group's version, for OpenAPI 3."""
    return {
        "openapi": "3.0.0",
        "info": _info(),
        "paths": _paths(V3),
        "components": {"schemas": _schemas(V3)},
    }


def document_v2() -> Json:
    """Return the whole document, for OpenAPI 2."""
    return {"swagger": "2.0", "info": _info(), "paths": _paths(V2), "definitions": _schemas(V2)}


def index_v3() -> Json:
    """Return the list of documents for OpenAPI 3; a changed one has another address."""
    content = msgspec.json.encode(document_v3(), order="deterministic")
    version = hashlib.sha256(content).hexdigest().upper()
    url = f"{DOCUMENT_V3}?hash={version}"
    return {"paths": {BASE.removeprefix("/"): {"serverRelativeURL": url}}}


def _info() -> Json:
    return {"title": "Koord-Queue visibility", "version": VERSION}


# --- schemas ----------------------------------------------------------------------------------


def _schemas(refs: str) -> Json:
    kinds: set[type[KindView]] = {*(each.kind for each in RESOURCES), PendingUnitList}
    models = [(kind, "validation") for kind in sorted(kinds, key=lambda kind: kind.KIND)]
    _, found = models_json_schema(models, ref_template=f"{refs}{PREFIX}.{{model}}")  # type: ignore[arg-type] # the literal is widened
    schemas = {f"{PREFIX}.{name}": _plain(schema, refs) for name, schema in found["$defs"].items()}
    for kind in kinds:
        named = {"group": GROUP, "version": VERSION, "kind": kind.KIND}
        schemas[f"{PREFIX}.{kind.__name__}"]["x-kubernetes-group-version-kind"] = [named]
    return schemas


def _plain(schema: Mapping[str, Any], refs: str) -> Json:
    """Return a schema in the form that Kubernetes uses."""
    choices = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if choices:
        (choice,) = choices
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        nullable = {"nullable": True} if refs == V3 else {}
        return _plain({**choice, **rest, **nullable}, refs)
    found = {key: _part(key, value, refs) for key, value in schema.items() if key not in _DROPPED}
    if found.get("additionalProperties") is True:
        del found["additionalProperties"]
    if found.get("type") in _FORMATS:
        found["format"] = _FORMATS[found["type"]]
    if "description" in found:
        found["description"] = " ".join(found["description"].split())
    if "$ref" in found and len(found) > 1 and refs == V3:
        found["allOf"] = [{"$ref": found.pop("$ref")}]
    return found


def _part(key: str, value: Any, refs: str) -> Any:  # noqa: ANN401 - a JSON value
    if key == "properties":
        return {name: _plain(each, refs) for name, each in value.items()}
    if key in {"items", "additionalProperties"} and isinstance(value, dict):
        return _plain(value, refs)
    return value


# --- paths ------------------------------------------------------------------------------------


def _paths(refs: str) -> Json:
    found: Json = {f"{BASE}/": {"get": _discovery()}}
    for each in RESOURCES:
        name, _, below = each.name.partition("/")
        where = (
            f"{BASE}/namespaces/{{namespace}}/{name}" if each.is_namespaced else f"{BASE}/{name}"
        )
        if "list" in each.verbs:
            found[where] = _item(each, "list", PendingUnitList, refs, ("namespace",))
            found[f"{BASE}/{name}"] = _item(each, "list", PendingUnitList, refs, ())
        if "get" in each.verbs:
            path = f"{where}/{{name}}" + (f"/{below}" if below else "")
            inside = ("namespace", "name") if each.is_namespaced else ("name",)
            found[path] = _item(each, "get", each.kind, refs, inside)
        if "create" in each.verbs:
            found[where] = _item(each, "post", each.kind, refs, ("namespace",))
    return found


def _discovery() -> Json:
    return {
        "description": "The resources of this version.",
        "operationId": "getResources",
        "responses": {"200": {"description": "OK"}},
    }


def _item(
    resource: ApiResource, action: str, kind: type[KindView], refs: str, inside: tuple[str, ...]
) -> Json:
    """Return one path with its operation; `inside`: the parameters in the path."""
    answer = {"$ref": f"{refs}{PREFIX}.{kind.__name__}"}
    by_queue = resource.kind is PendingUnitList
    declared = _LIST_PARAMETERS if action == "list" or by_queue else _FLAGS.get(resource.name, ())
    words = resource.name.replace("/", "-") + ("" if inside or action != "list" else "-everywhere")
    operation: Json = {
        "description": " ".join((kind.__doc__ or "").split("\n\n")[0].split()),
        "operationId": f"{action}-{words}",
        "tags": [f"{GROUP}_{VERSION}"],
        "parameters": [
            _parameter(name, "query", type_, text, refs) for name, type_, text in declared
        ],
        "responses": {"200": {"description": "OK", **_content(answer, refs)}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": GROUP,
            "version": VERSION,
            "kind": resource.kind.KIND,
        },
    }
    if action == "post":
        operation |= _body(refs, operation["parameters"])
    in_path = [_parameter(name, "path", "string", f"The {name}.", refs) for name in inside]
    method = "post" if action == "post" else "get"
    return {method: operation} | ({"parameters": in_path} if in_path else {})


def _content(schema: Json, refs: str) -> Json:
    return (
        {"content": {"application/json": {"schema": schema}}} if refs == V3 else {"schema": schema}
    )


def _parameter(name: str, where: str, type_: str, text: str, refs: str) -> Json:
    typed: Json = {"schema": {"type": type_}} if refs == V3 else {"type": type_}
    needed: Json = {"required": True} if where == "path" else {}
    return {"name": name, "in": where, "description": text, **needed, **typed}


def _body(refs: str, parameters: list[Json]) -> Json:
    """Return what an operation says of its body: a manifest of any kinds."""
    schema = {"type": "object"}
    if refs == V3:
        content = {each: {"schema": schema} for each in ("application/json", "application/yaml")}
        return {"requestBody": {"required": True, "content": content}}
    body = {"name": "body", "in": "body", "required": True, "schema": schema}
    types = ["application/json", "application/yaml"]
    return {"parameters": [*parameters, body], "consumes": types}
