"""A pickle that is no engine's is refused, changes nothing in this process, and takes little."""

from __future__ import annotations

import io
import pickle
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields as fields_of
from enum import Enum
from typing import Any, Final

import pytest

from queue_insight.record import unpickler
from queue_insight.record.allowed_names import AllowedNames
from queue_insight.record.checkpoint_error import CheckpointError
from queue_insight.record.unpickler import MAX_KEY_DEPTH, Budget, unpickle
from queue_scheduler.decision import Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.queue_policies import PRIORITY
from queue_scheduler.quota.quota_settings import QuotaSettings
from shared_api.objects.pod import Pod

GIGABYTES: Final = 1_500_000_000
MOST_TAKEN: Final = 2_000_000
"""Bytes: a thousandth of what the dearest of these pickles asks for."""

START: Final = pickle.PROTO + b"\x05"
ENGINE: Final = ("queue_scheduler.engine.engine", "Engine")
REASON: Final = ("queue_scheduler.decision", "Reason")
POLICY: Final = ("queue_scheduler.queueing.queue_policies", "PRIORITY")


def text(value: str) -> bytes:
    """Return the opcodes that leave a text on the stack."""
    data = value.encode()
    return pickle.BINUNICODE + len(data).to_bytes(4, "little") + data


def number(value: int) -> bytes:
    """Return the opcodes that leave a number on the stack."""
    return pickle.BININT + value.to_bytes(4, "little", signed=True)


def named(module: str, name: str) -> bytes:
    """Return the opcodes that leave on the stack what has a name."""
    return text(module) + text(name) + pickle.STACK_GLOBAL


def call(called: bytes, *arguments: bytes) -> bytes:
    """Return the opcodes of a call."""
    return called + pickle.MARK + b"".join(arguments) + pickle.TUPLE + pickle.REDUCE


def fields(**values: bytes) -> bytes:
    """Return the opcodes of a dict."""
    items = b"".join(text(name) + value for name, value in values.items())
    return pickle.EMPTY_DICT + pickle.MARK + items + pickle.SETITEMS


def build(target: bytes, state: bytes) -> bytes:
    """Return the opcodes that set a state."""
    return target + state + pickle.BUILD


def slots(state: bytes) -> bytes:
    """Return a state of slots alone, which is set as attributes."""
    return pickle.NONE + state + pickle.TUPLE2


class _EnumsByValue(pickle.Pickler):
    """Writes enums as checkpoints do, whatever `pickle` of this version does."""

    def reducer_override(self, value: object) -> Any:
        return (type(value), (value.value,)) if isinstance(value, Enum) else NotImplemented


def pickled(value: object) -> bytes:
    """Return the pickle of a value, as it is in a checkpoint."""
    file = io.BytesIO()
    _EnumsByValue(file, 5).dump(value)
    return file.getvalue()


def read(piece: bytes) -> object:
    return unpickle(START + piece + pickle.STOP, AllowedNames(), Budget())


def traces() -> tuple[Any, ...]:
    """Return what the pickles here try to change, and what they might import."""
    members = [(member, dict(vars(member))) for member in Reason]
    policy = (PRIORITY.name, PRIORITY.holds_back)
    return (dict(vars(Engine)), dict(vars(Reason)), members, policy, "__hello__" in sys.modules)


@contextmanager
def takes_little() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < MOST_TAKEN, f"it has taken {most} bytes"


