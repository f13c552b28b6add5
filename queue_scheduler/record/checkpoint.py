"""An engine as bytes, and back: the state from which calls are played again. Pure.

The bytes are a pickle, since a fork has everything that decides, and nothing else. Reading one can
run what it names, so it may name only classes of the packages that engines are made of: those of
this project that do no I/O, and those of installed plugins. No function can be named.

One pickle of everything would hold the interpreter for some 200 ms with 10,000 units: nothing
interrupts C code, and in addition the table of what was written grows, is traversed by the garbage
collector, and is freed at once. So what there is many of is in pieces, each a pickle of its own.
What units share is a piece as well, so that it is still shared afterwards.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from types import BuiltinMethodType, MethodType
from typing import Any, Final, Never

import msgspec

from queue_scheduler.cache.pod_accounting import PodFacts
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.installed_packages import find_packages
from queue_scheduler.framework.queue_unit_info import UnitDemand
from queue_scheduler.quota_cache.admission_record import MoreSums, QuotaTerms

PROTOCOL: Final = 5

PIECE: Final = 200
"""Objects of one kind in a piece: some milliseconds for units."""

OBJECTS_PER_TURN: Final = 1000
"""Objects between two calls of `give_way`: some two milliseconds."""

OWN_PACKAGES: Final = (
    "queue_scheduler.cache",
    "queue_scheduler.decision",
    "queue_scheduler.engine",
    "queue_scheduler.framework",
    "queue_scheduler.plugins",
    "queue_scheduler.preemption",
    "queue_scheduler.queueing",
    "queue_scheduler.quota",
    "queue_scheduler.quota_cache",
    "queue_scheduler.quota_plugin",
    "queue_scheduler.required_requests",
    "shared_api.objects",
    "shared_api.pod_requests",
    "shared_api.queue_unit_phases",
    "shared_api.quota_names",
    "shared_api.resource_list",
)
"""Packages and modules whose classes an engine is made of; all of them are pure."""

STANDARD: Final = frozenset(
    (each.__module__, each.__name__)
    for each in (
        *(bool, bytes, dict, float, frozenset, int, list, set, str, tuple),
        *(Counter, defaultdict, deque),
        *(date, datetime, timedelta, timezone, Decimal, Fraction),
    )
)
"""Classes of the standard library that only hold values."""


class CheckpointError(ValueError):
    """An engine cannot be written as bytes, or the bytes are none that `freeze` has written."""


def freeze(engine: Engine, give_way: Callable[[], None] = lambda: None) -> bytes:
    """Return an engine as bytes; it should be a fork, since other threads must not change it.

    Args:
        engine: The engine.
        give_way: Called every few milliseconds; sleeps where other threads are more urgent.

    Raises:
        CheckpointError: A plugin keeps what cannot be pickled.
    """
    writer = _Writer(give_way)
    try:
        return _encoder.encode(writer.write(engine))
    except Exception as error:
        names = ", ".join(plugin.name for plugin in engine.plugins.plugins)
        raise CheckpointError(f"one of the plugins {names} cannot be pickled: {error}") from error


def thaw(data: bytes, also: Collection[str] = ()) -> Engine:
    """Return the engine of these bytes; plugins that have a handle get an offline one.

    Args:
        data: What `freeze` has returned, by the same version of this program.
        also: Packages whose classes are allowed, besides those of this project and of installed
            plugins.

    Raises:
        CheckpointError: The bytes are damaged, are of another version, or name what is not allowed.
    """
    allowed = (*OWN_PACKAGES, *find_packages(), *also)
    try:
        engine = _read(_decoder.decode(data), allowed)
    except CheckpointError:
        raise
    except Exception as error:  # damaged bytes can raise anything
        raise CheckpointError(f"no checkpoint: {type(error).__name__}: {error}") from error
    if not isinstance(engine, Engine):
        raise CheckpointError(f"no engine, but {type(engine).__name__}")
    return engine


_LEVELS: Final[Mapping[type, int]] = {
    CachedUnit: 1,
    PodFacts: 1,
    **dict.fromkeys((UnitDemand, QuotaTerms, MoreSums), 2),
}
"""What is in pieces. A piece refers only to higher levels; level 0 is the engine itself."""

_Pieces = tuple[list[bytes], list[bytes], list[bytes]]
"""Those of each level."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Pieces)


