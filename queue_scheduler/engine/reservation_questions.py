"""Questions about reservations: which units run into a window, and how many wait for one.

They change nothing, and the next decision depends on none of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from heapq import merge
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.decision import Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.reservations.schedules import Window

_NO_END: Final = 1 << 62
"""The end of a unit that declares no time: after all others."""

_NegatedEnd: TypeAlias = tuple[int, str]
"""When a unit ends, negated, and its key: sorted, the last to end is the first."""


class RunningInto(NamedTuple):
    """A unit that still runs when a window begins.

    Attributes:
        record: The unit.
        end: When it ends by what it declares, in seconds since the epoch; None: it declares none.
    """

    record: CachedUnit
    end: int | None


class RunningUnits:
    """The units that occupy quota, by when they end.

    Args:
        engine: A fork, as all units are looked through.
        second: The time, in seconds since the epoch.
    """

    def __init__(self, engine: Engine, second: int) -> None:
        self._records = engine.units.records
        self._second = second
        # By reservation, for each quota that it concerns.
        self._concerned: dict[str, list[list[_NegatedEnd]]] = {}
        usage, by_quota = engine.usage, dict[str, list[_NegatedEnd]]()
        for record in engine.units:
            charge = usage.charge_of(record.uid) if record.occupies else None
            if charge is not None:
                end = usage.ends.find(record.uid)
                ends = _NO_END if end is None else end.at(second)
                by_quota.setdefault(charge.quota, []).append((-ends, record.key))
        for quota, units in by_quota.items():
            units.sort()
            for name in usage.windows.reservations_of(quota):
                self._concerned.setdefault(name, []).append(units)

    def find(self, reservation: str, window: Window, most: int) -> tuple[int, list[RunningInto]]:
        """Return which units run into a window, by what they declare.

        In a window that is all of them. A unit that declares no time may run into each window.

        Args:
            reservation: The name of the reservation.
            window: Its window.
            most: Units to return at most.

        Returns:
            How many there are; and the first of them: those that declare no time, then those that
            end last.
        """
        # Units before this place end after the window has begun.
        limit = (-window.start,) if window.start > self._second else (_NO_END,)
        found = [
            (units, bisect_left(units, limit)) for units in self._concerned.get(reservation, ())
        ]
        first = islice(merge(*(islice(units, count) for units, count in found)), most)
        return sum(count for _, count in found), [self._read(*each) for each in first]

    def _read(self, negated: int, key: str) -> RunningInto:
        return RunningInto(self._records[key], None if negated == -_NO_END else -negated)


def count_waiting(engine: Engine) -> Mapping[str, int]:
    """Return how many pending units wait for a window of each reservation, by its name.

    The cost grows with the classes, not the units.
    """
    counts: dict[str, int] = {}
    for queue in engine.queues:
        for unit_class in () if queue.rules.is_stopped else queue.pending.numbered.values():
            refusal = unit_class.refusal
            if refusal is None or refusal.shown.reason is not Reason.RESERVED_FOR:
                continue
            window = refusal.shown.window
            if window is not None:
                counts[window.name] = counts.get(window.name, 0) + len(unit_class.order)
    return counts