MEMBER: Final = call(named(*REASON), text(Reason.OVER_QUOTA_MAX.value))
NEW_ENGINE: Final = named(*ENGINE) + pickle.EMPTY_TUPLE + pickle.NEWOBJ
SELF: Final = call(named("builtins", "getattr"), text(""), text("ljust"))
KINDS: Final = ("bytes", "bytearray", "list", "range", "str", "int", "tuple", "frozenset", "object")


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(
            build(named(*ENGINE), slots(fields(fork=named("builtins", "dict")))),
            id="a method of a class is replaced",
        ),
        pytest.param(build(named(*ENGINE), fields(fork=pickle.NONE)), id="the same, by its dict"),
        pytest.param(build(MEMBER, fields(_value_=text("x"))), id="a member of an enum"),
        pytest.param(build(named(*POLICY), slots(fields(name=text("x")))), id="a constant"),
        pytest.param(
            build(NEW_ENGINE, slots(fields(__class__=named(*REASON)))), id="the class of an object"
        ),
        pytest.param(build(NEW_ENGINE, slots(fields(units=pickle.NONE))), id="a slot it has not"),
        pytest.param(build(NEW_ENGINE, text("units")), id="a state that is a text"),
        pytest.param(
            call(named(*REASON), text("New"), text("member")), id="an enum makes another enum"
        ),
        pytest.param(
            call(named("queue_scheduler.framework.installed_packages", "find_packages")),
            id="a function of an allowed package",
        ),
        pytest.param(named("__hello__", "main"), id="a module that acts when it is imported"),
        pytest.param(
            named("queue_scheduler.engine.__main__", "x"), id="a program of an allowed package"
        ),
        pytest.param(named("queue_scheduler.engine.engine", "replace"), id="what a module imports"),
        pytest.param(named("builtins", "type"), id="the class of classes"),
        pytest.param(
            call(named("builtins", "getattr"), named(*ENGINE), text("fork")), id="a class's method"
        ),
        pytest.param(call(SELF, number(GIGABYTES)), id="a text is filled up"),
        pytest.param(
            call(call(named("builtins", "getattr"), fields(a=text("b")), text("get")), text("a")),
            id="a method that an engine keeps is called",
        ),
        *(
            pytest.param(call(named("builtins", kind), number(GIGABYTES)), id=f"{kind} is called")
            for kind in KINDS
        ),
        *(
            pytest.param(
                named("builtins", kind) + number(GIGABYTES) + pickle.TUPLE1 + pickle.NEWOBJ,
                id=f"{kind} is made",
            )
            for kind in KINDS
        ),
        pytest.param(
            call(named("fractions", "Fraction"), text("1e999999999")), id="a fraction of a text"
        ),
        pytest.param(
            call(named("decimal", "Decimal"), text("9" * 100_000)), id="a number of many digits"
        ),
        pytest.param(
            call(named("collections", "deque"), named("builtins", "int")), id="a deque of a class"
        ),
        pytest.param(
            call(named("collections", "defaultdict"), named(*ENGINE)),
            id="a dict that makes engines",
        ),
        pytest.param(
            call(named("queue_scheduler.engine.engine", "Engine")), id="a constructor of an engine"
        ),
        pytest.param(
            call(named("msgspec._utils", "rebuild"), named(*ENGINE), pickle.EMPTY_DICT),
            id="a struct that is none",
        ),
    ],
)
def test_what_no_engine_has_leaves_no_trace_and_takes_no_memory(hostile: bytes) -> None:
    before = traces()
    with takes_little(), pytest.raises((CheckpointError, TypeError)):
        read(hostile)
    assert traces() == before


