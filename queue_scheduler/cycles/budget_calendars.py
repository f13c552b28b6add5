"""Tells the engine when the periods of budgets begin, which the time zone database says."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.calendars import Calendar, CalendarKey
from queue_scheduler.tenants.periods import find_calendars
from shared_api.objects.quota_policy import Budget, QuotaPolicy
from shared_api.process.clock import Clock

LOOK_SECONDS: Final = 3600.0
"""Between two looks at whether calendars have to be renewed: they reach a year ahead."""


class BudgetCalendars:
    """Follows the budgets of QuotaPolicies; the engine is told a policy after this.

    Args:
        shared: The engine.
        clock: The wall time.
    """

    def __init__(self, shared: SharedEngine, clock: Clock) -> None:
        self._shared = shared
        self._clock = clock

    def on_quota_policy(self, old: QuotaPolicy | None, new: QuotaPolicy | None) -> None:
        """Tell the engine the calendars that a new or changed policy names."""
        if new is None or not (new.spec.budgets or new.status.budgets_in_force):
            return
        # The step may renew some meanwhile: the engine takes the same calendar twice, to no effect.
        known = {each.key for each in self._shared.ask(_list_known) if each.edges}
        budgets = (*new.spec.budgets, *new.status.budgets_in_force)
        self._tell([each for each in budgets if _key(each) not in known])

    def step(self) -> float:
        """Renew calendars that are half used up; return the seconds to rest."""
        now = self._now()
        known = self._shared.ask(_list_known)
        self._tell([_budget(each.key) for each in known if _is_used_up(each, now)])
        return LOOK_SECONDS

    def _tell(self, budgets: list[Budget]) -> None:
        calendars = find_calendars(budgets, self._now())
        if calendars:
            self._shared.apply(Engine.on_calendars, calendars)

    def _now(self) -> int:
        return int(self._clock.now().timestamp())


def _list_known(engine: Engine) -> tuple[Calendar, ...]:
    return engine.policies.calendars.list_all()


def _is_used_up(calendar: Calendar, now: int) -> bool:
    """Return whether half of a calendar has passed; one without edges may have some by now."""
    edges = calendar.edges
    return 2 * bisect_right(edges, now) >= len(edges)


def _key(budget: Budget) -> CalendarKey:
    return CalendarKey(budget.period, budget.time_zone)


def _budget(key: CalendarKey) -> Budget:
    return Budget(period=key.period, time_zone=key.time_zone)
