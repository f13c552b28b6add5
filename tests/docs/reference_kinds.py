"""The kinds of the API, field by field, from crds/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.docs.reference_text import code, prose, table
from tests.tidy.source_tree import ROOT

Json = Mapping[str, Any]

CRDS: Final = ROOT / "crds"
_LIMITS: Final = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("maxLength", "at most {} characters"),
    ("maxItems", "at most {} items"),
    ("maxProperties", "at most {} keys"),
    ("default", "default `{}`"),
)
_NO_LIMITS: Final = {-(2**31), 2**31 - 1, -(2**63), 2**63 - 1}
"""Bounds that follow from the format."""


def kinds_text(folder: Path = CRDS) -> str:
    """Return the reference of all kinds."""
    files = sorted(folder.glob("*.yaml"))
    return "\n".join(_kind_text(yaml.safe_load(file.read_text(encoding="utf-8"))) for file in files)


def _kind_text(crd: Json) -> str:
    spec = crd["spec"]
    (version,) = spec["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    names = spec["names"]
    known_as = ", ".join(map(code, [names["plural"], *names.get("shortNames", ())]))
    api = f"{spec['group']}/{version['name']}"
    lines = [
        f"## {names['kind']}\n",
        f"`{api}`, {spec['scope'].lower()}; kubectl knows it as {known_as}.\n",
        prose(schema["description"]) + "\n",
        table(("column of `kubectl get`", "field"), map(_column, _columns(version))),
    ]
    if selectable := version.get("selectableFields"):
        paths = ", ".join(code(each["jsonPath"].removeprefix(".")) for each in selectable)
        lines.append(f"Field selectors: {paths}.\n")
    for part in ("spec", "status"):
        rows = list(_fields(schema["properties"][part], part))
        lines += [f"### {part} of a {names['kind']}\n", table(("field", "type", "meaning"), rows)]
    return "\n".join(lines)


def _columns(version: Json) -> list[Json]:
    columns: list[Json] = version["additionalPrinterColumns"]
    return columns


def _column(column: Json) -> tuple[str, str]:
    wide = " (with `-o wide`)" if column.get("priority") else ""
    return f"`{column['name']}`{wide}", code(column["jsonPath"].removeprefix("."))


def _fields(schema: Json, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each field below a part of an object, in the order of the file."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        yield code(where), _type(field), _meaning(field, is_required=name in required)
        yield from _fields(*_content(field, where))


def _content(field: Json, path: str) -> tuple[Json, str]:
    """Return what lists and maps of a field contain, and its path."""
    while True:
        if field.get("type") == "array":
            field, path = field["items"], f"{path}[]"
        elif isinstance(field.get("additionalProperties"), dict):
            field, path = field["additionalProperties"], f"{path}.*"
        else:
            return field, path


def _type(field: Json) -> str:
    match field.get("type"):
        case "array":
            return f"list of {_type(field['items'])}"
        case "object" if isinstance(field.get("additionalProperties"), dict):
            return f"map of {_type(field['additionalProperties'])}"
        case None:
            return "any" if "x-kubernetes-int-or-string" not in field else "quantity"
        case kind:
            return str(field.get("format", kind))


def _meaning(field: Json, *, is_required: bool) -> str:
    said = [prose(field["description"])] if "description" in field else []
    inner = field
    while inner.get("type") == "array":
        inner = inner["items"]
    values = inner.get("enum") or ()
    if values:
        said.append("One of " + ", ".join(f"`{each}`" if each else '`""`' for each in values) + ".")
    limits = [
        text.format(field[key])
        for key, text in _LIMITS
        if key in field and field[key] not in _NO_LIMITS
    ]
    if limits:
        said.append(f"({'; '.join(limits)})")
    if is_required:
        said.append("Required.")
    return " ".join(said)
