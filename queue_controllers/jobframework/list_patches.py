"""Merge patches that change items of lists. Pure.

A merge patch replaces a list as a whole. A kind whose templates stand in a list writes patches that
hold only what changes of its items; here they become the whole list, built from the object on the
server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

BY_POSITION: Final = ""
"""In place of the field that identifies items."""

Json = dict[str, Any]


def fill_lists(patch: Json, found: Json, keys: Mapping[str, str], path: str = "") -> Json:
    """Return a merge patch with whole lists.

    Args:
        patch: With lists of the changed items, and only their changed fields.
        found: The object as it came from the server.
        keys: By a list's path ("spec.components", without positions) the field that identifies its
            items; other lists are whole already.
        path: The path of both, inside the object.
    """
    filled: Json = {}
    for field, change in patch.items():
        below = f"{path}.{field}" if path else field
        was = found.get(field)
        if isinstance(change, dict):
            filled[field] = fill_lists(change, was if isinstance(was, dict) else {}, keys, below)
        elif isinstance(change, list) and below in keys:
            filled[field] = _merge_items(was or [], change, keys, below)
        else:
            filled[field] = change
    return filled


def fill_all(patches: Iterable[Json], found: Json, keys: Mapping[str, str]) -> Json:
    """Return one merge patch, with whole lists, that has the effect of several in order."""
    body: Json = {}
    for patch in patches:
        filled = fill_lists(patch, found, keys)
        found, body = _apply(found, filled), combine_patches(body, filled)
    return body


def combine_patches(one: Json, other: Json) -> Json:
    """Return one merge patch with the effect of two; where both set a field the second wins."""
    both = dict(one)
    for key, value in other.items():
        before = both.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            value = combine_patches(before, value)  # noqa: PLW2901 - merged
        both[key] = value
    return both


def _merge_items(
    items: list[Json], changes: list[Json], keys: Mapping[str, str], path: str
) -> list[Json]:
    """Return a whole list: all items, changed where they are, and new ones at the end."""
    merged, field = list(items), keys[path]
    for position, change in enumerate(changes):
        at = position if field == BY_POSITION else _find(merged, field, change[field])
        before: Json = merged[at] if at < len(merged) else {}
        after = _apply(before, fill_lists(change, before, keys, path))
        merged[at : at + 1] = [after]
    return merged


def _find(items: list[Json], field: str, value: Any) -> int:  # noqa: ANN401 - any JSON value
    for at, item in enumerate(items):
        if item.get(field) == value:
            return at
    return len(items)


def _apply(before: Json, patch: Json) -> Json:
    """Return an object after a merge patch (RFC 7386): a null removes a field."""
    after = dict(before)
    for field, change in patch.items():
        if change is None:
            after.pop(field, None)
        elif isinstance(change, dict):
            was = after.get(field)
            after[field] = _apply(was if isinstance(was, dict) else {}, change)
        else:
            after[field] = change
    return after
