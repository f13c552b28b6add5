"""Calendars: when the periods of budgets begin, as the engine is told it. Pure.

They depend on the time zone database, so they are made outside of the engine (`periods`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

MAX_CALENDARS: Final = 2_000
"""There are some 600 time zones with three kinds of periods; more are names that do not exist."""


class CalendarKey(NamedTuple):
    """A kind of period in a time zone, as users write both."""

    period: str
    time_zone: str


class Calendar(msgspec.Struct, frozen=True, gc=False):
    """When periods begin.

    Attributes:
        period: Which ones, as users write it.
        time_zone: Where.
        edges: Their first seconds, ascending; (): there is no such time zone. What comes after the
            last edge counts as one period.
    """

    period: str
    time_zone: str
    edges: tuple[int, ...]

    @property
    def key(self) -> CalendarKey:
        """Which ones, and where."""
        return CalendarKey(self.period, self.time_zone)


class Calendars:
    """The calendars that the engine was told."""

    def __init__(self) -> None:
        self._edges: dict[CalendarKey, tuple[int, ...]] = {}

    def put(self, calendars: Iterable[Calendar]) -> tuple[CalendarKey, ...]:
        """Take calendars, in place of those of the same keys; return the keys that differ.

        Beyond `MAX_CALENDARS` no further ones are taken.
        """
        differ = [each for each in calendars if self._edges.get(each.key) != each.edges]
        for each in differ:
            if each.key in self._edges or len(self._edges) < MAX_CALENDARS:
                self._edges[each.key] = each.edges
        return tuple(each.key for each in differ)

    def edges_of(self, key: CalendarKey) -> tuple[int, ...]:
        """Return the edges of a calendar; () if there is none."""
        return self._edges.get(key, ())

    def list_all(self) -> tuple[Calendar, ...]:
        """Return all of them, sorted."""
        return tuple(Calendar(*key, edges) for key, edges in sorted(self._edges.items()))

    def copy(self) -> Calendars:
        """Return an independent copy."""
        twin = Calendars()
        twin._edges = dict(self._edges)
        return twin
