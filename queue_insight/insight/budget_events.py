"""What follows from budgets as virtual time passes: when they are spent, and who is evicted. Pure.

A budget is spent, or begins anew, while nothing else happens. So a look at the budgets is planned
for the next second at which time alone changes what one of them says; it is planned again whenever
a charge has moved that second.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from queue_insight.insight.agenda import Agenda
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.overspent_budgets import find_spent, find_units
from queue_scheduler.tenants.budgets_in_chains import BudgetKey


class BudgetEvents:
    """Follows the budgets of an engine in virtual time.

    Args:
        engine: The engine; it is told the time before each look.
        agenda: Where looks are planned.
        stop: Evicts a unit, with the reason as a sentence; called where a budget says `Stop`.

    Attributes:
        spent_at: When nothing was left of a budget for the first time, in seconds of the monotonic
            clock; not after the beginning if it was spent then. Others have no entry.
    """

    def __init__(self, engine: Engine, agenda: Agenda, stop: Callable[[str, str], None]) -> None:
        self.spent_at: dict[BudgetKey, float] = {}
        self._engine, self._agenda, self._stop = engine, agenda, stop
        self._next: int | None = None
        self._has_looked = False
        # Budgets whose units were evicted, each with since when it was spent: no unit that it
        # counts is admitted until it begins anew.
        self._stopped: dict[BudgetKey, int] = {}

    def plan(self) -> None:
        """Plan the next look, if charges have moved it; called after each decision and event."""
        budgets = self._engine.usage.budgets
        # Without a charge nothing is spent, and a rolling budget would be looked at for ever.
        if not budgets.is_on or (self._has_looked and not self._is_charged()):
            return
        accounts = budgets.accounts
        second = accounts.next_change() if self._has_looked else accounts.second
        if second == self._next:
            return
        self._next = second

        def look() -> None:
            if self._next == second:
                self._next = None
                self._look()

        try:
            wall = datetime.fromtimestamp(second, UTC)
        except (OverflowError, ValueError):
            return  # no clock gets there
        self._agenda.call_at(self._agenda.at(wall), look)

    def _look(self) -> None:
        """Note which budgets are spent, and evict the units of those whose grace is over."""
        self._has_looked = True
        for spent in find_spent(self._engine):
            at = self._agenda.at(datetime.fromtimestamp(spent.since, UTC))
            self.spent_at.setdefault(spent.key, at)
            if spent.is_stopped and self._stopped.get(spent.key) != spent.since:
                self._stopped[spent.key] = spent.since
                for key in [record.key for record in find_units(self._engine, spent.key)]:
                    self._stop(key, spent.text)

    def _is_charged(self) -> bool:
        return any(account.rate > 0 for _, account in self._engine.usage.budgets.accounts)
