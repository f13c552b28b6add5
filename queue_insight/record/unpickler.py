"""Reads pickles of engines, and takes their word for nothing. Pure.

`pickle.Unpickler` sets the state of anything, of a class of this process as well; it calls whatever
a name or an earlier call has returned, and it has no bounds. So here are the opcodes that `pickle`
writes for engines, and no others, and each does no more than engines need:

- `AllowedNames` decides what may be called and made.
- State is set only on objects that the same pickle has made, and only in fields that they have.
- Only lists, dicts, sets, and objects that the pickle has made, are filled.
- Keys are small and flat: a hash of tuples that share their parts can take for ever, one of deeply
  nested tuples ends the process, and large numbers of one hash are compared each with all others.
- A `Budget` bounds operations and objects, and with them the memory.

To look through the opcodes first, and then let `pickle` read them, would need the same stack to
know what each is applied to, and two readers of one text that must never differ.
"""

from __future__ import annotations

import dataclasses
import pickle
import struct
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from types import FunctionType, MemberDescriptorType
from typing import Any, Final

import msgspec

from queue_insight.record.allowed_names import AllowedNames
from queue_insight.record.checkpoint_error import CheckpointError

PROTOCOL: Final = 5

MAX_OPERATIONS: Final = 60_000_000
"""Operations in one checkpoint: a unit has some 130, so it may have 450,000 units."""
MAX_OBJECTS: Final = 10_000_000
"""Objects in one checkpoint, without texts: a unit has some 22."""
MAX_KEY_DEPTH: Final = 100
"""Tuples in tuples of one key: Python hashes each within the one before, on the stack of C."""
MAX_KEY_PARTS: Final = 1_000_000
"""Values in one key, counted as often as they occur. The largest keys are classes of units and
shapes of pods: an object as large as etcd takes can name 100,000 resources."""
MAX_KEYS_PARTS: Final = 200_000_000
"""Values in all keys of one checkpoint, each of which is looked at."""
SMALL_KEY: Final = 1 << 60
"""Arbitrarily many numbers above it have the same hash. Demands are bounded below it
(`unit_demand.MAX_AMOUNT`), sums of them are not."""
MAX_LARGE_KEYS: Final = 20_000
"""Numbers above that in keys of one checkpoint; as many of one hash take seconds."""
SET_OBJECTS: Final = 4
"""What a set counts as: an empty one takes 216 bytes."""

_DICTS: Final = frozenset({dict, defaultdict, Counter})
_LISTS: Final = frozenset({list, deque})
_ATOMS: Final = frozenset({str, bool, float, type(None), bytes})


class Budget:
    """What reading a checkpoint may still take, over all of its pieces."""

    def __init__(self, operations: int = MAX_OPERATIONS, objects: int = MAX_OBJECTS) -> None:
        self.operations = operations
        self.objects = objects
        self.key_parts = MAX_KEYS_PARTS
        self.large_keys = MAX_LARGE_KEYS

    def take_objects(self, count: int = 1) -> None:
        """Count objects that are about to be made.

        Raises:
            CheckpointError: They are too many.
        """
        self.objects -= count
        if self.objects < 0:
            raise CheckpointError("it has too many objects")


def unpickle(data: bytes, names: AllowedNames, budget: Budget) -> object:
    """Return what was pickled.

    Args:
        data: The pickle.
        names: What it may name.
        budget: What it may take; less afterwards.

    Raises:
        CheckpointError: It does what no checkpoint does, or takes more than the budget.
        Exception: It is damaged; any exception may be raised.
    """
    reading, operations = _Reading(data, names, budget), _OPERATIONS
    place = count = 0
    for count in range(budget.operations):  # noqa: B007 - read after the loop
        place = operations[data[place]](reading, place + 1)
        if place < 0:
            break
    else:
        raise CheckpointError("it has too many operations")
    budget.operations -= count
    (engine,) = reading.stack
    return engine


class _Reading:
    """A pickle that is being read.

    Attributes:
        data: The pickle.
        names: What it may name.
        budget: What it may still take.
        stack: What operations take and leave.
        marks: How long the stack was at each mark.
        memo: What the pickle refers to by number.
        made: Objects whose state may be set, by identity; kept, so that no other one gets it.
    """

    __slots__ = ("budget", "data", "made", "marks", "memo", "names", "stack")

    def __init__(self, data: bytes, names: AllowedNames, budget: Budget) -> None:
        self.data = data
        self.names = names
        self.budget = budget
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: list[Any] = []
        self.made: dict[int, object] = {}

    def take_marked(self) -> list[Any]:
        """Return what is above the last mark, and take it away."""
        mark = self.marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items