@pytest.mark.parametrize(
    "opcodes",
    [
        pytest.param(pickle.EXT1 + b"\x01", id="an extension code"),
        pytest.param(pickle.PERSID + b"x\n", id="a persistent id"),
        pytest.param(pickle.NONE + pickle.BINPERSID, id="a persistent id from the stack"),
        pytest.param(b"cposix\nsystem\n", id="a name of an old protocol"),
        pytest.param(b"(iposix\nsystem\n", id="an instance of an old protocol"),
        pytest.param(b"I" + b"9" * 1000 + b"\n", id="a number in digits"),
        pytest.param(pickle.LONG4 + b"\xff\xff\xff\x7f", id="a number of two gigabytes"),
        pytest.param(pickle.BYTEARRAY8 + b"\xff" * 8, id="a buffer of any length"),
        pytest.param(pickle.BINUNICODE8 + b"\xff" * 8, id="a text of any length"),
        pytest.param(pickle.NEXT_BUFFER, id="a buffer from outside"),
        pytest.param(pickle.NONE + pickle.LONG_BINPUT + b"\xff\xff\xff\x7f", id="a far memo"),
        pytest.param(pickle.NONE + pickle.DUP, id="a copy of the stack's end"),
    ],
)
def test_opcodes_that_no_engine_has_are_refused(opcodes: bytes) -> None:
    with takes_little(), pytest.raises(CheckpointError, match=r"opcode .* is not allowed"):
        read(opcodes)


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(pickle.TUPLE2, id="more than the stack has"),
        pytest.param(pickle.APPENDS, id="no mark"),
        pytest.param(pickle.BINGET + b"\x07", id="what is not in the memo"),
        pytest.param(pickle.NONE + pickle.NONE, id="two values"),
        pytest.param(pickle.BINUNICODE + b"\xff\xff\xff\x7f" + b"short", id="a text cut short"),
        pytest.param(pickle.FRAME + b"\xff" * 8, id="a frame of any length"),
        pytest.param(
            pickle.EMPTY_DICT + pickle.MARK + pickle.NONE + pickle.SETITEMS, id="a key alone"
        ),
        pytest.param(
            pickle.EMPTY_DICT + pickle.EMPTY_LIST + pickle.NONE + pickle.SETITEM, id="list"
        ),
    ],
)
def test_damaged_bytes_end_with_an_error(damaged: bytes) -> None:
    with takes_little(), pytest.raises((CheckpointError, IndexError, TypeError, ValueError)):
        read(damaged)
    with pytest.raises(IndexError):
        unpickle(START + damaged.rstrip(b".")[:1], AllowedNames(), Budget())


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(named(*ENGINE), id="a class"),
        pytest.param(text("x"), id="a text"),
        pytest.param(call(named("fractions", "Fraction"), number(1), number(2)), id="a fraction"),
    ],
)
@pytest.mark.parametrize(
    "filling",
    [
        pytest.param(pickle.NONE + pickle.APPEND, id="append"),
        pytest.param(pickle.MARK + pickle.NONE + pickle.APPENDS, id="appends"),
        pytest.param(text("a") + pickle.NONE + pickle.SETITEM, id="item"),
        pytest.param(pickle.MARK + text("a") + pickle.NONE + pickle.SETITEMS, id="items"),
        pytest.param(pickle.MARK + text("a") + pickle.ADDITEMS, id="set"),
    ],
)
def test_only_containers_are_filled(target: bytes, filling: bytes) -> None:
    with pytest.raises(CheckpointError, match=r"is no (list|dict|set)"):
        read(target + filling)


def nested(depth: int) -> bytes:
    """Return a tuple in a tuple, and so on."""
    return pickle.EMPTY_TUPLE + pickle.TUPLE1 * depth


def doubled(depth: int) -> bytes:
    """Return a tuple that has one twice, which has one twice, and so on."""
    steps = (pickle.MEMOIZE + pickle.BINGET + bytes((at,)) + pickle.TUPLE2 for at in range(depth))
    return pickle.EMPTY_TUPLE + b"".join(steps)


@pytest.mark.parametrize("key", [nested(MAX_KEY_DEPTH), nested(100_000), doubled(60)])
def test_keys_that_cannot_be_hashed_are_refused(key: bytes) -> None:
    """Nested tuples end the process; those of shared parts take years."""
    uses = [
        pickle.EMPTY_DICT + key + pickle.NONE + pickle.SETITEM,
        pickle.EMPTY_DICT + pickle.MARK + key + pickle.NONE + pickle.SETITEMS,
        pickle.EMPTY_SET + pickle.MARK + key + pickle.ADDITEMS,
        pickle.MARK + key + pickle.FROZENSET,
    ]
    for use in uses:
        with pytest.raises(CheckpointError, match=r"a key (of too many parts|that is nested)"):
            read(use)
    assert read(key)  # as a value it is no danger


def test_the_parts_of_all_keys_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpickler, "MAX_KEYS_PARTS", 100)
    keys = {(number, "a"): 1 for number in range(50)}
    assert unpickle(pickle.dumps(keys, 5), AllowedNames(), Budget()) == keys
    keys[50, "a"] = 1
    with pytest.raises(CheckpointError, match="its keys have too many parts"):
        unpickle(pickle.dumps(keys, 5), AllowedNames(), Budget())


