"""Who could be evicted for a unit, and whom to choose; changes nothing.

Two causes. A *queue* that preempts: units of it that have a lower priority, whose pods do not all
run, or that run where its annotation allows that. A *quota* that reclaims: units of quotas that
borrow, whatever their queue (`Reclaiming`). In both, units that are labelled not preemptible, that
leave already, or that were admitted within the protect time are left alone; and so are those that
would come back to stand before the unit in its queue, and keep it from being asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeAlias

import msgspec

from queue_scheduler.cache.admitted_units import Bucket, in_buckets
from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import CachedUnit, UnitState, is_preemptible
from queue_scheduler.decision import Reason, Refusal, Victim
from queue_scheduler.framework.extension_points import Lent, ReclaimTerms
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.preemption.victim_selection import Candidate, choose_victims
from queue_scheduler.queueing.queue_policies import creation_order
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from shared_api.objects.meta import Timestamp, Uid, find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import (
    PODS_READY,
    PREEMPTED,
    RECLAIMED,
    is_being_evicted,
    was_evicted,
)
from shared_api.timestamps import MAX_CLOCK_SKEW, read_time, rfc3339

HOPELESS: Final = frozenset(
    {Reason.EXCEEDS_QUOTA, Reason.UNKNOWN_QUOTA, Reason.BROKEN_CHAIN, Reason.ROOM_FOR_PREEMPTOR}
)
"""Refusals that no eviction ends, or only that of others than whoever is refused may evict."""

SETTLING_SECONDS: Final = 1.0
"""After so long a unit whose admission is under way may be looked at again: it is written then."""

LEFT_ALONE_SECONDS: Final = 60.0
"""So long one that was evicted before keeps its next place, whatever the protect time: a stream of
short units that come first would else stop it again and again before it gets anything done."""

_OF_CREATION: Final = 3
"""Terms of `creation_order`, in which the places of all built-in policies end."""


class Found(msgspec.Struct, frozen=True, gc=False):
    """What a search came to.

    Attributes:
        reason: Of the evictions, `PREEMPTED` or `RECLAIMED`.
        victims: Whom to evict, the cheapest first; () nobody.
        again_seconds: After so long a search may find more; None: not by itself.
    """

    reason: str
    victims: tuple[Victim, ...]
    again_seconds: float | None = None


Batches: TypeAlias = Sequence[tuple[Bucket, Iterable[str]]]
"""Keys of units, by what their eviction costs; each may be read several times."""


class VictimCandidates:
    """Looks through the units that occupy quota.

    Args:
        units: All units.
        plugins: Asked what would be, if units were gone.
        protect_seconds: For so long after its admission a unit is not evicted for another.
    """

    def __init__(self, units: UnitCache, plugins: PluginRunner, protect_seconds: float) -> None:
        self._units = units
        self._plugins = plugins
        self.protect_seconds = protect_seconds

    def leaving(self, domains: frozenset[str]) -> list[CachedUnit]:
        """Return the units of these domains whose eviction was asked for and is not done."""
        records = (self._units.records[key] for key in self._units.admitted.leaving)
        return [
            record
            for record in records
            if record.info is not None and self._plugins.domains(record.info.quota) & domains
        ]

    def may_evict(self, line: SchedulingQueue, info: QueueUnitInfo) -> bool:
        """Return whether its queue or its quota lets a unit evict others at all."""
        if line.lets_evict:
            return True
        for plugin in self._plugins.reclaiming:  # noqa: SIM110 - no generator: all refused are asked
            if plugin.reclaim_terms(info):
                return True
        return False

    def may_take_from(
        self, line: SchedulingQueue, info: QueueUnitInfo, other: QueueUnitInfo
    ) -> bool:
        """Return whether a unit could have another of its queue evicted that started before it.

        Both wait. If the other took the room that was made for this one, it would be evicted for it
        again, come before it again, and so on without end.
        """
        if other.non_preemptible:
            return False
        is_owed, borrows = not self._borrows(info), self._borrows(other)
        is_lower = other.priority < info.priority
        if line.lets_evict and is_lower and (is_owed or borrows):
            return True
        return (
            is_owed
            and borrows
            and other.quota != info.quota
            and any(is_lower or not terms.only_lower for terms in self._terms(info))
        )

    def find(
        self, line: SchedulingQueue, info: QueueUnitInfo, leaving: Sequence[Uid], wall: datetime
    ) -> Found:
        """Return whom to evict so that a refused unit may start.

        Args:
            line: Its queue.
            info: The unit.
            leaving: Uids of units that leave anyway.
            wall: The time.
        """
        must: tuple[Victim, ...] = ()
        if line.in_flight:
            # It waits for their pods, too: so all are of one round.
            under_way = self.find_under_way(line, info, wall)
            must = under_way.victims
            leaving = (*leaving, *self._whose_room_is_free(info, leaving, must))
            if not must or self._plugins.check_without(info, leaving) is None:
                return under_way
        found = Found(PREEMPTED, ())
        passed_over = frozenset((*leaving, *(victim.uid for victim in must)))
        for reason, batches in self._sources(line, info):
            look = _Look(self._units, line, info, wall, self.protect_seconds, passed_over)
            candidates = (one for bucket, keys in batches for one in look.candidates(bucket, keys))
            enough = partial(self._is_enough, info, leaving)
            everybody = partial(self._would_all_do, info, leaving, batches)
            lent = self._lent_to(info, leaving, reason)
            chosen = choose_victims(candidates, enough, everybody, lent)
            victims = tuple(look.victim(one) for one in chosen)
            if victims:
                return Found(reason, (*must, *victims))
            again = (look.again_seconds(), found.again_seconds)
            found = Found(reason, (), min((at for at in again if at is not None), default=None))
        return found

    def find_under_way(self, line: SchedulingQueue, info: QueueUnitInfo, wall: datetime) -> Found:
        """Return who is under way in a queue that waits for pods, if the unit may displace them."""
        look = _Look(self._units, line, info, wall, self.protect_seconds)
        batches = self._of_queue(line, info, running=True) if line.lets_evict else ()
        candidates = [one for bucket, keys in batches for one in look.candidates(bucket, keys)]
        victims = [look.victim(one) for one in candidates if one.uid in line.in_flight]
        if len(victims) < len(line.in_flight):
            return Found(PREEMPTED, (), look.again_seconds())
        return Found(PREEMPTED, tuple(victims))

    def _sources(self, line: SchedulingQueue, info: QueueUnitInfo) -> Iterator[tuple[str, Batches]]:
        """Iterate over whom a unit may evict, with the reason for it.

        Who borrows comes first: whoever is evicted within his own min is owed the same room next,
        and would take it back from a borrower then.
        """
        for batches in self._of_quotas(info):
            yield RECLAIMED, batches
        if line.lets_evict:
            yield PREEMPTED, self._of_queue(line, info, running=line.options.preempts_running)

    def _of_queue(self, line: SchedulingQueue, info: QueueUnitInfo, *, running: bool) -> Batches:
        buckets = self._units.admitted.of_queue(line.name)
        return list(in_buckets(buckets, below=info.priority, running=running))

    def _of_quotas(self, info: QueueUnitInfo) -> Iterator[Batches]:
        for terms in self._terms(info):
            if terms.quotas:
                of_quota = self._units.admitted.of_quota
                buckets = [each for quota in terms.quotas for each in of_quota(quota)]
                below = info.priority if terms.only_lower else None
                yield list(in_buckets(buckets, below))

    def _terms(self, info: QueueUnitInfo) -> Iterator[ReclaimTerms]:
        terms = (plugin.reclaim_terms(info) for plugin in self._plugins.reclaiming)
        return (each for each in terms if each is not None)

    def _borrows(self, info: QueueUnitInfo) -> bool:
        """Return whether a waiting unit is not owed the room that it asks for."""
        return self._lent_to(info, (), PREEMPTED) is not None

    def _whose_room_is_free(
        self, info: QueueUnitInfo, leaving: Sequence[Uid], victims: Sequence[Victim]
    ) -> list[Uid]:
        """Return those of one's victims for whom no room is kept as soon as they wait again."""
        lent = self._lent_to(info, leaving, PREEMPTED)
        return [each.uid for each in victims if lent is None or lent.take(each.uid, 1)]

    def _lent_to(self, info: QueueUnitInfo, leaving: Sequence[Uid], reason: str) -> Lent | None:
        """Return whom their quotas let go together; None: everybody."""
        for plugin in self._plugins.guarantees:
            lent = plugin.lent_to(info, leaving, outranks=reason == PREEMPTED)
            if lent is not None:
                return lent
        return None

    def _is_enough(
        self, info: QueueUnitInfo, leaving: Sequence[Uid], released: Sequence[Candidate]
    ) -> bool:
        uids = [*leaving, *(one.uid for one in released)]
        return self._plugins.check_without(info, uids) is None

    def _would_all_do(self, info: QueueUnitInfo, leaving: Sequence[Uid], batches: Batches) -> bool:
        """Return whether the unit would start without anybody, be he a candidate or not."""
        records = self._units.records
        uids = [records[key].uid for _, keys in batches for key in keys]
        return self._plugins.check_without(info, [*leaving, *uids]) is None


