"""What a checkpoint may name, and what may be done with it.

Classes of the packages that engines are made of, of installed plugins, and a few of the standard
library. Constants of these packages, such as a queue policy. No function: two that pickles of
structs and bound methods need are replaced by narrow ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from importlib import import_module
from types import BuiltinMethodType, MethodType
from typing import Any, Final, NamedTuple

import msgspec

from queue_insight.record.checkpoint_error import CheckpointError
from queue_scheduler.framework.installed_packages import find_packages
from queue_scheduler.queueing.turn_order import TurnOrder
from queue_scheduler.queueing.turns import Turns
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from queue_scheduler.tenants.quota_use import QuotaUse

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
    "queue_scheduler.reservations",
    "queue_scheduler.tenants",
    "shared_api.objects",
    "shared_api.pod_requests",
    "shared_api.queue_unit_phases",
    "shared_api.quota_names",
    "shared_api.resource_list",
    "shared_api.submitters",
)
"""Packages and modules whose classes an engine is made of; all of them are pure."""

METHODS: Final[frozenset[tuple[type, str]]] = frozenset(
    (
        (dict, "get"),
        (TurnOrder, TurnOrder.queue_ahead_of.__name__),
        (Turns, Turns.entry_of.__name__),
        (QuotaUse, QuotaUse.ranks.__name__),
        (QuotaCache, QuotaCache.keeps_room_for.__name__),
        (QuotaCache, QuotaCache.stirred_domains.__name__),
    )
)
"""The bound methods that an engine keeps, each with the class of its object."""

OFFLINE_HANDLE: Final = "queue_scheduler.framework.offline_handle.OfflineHandle"
"""What plugins get for their handle, by a call. Not imported: it has the caches."""

MAX_NAME: Final = 256
"""Characters of a name, and of the value of an enum; the longest has 60."""
MAX_DIGITS: Final = 256
"""Characters of a Decimal; an amount has at most 40."""

_SIMPLE: Final = (bool, bytes, dict, float, frozenset, int, list, set, str, tuple)
"""Named only as values, such as the default of a dict: a pickle of one has an opcode, no call."""


class Maker(NamedTuple):
    """What a checkpoint calls instead of a function that it names."""

    make: Callable[..., object]


class AllowedNames:
    """Looks up what a checkpoint names.

    Args:
        also: Packages whose classes are allowed, besides those of this project and of installed
            plugins.
    """

    def __init__(self, also: Collection[str] = ()) -> None:
        self._others = (*find_packages(), *also)
        self._found: dict[tuple[str, str], Any] = dict(_STANDARD_NAMES)
        self._found["builtins", "getattr"] = Maker(self._method_of)
        self._found["msgspec._utils", "rebuild"] = Maker(_rebuild)

    def find(self, module: object, name: object) -> object:
        """Return a class, a constant, or what stands for a function.

        Raises:
            CheckpointError: It is not allowed.
        """
        if type(module) is not str or type(name) is not str:
            raise CheckpointError("a name that is no text")
        key = (module, name)
        if key not in self._found:
            self._found[key] = self._look_up(module, name)
        return self._found[key]

    def add(self, module: str, name: str, make: Callable[..., object]) -> None:
        """Register a function to call in place of the one with this name."""
        self._found[module, name] = Maker(make)

    def call(self, called: object, arguments: tuple[Any, ...]) -> tuple[object, bool]:
        """Return what a call makes, and whether it is a new object whose state may be set.

        Raises:
            CheckpointError: It may not be called, or not with these arguments.
        """
        if type(called) is Maker:
            return called.make(*arguments), False
        if isinstance(called, type):
            if type(called) is _StructMeta:
                return called(*arguments), False
            if issubclass(called, Enum):
                return _member_of(called, *arguments), False
            if (maker := _STANDARD_CALLS.get(called)) is not None:
                return maker(*arguments), False
            if self._is_others(called) or _name_of(called) == OFFLINE_HANDLE:
                return called(*arguments), True
        raise CheckpointError(f"{_describe(called)} may not be called in a checkpoint")

    def new(self, cls: object, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> object:
        """Return a new object, without calling its `__init__`.

        Raises:
            CheckpointError: It is no class of which objects are made like this.
        """
        if not isinstance(cls, type) or cls in _STANDARD_TYPES or issubclass(cls, _NEVER_NEW):
            raise CheckpointError(f"{_describe(cls)} may not be made anew in a checkpoint")
        return cls.__new__(cls, *arguments, **named)

    def _look_up(self, module: str, name: str) -> object:
        is_short = len(module) <= MAX_NAME and len(name) <= MAX_NAME
        if not is_short or "." in name or not self._is_allowed(module):
            raise _not_allowed(module, name)
        try:
            found = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise CheckpointError(f"{module}.{name} is not known here") from error
        # A function of an allowed module, or one that it imports, is not; a constant is no danger.
        of = found if isinstance(found, type) else type(found)
        if not self._is_allowed(of.__module__) or (of is not found and callable(found)):
            raise _not_allowed(module, name)
        return found

    def _is_allowed(self, module: str) -> bool:
        # `__main__` of a package acts when it is imported.
        is_program = module.rpartition(".")[2] == "__main__"
        return not is_program and _is_below(module, (*OWN_PACKAGES, *self._others))

    def _is_others(self, cls: type) -> bool:
        """Return whether it is a plugin's class: how these are pickled is not known here."""
        return _is_below(cls.__module__, self._others)

    def _method_of(self, owner: object, name: str) -> Callable[..., Any]:
        """Return a bound method that an engine keeps, or one of a plugin's object."""
        cls = type(owner)
        is_listed = (cls, name) in METHODS
        if type(name) is str and (is_listed or (self._is_others(cls) and name[:1] != "_")):
            found = getattr(owner, name)
            if isinstance(found, MethodType | BuiltinMethodType) and found.__self__ is owner:
                return found
        raise CheckpointError(f"{_describe(owner)} has no method that a checkpoint may name")


