"""For how long admitted units run, as budgets count it. Pure.

What a unit declares is among the expected ends. For one that declares nothing, the time of its
admission counts, as its object has it: so that a restart finds the same.
"""

from __future__ import annotations

from queue_scheduler.cache.expected_ends import ExpectedEnds
from queue_scheduler.tenants.commitments import NOTHING_DECLARED, Declared, Promise
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.timestamps import read_seconds


class DeclaredTerms:
    """When admitted units were admitted, by uid; kept while there are budgets.

    Args:
        ends: The expected ends.
    """

    def __init__(self, ends: ExpectedEnds) -> None:
        self._ends = ends
        self._admitted_at: dict[Uid, int | None] = {}

    def note(self, unit: QueueUnit) -> bool:
        """Take a new or changed admitted unit; return whether its admission differs."""
        seconds = read_seconds(unit.status.last_allocate_time)
        since = None if seconds is None else int(seconds)
        uid = unit.metadata.uid
        if self._admitted_at.get(uid, -1) == since:
            return False
        self._admitted_at[uid] = since
        return True

    def drop(self, uid: Uid) -> None:
        """Forget a unit that is admitted anew, or no longer."""
        self._admitted_at.pop(uid, None)

    def of(self, uid: Uid) -> Declared:
        """Return for how long a unit runs."""
        since, end = self._admitted_at.get(uid), self._ends.find(uid)
        if end is None:
            return NOTHING_DECLARED if since is None else Declared(None, since)
        at = None if end.since is None else end.since + end.seconds
        return Declared(Promise(at, end.seconds), since)

    def copy(self, ends: ExpectedEnds) -> DeclaredTerms:
        """Return an independent copy over copied ends."""
        twin = DeclaredTerms(ends)
        twin._admitted_at = dict(self._admitted_at)
        return twin
