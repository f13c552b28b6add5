"""Which limits of users and groups quotas have: what follows when rules or quotas change. Pure.

Rules that come or go change which pending units have an account in their class, so these are placed
again. With many units that takes too long for one hold of the engine's lock, so it can be done in
slices. Between two of them:

- A limit is exceeded by no decision: the rules in force are those before until all charges are
  counted by the new ones, and then the new ones (`UserLimits.advance`). A unit that lags is placed
  by the rules in force before it is decided.
- A unit may rest that could start by now, or be on hold that could be pending by now, or the other
  way around, until the slices get there.

A change of quotas may move a quota with its rules below another; that is followed at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.decision import Reason
from queue_scheduler.engine.wake_up import WakeUp
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import unit_key
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.tenants.limit_rules import LimitRule
from queue_scheduler.tenants.limit_sums import LimitSums
from queue_scheduler.tenants.limit_use import Counted, Use

COUNTED: Final = 400
"""Charges that one slice counts, at some 3 us each: a slice takes one to two milliseconds."""

WOKEN: Final = 60
"""Classes that one slice wakes, at some 15 us each."""

PLACED: Final = 40
"""Units that one slice places again, at some 25 us each."""

LOOKED_AT: Final = 400
"""Units of which one slice finds out whether they have to be placed again, at 3 us each at most."""


class LimitChanges:
    """Takes the rules of quotas (`tenants.limit_rules`).

    Attributes:
        wrong_sums: What the last check has found: whose sums were wrong, what they were, and what
            they should have been.
    """

    def __init__(self, units: UnitCache, plugins: PluginRunner, wake_up: WakeUp) -> None:
        self._units = units
        self._plugins = plugins
        self._wake_up = wake_up
        self._limits = units.usage.limits
        self.wrong_sums: dict[Counted, tuple[Use, Use]] = {}

    @property
    def is_behind(self) -> bool:
        """Whether a change is not followed to its end: `go_on` does the next slice."""
        limits = self._limits
        if not limits.is_on:
            return False
        has_units = bool(limits.lagging) or limits.waiters.has_asked_anew
        return has_units or limits.is_changing or not limits.rules

    def set_rules(
        self, rules: Mapping[str, tuple[LimitRule, ...]], *, in_slices: bool = False
    ) -> tuple[str, ...]:
        """Take the rules of quotas by their names, () for none; return the queues to ask.

        Quotas that are not named keep theirs. A quota need not exist yet.

        Args:
            rules: The rules.
            in_slices: Whether the caller calls `go_on` while the change `is_behind`.
        """
        if rules:
            self._limits.want(rules)
        if not in_slices:
            self._go_on_to_the_end()
        return self._wake_up.wake_affected()

    def go_on(self) -> tuple[str, ...]:
        """Do the next slice of a change; return the queues to ask."""
        self._do_slice()
        return self._wake_up.wake_affected()

    def check_sums(self, *, repairs: bool) -> tuple[str, ...]:
        """Count all charges once more, a part of them in each call; return the queues to ask.

        While it goes on `is_checking` is true. Then `wrong_sums` has what differed; with `repairs`
        the sums are replaced by those that were counted.
        """
        limits = self._limits
        if limits.checked is None:
            self.wrong_sums = {}
            if not limits.rules or self.is_behind:
                return ()
            limits.checked = LimitSums(limits.rules.with_rules({}))
            limits.checked.left = dict.fromkeys(self._units.usage.charges)
        sums = limits.checked
        sums.count_left(self._units.usage.charges, COUNTED)
        if sums.left:
            return ()
        limits.checked = None
        self.wrong_sums = limits.sums.differences(sums)
        if not self.wrong_sums or not repairs:
            return ()
        limits.replace_sums(sums, reversed(self._units.records))
        self._go_on_to_the_end()
        return self._wake_up.wake_affected()

    def seat_anew(self) -> None:
        """Find out anew who may be pending, unless a change does so."""
        limits = self._limits
        if limits.rules and not self.is_behind:
            limits.replace_sums(limits.sums, reversed(self._units.records))
            self._go_on_to_the_end()

    @property
    def is_checking(self) -> bool:
        """Whether `check_sums` has not counted all charges yet."""
        return self._limits.checked is not None

    def on_quotas_changed(self) -> None:
        """Follow a change of quotas; the caller places units again and wakes."""
        limits = self._limits
        if not limits.is_on:
            return
        if limits.follow_chains(self._units.usage.charges):
            self._go_on_to_the_end()
        else:
            for waiter in limits.take_moved():
                self._wake_up.wake(waiter)

    def follow_next(self, queue: SchedulingQueue) -> bool:
        """Place the units again that come next in a queue and lag; return whether there were any.

        At most as many as a slice places: the next may be another one then.
        """
        lagging = self._limits.lagging
        for count in range(PLACED):
            key = queue.next_key()
            if key is None or unit_key(key) not in lagging:
                return count > 0
            del lagging[unit_key(key)]
            self._units.place_again((unit_key(key),))
        return True

    def _go_on_to_the_end(self) -> None:
        while self.is_behind:
            self._do_slice()

    def _do_slice(self) -> None:
        limits, units = self._limits, self._units
        if limits.is_changing:
            limits.advance(units.usage.charges, reversed(units.records), COUNTED)
            if limits.rules:
                self._plugins.set_own(limits, is_on=True)
        elif limits.waiters.has_asked_anew:
            for waiter in limits.waiters.take_asked_anew(WOKEN):
                self._wake_up.wake(waiter)
        elif limits.lagging:
            self._place_lagging()
        elif limits.is_on and not limits.rules:
            # Not before: whoever waited for a limit has just left its class.
            self._plugins.set_own(limits, is_on=False)
            limits.end()

    def _place_lagging(self) -> None:
        lagging, records = self._limits.lagging, self._units.records
        placed = 0
        for _ in range(min(LOOKED_AT, len(lagging))):
            record = records.get(lagging.popitem()[0])
            if record is not None and self._is_other(record):
                self._units.place_again((record.key,))
                placed += 1
                if placed >= PLACED:
                    return

    def _is_other(self, record: CachedUnit) -> bool:
        """Return whether a unit may have another account or seat by the rules in force."""
        info = record.info
        is_held = record.hold is not None and record.hold.reason is Reason.USER_LIMIT
        if info is None or not (is_held or record.state is UnitState.WAITING):
            return False
        self._limits.rules.follow(info.quota)
        submitter = self._units.builder.submitter_of(record.unit, info.quota)
        if is_held or info.submitter != submitter:
            return True
        if submitter is None:
            return False
        concerns = self._limits.rules.concern(info.quota, submitter)
        return any(rule.pending is not None for _, rule in concerns)