# Each operation gets the place after its opcode, and returns that of the next one.


def _refuse(reading: _Reading, place: int) -> int:
    opcode = reading.data[place - 1]
    raise CheckpointError(f"the opcode {opcode:#04x} is not allowed in a checkpoint")


def _protocol(reading: _Reading, place: int) -> int:
    if reading.data[place] != PROTOCOL:
        raise CheckpointError(f"protocol {reading.data[place]}, want {PROTOCOL}")
    return place + 1


def _frame(_reading: _Reading, place: int) -> int:
    # Its length is of no use: all of it is here already.
    return place + 8


def _stop(_reading: _Reading, _place: int) -> int:
    return -1


# --- values -------------------------------------------------------------------------------


def _none(reading: _Reading, place: int) -> int:
    reading.stack.append(None)
    return place


def _true(reading: _Reading, place: int) -> int:
    reading.stack.append(True)
    return place


def _false(reading: _Reading, place: int) -> int:
    reading.stack.append(False)
    return place


def _int1(reading: _Reading, place: int) -> int:
    reading.stack.append(reading.data[place])
    return place + 1


def _int2(reading: _Reading, place: int) -> int:
    reading.stack.append(int.from_bytes(reading.data[place : place + 2], "little"))
    return place + 2


def _int4(reading: _Reading, place: int) -> int:
    reading.budget.take_objects()
    end = place + 4
    reading.stack.append(int.from_bytes(reading.data[place:end], "little", signed=True))
    return end


def _long(reading: _Reading, place: int) -> int:
    reading.budget.take_objects()
    end = place + 1 + reading.data[place]
    reading.stack.append(int.from_bytes(reading.data[place + 1 : end], "little", signed=True))
    return end


def _float(reading: _Reading, place: int) -> int:
    reading.budget.take_objects()
    reading.stack += struct.unpack_from(">d", reading.data, place)
    return place + 8


def _short_text(reading: _Reading, place: int) -> int:
    end = place + 1 + reading.data[place]
    reading.stack.append(reading.data[place + 1 : end].decode("utf-8", "surrogatepass"))
    return end


def _text(reading: _Reading, place: int) -> int:
    begin = place + 4
    end = begin + int.from_bytes(reading.data[place:begin], "little")
    reading.stack.append(reading.data[begin:end].decode("utf-8", "surrogatepass"))
    return end


def _short_bytes(reading: _Reading, place: int) -> int:
    end = place + 1 + reading.data[place]
    reading.stack.append(reading.data[place + 1 : end])
    return end


def _bytes(reading: _Reading, place: int) -> int:
    begin = place + 4
    end = begin + int.from_bytes(reading.data[place:begin], "little")
    reading.stack.append(reading.data[begin:end])
    return end


# --- the stack and the memo ---------------------------------------------------------------


def _mark(reading: _Reading, place: int) -> int:
    reading.marks.append(len(reading.stack))
    return place


def _pop(reading: _Reading, place: int) -> int:
    reading.stack.pop()
    return place


def _pop_mark(reading: _Reading, place: int) -> int:
    reading.take_marked()
    return place


def _memoize(reading: _Reading, place: int) -> int:
    reading.memo.append(reading.stack[-1])
    return place


def _get(reading: _Reading, place: int) -> int:
    reading.stack.append(reading.memo[reading.data[place]])
    return place + 1


def _long_get(reading: _Reading, place: int) -> int:
    end = place + 4
    reading.stack.append(reading.memo[int.from_bytes(reading.data[place:end], "little")])
    return end


# --- containers ---------------------------------------------------------------------------


def _empty_tuple(reading: _Reading, place: int) -> int:
    reading.stack.append(())
    return place


def _tuple1(reading: _Reading, place: int) -> int:
    return _tuple_of(reading, 1, place)


def _tuple2(reading: _Reading, place: int) -> int:
    return _tuple_of(reading, 2, place)


def _tuple3(reading: _Reading, place: int) -> int:
    return _tuple_of(reading, 3, place)


def _tuple_of(reading: _Reading, count: int, place: int) -> int:
    reading.budget.take_objects()
    items = tuple(reading.stack[-count:])
    if len(items) != count:
        raise IndexError("the stack ends")
    reading.stack[-count:] = (items,)
    return place


def _tuple(reading: _Reading, place: int) -> int:
    reading.budget.take_objects()
    reading.stack.append(tuple(reading.take_marked()))
    return place


