"""An engine as bytes, and back: the state from which calls are played again. Pure.

The bytes are a pickle, since a fork has everything that decides, and nothing else. It may name only
classes of the packages that engines are made of: those of this project that do no I/O, and those of
installed plugins. `pickle` itself does not read it: see `unpickler`.

One pickle of everything would hold the interpreter for some 200 ms with 10,000 units: nothing
interrupts C code, and in addition the table of what was written grows, is traversed by the garbage
collector, and is freed at once. So what there is many of is in pieces, each a pickle of its own.
What units share is a piece as well, so that it is still shared afterwards.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any, Final, Never

import msgspec

from queue_insight.record.allowed_names import AllowedNames
from queue_insight.record.checkpoint_error import CheckpointError
from queue_insight.record.unpickler import PROTOCOL, Budget, unpickle
from queue_scheduler.cache.pod_accounting import PodFacts
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import UnitDemand
from queue_scheduler.quota_cache.admission_record import MoreSums, QuotaTerms
from queue_scheduler.tenants.ledger import Line

MAX_BYTES: Final = 256 * 1_048_576
"""The largest checkpoint that is read: half a million units, at the measured 430 bytes a unit."""

MAX_TEXT: Final = 300
"""Characters of an error: its text may repeat what it was given."""

PIECE: Final = 200
"""Objects of one kind in a piece: some milliseconds for units."""

OBJECTS_PER_TURN: Final = 1000
"""Objects between two calls of `give_way`: some two milliseconds."""


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
        names = ", ".join(plugin.name for plugin in engine.plugins)
        raise CheckpointError(f"one of the plugins {names} cannot be pickled: {error}") from error


def thaw(data: bytes, also: Collection[str] = ()) -> Engine:
    """Return the engine of these bytes; plugins that have a handle get an offline one.

    Args:
        data: What `freeze` has returned, by the same version of this program.
        also: Packages whose classes are allowed, besides those of this project and of installed
            plugins.

    Raises:
        CheckpointError: The bytes are damaged, are of another version, name what is not allowed, or
            have more than an engine. Then nothing is changed, and nothing is kept.
    """
    if len(data) > MAX_BYTES:
        raise CheckpointError(f"a checkpoint of {len(data)} bytes, at most {MAX_BYTES} are read")
    try:
        engine = _read(_decoder.decode(data), AllowedNames(also))
        if isinstance(engine, Engine):
            # It takes all parts: one of another version may lack some.
            engine.fork()
            return engine
    except CheckpointError:
        raise
    except Exception as error:  # damaged bytes can raise anything
        text = f"{type(error).__name__}: {error}"[:MAX_TEXT]
        raise CheckpointError(f"no checkpoint: {text}") from error
    raise CheckpointError(f"no engine, but {type(engine).__name__}")


_LEVELS: Final[Mapping[type, int]] = {
    CachedUnit: 1,
    PodFacts: 1,
    Line: 1,
    **dict.fromkeys((UnitDemand, QuotaTerms, MoreSums), 2),
}
"""What is in pieces. A piece refers only to higher levels; level 0 is the engine itself."""

_Pieces = tuple[list[bytes], list[bytes], list[bytes]]
"""The pieces of each level."""

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
        if isinstance(value, Enum):
            # By its value, as `AllowedNames` makes it anew: Python 3.11.2, which Debian 12 has,
            # writes a call of `getattr` with its class and name.
            return type(value), (value.value,)
        level = _LEVELS.get(type(value), 0)
        if level <= self._level:
            return NotImplemented
        return _of_level, (level, self._writer.place_of(value, level))


def _of_level(level: int, place: int) -> Never:
    """Stand for an object of another piece; a reader replaces this."""
    raise CheckpointError(f"object {place} of level {level} outside of a checkpoint")


def _read(pieces: _Pieces, names: AllowedNames) -> object:
    """Return what level 0 has."""
    levels: list[list[Any]] = [[], [], []]

    def of_level(level: int, place: int) -> object:
        if not 0 <= level < len(levels) or not 0 <= place < len(levels[level]):
            raise CheckpointError(f"there is no object {place} of level {level}")
        return levels[level][place]

    names.add(__name__, _of_level.__name__, of_level)
    budget = Budget()
    for level in reversed(range(len(pieces))):
        for piece in pieces[level]:
            found = unpickle(piece, names, budget)
            if type(found) is not list:
                raise CheckpointError("a piece is no list")
            levels[level] += found
    (engine,) = levels[0]
    return engine
