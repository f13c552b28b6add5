"""Which units could be evicted for another, and which of them to choose; changes nothing.

There are two causes. A *queue* that preempts: its units of lower priority whose pods do not all
run, or also running ones if its annotation allows that. A *quota* that reclaims: units of quotas
that borrow, in any queue (`Reclaiming`). Both leave alone units that are labeled not preemptible,
that leave already, or that were admitted within the protect time (`protection`), and units that
would stand before the preemptor again once they are requeued, and keep it from its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Final, TypeAlias

from queue_scheduler.cache.admitted_units import (
    Batch,
    Bucket,
    bucket_of,
    in_buckets,
    runs_whole,
)
from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import (
    CachedUnit,
    checkpoint_of,
)
from queue_scheduler.decision import EvictionGuard, Reason, Refusal, Trait, Victim, reasons_with
from queue_scheduler.framework.extension_points import Lent, ReclaimTerms
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, at_least
from queue_scheduler.preemption.borrowers import Borrowers
from queue_scheduler.preemption.eviction_guards import find_delay, find_shortage
from queue_scheduler.preemption.eviction_rates import EvictionRates
from queue_scheduler.preemption.found_victims import FoundVictims
from queue_scheduler.preemption.nomination import without_stuck
from queue_scheduler.preemption.protection import (
    FOR_A_TIME,
    Kept,
    Protection,
    SparedBy,
    spared_by_queue,
    spared_by_quotas,
)
from queue_scheduler.preemption.victim_selection import Candidate, choose_victims
from queue_scheduler.queueing.queue_policies import creation_order
from queue_scheduler.queueing.queue_questions import would_keep_from_turn
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.quota.quota_decision import MinRunTime
from shared_api.objects.meta import Timestamp, Uid, find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import PODS_READY, PREEMPTED, RECLAIMED
from shared_api.timestamps import read_time, rfc3339

HOPELESS: Final = reasons_with(Trait.NOT_BY_EVICTION)
"""Refusals that no eviction ends, or only evictions that the refused unit may not ask for."""

SETTLING_SECONDS: Final = 1.0
"""After this time a unit whose admission is being written may be considered: it is written then."""

_OF_CREATION: Final = 3
"""Terms of `creation_order`, with which the order keys of all built-in policies end."""


Batches: TypeAlias = Iterable[Batch]
"""Keys of units by bucket, the cheapest evictions first; may be read several times."""


class VictimCandidates:
    """Searches the units that occupy quota.

    Args:
        units: All units.
        plugins: Asked what would fit if units were gone.
        protect_seconds: How long after its admission a unit is not evicted for another.
    """

    def __init__(self, units: UnitCache, plugins: PluginRunner, protect_seconds: float) -> None:
        self._units = units
        self._plugins = plugins
        self.protect_seconds = protect_seconds

    def leaving(self, domains: frozenset[str]) -> list[CachedUnit]:
        """Return the units of these domains whose eviction is requested and not done."""
        records = (self._units.records[key] for key in self._units.admitted.leaving)
        return [
            record
            for record in records
            if record.info is not None and self._plugins.domains(record.info.quota) & domains
        ]

    def may_evict(self, queue: SchedulingQueue, info: QueueUnitInfo) -> bool:
        """Return whether a unit's queue or quota lets it evict others at all."""
        if queue.rules.lets_evict:
            return True
        for plugin in self._plugins.reclaiming:  # noqa: SIM110 - no generator: all refused are asked
            if plugin.reclaim_terms(info):
                return True
        return False

    def protection(self, wall: datetime, spared_by: SparedBy | None = None) -> Protection:
        """Return which units are not evicted at a time, for any other or with what is stated."""
        return Protection(wall, self.protect_seconds, spared_by)

    def spared_until(
        self, record: CachedUnit, spared: MinRunTime | None, wall: datetime
    ) -> datetime | None:
        """Return until when an admitted unit is spared by a stated time alone; None: it is not."""
        if spared is None:
            return None
        protection = self.protection(wall, lambda _: spared)
        if protection.why_kept(record) is not Kept.MIN_RUNTIME:
            return None
        return protection.until(record, Kept.MIN_RUNTIME)

    def _protection_from(
        self, reason: str, queue: SchedulingQueue, info: QueueUnitInfo, wall: datetime
    ) -> Protection:
        """Return which units are not evicted for a unit, by the reason of the eviction."""
        if reason == RECLAIMED:
            return self.protection(wall, spared_by_quotas(self._plugins, info.quota))
        if not self._units.queues.sparing:
            return self.protection(wall)
        stated = spared_by_queue(self._units.queues, queue.name)
        return self.protection(wall, None if stated is None else lambda _: stated)

    def may_be_preempted(self, queue: SchedulingQueue, record: CachedUnit) -> bool:
        """Return whether its queue lets units of higher priority evict an admitted unit."""
        spares_it = runs_whole(record.unit) and not queue.rules.options.preempts_running
        return queue.rules.lets_evict and (not spares_it or record.uid in queue.in_flight)

    def reaches(self, queue: SchedulingQueue, info: QueueUnitInfo, record: CachedUnit) -> bool:
        """Return whether an admitted unit is among those that a pending unit may evict.

        It does not consider whether the unit would be chosen, or is protected.
        """
        sources = [batches for _, batches in self._sources(queue, info)]
        if queue.in_flight and queue.rules.lets_evict:
            sources.append(self._of_queue(queue, info, running=True))
        bucket = bucket_of(record)
        return any(
            record.key in frozenset(keys)
            for batches in sources
            for each, keys in batches
            if each == bucket
        )

    def may_take_from(
        self, queue: SchedulingQueue, info: QueueUnitInfo, other: QueueUnitInfo
    ) -> bool:
        """Return whether a unit could evict another of its queue that started before it.

        Both are pending. If the other took the room that was made for this unit, it would be
        evicted for it again, come before it again, and so on without end.
        """
        if other.non_preemptible:
            return False
        is_owed, borrows = not self._borrows(info), self._borrows(other)
        is_lower = other.priority + other.spare < info.priority
        if queue.rules.lets_evict and is_lower and (is_owed or borrows):
            return True
        return (
            is_owed
            and borrows
            and other.quota != info.quota
            and any(is_lower or not terms.only_lower for terms in self._terms(info))
        )

    def find(
        self, queue: SchedulingQueue, info: QueueUnitInfo, leaving: Sequence[Uid], wall: datetime
    ) -> FoundVictims:
        """Return the units to evict so that a refused unit may start.

        Args:
            queue: Its queue.
            info: The unit.
            leaving: Uids of units that leave anyway.
            wall: Wall time.
        """
        must: tuple[Victim, ...] = ()
        if queue.in_flight:
            # The unit also waits for the pods of units in flight, so they all belong to its round.
            in_flight = self.find_in_flight(queue, info, wall)
            must = in_flight.victims
            leaving = (*leaving, *self._whose_room_is_free(info, leaving, must))
            if not must or self._plugins.check_without(info, leaving) is None:
                return in_flight
        found = FoundVictims(PREEMPTED, ())
        passed_over = frozenset((*leaving, *(victim.uid for victim in must)))
        for reason, batches in self._sources(queue, info):
            protection = self._protection_from(reason, queue, info, wall)
            look = _Look(self._units, queue, info, protection, passed_over)
            candidates = (one for bucket, keys in batches for one in look.candidates(bucket, keys))
            enough = partial(self._is_enough, info, leaving)
            everybody = partial(self._would_all_do, info, leaving, batches)
            lent = self._lent_to(info, leaving, reason)
            chosen = choose_victims(candidates, enough, everybody, lent)
            victims = tuple(look.victim(one) for one in chosen)
            if victims:
                return FoundVictims(reason, (*must, *victims))
            again = (look.again_seconds(), found.again_seconds)
            found = FoundVictims(
                reason,
                (),
                min((at for at in again if at is not None), default=None),
                found.guard or look.guard(),
            )
        return found

    def would_evict(
        self, queue: SchedulingQueue, info: QueueUnitInfo, rates: EvictionRates, wall: datetime
    ) -> FoundVictims | None:
        """Return the units that a pending unit would evict now, if there were no other round.

        None if none may be evicted, or the unit needs none.

        Args:
            queue: Its queue.
            info: The unit.
            rates: How many units may be evicted.
            wall: Wall time.
        """
        info = at_least(info)
        checked = self._plugins.check(info)
        if checked is None:
            return self.find_in_flight(queue, info, wall) if queue.in_flight else None
        if not is_worth_a_search(checked[0]):
            return None
        leaving = without_stuck(self.leaving(self._plugins.domains(info.quota)), wall)
        uids = [record.uid for record in leaving]
        if uids and self._plugins.check_without(info, uids) is None:
            return None
        guard = find_delay(queue, info, wall)
        if guard is not None:
            return FoundVictims(PREEMPTED, (), guard=guard)
        found = self.find(queue, info, uids, wall)
        guard = find_shortage(rates, queue, found, wall)
        return found if guard is None else FoundVictims(found.reason, (), guard=guard)

    def find_in_flight(
        self, queue: SchedulingQueue, info: QueueUnitInfo, wall: datetime
    ) -> FoundVictims:
        """Return the units in flight in a queue that waits for pods, if the unit may evict them."""
        protection = self._protection_from(PREEMPTED, queue, info, wall)
        look = _Look(self._units, queue, info, protection)
        batches = self._of_queue(queue, info, running=True) if queue.rules.lets_evict else ()
        candidates = [one for bucket, keys in batches for one in look.candidates(bucket, keys)]
        victims = [look.victim(one) for one in candidates if one.uid in queue.in_flight]
        if len(victims) < len(queue.in_flight):
            return FoundVictims(PREEMPTED, (), look.again_seconds(), look.guard())
        return FoundVictims(PREEMPTED, tuple(victims))

    def _sources(
        self, queue: SchedulingQueue, info: QueueUnitInfo
    ) -> Iterator[tuple[str, Batches]]:
        """Yield the units that a unit may evict, with the reason for it.

        Borrowers come first. A unit that is evicted within its min is owed the same room next, and
        would then take it back from a borrower.
        """
        for batches in self._of_quotas(info):
            yield RECLAIMED, batches
        rules = queue.rules
        if rules.lets_evict:
            yield PREEMPTED, self._of_queue(queue, info, running=rules.options.preempts_running)

    def _of_queue(self, queue: SchedulingQueue, info: QueueUnitInfo, *, running: bool) -> Batches:
        buckets = self._units.admitted.of_queue(queue.name)
        return list(in_buckets(buckets, below=info.priority, running=running))

    def _of_quotas(self, info: QueueUnitInfo) -> Iterator[Batches]:
        for terms in self._terms(info):
            if terms.quotas:
                below = info.priority if terms.only_lower else None
                yield Borrowers(self._units, terms.quotas, below)

    def _terms(self, info: QueueUnitInfo) -> Iterator[ReclaimTerms]:
        terms = (plugin.reclaim_terms(info) for plugin in self._plugins.reclaiming)
        return (each for each in terms if each is not None)

    def _borrows(self, info: QueueUnitInfo) -> bool:
        """Return whether a pending unit is not owed the room that it asks for."""
        return self._lent_to(info, (), PREEMPTED) is not None

    def _whose_room_is_free(
        self, info: QueueUnitInfo, leaving: Sequence[Uid], victims: Sequence[Victim]
    ) -> list[Uid]:
        """Return the victims for which no room is kept as soon as they are pending again."""
        lent = self._lent_to(info, leaving, PREEMPTED)
        return [each.uid for each in victims if lent is None or lent.take(each.uid, 1)]

    def _lent_to(self, info: QueueUnitInfo, leaving: Sequence[Uid], reason: str) -> Lent | None:
        """Return the units that their quotas let go together; None for all of them."""
        for plugin in self._plugins.waking.guarantees:
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
        """Return whether the unit would start without all of these, candidates or not."""
        records = self._units.records
        uids = [records[key].uid for _, keys in batches for key in keys]
        return self._plugins.check_without(info, [*leaving, *uids]) is None


