"""An engine as bytes, and back: the state from which calls are played again. Pure.

The bytes are a pickle, since a fork has everything that decides, and nothing else. Reading one can
run what it names, so it may name only classes of the packages that engines are made of: those of
this project that do no I/O, and those of installed plugins. No function can be named.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from types import BuiltinMethodType, MethodType
from typing import Any, Final

import msgspec

from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.installed_packages import find_packages

PROTOCOL: Final = 5

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


def freeze(engine: Engine) -> bytes:
    """Return an engine as bytes; it should be a fork, since other threads must not change it.

    Raises:
        CheckpointError: A plugin keeps what cannot be pickled.
    """
    try:
        return pickle.dumps(engine, PROTOCOL)
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
        engine = _Reader(io.BytesIO(data), allowed).load()
    except CheckpointError:
        raise
    except Exception as error:  # damaged bytes can raise anything
        raise CheckpointError(f"no checkpoint: {type(error).__name__}: {error}") from error
    if not isinstance(engine, Engine):
        raise CheckpointError(f"no engine, but {type(engine).__name__}")
    return engine


class _Reader(pickle.Unpickler):
    """Reads a pickle of classes from allowed packages.

    `pickle` writes a bound method as a call of `getattr`, and a struct with keyword-only fields as
    a call of msgspec's `rebuild`. Both get a replacement here that does no more than that.
    """

    def __init__(self, file: io.BytesIO, allowed: Collection[str]) -> None:
        super().__init__(file)
        self._allowed = tuple(allowed)

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as its base says
        """Return what a pickle names.

        Raises:
            CheckpointError: It is not allowed.
        """
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
