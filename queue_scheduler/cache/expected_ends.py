"""When admitted units end at the latest, by their declared maximum execution times. Pure.

The time of a run begins when the unit's pods run (condition `PodsReady`); the time of earlier runs
counts as well. A unit whose pods do not run yet is taken to begin now, whenever that is. A unit
that declares nothing has no end.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, remaining_seconds
from shared_api.objects.meta import Uid, find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import PODS_READY
from shared_api.timestamps import read_time


class ExpectedEnd(msgspec.Struct, frozen=True, gc=False):
    """When an admitted unit ends by what it declares.

    Attributes:
        quota: The quota that it is charged to.
        seconds: How long it may still run, from `since` on.
        since: When its pods began to run, in seconds since the epoch; None if they do not run yet.
    """

    quota: str
    seconds: int
    since: int | None

    def at(self, wall: int) -> int:
        """Return when it ends if `wall` is now, both in seconds since the epoch."""
        return (wall if self.since is None else self.since) + self.seconds


class ExpectedEnds:
    """The expected ends of admitted units, by uid."""

    def __init__(self) -> None:
        self._ends: dict[Uid, ExpectedEnd] = {}

    def __iter__(self) -> Iterator[tuple[Uid, ExpectedEnd]]:
        return iter(self._ends.items())

    def note(self, info: QueueUnitInfo) -> bool:
        """Take a new or changed admitted unit; return whether its expected end has changed."""
        seconds = remaining_seconds(info.unit)
        if seconds is None:
            return bool(self._ends) and self._ends.pop(info.uid, None) is not None
        before = self._ends.get(info.uid)
        after = ExpectedEnd(info.quota, seconds, _running_since(info.unit))
        self._ends[info.uid] = after
        return before != after

    def find(self, uid: Uid) -> ExpectedEnd | None:
        """Return the expected end of a unit; None: it is not admitted, or declares nothing."""
        return self._ends.get(uid)

    def drop(self, uid: Uid) -> None:
        """Forget a unit that is no longer admitted."""
        self._ends.pop(uid, None)

    def copy(self) -> ExpectedEnds:
        """Return an independent copy."""
        twin = ExpectedEnds()
        twin._ends = dict(self._ends)
        return twin


def _running_since(unit: QueueUnit) -> int | None:
    ready = find_condition(unit.status.conditions, PODS_READY)
    if ready is None or ready.status != "True":
        return None
    since = read_time(ready.last_transition_time)
    return None if since is None else int(since.timestamp())
