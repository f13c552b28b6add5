"""Generates the schema of a CustomResourceDefinition from the types under `objects`.

The API server requires a *structural* schema: a type at every node, no references, no `anyOf`
except for int-or-string, `properties` or `additionalProperties` but not both. `msgspec.inspect`
returns the types as a tree; each node becomes its structural form, overlaid with its
`Annotated[...]` (`shared_api.objects.field_schema`).

Four types belong to Kubernetes and are decoded only in part; their complete schemas are written
out here.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import inspect as types

from shared_api.objects.field_schema import MESSAGE_LENGTH
from shared_api.objects.meta import Condition, ObjectMeta
from shared_api.objects.pod import PodTemplate
from shared_api.quantity import MAX_LENGTH

Schema: TypeAlias = dict[str, Any]

QUANTITY: Final[Schema] = {
    # The type is given by int-or-string; this anyOf is the only form that is allowed with it.
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
    "maxLength": MAX_LENGTH,
    # Kubernetes' own pattern allows any exponent; with more than three digits the quantity is
    # either zero or too large.
    "pattern": (
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,3}))?$"
    ),
}

# Source: metav1.Condition (k8s.io/apimachinery v0.36.3, pkg/apis/meta/v1/types.go).
_CONDITION: Final[Schema] = {
    "description": "One aspect of the object's state.",
    "type": "object",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "lastTransitionTime": {
            "description": "When the status last changed.",
            "type": "string",
            "format": "date-time",
        },
        "message": {
            "description": "The reason, for people.",
            "type": "string",
            "maxLength": MESSAGE_LENGTH,
        },
        "observedGeneration": {
            "description": "The metadata.generation that the condition was made from.",
            "type": "integer",
            "format": "int64",
            "minimum": 0,
        },
        "reason": {
            "description": "The reason, for programs.",
            "type": "string",
            "maxLength": 1024,
            "minLength": 1,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "status": {
            "description": "Whether the aspect holds.",
            "type": "string",
            "enum": ["True", "False", "Unknown"],
        },
        "type": {
            "description": "The aspect.",
            "type": "string",
            "maxLength": 316,
            "pattern": (
                r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
                r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
            ),
        },
    },
}

_KUBERNETES_TYPES: Final[Mapping[type, Schema]] = {
    ObjectMeta: {"type": "object"},
    Condition: _CONDITION,
    # Without a schema: the job's own CRD has checked it, and the full schema (71 kB) makes every
    # write of a unit half as expensive again (measured: create 3.1 ms of API server CPU instead of
    # 1.8, status patch 4.6 instead of 3.3).
    PodTemplate: {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}


class SchemaError(Exception):
    """A type has no structural schema, or a field lacks an annotation that the generator needs."""


def schema_of(object_type: type[msgspec.Struct]) -> Schema:
    """Return the structural schema of a struct.

    Raises:
        SchemaError: A field has a type that no structural schema can express.
    """
    return _schema(_type_info(object_type))


# Reads the annotations of the struct and of all in it, which takes milliseconds; a type has one.
_type_info: Final = cache(types.type_info)


def _schema(node: types.Type) -> Schema:
    match node:
        case types.Metadata():
            return _schema(node.type) | (node.extra_json_schema or {})
        case types.StructType():
            return _object(node)
        case types.UnionType():
            return _union(node)
        case types.VarTupleType():
            return {"type": "array", "items": _schema(node.item_type)}
        case types.DictType():
            return {"type": "object", "additionalProperties": _schema(node.value_type)}
        case types.StrType():
            return {"type": "string"}
        case types.IntType():
            return {"type": "integer"}
        case types.BoolType():
            return {"type": "boolean"}
        case _:
            raise SchemaError(f"{node!r} has no structural schema")


def _union(node: types.UnionType) -> Schema:
    # Optional means that the field may be absent. A null is not a value: as with the schemas of
    # controller-gen, the API server drops it before validation.
    members = [member for member in node.types if not isinstance(member, types.NoneType)]
    if len(members) == 1:
        return _schema(members[0])
    if {type(member) for member in members} == {types.StrType, types.IntType, types.FloatType}:
        return dict(QUANTITY)
    raise SchemaError(f"{node!r} has no structural schema")


def _object(node: types.StructType) -> Schema:
    if node.cls in _KUBERNETES_TYPES:
        return dict(_KUBERNETES_TYPES[node.cls])
    schema: Schema = {
        "type": "object",
        "description": _first_paragraph(node.cls),
        "properties": {field.encode_name: _field(field) for field in node.fields},
    }
    if required := [field.encode_name for field in node.fields if _has_mark(field, "required")]:
        schema["required"] = sorted(required)
    return schema


def _field(field: types.Field) -> Schema:
    schema = _schema(field.type)
    if _has_mark(field, "defaulted"):
        schema["default"] = field.default
    return schema


def _has_mark(field: types.Field, mark: str) -> bool:
    marks = field.type.extra if isinstance(field.type, types.Metadata) else None
    return bool(marks and marks.get(mark))


def _first_paragraph(documented: type) -> str:
    paragraph = inspect.cleandoc(documented.__doc__ or "").split("\n\n")[0]
    return " ".join(paragraph.split())
