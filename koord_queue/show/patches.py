"""Merge patches as lines for a person: what would be written. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_NAMED: Final = {"annotations": "annotation", "labels": "label"}
_REMOVED: Final = "removed"


def patch_lines(patch: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each field that a merge patch sets or removes.

    Only the condition of a status is shown whose message is that of the whole: the rest of the list
    is as it was.
    """
    for name, fields in patch.items():
        if name == "metadata":
            yield from _metadata_lines(fields)
        elif name == "status":
            yield from _status_lines(fields)
        else:
            yield from _field_lines(name, fields)


def _metadata_lines(metadata: dict[str, Any]) -> Iterator[str]:
    for group, entries in metadata.items():
        if group in _NAMED:
            for key, value in entries.items():
                yield f"{_NAMED[group]} {key}: {_value(value)}"


def _status_lines(status: dict[str, Any]) -> Iterator[str]:
    for each in status.get("conditions", ()):
        if each.get("message") == status.get("message"):
            yield f"condition {each['type']}: {each['status']}, reason {each['reason']}"


def _field_lines(path: str, value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _field_lines(f"{path}.{name}", inner)
    else:
        yield f"{path}: {_value(value)}"


def _value(value: Any) -> str:  # noqa: ANN401 - any JSON
    if value is None:
        return _REMOVED
    return str(value).lower() if isinstance(value, bool) else str(value)
