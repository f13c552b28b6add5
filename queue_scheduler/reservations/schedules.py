"""Schedules: when the windows of reservations are, as the engine is told it. Pure.

They depend on the time and on the time zone database, so they are made outside of the engine
(`expansion`). One is known by what users write, whichever reservations have it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final, NamedTuple

import msgspec

from shared_api.objects.queue_reservation import QueueReservationSpec

MAX_SCHEDULES: Final = 2_000
"""Administrators write them; some hundreds are many."""


class ScheduleKey(NamedTuple):
    """When windows are, as users write it."""

    start: str
    duration: str
    time_zone: str
    rrule: str


def key_of(spec: QueueReservationSpec) -> ScheduleKey:
    """Return the schedule of a spec."""
    return ScheduleKey(spec.start, spec.duration, spec.time_zone, spec.rrule)


class Window(NamedTuple):
    """From `start` until before `end`, in seconds since the epoch."""

    start: int
    end: int


class Schedule(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """When windows are.

    Attributes:
        start: When the first one begins, as users write it.
        duration: How long each is, as users write it.
        time_zone: Where.
        rrule: How it is repeated, as users write it; "": it is not.
        at: When this was found out, in seconds since the epoch.
        windows: Those that are not over by then, by their start; the first of them, and none that
            begins more than 400 days later.
        goes_on: Whether windows follow without end.
        problem: Why it cannot be read, as a text for users; "": it can.
    """

    start: str
    duration: str
    time_zone: str
    rrule: str
    at: int
    windows: tuple[Window, ...] = ()
    goes_on: bool = False
    problem: str = ""

    @property
    def key(self) -> ScheduleKey:
        """What users write."""
        return ScheduleKey(self.start, self.duration, self.time_zone, self.rrule)

    def is_like(self, other: Schedule | None) -> bool:
        """Return whether another one, found out at another time, says the same."""
        return other is not None and msgspec.structs.replace(self, at=other.at) == other


class Schedules:
    """The schedules that the engine was told."""

    def __init__(self) -> None:
        self._known: dict[ScheduleKey, Schedule] = {}

    def put(self, schedules: Iterable[Schedule]) -> tuple[ScheduleKey, ...]:
        """Take schedules, in place of those of the same keys; return the keys that differ.

        Beyond `MAX_SCHEDULES` no further ones are taken.
        """
        differ = []
        for each in schedules:
            known = self._known.get(each.key)
            if each.is_like(known) or (known is None and len(self._known) >= MAX_SCHEDULES):
                continue
            self._known[each.key] = each
            differ.append(each.key)
        return tuple(differ)

    def find(self, key: ScheduleKey) -> Schedule | None:
        """Return the schedule of a key; None: it is unknown."""
        return self._known.get(key)

    def keep(self, used: Container[ScheduleKey]) -> None:
        """Forget all but these."""
        self._known = {key: each for key, each in self._known.items() if key in used}

    def list_all(self) -> tuple[Schedule, ...]:
        """Return all of them, sorted."""
        return tuple(self._known[key] for key in sorted(self._known))

    def __len__(self) -> int:
        return len(self._known)

    def copy(self) -> Schedules:
        """Return an independent copy."""
        twin = Schedules()
        twin._known = dict(self._known)
        return twin
