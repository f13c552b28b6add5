"""How many entries each container of an engine has, found by following its attributes."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

OURS: Final = ("queue_scheduler.", "shared_api.", "tests.")
OBJECTS: Final = "shared_api.objects."
"""Kubernetes objects: what they contain is their own size, not a cache's."""
CONTAINERS: Final = (dict, list, set, frozenset, deque)
DEEPEST: Final = 12
"""Steps from the engine; what is linked in a chain is not followed for ever."""


def count_entries(root: object) -> dict[str, int]:
    """Return the entries of all containers below an object, by the way to them.

    The containers in one container share a name: `units.records[].pods` has the entries of all.
    """
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    open_: deque[tuple[object, str, int]] = deque([(root, "", 0)])
    while open_:
        # The nearest first, so that a container has its shortest name.
        value, way, depth = open_.popleft()
        if id(value) in seen or depth > DEEPEST:
            continue
        seen.add(id(value))
        if isinstance(value, CONTAINERS):
            counts[sys.intern(way)] += len(value)
            elements = value.values() if isinstance(value, Mapping) else value
            open_ += [(each, f"{way}[]", depth + 1) for each in elements if _is_followed(each)]
        else:
            open_ += [
                (each, f"{way}.{name}".lstrip("."), depth + 1)
                for name, each in _attributes(value)
                if _is_followed(each)
            ]
    return dict(counts)


def _is_followed(value: object) -> bool:
    if isinstance(value, (*CONTAINERS, tuple)):
        return True
    module = type(value).__module__
    return module.startswith(OURS) and not module.startswith(OBJECTS)


def _attributes(value: Any) -> Iterator[tuple[str, object]]:
    if isinstance(value, tuple):
        yield from (("", each) for each in value)
        return
    yield from getattr(value, "__dict__", {}).items()
    for name in _slots(type(value)):
        if hasattr(value, name):
            yield name, getattr(value, name)


def _slots(kind: type) -> Iterable[str]:
    yield from getattr(kind, "__struct_fields__", ())
    for each in kind.__mro__:
        slots = each.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots
