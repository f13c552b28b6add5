"""Jobs that are still to come, drawn from those of the last days. Pure.

The future is put together from pieces of the past, six hours long and of the same time of day, of
all queues at once: so the rhythm of a day, bursts, and tenants that are busy together are kept. A
piece of yesterday is drawn more often than one of a week ago.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import ceil, floor
from typing import Final

import msgspec
from msgspec.structs import replace

from queue_scheduler.decision import Moment
from queue_scheduler.forecast.draws import uniform
from queue_scheduler.insight.virtual_cluster import Arrival
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.queue_unit import QueueUnit, QueueUnitStatus

DAY: Final = 86_400.0
PIECE_SECONDS: Final = 21_600.0
"""As long as most waits that can be foreseen at all, and a quarter of a day."""
DAYS: Final = 7
"""How far back pieces are drawn from: all days of a week."""
OLDER: Final = 0.75
"""How often a day is drawn, for each time that the one after it is."""

LEAST_SECONDS: Final = 60.0
"""Nothing is drawn from less: it says little, and a week has too many pieces of that length."""


class PastArrival(msgspec.Struct, frozen=True, gc=False):
    """A unit that was created.

    Attributes:
        epoch: When, in seconds since the epoch.
        unit: What arrives when it is drawn; its name, uid and status are not used.
    """

    epoch: float
    unit: QueueUnit


class ArrivalHistory:
    """Draws arrivals.

    Args:
        past: What has arrived, in order of time.
        since: From when on `past` is complete, in seconds since the epoch.
    """

    def __init__(self, past: Sequence[PastArrival], since: float) -> None:
        self._past = past
        self._times = [each.epoch for each in past]
        self._since = since

    def sample(self, moment: Moment, seconds: float, seed: int, path: int) -> Iterator[Arrival]:
        """Yield the arrivals of one path, in order of time.

        Args:
            moment: The time from which on.
            seconds: For how long.
            seed: Of all that is drawn.
            path: The number of the path; each has its own arrivals.
        """
        epoch = moment.wall.timestamp()
        span = epoch - self._since
        piece = min(PIECE_SECONDS, span)
        count = 0
        for number in range(ceil(seconds / piece) if span >= LEAST_SECONDS else 0):
            start = number * piece
            begin = self._source(epoch, start, piece, uniform(seed, path, f"piece {number}"))
            first = bisect_left(self._times, begin)
            last = bisect_left(self._times, begin + piece, lo=first)
            for place in range(first, last):
                past = self._past[place]
                count += 1
                now = moment.now + start + (past.epoch - begin)
                yield Arrival(now, _renamed(past.unit, count))

    def _source(self, epoch: float, start: float, piece: float, luck: float) -> float:
        """Return where the piece begins that is drawn for the one after `start` seconds."""
        days = min(DAYS, floor((epoch - self._since) / DAY))
        if days < 1:
            # Less than a day is known: any part of it, whatever the hour.
            return self._since + luck * (epoch - self._since - piece)
        same_hour = epoch + start - DAY * ceil((start + piece) / DAY)
        return same_hour - DAY * _days_back(days, luck)


def _days_back(days: int, luck: float) -> int:
    weights = [OLDER**back for back in range(days)]
    goal = luck * sum(weights)
    for back, weight in enumerate(weights):
        goal -= weight
        if goal < 0:
            return back
    return days - 1


def _renamed(unit: QueueUnit, number: int) -> QueueUnit:
    meta = unit.metadata
    # The rest of a drawn unit's luck belongs to its name: the same in each forecast.
    name = f"forecast-{number:08}"
    fresh = ObjectMeta(
        name=name,
        namespace=meta.namespace,
        uid=Uid(f"forecast/{number}"),
        labels=meta.labels,
        annotations=meta.annotations,
    )
    return replace(unit, metadata=fresh, status=QueueUnitStatus())
