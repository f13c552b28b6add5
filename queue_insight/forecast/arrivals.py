"""Jobs that are still to come, drawn from those of the last days. Pure.

The future is put together from pieces of the past, six hours long and of the same time of day, of
all queues at once: so the rhythm of a day, bursts, and tenants that are busy together are kept. A
piece of yesterday is drawn more often than one of a week ago.

But jobs are submitted in campaigns: where many have arrived in the last minutes, many do in the
next, whatever the hour. So each path begins with the last hours in reverse, somewhat slower or
faster, for some minutes or hours. That is what comes next of a process that looks the same backward
as forward, given what came last, at each scale of time; how long a campaign goes on is not known.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain
from math import ceil, exp, floor
from typing import Final

import msgspec
from msgspec.structs import replace

from queue_insight.forecast.draws import normal, uniform
from queue_insight.insight.virtual_cluster import Arrival
from queue_scheduler.decision import Moment
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.queue_unit import QueueUnit, QueueUnitStatus

DAY: Final = 86_400.0
PIECE_SECONDS: Final = 21_600.0
"""The length of a piece: a quarter of a day, which most foreseeable waits do not exceed."""
DAYS: Final = 7
"""How far back pieces are drawn from: all days of a week."""
OLDER: Final = 0.75
"""How often a day is drawn, for each time that the one after it is."""

SHORTEST: Final = 300.0
"""For how long paths begin with the last hours: from this to a whole piece, each order of magnitude
as often. Of 60, 300 and 1200, the best mean pinball loss of the logarithm of waits on days 21 to 37
of the public Philly trace, at load 0.6 under Priority with declared times: 0.143, instead of 0.231
if no path begins with them. In the hour after the moments that were asked about, 4,913 jobs
arrived, 4,881 in the hour before, and 799 in the same hour of the days before."""
SPEED: Final = 0.5
"""Standard deviation of the logarithm of how much faster that is; of 0.5 and 0.8, found in
the same way."""

LEAST_SECONDS: Final = 60.0
"""Nothing is drawn from less: it says little."""
TIMES_KNOWN: Final = 10.0
"""What is known of some time goes on for so many times as long: the first minutes after a start say
nothing about a week."""

MAX_ARRIVALS: Final = 50_000
"""The most arrivals of a path, about 2.5 kB each while they wait or run. Where a unit does not
start, all that arrives until the horizon would be held: at ten a second, 6 million in a week."""


class PastArrival(msgspec.Struct, frozen=True, gc=False):
    """A unit that was created.

    Attributes:
        epoch: The time, in seconds since the epoch.
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
            moment: The beginning.
            seconds: How long; less if little is known, or if `MAX_ARRIVALS` come before.
            seed: The seed of all that is drawn.
            path: The number of the path; each has its own arrivals.
        """
        epoch = moment.wall.timestamp()
        span = epoch - self._since
        if span < LEAST_SECONDS:
            return
        piece = min(PIECE_SECONDS, span)
        count = 0
        for number in range(ceil(min(seconds, TIMES_KNOWN * span) / piece)):
            start = number * piece
            drawn = self._repeat(epoch, start, piece, uniform(seed, path, f"piece {number}"))
            if not number:
                lasts = _campaign_seconds(piece, uniform(seed, path, "campaign"))
                # Before `since` nothing is known, which is not that nothing arrived.
                back = min(span, lasts * exp(SPEED * normal(seed, path, "speed")))
                later = ((after, unit) for after, unit in drawn if after >= lasts)
                drawn = chain(self._reverse(epoch, back, lasts), later)
            for after, unit in drawn:
                count += 1
                yield Arrival(moment.now + start + after, _renamed(unit, count))
                if count == MAX_ARRIVALS:
                    return

    def _reverse(
        self, epoch: float, back: float, seconds: float
    ) -> Iterator[tuple[float, QueueUnit]]:
        """Yield what came in the last `back` seconds, in reverse and within `seconds`."""
        first = bisect_left(self._times, epoch - back)
        for past in reversed(self._past[first:]):
            # A job may have been created a moment after the state was taken.
            yield max(0.0, epoch - past.epoch) * seconds / back, past.unit

    def _repeat(
        self, epoch: float, start: float, piece: float, luck: float
    ) -> Iterator[tuple[float, QueueUnit]]:
        """Yield what came in a piece of the past, each with the seconds since the piece began."""
        begin = self._source(epoch, start, piece, luck)
        first = bisect_left(self._times, begin)
        last = bisect_left(self._times, begin + piece, lo=first)
        for past in self._past[first:last]:
            yield past.epoch - begin, past.unit

    def _source(self, epoch: float, start: float, piece: float, luck: float) -> float:
        """Return where the piece begins that is drawn for the one after `start` seconds."""
        days = min(DAYS, floor((epoch - self._since) / DAY))
        if days < 1:
            # Less than a day is known: any part of it, whatever the hour.
            return self._since + luck * (epoch - self._since - piece)
        same_hour = epoch + start - DAY * ceil((start + piece) / DAY)
        return same_hour - DAY * _days_back(days, luck)


def _campaign_seconds(piece: float, luck: float) -> float:
    """Return for how long the last hours go on: each ratio to the shortest is as likely."""
    least = min(SHORTEST, piece)
    return float(least * (piece / least) ** luck)


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
