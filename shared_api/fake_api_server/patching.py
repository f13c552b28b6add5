"""Patches of JSON values, as the API server applies them.

Every function returns a new value and never changes its arguments. Parts that the patch does not
touch are *the same objects* as before, not copies: a change of the spec is found by identity,
validation checks only what is new, and a patch that changes nothing returns its target itself. The
storage relies on this, so values must never be changed in place.

- `merge_patch`: RFC 7386.
- `json_patch`: RFC 6902, with the API server's leniency (a `replace` of a missing key adds it).
- `strategic_merge_patch`: that of Kubernetes, for the list keys in jobs, pods, and nodes.
- `share`: gives a complete value (PUT) the same identity of equal parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from shared_api.json_pointer import pointer_keys

JsonValue: TypeAlias = Any
"""Any JSON value: dict, list, str, int, float, bool, or None."""

Body: TypeAlias = dict[str, Any]
"""A JSON object; never changed once it is passed on."""


class PatchFailed(Exception):
    """The patch is well-formed, but cannot be applied to this object."""


class _Missing:
    """Marks an absent value, as opposed to JSON's null."""


_MISSING: Final = _Missing()


def share(new: JsonValue, old: JsonValue) -> JsonValue:
    """Return a value equal to `new` that uses the parts of `old` where they are equal.

    Equality is that of JSON: `true` is not 1, unlike in Python.
    """
    if new is old or type(new) is not type(old):
        return new
    if isinstance(new, dict):
        shared = {key: share(value, old.get(key, _MISSING)) for key, value in new.items()}
        same = len(shared) == len(old) and all(
            value is old.get(key, _MISSING) for key, value in shared.items()
        )
        return old if same else shared
    if isinstance(new, list):
        items = [share(value, old[i] if i < len(old) else _MISSING) for i, value in enumerate(new)]
        same = len(items) == len(old) and all(a is b for a, b in zip(items, old, strict=True))
        return old if same else items
    return old if new == old else new


def merge_patch(target: JsonValue, patch: JsonValue) -> JsonValue:
    """Return the target after a merge patch: objects merge, null removes, other values replace.

    Source: RFC 7386, section 2.
    """
    if not isinstance(patch, dict):
        return share(patch, target)
    base = target if isinstance(target, dict) else {}
    result: Body | None = None
    for key, value in patch.items():
        old = base.get(key, _MISSING)
        if value is None:
            if old is _MISSING:
                continue
            result = dict(base) if result is None else result
            del result[key]
            continue
        new = merge_patch(old, value)
        if new is not old:
            result = dict(base) if result is None else result
            result[key] = new
    return base if result is None else result


def json_patch(target: JsonValue, operations: list[Body]) -> JsonValue:
    """Return the document after all operations, in order.

    Raises:
        PatchFailed: an operation is unknown, a path is missing, or a `test` does not hold.
    """
    document = target
    for operation in operations:
        document = _apply_operation(document, operation)
    return share(document, target)


def _apply_operation(document: JsonValue, operation: Body) -> JsonValue:
    path = _tokens(operation.get("path"))
    match operation.get("op"):
        case "add":
            return _edit(document, path, _adding(operation.get("value")))
        case "replace":
            return _edit(document, path, _replacing(operation.get("value")))
        case "remove":
            return _edit(document, path, _remove)
        case "copy":
            return _edit(document, path, _adding(_read(document, _tokens(operation.get("from")))))
        case "move":
            source = _tokens(operation.get("from"))
            value = _read(document, source)
            return _edit(_edit(document, source, _remove), path, _adding(value))
        case "test":
            _check(document, path, operation.get("value"))
            return document
        case unknown:
            raise PatchFailed(f"unexpected kind: {unknown}")


def _tokens(pointer: JsonValue) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise PatchFailed(f"not a JSON pointer: {pointer!r}")
    return pointer_keys(pointer)


def _read(document: JsonValue, path: list[str]) -> JsonValue:
    value = document
    for token in path:
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list):
            value = value[_index(token, len(value) - 1)]
        else:
            raise PatchFailed(f"missing path: {'/'.join(path)}")
    return value


def _index(token: str, last: int) -> int:
    if not token.isdecimal() or int(token) > last:
        raise PatchFailed(f"no such index: {token}")
    return int(token)