def test_keys_that_are_objects_count_with_what_they_have() -> None:
    made = named(QuotaSettings.__module__, "QuotaSettings") + pickle.EMPTY_TUPLE + pickle.NEWOBJ
    values = nested(MAX_KEY_DEPTH) + pickle.NONE * (len(fields_of(QuotaSettings)) - 1)
    state = pickle.EMPTY_LIST + pickle.MARK + values + pickle.APPENDS
    with pytest.raises(CheckpointError, match="a key that is nested too deeply"):
        read(pickle.EMPTY_DICT + build(made, state) + pickle.NONE + pickle.SETITEM)


def test_no_state_replaces_a_method() -> None:
    made = named(*ENGINE) + pickle.EMPTY_TUPLE + pickle.NEWOBJ
    with pytest.raises(CheckpointError, match="a method of an object of Engine is replaced"):
        read(build(made, fields(fork=pickle.NONE)))


def test_numbers_that_share_a_hash_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpickler, "MAX_LARGE_KEYS", 100)
    for count, is_refused in ((100, False), (101, True)):
        keys = [at * sys.hash_info.modulus for at in range(1, count + 1)]
        for data in (dict.fromkeys(keys), set(keys), {("a", each): 1 for each in keys}):
            if is_refused:
                with pytest.raises(CheckpointError, match="too many keys that are large numbers"):
                    unpickle(pickle.dumps(data, 5), AllowedNames(), Budget())
            else:
                assert unpickle(pickle.dumps(data, 5), AllowedNames(), Budget()) == data


@pytest.mark.parametrize(
    ("bomb", "why"),
    [
        (pickle.EMPTY_DICT, "too many objects"),
        (pickle.EMPTY_SET, "too many objects"),
        (pickle.EMPTY_LIST, "too many objects"),
        (pickle.EMPTY_TUPLE + pickle.TUPLE1, "too many objects"),
        (number(1_000_000), "too many objects"),
        (pickle.NONE + pickle.MEMOIZE, "too many operations"),
        (pickle.MARK, "too many operations"),
    ],
)
def test_a_budget_bounds_operations_and_objects(bomb: bytes, why: str) -> None:
    budget = Budget(operations=20_000, objects=9_000)
    with takes_little(), pytest.raises(CheckpointError, match=why):
        unpickle(START + bomb * 100_000 + pickle.STOP, AllowedNames(), budget)


def test_a_budget_is_of_all_pieces_together() -> None:
    budget, names = Budget(operations=1000, objects=100), AllowedNames()
    piece = pickle.dumps([[] for _ in range(30)], 5)
    for _ in range(3):
        assert unpickle(piece, names, budget) == [[]] * 30
    with pytest.raises(CheckpointError, match="too many objects"):
        unpickle(piece, names, budget)


@pytest.mark.parametrize(
    "value",
    [
        *([None, True, False], [0, 255, 65_535, -1, 2**31, -(2**700), 1.5]),
        *(["", "x" * 300, "é", "\udc80"], [b"", b"x" * 300]),
        *([(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)], [frozenset({1, ("a", 2)}), {1, 2}]),
        {"a": [1], ("b", frozenset({3})): {}},
        [list(range(3000)), dict.fromkeys(map(str, range(3000)))],
        [Pod(), Reason.OVER_QUOTA_MAX],
    ],
)
def test_it_reads_what_pickle_writes(value: object) -> None:
    assert unpickle(pickled(value), AllowedNames(), Budget()) == value


def test_what_was_shared_or_has_itself_is_so_again() -> None:
    shared: list[Any] = [1]
    shared.append((shared,))
    found = unpickle(pickle.dumps({"a": shared, "b": shared}, 5), AllowedNames(), Budget())
    assert isinstance(found, dict)
    assert found["a"] is found["b"]
    assert found["a"][1][0] is found["a"]