class _Look:
    """One look at units, at one time; notes what was passed over for now.

    Those who leave already are passed over for good, also where no object says so yet; and so are
    those of its own queue because of which the unit would not be asked, once they wait again.
    """

    def __init__(
        self,
        units: UnitCache,
        line: SchedulingQueue,
        info: QueueUnitInfo,
        wall: datetime,
        protect_seconds: float,
        leaving: frozenset[Uid] = frozenset(),
    ) -> None:
        self._units = units
        self._line, self._info = line, info
        self._before = 0  # of those that may go, how many would stand before the unit in its line
        self._leaving = leaving
        self._wall = wall
        self._protect_seconds = protect_seconds
        self._protected_from = rfc3339(wall - timedelta(seconds=protect_seconds))
        left_alone = self._keeps_seconds(is_back=True)
        self._left_alone_from = rfc3339(wall - timedelta(seconds=left_alone))
        self._latest = rfc3339(wall + MAX_CLOCK_SKEW)
        # The first admission of those that were passed over, by whether they were evicted before.
        self._first_kept: dict[bool, Timestamp] = {}
        self._is_settling = False

    def candidates(self, bucket: Bucket, keys: Iterable[str]) -> Iterator[Candidate]:
        """Iterate over who of a bucket may be evicted: the last to run, then the youngest, first.

        Of thousands mostly a few are needed, so no more than their order is found for all.
        """
        records, runs = self._units.records, bucket[1]
        ordered = [
            (running_since(records[key].unit) if runs else "", created_at(records[key]), key)
            for key in keys
        ]
        ordered.sort(reverse=True)
        for since, _, key in ordered:
            if self._may_go(records[key]) and not self._returns_in_front(records[key]):
                yield self._candidate(records[key], bucket, since)

    def victim(self, one: Candidate) -> Victim:
        """Return a chosen candidate with what is lost."""
        unit = self._units.records[one.key].unit
        return Victim(
            unit=one.key,
            uid=one.uid,
            resource_version=unit.metadata.resource_version,
            priority=one.priority,
            lost_seconds=_seconds_since(one.since, self._wall) if one.runs else 0,
        )

    def again_seconds(self) -> float | None:
        """Return when somebody who was passed over may be evicted; None: nobody was."""
        if self._is_settling:
            return SETTLING_SECONDS
        rests = (
            self._keeps_seconds(is_back=is_back) - _seconds_since(granted, self._wall)
            for is_back, granted in self._first_kept.items()
        )
        return max(SETTLING_SECONDS, min(rests)) if self._first_kept else None

    def _may_go(self, record: CachedUnit) -> bool:
        unit = record.unit
        if (
            not is_preemptible(record)
            or unit.metadata.deletion_timestamp is not None
            or is_being_evicted(unit)
            or record.uid in self._leaving
        ):
            return False
        if record.state is UnitState.ASSUMED:
            self._is_settling = True
            return False
        granted = unit.status.last_allocate_time or ""
        if not self._left_alone_from < granted <= self._latest:
            return True
        is_back = was_evicted(unit)
        if not (is_back or granted > self._protected_from):
            return True
        first = self._first_kept.get(is_back)
        if first is None or granted < first:
            self._first_kept[is_back] = Timestamp(granted)
        return False

    def _returns_in_front(self, record: CachedUnit) -> bool:
        """Return whether one that is evicted would keep the unit from being asked.

        It would start again in the room that it made, and be evicted for that again.
        """
        line, info = self._line, record.info
        assert info is not None, f"{record.key} may go and has no demand"
        # Mostly so, and a place costs as much as all else that is asked of a candidate.
        if info.queue != line.name or line.asks_past_refused:
            return False
        place = self._units.place_in(line, record.unit)
        if line.would_keep_from_turn(place, info.quota, self._info, self._before):
            return True
        self._before += place < self._info.order_key
        return False

    def _keeps_seconds(self, *, is_back: bool) -> float:
        """Return for how long after its admission a unit is not evicted."""
        least = LEFT_ALONE_SECONDS if is_back else 0.0
        return max(self._protect_seconds, least)

    def _candidate(self, record: CachedUnit, bucket: Bucket, since: str) -> Candidate:
        charge = self._units.bookings.charge_of(record.uid)
        assert charge is not None, f"{record.key} may go and has nothing booked"
        return Candidate(
            key=record.key,
            uid=record.uid,
            priority=bucket[0],
            runs=bucket[1],
            since=since,
            kind=(
                charge.quota,
                charge.non_preemptible,
                charge.pods,
                tuple(sorted(charge.amounts.items())),
            ),
        )


def created_at(record: CachedUnit) -> str:
    """Return when the unit's job was created; the place in line mostly says so already."""
    place = () if record.info is None else record.info.order_key
    if len(place) >= _OF_CREATION and type(created := place[-_OF_CREATION]) is str:
        return created
    return creation_order(record.unit)[0]


def running_since(unit: QueueUnit) -> str:
    """Return when the unit's pods ran, as its object says; "" where it does not."""
    status = unit.status
    if not status.conditions:
        return status.last_allocate_time or ""
    ready = find_condition(status.conditions, PODS_READY)
    if ready is None or ready.status != "True":
        return status.last_allocate_time or ""
    return ready.last_transition_time or ""


def _seconds_since(text: str, wall: datetime) -> int:
    since = read_time(text)
    return 0 if since is None else max(0, int((wall - since).total_seconds()))


def is_worth_a_search(refusal: Refusal) -> bool:
    """Return whether evictions could end a refusal."""
    return refusal.reason not in HOPELESS