def _check(document: JsonValue, path: list[str], want: JsonValue) -> None:
    try:
        got = _read(document, path)
    except PatchFailed:
        # The Go library treats a missing value as null.
        got = None
    if share(want, got) is not got:
        raise PatchFailed(f"test failed: {'/'.join(path)}")


_Edit: TypeAlias = Callable[[JsonValue, str], None]
"""Changes one entry of a container that is already a copy."""


def _edit(document: JsonValue, path: list[str], edit: _Edit) -> JsonValue:
    """Return the document with the container at `path` edited; copies only what is on the path."""
    if not path:
        root = {"": document}
        edit(root, "")
        return root.get("")
    head, *rest = path
    if isinstance(document, dict):
        if rest and head not in document:
            raise PatchFailed(f"missing path: {head}")
        copy: JsonValue = dict(document)
    elif isinstance(document, list):
        copy = list(document)
    else:
        raise PatchFailed(f"missing path: {head}")
    if not rest:
        edit(copy, head)
        return copy
    place: JsonValue = head if isinstance(copy, dict) else _index(head, len(copy) - 1)
    copy[place] = _edit(copy[place], rest, edit)
    return copy


def _adding(value: JsonValue) -> _Edit:
    def add(container: JsonValue, place: str) -> None:
        if isinstance(container, dict):
            container[place] = value
        else:
            container.insert(_slot(place, len(container)), value)

    return add


def _slot(place: str, length: int) -> int:
    """Return the index at which `add` inserts; "-" is the end."""
    return length if place == "-" else _index(place, length)


def _replacing(value: JsonValue) -> _Edit:
    def replace(container: JsonValue, place: str) -> None:
        if isinstance(container, dict):
            container[place] = value
        else:
            container[_index(place, len(container) - 1)] = value

    return replace


def _remove(container: JsonValue, place: str) -> None:
    if isinstance(container, dict):
        if place not in container:
            raise PatchFailed(f"unable to remove nonexistent key: {place}")
        del container[place]
    else:
        del container[_index(place, len(container) - 1)]


MERGE_KEYS: Final[Mapping[str, str]] = {
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "ports": "containerPort",
    "schedulingGates": "name",
    "taints": "key",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Lists whose items merge by a key; other lists are replaced.

Source: the `patchMergeKey` tags of k8s.io/api for Job, Pod and Node.
"""
_SET_LISTS: Final = frozenset({"finalizers"})
"""Lists of plain values that merge as a set."""
_DIRECTIVE: Final = "$"


def strategic_merge_patch(target: JsonValue, patch: JsonValue) -> JsonValue:
    """Return the target after a strategic merge patch, as sent by `kubectl apply` and `edit`.

    Supported: merging of lists in `MERGE_KEYS`, `$patch: delete | replace` in items and objects,
    `$deleteFromPrimitiveList`, `$retainKeys`. The order hints (`$setElementOrder`) are ignored.
    """
    if not isinstance(patch, dict):
        return share(patch, target)
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if not key.startswith(_DIRECTIVE)}
    base = target if isinstance(target, dict) else {}
    result = dict(base)
    retained = patch.get("$retainKeys")
    if isinstance(retained, list):
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            result[field] = [item for item in result.get(field, []) if item not in value]
        elif key.startswith(_DIRECTIVE):
            continue
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = _strategic_field(key, result.get(key), value)
    return share(result, target)


def _strategic_field(field: str, old: JsonValue, new: JsonValue) -> JsonValue:
    if isinstance(new, list) and isinstance(old, list):
        if field in _SET_LISTS:
            return [*old, *(item for item in new if item not in old)]
        merge_key = MERGE_KEYS.get(field)
        if merge_key is not None:
            return _merge_items(old, new, merge_key)
        return new
    return strategic_merge_patch(old, new)


def _merge_items(old: list[Body], new: list[Body], merge_key: str) -> list[Body]:
    """Merge items by their key; items with new keys are appended."""
    merged = {item.get(merge_key): item for item in old}
    for item in new:
        name = item.get(merge_key)
        if item.get("$patch") == "delete":
            merged.pop(name, None)
        elif item.get("$patch") == "replace":
            return [one for one in new if "$patch" not in one]
        else:
            merged[name] = strategic_merge_patch(merged.get(name, {}), item)
    return list(merged.values())
