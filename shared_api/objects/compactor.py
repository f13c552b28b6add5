"""Reduces the memory of decoded objects, for caches that hold hundreds of thousands of them.

Decoding makes a new string for every text and a new dict for every empty map: "team-a",
"Enqueued", "500m" and the same pod template once per unit. 100,000 decoded QueueUnits take
393 MiB, and 137 MiB once compacted. Compacting costs about three times what decoding does, so only
caches compact the objects that they keep.
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
"""Most distinct pod templates, or parts of them, that are remembered: some MB. Jobs of one user
usually have equal templates."""

MAX_TEMPLATE_BYTES: Final = 16_384
"""Bytes of JSON of a part that is shared. A usual one has 1 to 5 kB; one of a user who fills
it up has a MB, and would be remembered after its object is gone."""

MAX_TEMPLATES_BYTES: Final = 8_388_608
"""Bytes of JSON of all that are remembered: with the structs, which take 3 to 6 times as much, at
most some 60 MB of the GiB that a program has. 4,096 of 2 kB have as much."""

MAX_CONDITIONS: Final = 1024
"""Most distinct conditions that are remembered: they contain times, so old ones are useless within
seconds."""

MAX_CONDITION_CHARS: Final = 4096
"""Characters of the texts of a condition that is shared: usual ones have some hundred, and 1,024 of
the longest that the API server takes would fill the memory."""

_NONE_UNIQUE: Final[frozenset[str]] = frozenset()

_SMALL: Final = frozenset(
    {msgspec.inspect.NoneType, msgspec.inspect.BoolType, msgspec.inspect.IntType}
)

T = TypeVar("T", bound=msgspec.Struct)
_Plan: TypeAlias = tuple[tuple[str, ...], tuple[tuple[str, object], ...]]

# Texts that differ in nearly every object: an entry in the table of interned strings costs more
# than the copy that it would save.
_UNIQUE_TEXTS: Final[dict[type, frozenset[str]]] = {
    ObjectMeta: frozenset({"name", "uid", "resource_version"}),
    OwnerReference: frozenset({"name", "uid"}),
    ConsumerReference: frozenset({"name", "uid", "resource_version"}),
}


class Compactor:
    """Makes equal parts of many decoded objects one object in memory.

    Callable from any thread: two threads at once may leave a part that could have been shared.

    Args:
        whole: Types whose equal values are shared as a whole; they are compared by their JSON.
    """

    def __init__(self, whole: Collection[type[msgspec.Struct]] = (PodTemplate,)) -> None:
        self._whole = frozenset(whole)
        self._templates: dict[tuple[type, bytes], msgspec.Struct] = {}
        self._templates_bytes = 0  # of the keys; two threads at once may count one of them only
        self._conditions: dict[Condition, Condition] = {}
        # Decoded maps are never modified (objects are frozen), so the empty ones can be shared.
        self._empty: dict[str, Any] = {}

    def compact(self, decoded: T, before: T | None = None) -> T:
        """Compact an object in place and return it.

        The object must have just been decoded, and no other thread may have seen it. `before` is
        its previous version, compacted (None if there is none): unchanged parts are taken from it,
        which costs a comparison, a tenth of compacting.
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
            # Most fields of most objects hold their default, which is shared already.
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
            # A default is shared by all objects already, with everything nested in it.
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
            return value.copy()  # otherwise it would keep the whole answer in memory
        if kind is Condition:
            return self._shared_condition(value)
        if isinstance(value, msgspec.Struct):
            self._compact_struct(value)
        return value

    def _shared_condition(self, condition: Condition) -> Condition:
        # Shared whole: units that start or end in the same second have equal conditions.
        known = self._conditions.get(condition)
        if known is None:
            self._compact_struct(condition)
            chars = len(condition.type) + len(condition.reason) + len(condition.message)
            if chars > MAX_CONDITION_CHARS:
                return condition
            if len(self._conditions) >= MAX_CONDITIONS:
                self._conditions.clear()
            known = self._conditions[condition] = condition
        return known

    def _shared_template(self, template: msgspec.Struct) -> msgspec.Struct:
        # Compared by its JSON: a struct with maps has no hash.
        key = (type(template), msgspec.json.encode(template))
        known = self._templates.get(key)
        if known is None:
            self._compact_struct(template)
            size = len(key[1])
            if size > MAX_TEMPLATE_BYTES:
                return template  # kept by its own object alone, and freed with it
            if (
                len(self._templates) >= MAX_TEMPLATES
                or self._templates_bytes + size > MAX_TEMPLATES_BYTES
            ):
                self._templates.clear()
                self._templates_bytes = 0
            self._templates_bytes += size
            known = self._templates[key] = template
        return known


@functools.lru_cache(maxsize=256)  # a program knows some dozens of types
def _plan(struct_type: type[msgspec.Struct]) -> _Plan:
    """Return the fields that hold a text, and those with nested values, with their defaults."""
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
