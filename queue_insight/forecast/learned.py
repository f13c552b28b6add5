"""What is learned from units that have ended, and from those that an engine still has. Pure.

The latter count as arrivals, and those that run are censored.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from queue_insight.forecast.arrivals import DAY, DAYS, ArrivalHistory, PastArrival
from queue_insight.forecast.paths import find_running
from queue_insight.forecast.run_times import RunTimeModel, RunTimes
from queue_insight.forecast.traits import Traits, traits_of_run, unit_of_run
from queue_insight.insight.finished_run import FinishedRun
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue_unit import QueueUnit
from shared_api.timestamps import read_time

KEPT_SECONDS: Final = (DAYS + 1) * DAY
"""How far back runs are kept that may arrive again."""
MAX_KEPT: Final = 100_000
"""Runs that are kept, the newest: a kilobyte each. Of a cluster that ends one each second, those of
the last day."""


class Learned:
    """What forecasts are drawn from. Used by one thread at a time.

    Args:
        model: Learns how long runs last.
        since: From when on arrivals are known, in seconds since the epoch: since the record began,
            or this program.
        most: How many runs are kept.
    """

    def __init__(self, model: RunTimeModel, since: float, most: int = MAX_KEPT) -> None:
        self._model = model
        self._since = since
        self._most = most
        self._ended: deque[FinishedRun] = deque()
        self._alike: Counter[Traits] = Counter()
        self._count = 0

    @property
    def count(self) -> int:
        """How many runs have ended by themselves."""
        return self._count

    @property
    def ended(self) -> Sequence[FinishedRun]:
        """The runs of the last days, in the order of their ends."""
        return self._ended

    def learn(self, run: FinishedRun) -> None:
        """Take a run that has ended. Runs come in the order of their ends."""
        self._model.learn(run)
        self._count += run.is_whole
        self._ended.append(run)
        self._alike[_group_of(traits_of_run(run))] += run.is_whole
        while self._ended[0].ended < run.ended - KEPT_SECONDS:
            self._forget_oldest()
        if len(self._ended) > self._most:
            # What arrived with it or before is not all known any more.
            self._since = max(self._since, self._forget_oldest().created)

    def _forget_oldest(self) -> FinishedRun:
        old = self._ended.popleft()
        group = _group_of(traits_of_run(old))
        self._alike[group] -= old.is_whole
        if not self._alike[group]:
            del self._alike[group]
        return old

    def alike(self, traits: Traits) -> int:
        """Return how many runs of the last days are of the same quota, user, kind and request.

        A run that was evicted or deleted does not count: it tells only that it lasts longer.
        """
        return self._alike[_group_of(traits)]

    def beliefs(self, engine: Engine, moment: Moment) -> RunTimes:
        """Return what is believed of run times; to be used before the next run is learned."""
        return self._model.at(moment.wall.timestamp(), find_running(engine, moment))

    def history(self, engine: Engine, moment: Moment) -> ArrivalHistory:
        """Return what has arrived."""
        past = sorted(self._arrivals(engine), key=lambda each: each.epoch)
        return ArrivalHistory(past, moment.wall.timestamp() - self.seconds_known(moment))

    def seconds_known(self, moment: Moment) -> float:
        """Return for how many seconds before a time arrivals are known."""
        return min(KEPT_SECONDS, moment.wall.timestamp() - self._since)

    def _arrivals(self, engine: Engine) -> Iterator[PastArrival]:
        seen: set[str] = set()
        for record in engine.units:
            created = read_time(record.unit.metadata.creation_timestamp)
            if created is not None and record.info is not None:
                seen.add(record.uid)
                yield PastArrival(created.timestamp(), record.unit)
        alike: dict[Hashable, QueueUnit] = {}
        for run in self._ended:
            if run.uid not in seen:
                seen.add(run.uid)
                key = _unit_key(run)
                unit = alike.get(key)
                if unit is None:
                    unit = alike[key] = unit_of_run(run)
                yield PastArrival(run.created, unit)


def _group_of(traits: Traits) -> Traits:
    """Return traits without what differs between runs of the same kind."""
    return Traits(traits.tenant, traits.user, traits.kind)


def _unit_key(run: FinishedRun) -> Hashable:
    """Return what the unit of a run is made of, its name and uid left out: they are not used."""
    namespace = run.unit.partition("/")[0]
    charge = tuple(run.charge.items())
    limits = (run.priority, run.declared_seconds)
    return (namespace, run.queue, run.quota, run.user, run.kind, charge, limits)
