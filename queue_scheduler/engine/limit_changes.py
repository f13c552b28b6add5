"""Which limits of users and groups quotas have: what follows when rules or quotas change. Pure.

Rules that come or go change which pending units have an account in their class; only these are
placed again. A change of quotas may move a quota with its rules below another.
"""

from __future__ import annotations

from collections.abc import Mapping

from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.engine.wake_up import WakeUp
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import unit_key
from queue_scheduler.tenants.limit_rules import LimitRule


class LimitChanges:
    """Takes the rules of quotas (`tenants.limit_rules`)."""

    def __init__(self, units: UnitCache, plugins: PluginRunner, wake_up: WakeUp) -> None:
        self._units = units
        self._plugins = plugins
        self._wake_up = wake_up
        self._limits = units.usage.limits

    def set_rules(self, rules: Mapping[str, tuple[LimitRule, ...]]) -> tuple[str, ...]:
        """Take the rules of quotas by their names, () for none; return the queues to ask.

        Quotas that are not named keep theirs. A quota need not exist yet.
        """
        differ = [self._limits.set_rules(quota, of_quota) for quota, of_quota in rules.items()]
        if not any(differ):
            return ()
        self._recount()
        return self._wake_up.wake_affected()

    def on_quotas_changed(self) -> None:
        """Follow a change of quotas; the caller places units again and wakes."""
        if not self._limits.is_on:
            return
        if self._limits.rules.are_other():
            self._recount()
        else:
            self._limits.renew_domains()

    def _recount(self) -> None:
        units, limits = self._units, self._limits
        again = dict.fromkeys(limits.seats)
        limits.recount(units.usage.charges.values())
        if limits.is_on:
            self._plugins.set_own(limits)
        for queue in units.queues:
            for place in queue.pending.in_order():
                record = units.records[unit_key(place)]
                info = record.info
                assert info is not None, f"{record.key} is pending without a demand"
                submitter = units.builder.submitter_of(record.unit, info.quota)
                if info.submitter != submitter or limits.limits_pending(info):
                    again[record.key] = None
        units.place_again(again)
        if not limits.is_on:
            # Not before: whoever waited for a limit has just left its class.
            self._plugins.set_own(None)
            limits.end()