class _Writer:
    """Writes an engine, level after level."""

    def __init__(self, give_way: Callable[[], None]) -> None:
        self._give_way = give_way
        self._count = 0
        self._found: tuple[list[object], ...] = ([], [], [])
        # By their identity: `_found` keeps them, so that no other object gets it.
        self._places: dict[int, int] = {}

    def write(self, engine: Engine) -> _Pieces:
        """Return the pieces."""
        top = self._write([engine], 0)
        return top, self._write(self._found[1], 1), self._write(self._found[2], 2)

    def _write(self, values: list[object], level: int) -> list[bytes]:
        return [
            self._piece(values[start : start + PIECE], level)
            for start in range(0, len(values), PIECE)
        ]

    def _piece(self, values: list[object], level: int) -> bytes:
        file = io.BytesIO()
        _PieceWriter(file, self, level).dump(values)
        return file.getvalue()

    def place_of(self, value: object, level: int) -> int:
        """Return the number of an object among those of its level."""
        place = self._places.get(id(value))
        if place is None:
            found = self._found[level]
            place = self._places[id(value)] = len(found)
            found.append(value)
        return place

    def on_object(self) -> None:
        """Count an object, and give way after some."""
        self._count += 1
        if self._count % OBJECTS_PER_TURN == 0:
            self._give_way()


class _PieceWriter(pickle.Pickler):
    """Writes one piece; what belongs to a higher level is only named."""

    def __init__(self, file: io.BytesIO, writer: _Writer, level: int) -> None:
        super().__init__(file, PROTOCOL)
        self._writer = writer
        self._level = level

    def reducer_override(self, value: object) -> Any:  # noqa: ANN401 - as its base says
        """Return how an object of a class is written."""
        self._writer.on_object()
        level = _LEVELS.get(type(value), 0)
        if level <= self._level:
            return NotImplemented
        return _of_level, (level, self._writer.place_of(value, level))


def _of_level(level: int, place: int) -> Never:
    """Stand for an object of another piece; a reader replaces this."""
    raise CheckpointError(f"object {place} of level {level} outside of a checkpoint")


def _read(pieces: _Pieces, allowed: Collection[str]) -> object:
    """Return what level 0 has."""
    levels: list[list[Any]] = [[], [], []]
    for level in reversed(range(len(pieces))):
        for piece in pieces[level]:
            levels[level] += _Reader(io.BytesIO(piece), allowed, levels).load()
    (engine,) = levels[0]
    return engine


class _Reader(pickle.Unpickler):
    """Reads a pickle of classes from allowed packages.

    `pickle` writes a bound method as a call of `getattr`, and a struct with keyword-only fields as
    a call of msgspec's `rebuild`. Both get a replacement here that does no more than that.
    """

    def __init__(self, file: io.BytesIO, allowed: Collection[str], levels: list[list[Any]]) -> None:
        super().__init__(file)
        self._allowed = tuple(allowed)
        self._levels = levels

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as its base says
        """Return what a pickle names.

        Raises:
            CheckpointError: It is not allowed.
        """
        if (module, name) == (__name__, _of_level.__name__):
            return self._of_level
        replaced = _REPLACED.get((module, name))
        if replaced is not None:
            return replaced
        if (module, name) in STANDARD:
            return super().find_class(module, name)
        if "." in name or not self._is_allowed(module):
            raise CheckpointError(f"{module}.{name} is not allowed in a checkpoint")
        found = super().find_class(module, name)
        # A function of an allowed module, or one that it imports, is not; a constant is no danger.
        of = found if isinstance(found, type) else type(found)
        if not self._is_allowed(of.__module__) or (of is not found and callable(found)):
            raise CheckpointError(f"{module}.{name} is not allowed in a checkpoint")
        return found

    def _of_level(self, level: int, place: int) -> object:
        return self._levels[level][place]

    def _is_allowed(self, module: str) -> bool:
        return any(module == each or module.startswith(f"{each}.") for each in self._allowed)


def _rebuild(struct: type[msgspec.Struct], fields: dict[str, Any]) -> msgspec.Struct:
    if not _is_struct(struct):
        raise CheckpointError(f"{struct!r} is no struct")
    return struct(**fields)


def _is_struct(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, msgspec.Struct)


def _method_of(owner: object, name: str) -> Callable[..., Any]:
    """Return a bound method of an object: no attribute, nothing of a class, nothing private."""
    found = None if isinstance(owner, type) or name.startswith("_") else getattr(owner, name)
    if not isinstance(found, MethodType | BuiltinMethodType) or found.__self__ is not owner:
        raise CheckpointError(f"{type(owner).__name__}.{name} is no method of an object")
    return found


_REPLACED: Final[dict[tuple[str, str], Callable[..., Any]]] = {
    ("builtins", "getattr"): _method_of,
    ("msgspec._utils", "rebuild"): _rebuild,
}