def _empty_list(reading: _Reading, place: int) -> int:
    reading.budget.take_objects()
    reading.stack.append([])
    return place


def _empty_dict(reading: _Reading, place: int) -> int:
    reading.budget.take_objects()
    reading.stack.append({})
    return place


def _empty_set(reading: _Reading, place: int) -> int:
    reading.budget.take_objects(SET_OBJECTS)
    reading.stack.append(set())
    return place


def _frozenset(reading: _Reading, place: int) -> int:
    reading.budget.take_objects(SET_OBJECTS)
    reading.stack.append(frozenset(_checked(reading, reading.take_marked())))
    return place


def _append(reading: _Reading, place: int) -> int:
    item = reading.stack.pop()
    _extend(reading, reading.stack[-1], [item])
    return place


def _appends(reading: _Reading, place: int) -> int:
    items = reading.take_marked()
    _extend(reading, reading.stack[-1], items)
    return place


def _extend(reading: _Reading, target: Any, items: list[Any]) -> None:  # noqa: ANN401 - of a pickle
    if type(target) not in _LISTS and id(target) not in reading.made:
        raise CheckpointError("something is appended to what is no list")
    target.extend(items)


def _set_item(reading: _Reading, place: int) -> int:
    value = reading.stack.pop()
    key = reading.stack.pop()
    _put(reading, reading.stack[-1], [key], [value])
    return place


def _set_items(reading: _Reading, place: int) -> int:
    items = reading.take_marked()
    _put(reading, reading.stack[-1], items[::2], items[1::2])
    return place


def _put(reading: _Reading, target: Any, keys: list[Any], values: list[Any]) -> None:  # noqa: ANN401 - as above
    if type(target) not in _DICTS and id(target) not in reading.made:
        raise CheckpointError("an item is set in what is no dict")
    for key, value in zip(_checked(reading, keys), values, strict=True):
        target[key] = value


def _add_items(reading: _Reading, place: int) -> int:
    items = reading.take_marked()
    if type(reading.stack[-1]) is not set:
        raise CheckpointError("something is added to what is no set")
    reading.stack[-1].update(_checked(reading, items))
    return place


# --- objects ------------------------------------------------------------------------------


def _global(reading: _Reading, place: int) -> int:
    name = reading.stack.pop()
    reading.stack[-1] = reading.names.find(reading.stack[-1], name)
    return place


def _reduce(reading: _Reading, place: int) -> int:
    reading.budget.take_objects()
    arguments = reading.stack.pop()
    if type(arguments) is not tuple:
        raise CheckpointError("a call without arguments")
    made, is_new = reading.names.call(reading.stack[-1], arguments)
    if is_new:
        reading.made[id(made)] = made
    reading.stack[-1] = made
    return place


def _new(reading: _Reading, place: int) -> int:
    arguments = reading.stack.pop()
    _make(reading, arguments, {})
    return place


def _new_named(reading: _Reading, place: int) -> int:
    named = reading.stack.pop()
    arguments = reading.stack.pop()
    _make(reading, arguments, named)
    return place


