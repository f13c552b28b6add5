"""JSON patches: edits of parts of lists, which a merge patch would replace as a whole. Pure.

Source: RFC 6902, of which `test`, `add`, `replace` and `remove` are here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from queue_insight.what_if.edit import FieldError
from shared_api.json_pointer import pointer_keys

OPERATIONS: Final = "operations"
MAX_OPERATIONS: Final = 64
"""Operations of one edit: a test and a change for each of some thirty values."""

_INDEX: Final = re.compile("0|[1-9][0-9]{0,8}")
"""A longer one is beyond any list."""
_OPS: Final = ("test", "add", "replace", "remove")


def apply_operations(
    document: Mapping[str, Any], operations: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a document after the operations of a JSON patch.

    Raises:
        FieldError: An operation cannot be read, names what is not there, or its test fails.
    """
    found: dict[str, Any] = deepcopy(dict(document))
    for number, operation in enumerate(operations):
        field = f"{OPERATIONS}[{number}]"
        op, path = operation.get("op"), operation.get("path")
        if op not in _OPS:
            raise FieldError(f"{field}.op", f"must be one of {', '.join(_OPS)}")
        if not isinstance(path, str) or not path.startswith("/"):
            raise FieldError(f"{field}.path", "must be a path such as /spec/budgets/0/hours")
        if op != "remove" and "value" not in operation:
            raise FieldError(f"{field}.value", "is required")
        _apply(found, op, pointer_keys(path), operation.get("value"), field)
    return found


def _apply(
    document: dict[str, Any],
    op: str,
    keys: Sequence[str],
    value: Any,  # noqa: ANN401 - any JSON
    field: str,
) -> None:
    parent: Any = document
    for key in keys[:-1]:
        parent = parent[_find(parent, key, field)]
    if op == "add":
        _add(parent, keys[-1], deepcopy(value), field)
        return
    place = _find(parent, keys[-1], field)
    if op == "test":
        if parent[place] != value:
            # It is not said: who asks may not be allowed to read the object.
            raise FieldError(f"{field}.value", "the test fails: there is another value")
    elif op == "replace":
        parent[place] = deepcopy(value)
    else:
        del parent[place]


def _find(parent: Any, key: str, field: str) -> Any:  # noqa: ANN401 - a key, or a place in a list
    """Return a key or an index that is there."""
    if isinstance(parent, dict) and key in parent:
        return key
    if isinstance(parent, list) and _is_index(key) and int(key) < len(parent):
        return int(key)
    raise FieldError(f"{field}.path", f"there is no {key!r}")


def _add(parent: Any, key: str, value: Any, field: str) -> None:  # noqa: ANN401 - any JSON
    if isinstance(parent, dict):
        parent[key] = value
    elif isinstance(parent, list) and (key == "-" or (_is_index(key) and int(key) <= len(parent))):
        parent.insert(len(parent) if key == "-" else int(key), value)
    else:
        raise FieldError(f"{field}.path", f"nothing can be added at {key!r}")


def _is_index(key: str) -> bool:
    return _INDEX.fullmatch(key) is not None
