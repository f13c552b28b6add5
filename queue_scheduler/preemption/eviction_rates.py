"""How many units may be evicted in an hour: for the units of a queue, and in all. Pure.

A token bucket for each queue that limits its evictions, and one for all queues. It holds as many
tokens as may be evicted in an hour, begins full, and gains them evenly. A round takes a token for
each victim. One that needs more than the bucket holds may begin when it is full, and the rounds
after it wait until that is made up for: a job that needs many victims is delayed, not kept from its
guarantee for good. The evictions of a queue are those that its units cause: whoever could have
units of its own queue evicted would else use up what others need to reclaim.

The objects of units say how often and when they were evicted last (`status.evictions`), so that
another process knows what was taken before. What this process has chosen is taken at once, and
given back if it is not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from queue_scheduler.cache.unit_state import CachedUnit, evictions_of
from queue_scheduler.decision import Victim
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.timestamps import read_seconds

TOKEN: Final = 3600
"""A token: what a limit of one in an hour gains in that time, in whole numbers per second."""

MAX_UNSETTLED: Final = 1000
"""Evictions that are sorted at once. A replica that does not lead settles them only then."""

ALL: Final = ""
"""The key of the bucket for all queues; no queue has this name."""


class Taken(msgspec.Struct, frozen=True, gc=False):
    """What a bucket lacks: `missing` parts of tokens (`TOKEN`) at a second since the epoch."""

    second: int = 0
    missing: int = 0

    def at(self, second: int, per_hour: int) -> Taken:
        """Return what it lacks at a second that is not before this one."""
        gained = per_hour * (second - self.second)
        return Taken(second, max(0, self.missing - gained))

    def plus(self, second: int, per_hour: int) -> Taken:
        """Return what it lacks after one more token was taken at a second, be it in the past."""
        if second >= self.second:
            before = self.at(second, per_hour)
            return Taken(second, before.missing + TOKEN)
        left = max(0, TOKEN - per_hour * (self.second - second))
        return Taken(self.second, self.missing + left)


class Shortage(msgspec.Struct, frozen=True, gc=False):
    """Why a round may not begin.

    Attributes:
        queue: The queue whose limit it is; "": that of all queues.
        per_hour: The limit.
        used: How many tokens are taken, rounded up.
        until: When there are enough, in seconds since the epoch.
    """

    queue: str
    per_hour: int
    used: int
    until: int


class EvictionRates:
    """The buckets.

    Attributes:
        is_on: Whether anything is limited.
        taken: What each bucket lacks, by queue, as of its last question.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.taken: dict[str, Taken] = {}
        self._limits: dict[str, int] = {}
        # Evictions that were found in objects since the last question, as seconds.
        self._unsettled: dict[str, list[int]] = {}
        # Of the victims of rounds that are being written: which eviction of the unit it is, and
        # the queue that it is for.
        self._writing: dict[Uid, tuple[int, str]] = {}

    def limit_of(self, queue: str) -> int | None:
        """Return how many evictions a queue allows in an hour; None: any number."""
        return self._limits.get(queue)

    def limit(self, queue: str, per_hour: int | None, units: Iterable[QueueUnit] = ()) -> None:
        """Limit the evictions of a queue, or of `ALL`.

        Args:
            queue: The queue.
            per_hour: How many in an hour; None: any number.
            units: All known units: what was evicted before the limit counts.
        """
        if per_hour is None:
            self._limits.pop(queue, None)
            self.taken.pop(queue, None)
            self._unsettled.pop(queue, None)
            self.is_on = bool(self._limits)
            if not self.is_on:
                self._writing.clear()
            return
        is_new = queue not in self._limits
        self._limits[queue] = per_hour
        self.is_on = True
        for unit in units if is_new else ():
            self._note(unit, (queue,))

    # --- evictions ------------------------------------------------------------------------------

    def follow(self, before: QueueUnit | None, unit: QueueUnit) -> None:
        """Take the evictions of a unit that its newest object tells of, and the one before not."""
        count = evictions_of(unit).count
        if not count or (before is not None and count <= evictions_of(before).count):
            return
        number, _ = self._writing.get(unit.metadata.uid, (0, ""))
        if number != count:
            self._note(unit, (evictions_of(unit).queue, ALL))

    def _note(self, unit: QueueUnit, queues: Sequence[str]) -> None:
        evictions = evictions_of(unit)
        second = read_seconds(evictions.last_time)
        if not evictions.count or second is None:
            return
        for queue in queues:
            per_hour = self._limits.get(queue)
            if per_hour is None or queue not in {ALL, evictions.queue}:
                continue
            found = self._unsettled.setdefault(queue, [])
            found.append(int(second))
            if len(found) > MAX_UNSETTLED:
                self._settle(queue, per_hour, max(found))

    def _settle(self, queue: str, per_hour: int, second: int) -> Taken:
        """Return what a bucket lacks at a second, with all that was found in objects."""
        taken = self.taken.get(queue, Taken())
        for each in sorted(self._unsettled.pop(queue, ())):
            taken = taken.plus(min(each, second), per_hour)
        self.taken[queue] = taken = taken.at(max(second, taken.second), per_hour)
        return taken

    def settled(self) -> dict[str, Taken]:
        """Return what each bucket lacks, with all that was found in objects."""
        for queue, found in list(self._unsettled.items()):
            self._settle(queue, self._limits[queue], max(found))
        return dict(self.taken)

    def resume(self, taken: Mapping[str, Taken]) -> None:
        """Take over what the buckets of another process lack; it knew what the objects tell."""
        for queue in self._limits:
            self._unsettled.pop(queue, None)
            self.taken.pop(queue, None)
        self.taken.update({each: taken[each] for each in self._limits if each in taken})

    def shortage(self, queue: str, count: int, second: int) -> Shortage | None:
        """Return why a unit of a queue may not have so many evicted now; None: it may."""
        found = []
        for each in (queue, ALL):
            per_hour = self._limits.get(each)
            if per_hour is None:
                continue
            missing = self._settle(each, per_hour, second).missing
            excess = missing - max(0, TOKEN * (per_hour - count))
            if excess > 0:
                until = second - (-excess // per_hour)
                found.append(Shortage(each, per_hour, -(-missing // TOKEN), until))
        return max(found, key=lambda each: each.until, default=None)

    def take(
        self,
        queue: str,
        victims: Iterable[Victim],
        records: Mapping[str, CachedUnit],
        wall: datetime,
    ) -> None:
        """Take tokens for a round of a queue that may begin.

        Args:
            queue: The queue.
            victims: Its victims.
            records: All units, by key.
            wall: The time.
        """
        for victim in victims:
            count = evictions_of(records[victim.unit].unit).count
            self._writing[victim.uid] = (count + 1, queue)
            self._add(queue, int(wall.timestamp()), 1)

    def on_written(self, victims: Iterable[Victim], failed: Sequence[Victim]) -> None:
        """Give back the tokens for victims whose eviction was not written."""
        uids = {each.uid for each in failed}
        for victim in victims:
            _, queue = self._writing.pop(victim.uid, (0, None))
            if queue is not None and victim.uid in uids:
                self._add(queue, None, -1)

    def _add(self, queue: str, second: int | None, tokens: int) -> None:
        for each in (queue, ALL):
            if each in self._limits:
                taken = self.taken.get(each, Taken())
                missing = max(0, taken.missing + tokens * TOKEN)
                self.taken[each] = Taken(taken.second if second is None else second, missing)

    def copy(self) -> EvictionRates:
        """Return an independent copy."""
        twin = EvictionRates()
        twin.is_on = self.is_on
        twin.taken, twin._limits = dict(self.taken), dict(self._limits)
        twin._unsettled = {queue: list(found) for queue, found in self._unsettled.items()}
        twin._writing = dict(self._writing)
        return twin