def _make(reading: _Reading, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    reading.budget.take_objects()
    made = reading.names.new(reading.stack[-1], arguments, named)
    reading.made[id(made)] = made
    reading.stack[-1] = made


def _build(reading: _Reading, place: int) -> int:
    state = reading.stack.pop()
    target = reading.stack[-1]
    if id(target) not in reading.made:
        raise CheckpointError(f"the state of {_kind(target)} is set that it has not made")
    set_state = getattr(type(target), "__setstate__", None)
    if set_state is not None:
        set_state(target, state)
        return place
    fields, slots = state if type(state) is tuple else (state, None)
    if fields:
        _set_fields(target, fields)
    if slots:
        _set_slots(target, slots)
    return place


def _set_fields(target: object, fields: dict[str, Any]) -> None:
    if type(fields) is not dict or not all(type(name) is str for name in fields):
        raise CheckpointError(f"a state of {_kind(target)} that is none")
    if not _methods_of(type(target)).isdisjoint(fields):
        raise CheckpointError(f"a method of {_kind(target)} is replaced")
    # The same text for each object, as `pickle` has it.
    target.__dict__.update({sys.intern(name): value for name, value in fields.items()})


_METHODS: Final[dict[type, frozenset[str]]] = {}


def _methods_of(cls: type) -> frozenset[str]:
    """Return the names of what objects of a class do, which no state may replace."""
    methods = _METHODS.get(cls)
    if methods is None:
        methods = _METHODS[cls] = frozenset(
            name
            for each in cls.__mro__
            for name, value in vars(each).items()
            if isinstance(value, FunctionType | classmethod | staticmethod | property)
        )
    return methods


def _set_slots(target: object, slots: dict[str, Any]) -> None:
    if type(slots) is not dict:
        raise CheckpointError(f"a state of {_kind(target)} that is none")
    cls = type(target)
    for name, value in slots.items():
        slot = getattr(cls, name, None)
        if not isinstance(slot, MemberDescriptorType):
            raise CheckpointError(f"{_kind(target)} has no such field")
        slot.__set__(target, value)


def _kind(value: object) -> str:
    return f"an object of {type(value).__qualname__}"


def _checked(reading: _Reading, keys: list[Any]) -> list[Any]:
    """Return keys after a look at those that are more than a text or a number."""
    for key in keys:
        if type(key) not in _ATOMS:
            _check_key(key, reading.budget)
    return keys


def _check_key(key: object, budget: Budget) -> None:
    level, left = [key], MAX_KEY_PARTS
    for _ in range(MAX_KEY_DEPTH):
        level = _inner_parts(level, left, budget)
        left -= len(level)
        if not level:
            budget.key_parts -= MAX_KEY_PARTS - left
            if budget.key_parts < 0:
                raise CheckpointError("its keys have too many parts")
            return
    raise CheckpointError("it has a key that is nested too deeply")


def _inner_parts(level: list[Any], most: int, budget: Budget) -> list[Any]:
    """Return what the values of a level are made of, and look at its numbers."""
    inner: list[Any] = []
    for part in level:
        if type(part) is int:
            if abs(part) > SMALL_KEY:
                _take_large_key(budget)
        elif type(part) not in _ATOMS:
            inner += _parts_of(part)
            if len(inner) > most:
                raise CheckpointError("it has a key of too many parts")
    return inner


def _take_large_key(budget: Budget) -> None:
    budget.large_keys -= 1
    if budget.large_keys < 0:
        raise CheckpointError("it has too many keys that are large numbers")


def _parts_of(value: object) -> list[Any]:
    """Return what the hash of a value is made of."""
    if isinstance(value, tuple | frozenset):
        return list(value)
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, each.name) for each in dataclasses.fields(value)]
    return []


_Operation = Callable[[_Reading, int], int]

_BY_OPCODE: Final[Mapping[bytes, _Operation]] = {
    pickle.PROTO: _protocol,
    pickle.FRAME: _frame,
    pickle.STOP: _stop,
    pickle.NONE: _none,
    pickle.NEWTRUE: _true,
    pickle.NEWFALSE: _false,
    pickle.BININT1: _int1,
    pickle.BININT2: _int2,
    pickle.BININT: _int4,
    pickle.LONG1: _long,
    pickle.BINFLOAT: _float,
    pickle.SHORT_BINUNICODE: _short_text,
    pickle.BINUNICODE: _text,
    pickle.SHORT_BINBYTES: _short_bytes,
    pickle.BINBYTES: _bytes,
    pickle.MARK: _mark,
    pickle.POP: _pop,
    pickle.POP_MARK: _pop_mark,
    pickle.MEMOIZE: _memoize,
    pickle.BINGET: _get,
    pickle.LONG_BINGET: _long_get,
    pickle.EMPTY_TUPLE: _empty_tuple,
    pickle.TUPLE1: _tuple1,
    pickle.TUPLE2: _tuple2,
    pickle.TUPLE3: _tuple3,
    pickle.TUPLE: _tuple,
    pickle.EMPTY_LIST: _empty_list,
    pickle.EMPTY_DICT: _empty_dict,
    pickle.EMPTY_SET: _empty_set,
    pickle.FROZENSET: _frozenset,
    pickle.APPEND: _append,
    pickle.APPENDS: _appends,
    pickle.SETITEM: _set_item,
    pickle.SETITEMS: _set_items,
    pickle.ADDITEMS: _add_items,
    pickle.STACK_GLOBAL: _global,
    pickle.REDUCE: _reduce,
    pickle.NEWOBJ: _new,
    pickle.NEWOBJ_EX: _new_named,
    pickle.BUILD: _build,
}
"""No EXT1, PERSID, INST, OBJ, GLOBAL, PUT, DUP, LONG4, BYTEARRAY8 or NEXT_BUFFER, among others: an
engine's pickle has none."""

_OPERATIONS: Final[tuple[_Operation, ...]] = tuple(
    _BY_OPCODE.get(bytes((code,)), _refuse) for code in range(256)
)
