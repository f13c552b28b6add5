"""What follows a change: which classes are woken, and which queue is offered freed capacity next.

The engine changes its state and then wakes what that affects: charges follow the pods that came and
went, the first pending units are protected, classes that the change may help are woken, and the
turns of queues are updated. Every fact and every decision ends here.
"""

from __future__ import annotations

from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.decision import Moment
from queue_scheduler.engine.backfill import Backfill
from queue_scheduler.framework.extension_points import Waiter, WakingInTurn
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, at_least, unit_key
from queue_scheduler.preemption.preemption_rounds import PreemptionRounds
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue


class WakeUp:
    """Keeps queues, turns and plugins in step with what has changed."""

    def __init__(
        self,
        units: UnitCache,
        plugins: PluginRunner,
        backfill: Backfill,
        rounds: PreemptionRounds,
    ) -> None:
        self._units = units
        self._turns = units.queues.turns
        self._rounds = rounds
        self._plugins, self._waking = plugins, plugins.waking
        self._backfill = backfill
        self._protected: dict[str, QueueUnitInfo] = {}
        self._reviewer = ""
        self._min_run_changes = 0

    def wake_affected(self, *, is_news: bool = True) -> tuple[str, ...]:
        """Apply a change: charge pods, wake the classes it helps; return the queues to ask.

        Args:
            is_news: Whether the change comes from outside. The engine's own decisions make no room,
                so they wake no class of a plugin that cannot say what would help.
        """
        units, waking = self._units, self._waking
        if units.usage.known.has_changed:
            units.charges.charge_changed_pods()
        if units.usage.fair.moved:
            self.renew_ranks()
        if units.usage.quota_use is not None:
            self.follow_use()
        if units.usage.limits.seats.moved:
            units.seat_again()
        if units.queues.changed_heads and waking.has_guarantees:
            self._protect_first_units()
        if waking.wakes_at_once or waking.waits_for_anything:
            self._wake_at_once(anything_changed=is_news)
        if units.admitted.leaving or not self._rounds.is_idle:
            self._rounds.other_changes = self._backfill.other_changes
            for waiter in self._rounds.take_woken():
                self.wake(waiter)
        return self.pass_on()

    def renew_ranks(self) -> None:
        """Order the accounts of queues with the policy Fair anew, where some were charged."""
        fair = self._units.usage.fair
        for name, paths in fair.take_moved().items():
            queue = self._units.queues.find(name)
            accounts = None if queue is None else queue.fair
            if queue is None or accounts is None:
                continue
            if paths is None:
                ranks = fair.ranks(name, (path for _, path in accounts.lanes))
            else:
                ranks = fair.ranks(name, paths)
            self._units.queues.note_order(queue)
            accounts.set_ranks(ranks)
            if accounts.take_shrunk():
                # As with another policy: positions before and after cannot be compared.
                self._turns.put(name, self._turns.rank(name), is_other_policy=True)
                self.wake_all(queue)
            self._turns.refresh(queue, self._plugins.domains)
            if queue.rules.is_backfilling:
                self._backfill.other_changes += 1  # other units are behind heads

    def follow_use(self) -> None:
        """Offer turns anew where quotas have used more, or queues have units of other quotas."""
        queues, turns, use = self._units.queues, self._turns, self._units.usage.quota_use
        assert use is not None, "queues do not go by use"
        if turns.regrouped:
            for name in turns.take_shrunk():
                queue = queues.find(name)
                if queue is not None:
                    self.wake_all(queue)
        if use.moved:
            turns.on_use_moved(use.take_moved(), self._plugins.domains)

    def _wake_at_once(self, *, anything_changed: bool) -> None:
        for waiter in self._waking.take_woken(anything_changed=anything_changed):
            if self._wake_class(waiter) is not None:
                self._units.changed_queues[waiter[0]] = None

    def wake(self, waiter: Waiter) -> None:
        """Wake a class, whatever it waits for; its queue asks it again when it has its turn."""
        queue = self._wake_class(waiter)
        if queue is not None:
            self._waking.stop_waiting(waiter)
            self._turns.refresh(queue, self._plugins.domains)

    def _wake_class(self, waiter: Waiter) -> SchedulingQueue | None:
        """Return the queue of a class that slept, and is awake now; else None."""
        queue = self._units.queues.find(waiter[0])
        if queue is None:
            return None
        pending = queue.pending
        is_aside = waiter[1] in pending.tried.aside
        woken = pending.wake(waiter[1])
        if not woken:
            return None
        if woken != (waiter[1],) or self._plugins.own:
            # A group was woken by one of its classes, or a class is no longer watched.
            for number in woken:
                self._waking.stop_waiting((waiter[0], number))
        if is_aside:
            self._units.queues.note_aside(queue, pending.numbered[waiter[1]].quota)
        return queue

    def pass_on(self) -> tuple[str, ...]:
        """Update the turns and offer freed capacity; return the queues to ask."""
        units, turns, backfill = self._units, self._turns, self._backfill
        if backfill.waiting:
            backfill.note_changes()
        if units.changed_queues:
            for name in units.changed_queues:
                queue = units.queues.find(name)
                if queue is not None:
                    turns.refresh(queue, self._plugins.domains)
            units.changed_queues.clear()
        for plugin in self._waking.waking_in_turn:
            for domain in plugin.stirred_domains():
                self._offer(plugin, domain)
        if units.queues.changed_heads and self._waking.has_guarantees:
            self._offer_behind()
        wakes = turns.take_wakes()
        if not backfill.unreviewed or self._is_eligible(self._reviewer):
            return wakes
        # All are reviewed whichever queue is asked next, so one of them is called. If all rest
        # after an error, each is asked when its rest is over.
        self._reviewer = next(filter(self._is_eligible, backfill.unreviewed), "")
        if self._reviewer in {"", *wakes}:
            return wakes
        return (*wakes, self._reviewer)

    def _is_eligible(self, name: str) -> bool:
        return name in self._units.queues and self._turns.backs_off_until(name) is None

    def review(self, asked: str, moment: Moment) -> None:
        """Wake the units that wait behind heads and may pass now; before each decision.

        Args:
            asked: The queue that is asked for a decision.
            moment: The time.
        """
        self._reviewer = ""
        reviewed = self._backfill.review(moment.seconds, self._rounds.search.may_evict)
        for waiter in reviewed.woken:
            self.wake(waiter)
        told = {asked}
        for waiter, seconds in reviewed.timed:
            self._rounds.ask_at(waiter, moment.now + seconds)
            if waiter[0] not in told:
                # A worker learns when to ask again only from a decision of its own queue.
                told.add(waiter[0])
                self.wake(waiter)

    def _offer_behind(self) -> None:
        """Protect and offer again: a class stands aside now, or does so no more.

        Another unit is the first of its quota then. Each class that is offered room is awake after
        it, so there is an end.
        """
        while self._units.queues.changed_heads:
            self._protect_first_units()
            for plugin in self._waking.waking_in_turn:
                for domain in plugin.stirred_domains():
                    self._offer(plugin, domain)

    def _offer(self, plugin: WakingInTurn, domain: str) -> None:
        """Wake classes of a domain in turn, until a queue ahead of the next class can move.

        Waking the first class is not enough: its queue may be backing off or wait for pods, or
        another unit may stand before it there.
        """
        turns = self._turns
        ahead = turns.first_place(domain)
        while (first := plugin.first_woken(domain, turns.place_of, ahead)) is not None:
            place, waiter = first
            if ahead is not None and ahead < place:
                return
            plugin.stop_waiting(waiter)
            queue = self._wake_class(waiter)
            if queue is not None:
                turns.refresh(queue, self._plugins.domains)
                ahead = turns.first_place(domain)
                if ahead is not None and ahead <= place:
                    return  # every class still to be offered comes after this queue

    def on_limits_changed(self) -> None:
        """Recompute, after a change of quotas, which units compete and what guarantees apply."""
        queues = self._units.queues
        changes = sum([each.min_run_changes for each in self._plugins.sparing])
        if changes != self._min_run_changes:
            self._min_run_changes = changes
            self.on_run_times_changed()
        self._turns.on_limits_changed(self._plugins.domains)
        self._turns.on_use_replaced()
        queues.changed_heads.update(dict.fromkeys((*queues.quotas(), *self._protected)))

    def on_windows_changed(self) -> None:
        """Note that units may be promised another time: those behind heads are reviewed."""
        self._backfill.other_changes += 1

    def on_run_times_changed(self) -> None:
        """Ask classes again that wait until units may be evicted, after a change of such times."""
        self._rounds.waiters.wake_timed()

    def limit_evictions(self, queue: str, per_hour: int | None) -> None:
        """Limit how many units may be evicted in an hour for a queue; None: any number."""
        rates = self._rounds.rates
        if per_hour != rates.limit_of(queue):
            rates.limit(queue, per_hour, [record.unit for record in self._units])
            self._rounds.waiters.wake_timed()

    def _protect_first_units(self) -> None:
        """Pass the first pending unit of each quota to the plugins that keep guarantees."""
        queues, records = self._units.queues, self._units.records
        changed = queues.changed_heads
        for quota in changed if len(changed) == 1 else sorted(changed):
            if not self._waking.keeps_room_for(quota):
                continue
            key = queues.first_waiting(quota)
            info = records[unit_key(key)].info if key is not None else None
            known = self._protected.get(quota)
            if known is info:
                continue
            if known is None or info is None or known.class_key != info.class_key:
                self._backfill.other_changes += 1  # heads may be refused because of guarantees
            if info is None:
                del self._protected[quota]
            else:
                self._protected[quota] = info
            self._waking.protect(quota, None if info is None else at_least(info))
        changed.clear()

    def forget_refusals(self) -> None:
        """Wake all classes; for a fork that lacks the plugins that refused them."""
        for queue in self._units.queues:
            self.wake_all(queue)
        self.on_limits_changed()
        self.wake_affected()

    def wake_all(self, queue: SchedulingQueue) -> None:
        """Wake every class of a queue."""
        pending = queue.pending
        for number in [*pending.numbered]:
            for woken in pending.wake(number):
                self._waking.stop_waiting((queue.name, woken))
        self._units.changed_queues[queue.name] = None

    def fork(
        self,
        units: UnitCache,
        plugins: PluginRunner,
        backfill: Backfill,
        rounds: PreemptionRounds,
    ) -> WakeUp:
        """Return a copy over forked parts."""
        twin = WakeUp(units, plugins, backfill, rounds)
        twin._protected = dict(self._protected)
        twin._reviewer = self._reviewer
        twin._min_run_changes = self._min_run_changes
        return twin
