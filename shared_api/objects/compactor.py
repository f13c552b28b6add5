"""Makes decoded objects small, for caches that hold hundreds of thousands of them.

Every decoded text is a string of its own, and every empty map a dict of its own: "team-a",
"Enqueued", "500m" and the same pod template once per unit. 100,000 decoded QueueUnits take
393 MiB, and 137 MiB once compacted; that costs about three times what decoding does, so caches
compact what they keep, and what is only looked at is left alone.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Collection
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import msgspec.inspect
import msgspec.structs
from msgspec.structs import force_setattr

from shared_api.objects.meta import Condition, ObjectMeta, OwnerReference
from shared_api.objects.pod import PodTemplate
from shared_api.objects.queue_unit import ConsumerReference

MAX_TEMPLATES: Final = 4096
"""Distinct pod templates, or parts of such, that are remembered: some MB. Jobs of one user mostly
share a shape."""

MAX_CONDITIONS: Final = 1024
"""Distinct conditions that are remembered: their times make old ones useless within seconds."""

_NONE_UNIQUE: Final[frozenset[str]] = frozenset()

_SMALL: Final = frozenset(
    {msgspec.inspect.NoneType, msgspec.inspect.BoolType, msgspec.inspect.IntType}
)

T = TypeVar("T", bound=msgspec.Struct)
_Plan: TypeAlias = tuple[tuple[str, ...], tuple[tuple[str, object], ...]]

# What is different in nearly every object: an entry in the table of interned strings costs more
# than the copy that it would save.
_UNIQUE_TEXTS: Final[dict[type, frozenset[str]]] = {
    ObjectMeta: frozenset({"name", "uid", "resource_version"}),
    OwnerReference: frozenset({"name", "uid"}),
    ConsumerReference: frozenset({"name", "uid", "resource_version"}),
}


class Compactor:
    """Lets equal parts of many decoded objects be one object in memory.

    Any thread may call: where two are here at once, a part may stay that could have been shared.

    Args:
        whole: Types of which equal values become one, whatever they hold; compared by their text.
    """

    def __init__(self, whole: Collection[type[msgspec.Struct]] = (PodTemplate,)) -> None:
        self._whole = frozenset(whole)
        self._templates: dict[tuple[type, bytes], msgspec.Struct] = {}
        self._conditions: dict[Condition, Condition] = {}
        # Decoded maps are never written to (objects are frozen), so the empty ones can be one.
        self._empty: dict[str, Any] = {}

    def compact(self, decoded: T, before: T | None = None) -> T:
        """Compact an object in place and return it.

        Only for an object that was just decoded and that no other thread has seen. `before` is the
        version before it, compacted: what has not changed since is taken from there, which costs a
        comparison, a tenth of what compacting does.
        """
        if type(before) is not type(decoded):
            self._compact_struct(decoded)
        else:
            self._compact_change(decoded, before)
        return decoded

    def _compact_change(self, struct: msgspec.Struct, before: msgspec.Struct) -> None:
        unique = _UNIQUE_TEXTS.get(type(struct), _NONE_UNIQUE)
        values, olds = msgspec.structs.astuple(struct), msgspec.structs.astuple(before)
        for name, value, old in zip(struct.__struct_fields__, values, olds, strict=True):
            # Most fields of most objects hold their default, one object for all.
            if value is old:
                continue
            kind = type(value)
            if kind is not type(old):
                force_setattr(struct, name, self._compacted(value))
            elif value == old:
                force_setattr(struct, name, old)
            elif isinstance(value, msgspec.Struct) and kind not in self._whole:
                self._compact_change(value, old)
            elif name not in unique:
                force_setattr(struct, name, self._compacted(value))

    def _compact_struct(self, struct: msgspec.Struct) -> None:
        texts, parts = _plan(type(struct))
        for name in texts:
            value = getattr(struct, name)
            if value:
                force_setattr(struct, name, sys.intern(value))
        for name, default in parts:
            value = getattr(struct, name)
            # A default is one object for all already, and nested ones are shared by all.
            if value is not default:
                force_setattr(struct, name, self._compacted(value))

    def _compacted(self, value: Any) -> Any:  # noqa: ANN401 - whatever a field holds
        kind = type(value)
        if kind is str:
            return sys.intern(value)
        if kind is dict:
            return {sys.intern(k): self._compacted(v) for k, v in value.items()} or self._empty
        if kind is tuple:
            return tuple([self._compacted(one) for one in value])
        if kind in self._whole:
            return self._shared_template(value)
        if kind is msgspec.Raw:
            return value.copy()  # else it would keep the whole answer that it came in
        if kind is Condition:
            return self._shared_condition(value)
        if isinstance(value, msgspec.Struct):
            self._compact_struct(value)
        return value

    def _shared_condition(self, condition: Condition) -> Condition:
        # Whole, since units that start or end in the same second say the same about themselves.
        known = self._conditions.get(condition)
        if known is None:
            self._compact_struct(condition)
            if len(self._conditions) >= MAX_CONDITIONS:
                self._conditions.clear()
            known = self._conditions[condition] = condition
        return known

    def _shared_template(self, template: msgspec.Struct) -> msgspec.Struct:
        # By its bytes: a struct with maps has no hash.
        key = (type(template), msgspec.json.encode(template))
        known = self._templates.get(key)
        if known is None:
            self._compact_struct(template)
            if len(self._templates) >= MAX_TEMPLATES:
                self._templates.clear()
            known = self._templates[key] = template
        return known


@functools.lru_cache(maxsize=256)  # a program knows some dozens of types
def _plan(struct_type: type[msgspec.Struct]) -> _Plan:
    """Return the fields that hold a text, and those that hold parts, with their defaults."""
    unique = _UNIQUE_TEXTS.get(struct_type, frozenset())
    texts: list[str] = []
    parts: list[tuple[str, object]] = []
    for field in msgspec.structs.fields(struct_type):
        kinds = _kinds_of(msgspec.inspect.type_info(field.type))
        if field.name in unique or kinds <= _SMALL:
            continue
        if kinds <= _SMALL | {msgspec.inspect.StrType}:
            texts.append(field.name)
        else:
            parts.append((field.name, field.default))
    return tuple(texts), tuple(parts)


def _kinds_of(node: msgspec.inspect.Type) -> frozenset[type]:
    match node:
        case msgspec.inspect.Metadata():
            return _kinds_of(node.type)
        case msgspec.inspect.UnionType():
            return frozenset().union(*(_kinds_of(member) for member in node.types))
        case _:
            return frozenset({type(node)})