class _Look:
    """One look at units, at one time; notes which ones it skipped for now.

    Some are skipped for good: units that leave already, even if their objects do not say so yet,
    and units of the preemptor's queue that would keep it from its turn once they are pending again.
    """

    def __init__(
        self,
        units: UnitCache,
        queue: SchedulingQueue,
        info: QueueUnitInfo,
        protection: Protection,
        leaving: frozenset[Uid] = frozenset(),
    ) -> None:
        self._units = units
        self._queue, self._info = queue, info
        self._before = 0  # how many of those that may go would stand before the preemptor
        self._leaving = leaving
        self._protection, self._wall = protection, protection.wall
        # The first admission among the skipped units, by whether they were evicted before.
        self._first_kept: dict[bool, Timestamp] = {}
        # Until when the first of those is spared whose queue or quota states a time, and which.
        self._first_spared: tuple[datetime, str] | None = None
        self._is_settling = False

    def candidates(self, bucket: Bucket, keys: Iterable[str]) -> Iterator[Candidate]:
        """Yield the units of a bucket that may be evicted: last to run first, then the youngest.

        Only a few of thousands are needed in most cases, so only their order is computed for all.
        """
        records, runs = self._units.records, bucket[1]
        ordered = [
            (
                unsaved_since(records[key].unit, self._wall) if runs else "",
                created_at(records[key]),
                key,
            )
            for key in keys
        ]
        ordered.sort(reverse=True)
        # Mostly none: a place costs as much as all else that is asked of a candidate.
        any_returns = not self._queue.rules.asks_past_refused
        for since, _, key in ordered:
            record = records[key]
            if self._may_go(record) and not (any_returns and self._returns_in_front(record)):
                yield self._candidate(record, bucket, since)

    def victim(self, one: Candidate) -> Victim:
        """Return a chosen candidate with the running time that is lost."""
        unit = self._units.records[one.key].unit
        return Victim(
            unit=one.key,
            uid=one.uid,
            resource_version=unit.metadata.resource_version,
            priority=one.priority,
            lost_seconds=_seconds_since(one.since, self._wall) if one.runs else 0,
        )

    def again_seconds(self) -> float | None:
        """Return in how many seconds a skipped unit may be evicted; None: none was skipped."""
        if self._is_settling:
            return SETTLING_SECONDS
        rests = [
            self._protection.seconds(is_back=is_back) - _seconds_since(granted, self._wall)
            for is_back, granted in self._first_kept.items()
        ]
        if self._first_spared is not None:
            rests.append((self._first_spared[0] - self._wall).total_seconds())
        return max(SETTLING_SECONDS, min(rests)) if rests else None

    def guard(self) -> EvictionGuard | None:
        """Return until when units that were skipped are spared by their queue or quota, if any."""
        if self._first_spared is None:
            return None
        until, by = self._first_spared
        return EvictionGuard(reason=Reason.MIN_RUNTIME, by=by, until=rfc3339(until))

    def _may_go(self, record: CachedUnit) -> bool:
        if record.uid in self._leaving:
            return False
        kept = self._protection.why_kept(record)
        if kept is None:
            return True
        if kept is Kept.SETTLING:
            self._is_settling = True
        elif kept is Kept.MIN_RUNTIME:
            self._note_spared(record)
        elif kept in FOR_A_TIME:
            granted, is_back = record.unit.status.last_allocate_time, kept is Kept.LEFT_ALONE
            first = self._first_kept.get(is_back)
            if granted is not None and (first is None or granted < first):
                self._first_kept[is_back] = granted
        return False

    def _note_spared(self, record: CachedUnit) -> None:
        until = self._protection.until(record, Kept.MIN_RUNTIME)
        spared = self._protection.spared(record)
        if until is not None and spared is not None:
            found = (until, spared.by)
            self._first_spared = min(found, self._first_spared or found)

    def _returns_in_front(self, record: CachedUnit) -> bool:
        """Return whether a unit, once evicted, would keep the preemptor from its turn.

        It would start again in the room that it made, and be evicted for that again.
        """
        queue, info = self._queue, record.info
        assert info is not None, f"{record.key} may go and has no demand"
        if info.queue != queue.name:
            return False
        place = self._units.builder.place_in(queue, record.unit)
        if would_keep_from_turn(queue, place, info.quota, self._info, self._before):
            return True
        places = queue.place
        self._before += places(place) < places(self._info.order_key)
        return False

    def _candidate(self, record: CachedUnit, bucket: Bucket, since: str) -> Candidate:
        charge = self._units.usage.charge_of(record.uid)
        assert charge is not None, f"{record.key} may go and has nothing charged"
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
    """Return when the unit's job was created, from its order key if possible: that is faster."""
    place = () if record.info is None else record.info.order_key
    if len(place) >= _OF_CREATION and type(created := place[-_OF_CREATION]) is str:
        return created
    return creation_order(record.unit)[0]


def running_since(unit: QueueUnit) -> str:
    """Return since when the unit's pods run, as its object says; "" if it does not."""
    status = unit.status
    if not status.conditions:
        return status.last_allocate_time or ""
    ready = find_condition(status.conditions, PODS_READY)
    if ready is None or ready.status != "True":
        return status.last_allocate_time or ""
    return ready.last_transition_time or ""


def unsaved_since(unit: QueueUnit, wall: datetime) -> str:
    """Return since when what the unit computes would be lost by an eviction.

    That is its last checkpoint, or the start of its pods if it has none. A checkpoint in the
    future, or from before the start, says nothing.
    """
    since = running_since(unit)
    saved = checkpoint_of(unit)
    return since if saved is None or saved > wall else max(since, rfc3339(saved))


def _seconds_since(text: str, wall: datetime) -> int:
    since = read_time(text)
    return 0 if since is None else max(0, int((wall - since).total_seconds()))


def is_worth_a_search(refusal: Refusal) -> bool:
    """Return whether evictions could end a refusal."""
    return refusal.reason not in HOPELESS
