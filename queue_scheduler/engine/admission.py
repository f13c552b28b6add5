"""Decides whether the next unit may start, and with how many pods. Pure; part of the engine.

Four questions are asked in this order: the plugins' filters, then whether the unit would run into a
window in which it must not run, then the promise to a head in a queue that backfills, then whether
the room is kept for a nominated unit. A unit that passes is charged at once: check and charge are
one call. A unit that is refused waits with the part that refused it, which knows when to ask again.

A unit that may run with a part of its pods starts with as many as fit if not all of them do; the
same questions are asked for the smaller demand. If even its least count does not fit, the unit is
refused, waits, and preempts with its least count: any change that makes room for the least wakes
it, and the number of pods is found anew. Runtimes are rounded, so the whole may fit where the least
does not; a change that makes room for the whole wakes the unit as well.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from msgspec.structs import replace

from queue_scheduler.cache.partial_admission import most_that
from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.decision import EvictionGuard, Moment, Preempt, Reason, Refusal, Refused
from queue_scheduler.engine.backfill import Backfill
from queue_scheduler.engine.wake_up import WakeUp
from queue_scheduler.framework.extension_points import Plugin, Waiter
from queue_scheduler.framework.plugin_questions import every_refusal
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, UnitDemand, at_least
from queue_scheduler.preemption.found_victims import FoundVictims
from queue_scheduler.preemption.preemption_rounds import PreemptionRounds
from queue_scheduler.queueing.queue_questions import refusals_by_order
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue

Rejection: TypeAlias = tuple[Refusal, Plugin | None]
"""Why a unit may not start, and the plugin that refused it; None if it fits, but is held up."""


class UnitAdmission:
    """Charges units, or refuses them."""

    def __init__(
        self,
        units: UnitCache,
        plugins: PluginRunner,
        backfill: Backfill,
        rounds: PreemptionRounds,
        wake_up: WakeUp,
    ) -> None:
        self._units = units
        self._budgets = units.usage.budgets
        self._windows = units.usage.windows
        self._plugins = plugins
        self._backfill = backfill
        self._rounds = rounds
        self._wake_up = wake_up

    def try_admit(
        self, queue: SchedulingQueue, info: QueueUnitInfo, moment: Moment
    ) -> QueueUnitInfo | Refused | Preempt:
        """Charge the next unit; return it with the charged demand, or why it was refused."""
        rejection = self._try(queue, info, moment)
        if rejection is not None and info.demand.least is not None:
            info, rejection = self._try_fewer(queue, info, rejection, moment)
        if rejection is None:
            return info
        refusal, by = rejection
        if by is not None:
            return self._refuse(queue, info, refusal, by, moment)
        if refusal.window is not None:
            self._wait_for_window(queue, info, refusal, moment, at=moment.seconds)
            self._rounds.on_refused(info.key)  # room does not help
            return self._report(queue, info, refusal, None)
        number = queue.pending.refuse(info, refusal, moment.seconds)
        self._watch((queue.name, number), at_least(info))
        if self._backfill.is_its_own(refusal):
            again = self._backfill.again_seconds(queue, info, moment.seconds)
            if again is not None:
                self._rounds.ask_at((queue.name, number), moment.now + again)
            return self._report(queue, info, refusal, None)
        # It fits, but the room is kept for another unit, or its queue waits for a unit in flight.
        self._rounds.wait((queue.name, number), refusal)
        found = None
        if not queue.rules.is_backfilling or self._may_evict_behind(queue, info, moment):
            found = self._rounds.displace(queue, info, refusal, moment)
            if isinstance(found, EvictionGuard):
                refusal = replace(refusal, guard=found)
                queue.pending.refuse(info, refusal, moment.seconds)
        return self._report(queue, info, refusal, found)

    def _try(self, queue: SchedulingQueue, info: QueueUnitInfo, moment: Moment) -> Rejection | None:
        """Charge a unit if it may start; otherwise return why not, and which plugin refused."""
        refused = self._plugins.check(info)
        if refused is not None:
            return refused
        held_up = self._find_held_up(queue, info, moment)
        return self._plugins.reserve(info) if held_up is None else (held_up, None)

    def _find_held_up(
        self, queue: SchedulingQueue, info: QueueUnitInfo, moment: Moment
    ) -> Refusal | None:
        """Return why a unit that the plugins let pass may not start yet, or None."""
        delay = self._find_window(info, moment)
        if delay is not None:
            return delay
        if queue.rules.is_backfilling:
            delay = self._backfill.check(queue, info, moment.seconds)
        if delay is None and (queue.in_flight or not self._rounds.is_idle):
            return self._rounds.hold_up(queue, info, moment)
        return delay

    def _find_window(self, info: QueueUnitInfo, moment: Moment) -> Refusal | None:
        """Return a window that a unit would run into, as a refusal; None: it would into none."""
        if not self._windows.is_on:
            return None
        return self._windows.check(info, int(moment.wall.timestamp()))

    def _wait_for_window(
        self,
        queue: SchedulingQueue,
        info: QueueUnitInfo,
        refusal: Refusal,
        moment: Moment,
        *,
        at: int | None,
    ) -> None:
        """Let a class wait until a window is over that refused it; it holds back no other."""
        waiter = (queue.name, queue.pending.refuse(info, refusal, at))
        self._watch(waiter, at_least(info))
        self._units.queues.note_aside(queue, info.quota)
        self._ask_after(waiter, refusal, moment)
        if self._backfill.waiting:
            self._backfill.on_refused(queue, info)

    def _ask_after(self, waiter: Waiter, refusal: Refusal, moment: Moment) -> None:
        """Have a class asked once the window of a refusal is over."""
        assert refusal.window is not None, f"{refusal} is by no window"
        self._rounds.ask_at(waiter, moment.now + refusal.window.end - moment.wall.timestamp())

    def _try_fewer(
        self, queue: SchedulingQueue, info: QueueUnitInfo, rejection: Rejection, moment: Moment
    ) -> tuple[QueueUnitInfo, Rejection | None]:
        """Charge as many pods as fit; return the unit with them, or with its least and why not."""
        assert info.demand.least is not None, f"{info.key} needs all its pods"
        fewer = at_least(info)
        again: Rejection | None = self._plugins.check(fewer)
        if again is None:
            fewer = self._with_most(queue, info, info.demand.least, moment)
            # Asked again: what the plugins have computed for a check is kept if the charge follows.
            again = self._try(queue, fewer, moment)
        if again is None or again[1] is None:
            return fewer, again
        if rejection[1] is None:
            return info, rejection  # all pods fit although the least does not: runtimes are rounded
        return fewer, (replace(again[0], is_least=True), again[1])

    def _with_most(
        self, queue: SchedulingQueue, info: QueueUnitInfo, least: UnitDemand, moment: Moment
    ) -> QueueUnitInfo:
        """Return a unit with the most of its permitted pod counts that fits, or with its least.

        The plugins have let the least pass, and have refused the whole.
        """

        def fits(demand: UnitDemand) -> bool:
            fewer = replace(info, demand=demand)
            return self._plugins.check(fewer) is None and not self._is_held_up(queue, fewer, moment)

        if self._is_held_up(queue, replace(info, demand=least), moment):
            return at_least(info)
        return replace(info, demand=most_that(fits, info.demand, least))

    def _is_held_up(self, queue: SchedulingQueue, info: QueueUnitInfo, moment: Moment) -> bool:
        """Return whether a unit that the plugins let pass may not start; registers nothing."""
        if self._find_window(info, moment) is not None:
            return True
        if queue.rules.is_backfilling and self._backfill.delays(queue, info, moment.seconds):
            return True
        return self._rounds.hold_up(queue, info, moment) is not None

    def _refuse(
        self,
        queue: SchedulingQueue,
        info: QueueUnitInfo,
        refusal: Refusal,
        by: Plugin,
        moment: Moment,
    ) -> Refused | Preempt:
        waiter = self._let_wait(
            queue, info, refusal, by, shown=refusal, moment=moment, at=moment.seconds
        )
        found = None
        if self._plugins.is_own(by) or self._keeps_from_evicting(waiter, queue, info, moment):
            self._rounds.on_refused(info.key)  # room does not help
            return self._report(queue, info, refusal, None)
        if not queue.rules.is_backfilling or self._may_evict_behind(queue, info, moment):
            found = self._rounds.evict(queue, info, refusal, moment)
            if isinstance(found, EvictionGuard):
                refusal = replace(refusal, guard=found)
                queue.pending.refuse(info, refusal, moment.seconds, is_for_all=True)
        return self._report(queue, info, refusal, found)

    def _keeps_from_evicting(
        self, waiter: Waiter, queue: SchedulingQueue, info: QueueUnitInfo, moment: Moment
    ) -> bool:
        """Return whether a window would refuse a unit with room; it is asked again after that."""
        window = self._find_window(info, moment)
        if window is None:
            return False
        if self._rounds.search.may_evict(queue, info):
            self._ask_after(waiter, window, moment)
        return True

    def _let_wait(
        self,
        queue: SchedulingQueue,
        info: QueueUnitInfo,
        refusal: Refusal,
        by: Plugin,
        *,
        shown: Refusal,
        moment: Moment,
        at: int | None,
    ) -> Waiter:
        """Let a class that a filter refused wait there; return the number that it waits under."""
        is_own = self._plugins.is_own(by)
        number = queue.pending.refuse(info, shown, at, is_for_all=not is_own)
        waiter = (queue.name, number)
        self._plugins.waking.wait(waiter, info, refusal, by)
        if is_own:
            self._units.queues.note_aside(queue, info.quota)
        self._watch(waiter, info, by)
        if refusal.budget is not None and refusal.budget.resets_at is not None:
            seconds = refusal.budget.resets_at - self._budgets.accounts.second
            self._rounds.ask_at(waiter, moment.now + seconds)
        if self._backfill.waiting:
            self._backfill.on_refused(queue, info)
        return waiter

    def _watch(self, waiter: Waiter, info: QueueUnitInfo, by: Plugin | None = None) -> None:
        """Have a refused class asked when another of the engine's own filters refuses it, too."""
        for own in self._plugins.own:
            if own is not by:
                own.watch(waiter, info)

    def _may_evict_behind(
        self, queue: SchedulingQueue, info: QueueUnitInfo, moment: Moment
    ) -> bool:
        """Return whether a unit that was refused while others may pass it may evict others.

        A unit whose round is already in progress continues with it.
        """
        if info.key in self._rounds.nominations.by_key:
            return True
        return self._rounds.search.may_evict(queue, info) and not self._backfill.stays_behind(
            queue, info, moment.seconds
        )

    def let_sleep(
        self,
        queue: SchedulingQueue,
        info: QueueUnitInfo,
        shown: Refusal,
        at: int | None,
        moment: Moment,
    ) -> bool:
        """Let a class wait as it did in another process; return False if it is to be asked now.

        What it waits for is found anew, since the other process may have been about to wake it.

        Args:
            queue: Its queue.
            info: Its first unit.
            shown: Why the other process has refused it, as users see it.
            at: When that was, in seconds since the epoch; None if unknown.
            moment: The time.
        """
        refused = self._plugins.check(info)
        if refused is not None and info.demand.least is not None:
            info = at_least(info)
            refused = self._plugins.check(info)
        held_up = None if refused is not None else self._find_held_up(queue, info, moment)
        if refused is None and held_up is None:
            return False
        if held_up is not None and held_up.window is not None:
            self._wait_for_window(queue, info, held_up, moment, at=at)
            return True
        if refused is not None:
            if shown.window is not None:
                shown = refused[0]  # or it would hold back no other, as after a window
            waiter = self._let_wait(queue, info, *refused, shown=shown, moment=moment, at=at)
        else:
            waiter = (queue.name, queue.pending.refuse(info, shown, at))
            self._watch(waiter, info)
            if held_up is not None and not self._backfill.is_its_own(held_up):
                self._rounds.wait(waiter, held_up)
        if refused is None or not self._plugins.is_own(refused[1]):
            self._ask_in_time(waiter, queue, info, held_up, moment)
        return True

    def _ask_in_time(
        self,
        waiter: Waiter,
        queue: SchedulingQueue,
        info: QueueUnitInfo,
        held_up: Refusal | None,
        moment: Moment,
    ) -> None:
        """Have a class asked that sleeps again when time alone may change what it waits for."""
        if info.key in self._rounds.nominations.by_key or self._rounds.search.may_evict(
            queue, info
        ):
            # Time alone may let it evict others; when is known only after a search.
            self._rounds.ask_at(waiter, moment.now)
        elif held_up is not None and self._backfill.is_its_own(held_up):
            again = self._backfill.again_seconds(queue, info, moment.seconds)
            if again is not None:
                self._rounds.ask_at(waiter, moment.now + again)

    def why_refused(self, info: QueueUnitInfo) -> Refusal | None:
        """Return why the filters refuse a pending unit now, with its least pods; None if they pass.

        Only for a fork: the answer is not registered, so the wake indexes do not follow it.
        """
        refused = self._plugins.check(info)
        if refused is None or info.demand.least is None:
            return None if refused is None else refused[0]
        refused = self._plugins.check(at_least(info))
        return None if refused is None else replace(refused[0], is_least=True)

    def every_refusal(
        self, queue: SchedulingQueue, info: QueueUnitInfo, moment: Moment
    ) -> list[Refusal]:
        """Return all that keeps a pending unit from starting now, by its limits and by its order.

        Nothing is registered. While rounds of evictions are in progress only for a fork: the
        question whether room is kept may end a round. A unit that may start with fewer pods is
        asked for with its least, if not all fit. [] means that it starts when it has its turn.
        """
        found = every_refusal(self._plugins, info)
        if found and info.demand.least is not None:
            info = at_least(info)
            found = [replace(each, is_least=True) for each in every_refusal(self._plugins, info)]
        if queue.rules.is_stopped:
            return [
                Refusal(reason=Reason.STOPPED_QUEUE, quota=info.quota, other=queue.name),
                *found,
            ]
        if self._windows.is_on:
            found += self._windows.every_refusal(info, int(moment.wall.timestamp()))
        if queue.rules.is_backfilling:
            delay = self._backfill.why_delayed(queue, info, moment.seconds)
            found += [] if delay is None else [delay]
        held_up = None if self._rounds.is_idle else self._rounds.hold_up(queue, info, moment)
        if held_up is not None and held_up.reason is not Reason.WAITING_FOR_PODS_RUNNING:
            found.append(held_up)
        last = queue.pending.class_of(info).refusal
        if found and last is not None and last.guard is not None:
            found.append(last.shown)  # the unit is asked again at the time that it names
        return [*found, *refusals_by_order(queue, info)]

    def would_evict(
        self, queue: SchedulingQueue, info: QueueUnitInfo, wall: datetime
    ) -> FoundVictims | None:
        """Return the units that a pending unit would evict now; None: none, or it needs none."""
        seconds = int(wall.timestamp())
        if self._windows.is_on and self._windows.check(info, seconds) is not None:
            return None
        if queue.rules.is_backfilling and self._backfill.is_behind(queue, info, seconds):
            return None
        return self._rounds.search.would_evict(queue, info, self._rounds.rates, wall)

    def _report(
        self,
        queue: SchedulingQueue,
        info: QueueUnitInfo,
        refusal: Refusal,
        found: Preempt | EvictionGuard | None,
    ) -> Refused | Preempt:
        # Nothing is charged and no head changes, so only the turn passes on.
        wake = self._wake_up.pass_on()
        if isinstance(found, Preempt):
            return replace(found, wake=wake)
        if found is not None:
            refusal = refusal.shown
        return Refused(unit=info.key, queue=queue.name, refusal=refusal, wake=wake)
