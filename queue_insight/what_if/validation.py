"""Checks a merge patch as the API server would, as far as types and our own CRDs say. Pure.

Only what is patched is checked: the rest of an object was accepted by the API server, and is known
here in part. CEL rules and webhooks are not evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect as types

from queue_insight.what_if.edit import PATCH, FieldError
from shared_api.crd_schema import Schema, schema_of
from shared_api.objects.elastic_quota import ElasticQuotaSpec
from shared_api.objects.elastic_quota_tree import ElasticQuotaTreeNode
from shared_api.objects.node import NodeStatus
from shared_api.objects.pod import ResourceQuantities
from shared_api.objects.queue import Queue
from shared_api.objects.queue_reservation import QueueReservation
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.quota_policy import QuotaPolicy
from shared_api.objects.resource_quota import ResourceQuotaSpec
from shared_api.quantity import QuantityError
from shared_api.quantity import amount as amount_of

ObjectT = TypeVar("ObjectT", bound=msgspec.Struct)

OF_OTHERS: Final = frozenset({"apiVersion", "kind"})
"""Fields that an edit names beside its patch."""

_WORDS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "object": dict,
    "array": list,
}


def decode(body: Mapping[str, Any], kind: type[ObjectT]) -> ObjectT:
    """Return an object from its JSON form.

    Raises:
        FieldError: A field has the wrong type, or an amount cannot be read.
    """
    try:
        found = msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$")
        raise FieldError(PATCH + where.removesuffix("`"), text) from error
    for path, amounts in _amounts_of(found):
        _check_amounts(f"{PATCH}.{path}", amounts)
    return found


def _amounts_of(found: object) -> Iterator[tuple[str, ResourceQuantities]]:
    """Yield the resource lists of an object, each with its path."""
    spec = getattr(found, "spec", None)
    status = getattr(found, "status", None)
    if isinstance(spec, ElasticQuotaSpec):
        yield from (("spec.min", spec.min), ("spec.max", spec.max))
    elif isinstance(spec, ResourceQuotaSpec):
        yield "spec.hard", spec.hard
    elif isinstance(status, NodeStatus):
        yield "status.allocatable", status.allocatable
    elif isinstance(root := getattr(spec, "root", None), ElasticQuotaTreeNode):
        yield from _amounts_below(root, "spec.root")


def _amounts_below(node: ElasticQuotaTreeNode, path: str) -> Iterator[tuple[str, Any]]:
    yield from ((f"{path}.min", node.min), (f"{path}.max", node.max))
    for number, child in enumerate(node.children):
        yield from _amounts_below(child, f"{path}.children[{number}]")


def _check_amounts(path: str, amounts: ResourceQuantities) -> None:
    for resource, text in amounts.items():
        try:
            amount = amount_of(resource, text)
        except QuantityError as error:
            raise FieldError(f"{path}.{resource}", str(error)) from error
        if amount < 0:
            raise FieldError(f"{path}.{resource}", "must not be negative")


def find_unread(patch: Mapping[str, Any], kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the paths in a patch of an object that no type here has."""
    return tuple(_unread(patch, _fields(kind), PATCH))


@cache
def _fields(kind: type[msgspec.Struct]) -> types.Type:
    return types.type_info(kind)


def _unread(patch: Mapping[str, Any], kind: types.Type, path: str) -> Iterator[str]:
    while isinstance(kind, types.Metadata):
        kind = kind.type
    if isinstance(kind, types.UnionType):
        kind = next((each for each in kind.types if isinstance(each, types.StructType)), kind)
    if not isinstance(kind, types.StructType):
        return
    known = {field.encode_name: field.type for field in kind.fields}
    for name, value in patch.items():
        if name not in known:
            if path != PATCH or name not in OF_OTHERS:
                yield f"{path}.{name}"
        elif isinstance(value, Mapping):
            yield from _unread(value, known[name], f"{path}.{name}")


# --- the CRDs -------------------------------------------------------------------------------------


def check_patch(patch: Mapping[str, Any], kind: type[msgspec.Struct]) -> None:
    """Check the limits of our own CRDs in what is patched; other kinds have none here.

    Raises:
        FieldError: A value breaks one.
    """
    if kind in {Queue, QueueUnit, QuotaPolicy, QueueReservation}:
        _check(patch, _schema(kind), PATCH, whole=False)


@cache
def _schema(kind: type[msgspec.Struct]) -> Schema:
    return schema_of(kind)


def _check(value: object, schema: Schema, path: str, *, whole: bool) -> None:
    """Check a value; `whole`: it replaces what was there, so that nothing may be missing."""
    if value is None or "x-kubernetes-int-or-string" in schema:
        return
    word = schema.get("type", "")
    is_right = isinstance(value, _WORDS.get(word, object)) and (
        word != "integer" or not isinstance(value, bool)
    )
    if not is_right:
        raise FieldError(path, f"must be of type {word}")
    for text in _broken_limits(value, schema):
        raise FieldError(path, text)
    if isinstance(value, dict):
        _check_members(value, schema, path, whole=whole)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check(item, schema.get("items", {}), f"{path}[{number}]", whole=True)


def _check_members(value: dict[str, Any], schema: Schema, path: str, *, whole: bool) -> None:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name in schema.get("required", ()) if whole else ():
        if value.get(name) is None:
            raise FieldError(f"{path}.{name}", "is required")
    for name, member in value.items():
        _check(member, known.get(name, others), f"{path}.{name}", whole=whole)


def _broken_limits(value: object, schema: Schema) -> Iterator[str]:
    """Yield what is wrong with a value of the right type."""
    if "enum" in schema and value not in schema["enum"]:
        yield f"must be one of {', '.join(schema['enum'])}"
    if isinstance(value, str):
        yield from _broken_text(value, schema)
    elif isinstance(value, int):
        if value < schema.get("minimum", value):
            yield f"must be at least {schema['minimum']}"
        if value > schema.get("maximum", value):
            yield f"must be at most {schema['maximum']}"
    elif isinstance(value, list | dict):
        yield from _broken_size(value, schema)


def _broken_text(value: str, schema: Schema) -> Iterator[str]:
    if len(value) > schema.get("maxLength", len(value)):
        yield f"must have at most {schema['maxLength']} characters"
    if "pattern" in schema and re.search(schema["pattern"], value) is None:
        yield f"must match {schema['pattern']}"


def _broken_size(value: list[Any] | dict[str, Any], schema: Schema) -> Iterator[str]:
    most = "maxItems" if isinstance(value, list) else "maxProperties"
    if len(value) > schema.get(most, len(value)):
        yield f"must have at most {schema[most]} entries"
    if len(value) < schema.get("minItems", 0):
        yield f"must have at least {schema['minItems']} entries"