def _is_below(module: str, packages: Collection[str]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in packages)


def _name_of(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _not_allowed(module: str, name: str) -> CheckpointError:
    return CheckpointError(f"{f'{module}.{name}'[:MAX_NAME]} is not allowed in a checkpoint")


def _describe(value: object) -> str:
    """Return a short text: `repr` of what a stranger has made can take any time and memory."""
    if isinstance(value, type):
        return value.__qualname__[:MAX_NAME]
    return f"an object of {type(value).__qualname__[:MAX_NAME]}"


# --- what is called -----------------------------------------------------------------------------

_StructMeta: Final = type(msgspec.Struct)


def _rebuild(struct: type[msgspec.Struct], fields: dict[str, Any]) -> msgspec.Struct:
    if type(struct) is not _StructMeta or type(fields) is not dict:
        raise CheckpointError(f"{_describe(struct)} is no struct")
    return struct(**fields)


def _member_of(enum: type[Enum], value: object) -> Enum:
    # With a second argument it would make an enum.
    if type(value) is not int and (type(value) is not str or len(value) > MAX_NAME):
        raise CheckpointError(f"a value that {enum.__qualname__} cannot have")
    return enum(value)


def _counter(counts: dict[Any, int]) -> Counter[Any]:
    _expect(type(counts) is dict, Counter)
    return Counter(counts)


def _defaultdict(factory: type) -> defaultdict[Any, Any]:
    _expect(factory in _SIMPLE, defaultdict)
    return defaultdict(factory)


def _deque(items: Sequence[Any] = (), most: int | None = None) -> deque[Any]:
    _expect(type(items) in {tuple, list} and (most is None or type(most) is int), deque)
    return deque(items, most)


def _decimal(text: str) -> Decimal:
    _expect(type(text) is str and len(text) <= MAX_DIGITS, Decimal)
    return Decimal(text)


def _fraction(numerator: int, denominator: int) -> Fraction:
    _expect(type(numerator) is int and type(denominator) is int, Fraction)
    return Fraction(numerator, denominator)


def _expect(is_so: bool, cls: type) -> None:  # noqa: FBT001 - as an assertion has it
    if not is_so:
        raise CheckpointError(f"no pickle of a {cls.__name__} has these arguments")


_STANDARD_CALLS: Final[Mapping[type, Callable[..., object]]] = {
    Counter: _counter,
    defaultdict: _defaultdict,
    deque: _deque,
    Decimal: _decimal,
    Fraction: _fraction,
    # These take little whatever they get.
    **{each: each for each in (date, datetime, timedelta, timezone)},
}
"""What a pickle may call, and how: `Fraction('1e999999999')` alone would fill the memory."""

_STANDARD_TYPES: Final[frozenset[type]] = frozenset(
    (*_SIMPLE, Counter, defaultdict, deque, date, datetime, timedelta, timezone, Decimal, Fraction)
)
"""Classes of the standard library that only hold values."""

_STANDARD_NAMES: Final = {(each.__module__, each.__name__): each for each in _STANDARD_TYPES}

_NEVER_NEW: Final = (type, bytes, bytearray, int, Enum, msgspec.Struct, BaseException)
"""`bytes.__new__` takes as much memory as it is told; the others are pickled as calls."""
