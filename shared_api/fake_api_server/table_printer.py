"""`Table` answers: what `kubectl get` prints.

kubectl asks for `as=Table;v=v1;g=meta.k8s.io` and prints the cells as received. A `Column` makes
its cell from an object. Columns of custom resources use the JSONPath in the CRD
(`json_path_column`); those of built-in kinds are in `builtin_columns`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias

import msgspec

from shared_api.durations import human_duration
from shared_api.fake_api_server.object_storage import StoredObject
from shared_api.fake_api_server.patching import Body, JsonValue

Cell: TypeAlias = Callable[[Body, datetime], JsonValue]
"""Makes a cell from an object's body and the current time."""

_STEP: Final = re.compile(
    r"\.(?P<field>(?:\\.|[^.\[\\])+)"
    r"|\[\?\(@\.(?P<key>[^=\s]+)\s*==\s*[\"'](?P<value>[^\"']*)[\"']\)\]"
    r"|\[(?P<index>\d+|\*)\]"
    r"|\[['\"](?P<quoted>[^'\"]*)['\"]\]"
)
_UNKNOWN: Final = "<unknown>"


class TableColumn(msgspec.Struct, frozen=True):
    """One column of a Table."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    priority: int = 0
    """0 is always printed, higher ones only with `-o wide`."""
    description: str = ""

    def definition(self) -> Body:
        """Return the entry of `columnDefinitions`."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def name_of(body: Body, _now: datetime) -> JsonValue:
    """Return `metadata.name`."""
    return body["metadata"]["name"]


def age_of(body: Body, now: datetime) -> JsonValue:
    """Return the time since `metadata.creationTimestamp`."""
    return age(body["metadata"].get("creationTimestamp"), now)


def created_at(body: Body, _now: datetime) -> JsonValue:
    """Return `metadata.creationTimestamp`."""
    return body["metadata"].get("creationTimestamp")


NAME: Final = TableColumn("Name", name_of, format="name", description="Name of the object.")
AGE: Final = TableColumn("Age", age_of, description="Time since the object was created.")
CREATED_AT: Final = TableColumn("Created At", created_at, type="date")
PLAIN_COLUMNS: Final = (NAME, CREATED_AT)
"""The columns of a kind without specific ones."""
CUSTOM_PLAIN_COLUMNS: Final = (NAME, TableColumn("Age", age_of, type="date"))
"""The columns of a CRD that defines none."""


def json_path_column(source: Body) -> TableColumn:
    """Return the column of an entry of `additionalPrinterColumns`."""
    path, kind = source["jsonPath"], source.get("type", "string")
    steps = _parse_path(path)

    def cell(body: Body, now: datetime) -> JsonValue:
        found = _follow(body, steps)
        if not found:
            return None
        if kind == "date":
            return age(found[0], now)
        if kind == "string":
            return " ".join(_text(value) for value in found)
        return found[0]

    return TableColumn(
        source["name"],
        cell,
        type=kind,
        format=source.get("format", ""),
        priority=source.get("priority", 0),
        description=source.get("description")
        or f"Custom resource definition column (in JSONPath format): {path}",
    )


_Step: TypeAlias = Callable[[JsonValue], list[JsonValue]]


def _parse_path(path: str) -> list[_Step]:
    return [_step(found) for found in _STEP.finditer(path)]


def _step(found: re.Match[str]) -> _Step:
    if (index := found["index"]) is not None:
        return _items if index == "*" else _item(int(index))
    if (key := found["key"]) is not None:
        return _where(key, found["value"])
    field = found["quoted"]
    return _field(field if field is not None else re.sub(r"\\(.)", r"\1", found["field"]))


def _field(name: str) -> _Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _item(index: int) -> _Step:
    return lambda value: [value[index]] if isinstance(value, list) and index < len(value) else []


def _items(value: JsonValue) -> list[JsonValue]:
    return list(value) if isinstance(value, list) else []


def _where(key: str, wanted: str) -> _Step:
    return lambda value: [
        item for item in _items(value) if isinstance(item, dict) and item.get(key) == wanted
    ]


def _follow(body: Body, steps: Sequence[_Step]) -> list[JsonValue]:
    values: list[JsonValue] = [body]
    for step in steps:
        values = [after for value in values for after in step(value)]
    return values


def _text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def age(timestamp: JsonValue, now: datetime) -> str:
    """Return "5m12s" for the time since an RFC 3339 timestamp, "<unknown>" without one."""
    if not isinstance(timestamp, str):
        return _UNKNOWN
    try:
        since = datetime.fromisoformat(timestamp)
    except ValueError:
        return "<invalid>"
    return human_duration((now - since.astimezone(UTC)).total_seconds())


def table(
    columns: Sequence[TableColumn],
    objects: Iterable[StoredObject],
    list_metadata: Body,
    now: datetime,
    *,
    include: str,
    full: Callable[[StoredObject], bytes],
    with_definitions: bool = True,
) -> Body:
    """Return a `Table`.

    Args:
        columns: those of the kind.
        objects: the rows.
        list_metadata: `metadata` of the list, or of the single object.
        now: the time from which ages are computed.
        include: `includeObject`: "Metadata" (also for ""), "Object" or "None".
        full: returns the JSON of an object with apiVersion and kind.
        with_definitions: False in a watch after its first event.
    """
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_metadata,
        "columnDefinitions": [one.definition() for one in columns] if with_definitions else None,
        "rows": [
            {
                "cells": [column.cell(stored.body, now) for column in columns],
                "object": _row_object(stored, include, full),
            }
            for stored in objects
        ],
    }


def _row_object(
    stored: StoredObject, include: str, full: Callable[[StoredObject], bytes]
) -> Body | msgspec.Raw | None:
    if include == "None":
        return None
    if include == "Object":
        return msgspec.Raw(full(stored))
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": stored.body["metadata"],
    }
