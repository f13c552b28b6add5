r"""Eviction rounds: one at a time among competing units, with room kept for the preemptor.

The life of a round::

    a unit is refused --> victims chosen --> Preempt, written by a shell --> victims are stopped
                                                                         \-> freed: the unit starts

*One at a time.* While victims of a round are not freed, or room is kept, no unit that competes for
the same limits evicts others, because freed capacity may help it, too. The exception is a unit that
stands before the preemptor in its queue, once all victims have left. The objects record the round
(`Evicted=True` on an admitted unit, with a reason of `MAKING_ROOM`), so it survives a restart. A
victim that is never stopped delays others for ten minutes at most.

*The room is kept.* From the choice until its start, the preemptor is *nominated*: for each other
unit that passes the filters, it is checked whether the nominated one could still start afterwards,
and if not, the other unit waits (reason RoomForPreemptor). In a queue that waits for pods, no other
unit starts at all. Units that come before the nominated one in its own queue are not kept out,
except those that it may evict: reclaiming does not follow the order of the queue, and they would be
evicted again. The victims' objects name the preemptor, so a restart finds it as long as there are
victims. While its queue is stopped, a unit is not nominated.

*No chains.* A nominated unit evicts no further units, unless writes of its round have failed: then
victims are chosen again, with the leaving units counted as gone. If it is refused although all
victims have left, it rests for a minute before it tries again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import CachedUnit, UnitState, makes_room
from queue_scheduler.decision import EvictionGuard, Moment, Preempt, Reason, Refusal, Victim
from queue_scheduler.framework.extension_points import Supposed, Waiter
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, at_least
from queue_scheduler.preemption.blocked_classes import BlockedClasses, Releases
from queue_scheduler.preemption.candidates import VictimCandidates, is_worth_a_search
from queue_scheduler.preemption.eviction_guards import find_delay, find_shortage
from queue_scheduler.preemption.eviction_rates import EvictionRates
from queue_scheduler.preemption.found_victims import FoundVictims
from queue_scheduler.preemption.nomination import (
    NOMINATED_SECONDS,
    STUCK_SECONDS,
    Nomination,
    Nominations,
    comes_before,
    evicted_since,
    leaves_for,
    room_for,
    without_stuck,
)
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from shared_api.objects.meta import Uid
from shared_api.timestamps import parse_time, read_time

REST_SECONDS: Final = 60.0
"""Rest of a unit that was refused after its round: its room was taken by something that nothing
here holds back, such as pods without a unit, and that may happen again."""

MAX_TRIES: Final = 5
"""Choices of victims for one start, if writes fail; then the unit rests."""


class PreemptionRounds:
    """The rounds in progress; part of the engine.

    Attributes:
        search: Finds victims.
        is_idle: There is no round, and no class waits because of one: only a refusal, or units that
            leave (`AdmittedUnits.leaving`), can change anything here.
        nominations: The units for which room is kept.
        waiters: The classes that wait because of a round.
        rates: How many units may be evicted in an hour.
        other_changes: `Backfill.other_changes`, as of the last wake-up.
    """

    def __init__(self, units: UnitCache, plugins: PluginRunner, protect_seconds: float) -> None:
        self.search = VictimCandidates(units, plugins, protect_seconds)
        self._units = units
        self._plugins = plugins
        self._keep(Nominations(units, plugins))
        # Rounds whose evictions are being written, by preemptor uid: they outlive a nomination.
        self._writing: dict[Uid, frozenset[str]] = {}
        # Until when a unit rests after a round without result.
        self.rests: dict[Uid, float] = {}
        self.waiters = BlockedClasses()
        self.rates = EvictionRates()
        self.is_idle = True
        self.other_changes = 0

    def _keep(self, nominations: Nominations) -> None:
        self.nominations = nominations
        self._nominated = nominations.by_key  # to read: only `nominations` changes it

    # --- a refused unit -----------------------------------------------------------------------

    def evict(
        self, queue: SchedulingQueue, info: QueueUnitInfo, refusal: Refusal, moment: Moment
    ) -> Preempt | EvictionGuard | None:
        """Return the evictions for a unit that the filters have just refused, or None.

        Or what keeps it from evictions for a time. If time alone may change the answer, the unit's
        class is asked again.
        """
        own = self._nominated.get(info.key)
        if own is None and not self.search.may_evict(queue, info):
            return None
        if not is_worth_a_search(refusal):
            if own is not None:  # the unit was edited, so room does not help
                self._give_up(info.key, moment.now)
            return None
        if own is None and (guard := find_delay(queue, info, moment.wall)) is not None:
            return self._guarded(queue, info, guard, moment)
        domains = self._plugins.domains(info.quota)
        leaving = self._leaving(domains, moment.wall)
        gone = [record.uid for record in leaving]
        if own is not None:
            gone += self.nominations.on_their_way(own)
            if not (gone or info.uid in self._writing or own.failed):
                # Before `_has_to_wait`, which then finds its rest, and asks it again afterwards.
                self._give_up(info.key, moment.now)
        if self._has_to_wait(queue, info, leaving, domains, moment):
            return None
        if gone and self._plugins.check_without(info, gone) is None:
            # The units that leave anyway are enough.
            self._hold_behind(queue, info, leaving, moment)
            return None
        return self._choose(queue, info, refusal, gone, moment)

    def _choose(
        self,
        queue: SchedulingQueue,
        info: QueueUnitInfo,
        refusal: Refusal,
        gone: Sequence[Uid],
        moment: Moment,
    ) -> Preempt | EvictionGuard | None:
        own = self._nominated.get(info.key)
        if own is not None and not own.failed:
            # All victims have left, and their room was taken before their last pods were gone.
            self._give_up(info.key, moment.now)
            self._ask_again(queue, info, moment.now + REST_SECONDS)
            return None
        waiter, releases = _waiter(queue, info), self._count_releases()
        who = info.uid, info.priority, queue.rules.options
        if own is None and self.waiters.has_searched(waiter, who, moment.now, releases):
            return None
        found = self.search.find(queue, info, gone, moment.wall)
        if not found.victims and found.again_seconds is None:
            # Later releases may be too little alone, but enough together with possible victims.
            self.is_idle = False
            self.waiters.search_again(waiter, moment.now, releases, who)
            if own is not None and not gone:
                self._give_up(info.key, moment.now)  # no request of its round was written
        return self._open(queue, info, refusal, found, moment)

    def _guarded(
        self, queue: SchedulingQueue, info: QueueUnitInfo, guard: EvictionGuard, moment: Moment
    ) -> EvictionGuard:
        """Return what keeps a unit from evictions, after which its class is asked again."""
        rest = (parse_time(guard.until) - moment.wall).total_seconds()
        self._ask_again(queue, info, moment.now + rest)
        return guard

    def hold_up(
        self, queue: SchedulingQueue, info: QueueUnitInfo, moment: Moment
    ) -> Refusal | None:
        """Return why a unit that passed the filters may not start; the caller then calls `wait`."""
        kept = self._keep_room(queue, info, moment)
        if kept is None and queue.in_flight:
            return Refusal(reason=Reason.WAITING_FOR_PODS_RUNNING, quota=info.quota)
        return kept

    def wait(self, waiter: Waiter, refusal: Refusal) -> None:
        """Register a class that `hold_up` refused, to be woken when the answer may have changed."""
        self.is_idle = False
        if refusal.reason is not Reason.ROOM_FOR_PREEMPTOR:
            self.waiters.stand_back(waiter, self._in_flight(waiter[0]))
        elif refusal.other in self._nominated:
            self.waiters.keep_out(waiter, self._count_releases())
        else:
            self.waiters.ask_now(waiter)

    def ask_at(self, waiter: Waiter, at: float) -> None:
        """Register a class, to be woken at a time in seconds of the monotonic clock."""
        self.is_idle = False
        self.waiters.ask_at(waiter, at)

    def displace(
        self, queue: SchedulingQueue, info: QueueUnitInfo, refusal: Refusal, moment: Moment
    ) -> Preempt | EvictionGuard | None:
        """Return the in-flight units to evict, in a queue that waits for pods to run.

        Or what keeps the unit from that for a time, as `evict`.
        """
        if refusal.reason is Reason.ROOM_FOR_PREEMPTOR:
            return None
        if (guard := find_delay(queue, info, moment.wall)) is not None:
            return self._guarded(queue, info, guard, moment)
        domains = self._plugins.domains(info.quota)
        leaving = self._leaving(domains, moment.wall)
        if self._has_to_wait(queue, info, leaving, domains, moment):
            return None
        found = self.search.find_in_flight(queue, info, moment.wall)
        return self._open(queue, info, refusal, found, moment)

    def _has_to_wait(
        self,
        queue: SchedulingQueue,
        info: QueueUnitInfo,
        leaving: Sequence[CachedUnit],
        domains: frozenset[str],
        moment: Moment,
    ) -> bool:
        """Return whether another round, or a rest, keeps this unit from evicting others."""
        rests_until = self.rests.get(info.uid, 0.0)
        if rests_until > moment.now:
            self._ask_again(queue, info, rests_until)
            return True
        own = self._nominated.get(info.key)
        # Failed victims of its own round are replaced while the other victims leave.
        may_add = own is not None and bool(own.failed)
        is_open = any(
            makes_room(record.unit) and not (may_add and leaves_for(record) == info.key)
            for record in leaving
        )
        others = [each.domains for each in self._others_rounds(info)]
        if is_open or any(each & domains for each in (*others, *self._writing.values())):
            self._hold_behind(queue, info, leaving, moment)
            return True
        return False

    def _others_rounds(self, info: QueueUnitInfo) -> Iterator[Nomination]:
        """Yield nominated units, except those that this unit may overtake.

        It may overtake a nominated unit that stands behind it in its queue, once the victims have
        left: that unit may be held back by this one.
        """
        for key, nomination in self._nominated.items():
            is_ahead = self._comes_before(info, self._units.records.get(key))
            if key != info.key and not (is_ahead and not self.nominations.on_their_way(nomination)):
                yield nomination

    def _hold_behind(
        self,
        queue: SchedulingQueue,
        info: QueueUnitInfo,
        leaving: Sequence[CachedUnit],
        moment: Moment,
    ) -> None:
        """Register a class, to be woken when a round ends, or a unit leaves for `STUCK_SECONDS`."""
        self.is_idle = False
        waiter = _waiter(queue, info)
        self.waiters.hold_behind_rounds(waiter, self._count_releases())
        if leaving:
            first = read_time(min(evicted_since(record) for record in leaving))
            age = 0.0 if first is None else (moment.wall - first).total_seconds()
            self.waiters.ask_at(waiter, moment.now + max(1.0, STUCK_SECONDS - age))

    def _open(
        self,
        queue: SchedulingQueue,
        info: QueueUnitInfo,
        refusal: Refusal,
        found: FoundVictims,
        moment: Moment,
    ) -> Preempt | EvictionGuard | None:
        if not found.victims:
            if found.again_seconds is not None:
                self._ask_again(queue, info, moment.now + found.again_seconds)
            return found.guard
        if (guard := find_shortage(self.rates, queue, found, moment.wall)) is not None:
            return self._guarded(queue, info, guard, moment)
        domains, until = self._plugins.domains(info.quota), moment.now + NOMINATED_SECONDS
        own = self._nominated.get(info.key)
        if own is not None and own.tries >= MAX_TRIES:
            self._give_up(info.key, moment.now)
            self._ask_again(queue, info, moment.now + REST_SECONDS)
            return None
        for key in [k for k, each in self._nominated.items() if each.domains & domains]:
            if key != info.key:
                self._give_up(key, moment.now)  # it stands behind, and its victims count as gone
        self.is_idle = False
        # Until `on_written`, no competing round opens: the victims' objects do not say yet that
        # they leave.
        self._writing[info.uid] = domains
        if self.rates.is_on:
            self.rates.take(queue.name, found.victims, self._units.records, moment.wall)
        self.nominations.choose(info, found.victims, domains, until)
        # The class waits for this round even if no plugin reports room: another may take the room.
        # Releases are counted after the rounds above were given up, so that the end of these alone
        # does not wake a class that is the first to wait.
        self.waiters.hold_behind_rounds(_waiter(queue, info), self._count_releases())
        return Preempt(
            unit=info.key,
            uid=info.uid,
            queue=queue.name,
            quota=info.quota,
            priority=info.priority,
            reason=found.reason,
            victims=found.victims,
            refusal=refusal,
        )

    def on_refused(self, key: str) -> None:
        """Stop keeping room for a unit whose admission the API server refuses: it stands aside."""
        self.nominations.end(key)

    def on_written(self, decision: Preempt, failed: tuple[Victim, ...]) -> None:
        """Take the outcome of a round's writes; victims are chosen again if some failed."""
        # First, even if the preemptor is no longer nominated: a round that stays here would keep
        # all others of its domains from evicting.
        self._writing.pop(decision.uid, None)
        if self.rates.is_on:
            self.rates.on_written(decision.victims, failed)
        self.is_idle = False
        self.waiters.wake_behind_rounds()
        if not self.nominations.on_written(decision.unit, decision.uid, failed):
            return
        record = self._units.records.get(decision.unit)
        if failed and record is not None and record.state is UnitState.WAITING:
            assert record.info is not None, f"{record.key} is pending without a demand"
            queue = self._units.queues.find(record.info.queue)
            assert queue is not None, f"{record.key} is pending without a queue"
            self.waiters.ask_now(_waiter(queue, record.info))

    def open_writes(self) -> list[tuple[str, Uid, tuple[tuple[str, Uid, str], ...]]]:
        """Return the rounds whose evictions are being written.

        Each as key and uid of its preemptor (key "" if it is no longer nominated), and its victims:
        key, uid, and the resourceVersion that the choice was based on.
        """
        by_uid = {each.uid: (key, each.asked) for key, each in self._nominated.items()}
        found = []
        for preemptor in self._writing:
            key, asked = by_uid.get(preemptor, ("", {}))
            victims = tuple((*victim, version) for victim, version in asked.items())
            found.append((key, preemptor, victims))
        return found

    # --- other units --------------------------------------------------------------------------

    def _keep_room(
        self, queue: SchedulingQueue, info: QueueUnitInfo, moment: Moment
    ) -> Refusal | None:
        """Return why a unit must leave the room to a nominated unit; None if it need not."""
        if not self._nominated or info.key in self._nominated:
            return None
        domains = self._plugins.domains(info.quota)
        for key, nomination in list(self._nominated.items()):
            record = self._units.records.get(key)
            if record is None or record.info is None or record.state is UnitState.ASSUMED:
                continue
            if self._comes_before(info, record):
                continue
            if queue.rules.options.waits_for_pods and record.info.queue == queue.name:
                # The queue would wait for this unit's pods, whatever quota they are charged to.
                return room_for(record.info, Refusal(reason=Reason.WAITING, quota=info.quota))
            if not nomination.domains & domains:
                continue
            refusal = self._takes_room(info, at_least(record.info), nomination, moment)
            if refusal is not None:
                return refusal
        return None

    def _takes_room(
        self,
        info: QueueUnitInfo,
        nominated: QueueUnitInfo,
        nomination: Nomination,
        moment: Moment,
    ) -> Refusal | None:
        ask = self._plugins.check_without
        gone = [record.uid for record in self._leaving(nomination.domains, moment.wall)]
        # Victims whose request failed are asked again, or replaced by others: they count as gone.
        gone += (*self.nominations.on_their_way(nomination), *sorted(nomination.failed))
        besides = (Supposed.started(info),)
        refusal = ask(nominated, gone, besides)
        if refusal is None:
            return None
        is_chosen = not nomination.failed and nominated.uid not in self._writing
        if is_chosen and ask(nominated, gone) is not None:
            # The nominated unit would not start anyway: it or its quota was edited, or its room is
            # taken. All units that were kept out are asked again, in the order of turns.
            self._give_up(nominated.key, moment.now)
        return room_for(nominated, refusal)

    # --- waking -------------------------------------------------------------------------------

    def on_time(self, queue: str, now: float) -> list[Waiter]:
        """End rests and nominations whose time is over; return the classes to decide again."""
        self.rests = {uid: until for uid, until in self.rests.items() if until > now}
        self.nominations.expire(now)
        self.waiters.wake_due(queue, now, self._count_releases())
        return self.take_woken()

    def next_time(self, queue: str) -> float | None:
        """Return when to call `on_time` for a queue; None if not before it is woken."""
        if self.is_idle:
            return None
        times = self.waiters.times_of(queue)
        # Other units may wait for the end of a nomination; `on_time` dates the undated ones.
        times += self.nominations.times()
        return min(times, default=None)

    def take_woken(self) -> list[Waiter]:
        """Return, once, the classes whose answer may differ after the last changes."""
        # First: nominations that end here are counted as releases, which wake their waiters now.
        self.nominations.update()
        self.waiters.wake_after(self._count_releases(), self._in_flight)
        woken = self.waiters.take_woken()
        self.is_idle = not self._is_engaged()
        return woken

    def _count_releases(self) -> Releases:
        admitted = self._units.admitted
        released = self._units.usage.releases + admitted.changes + self.other_changes
        return admitted.left, self.nominations.ended, released

    def _in_flight(self, name: str) -> frozenset[Uid]:
        queue = self._units.queues.find(name)
        return frozenset() if queue is None else frozenset(queue.in_flight)

    def _leaving(self, domains: frozenset[str], wall: datetime) -> list[CachedUnit]:
        """Return the units that leave these domains, except those that have hung for too long."""
        return without_stuck(self.search.leaving(domains), wall)

    def _is_engaged(self) -> bool:
        return bool(self.rests or self.waiters) or not self.nominations.is_empty()

    # --- inside -------------------------------------------------------------------------------

    def _comes_before(self, info: QueueUnitInfo, record: CachedUnit | None) -> bool:
        """Return whether a unit may take room kept for another because it stands before it.

        Not if the other may evict it for that: the two would alternate without end.
        """
        queue = self._units.queues.find(info.queue)
        assert queue is not None, f"{info.key} is pending without a queue"
        if record is None or record.info is None or not comes_before(info, record.info, queue):
            return False
        return not self.search.may_take_from(queue, at_least(record.info), info)

    def _give_up(self, key: str, now: float) -> None:
        self.rests[self._nominated[key].uid] = now + REST_SECONDS
        self.nominations.end(key)
        self.is_idle = False

    def _ask_again(self, queue: SchedulingQueue, info: QueueUnitInfo, at: float) -> None:
        self.ask_at(_waiter(queue, info), at)

    def resume(
        self, kept: Mapping[str, Nomination], spent: Iterable[str], rests: Mapping[Uid, float]
    ) -> None:
        """Take over the rounds of another process.

        Args:
            kept: The units for which it kept room, by key.
            spent: The keys of units that had their round.
            rests: Until when units rest after a round without result, by uid.
        """
        self.nominations.resume(kept, spent)
        self.rests.update(rests)
        self.is_idle = False  # its next look says whether there are any

    def fork(self, units: UnitCache, plugins: PluginRunner) -> PreemptionRounds:
        """Return an independent copy over forked units and plugins."""
        twin = PreemptionRounds(units, plugins, self.search.protect_seconds)
        twin._keep(self.nominations.fork(units, plugins))
        twin._writing, twin.rests = dict(self._writing), dict(self.rests)
        twin.waiters, twin.rates = self.waiters.copy(), self.rates.copy()
        twin.is_idle, twin.other_changes = self.is_idle, self.other_changes
        return twin

    def validate(self) -> None:
        """Raise AssertionError if rounds are overlooked, or room is kept for a stopped unit."""
        assert not (self.is_idle and self._is_engaged()), "rounds are active, and considered idle"
        self.nominations.validate()


def _waiter(queue: SchedulingQueue, info: QueueUnitInfo) -> Waiter:
    return queue.name, queue.pending.class_of(info).number
