"""Whether a plugin takes part in an extension point."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar, cast

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # in typing from Python 3.13 on

_Point = TypeVar("_Point")

_TAKES_PART: Final[dict[tuple[type, object], bool]] = {}
"""Whether a type of plugins takes part, by type and extension point."""


def takes_part(plugin: object, point: Callable[..., _Point]) -> TypeIs[_Point]:
    """Return whether a plugin takes part in an extension point.

    An isinstance check of a runtime protocol takes microseconds, and all of them are made for every
    fork of the engine, under its lock. So each is made once for each type.
    """
    key = type(plugin), point
    found = _TAKES_PART.get(key)
    if found is None:
        found = _TAKES_PART[key] = isinstance(plugin, cast("type", point))
    return found
