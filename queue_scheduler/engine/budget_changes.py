"""Which budgets quotas have: what follows when they, calendars, quotas or accounts change. Pure.

Budgets that come or go change which pending units have their declared time in their class; only
these are placed again. A new budget begins with what the accounts know of its present period.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from queue_scheduler.cache.unit_cache import UnitCache
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.engine.wake_up import WakeUp
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import unit_key
from queue_scheduler.tenants.budget_account import BudgetAccount
from queue_scheduler.tenants.calendars import Calendar
from queue_scheduler.tenants.commitments import Declared
from queue_scheduler.tenants.ledger import Ledger, StoredAccounts
from queue_scheduler.tenants.limit_use import AnyCharge
from queue_scheduler.tenants.periods import Period
from shared_api.objects.meta import Uid


class BudgetChanges:
    """Takes the budgets of quotas (`tenants.budget_rules`). They count only with accounts."""

    def __init__(self, units: UnitCache, plugins: PluginRunner, wake_up: WakeUp) -> None:
        self._units = units
        self._plugins = plugins
        self._wake_up = wake_up
        self._budgets = units.usage.budgets

    def renew(self, quotas: Iterable[str]) -> tuple[str, ...]:
        """Take the budgets that policies state for some quotas now; return the queues to ask."""
        ledger, accounts = self._units.usage.ledger, self._budgets.accounts
        if ledger is None:
            return ()
        policies, new = self._units.policies, list[BudgetAccount]()
        differ = [
            each for each in quotas if policies.budgets_of(each) != accounts.chains.of_quota(each)
        ]
        if not differ:
            return ()
        # Before the rules change: in these quotas the classes of units have their declared time.
        had_time = self._find_with_time()
        for quota in differ:
            rules = policies.budgets_of(quota)
            new += accounts.set_rules(quota, rules, policies.calendars)
        self._recount()
        for account in new:
            for _ in self._beginning(account, ledger):
                pass
        self._place_again(had_time)
        return self._wake_up.wake_affected()

    def take_calendars(self, calendars: Iterable[Calendar]) -> tuple[str, ...]:
        """Take when periods begin and end; return the queues to ask."""
        policies = self._units.policies
        differ = policies.put_calendars(calendars)
        if self._budgets.accounts.renew_calendars(policies.calendars):
            self._recount()
        return self.renew(differ) or self._wake_up.wake_affected()

    def on_quotas_changed(self) -> None:
        """Follow a change of quotas; the caller places units again and wakes."""
        if not self._budgets.is_on:
            return
        if self._budgets.accounts.chains.are_other():
            had_time = self._find_with_time()
            self._recount()
            self._place_again(had_time)
        else:
            self._budgets.renew_domains()

    def restoring(
        self, stored: StoredAccounts, dated: Iterable[tuple[Uid, int, AnyCharge]]
    ) -> Iterator[None]:
        """Begin anew with what was kept of budgets, and with what is charged now, in steps.

        A step takes some microseconds, more where an account of a rolling budget passes hours.

        Args:
            stored: What was kept; the accounts must have it already.
            dated: The charges, each with the second since when it has been charged, ascending.
        """
        ledger = self._units.usage.ledger
        assert ledger is not None, "accounts are not kept"
        accounts = self._budgets.accounts
        accounts.advance(ledger.second)
        until = stored.budgets_settled_at
        settled = min(stored.settled_at if until is None else until, ledger.second)
        terms = self._units.usage.terms.of
        for account in (yield from accounts.restoring(stored.budgets, settled, dated, terms)):
            yield from self._beginning(account, ledger)

    def recount(self) -> None:
        """Sum up all charges anew; what was used until now stays where it was counted."""
        if self._budgets.is_on:
            self._recount()

    # --- inside -------------------------------------------------------------------------------

    def _recount(self) -> None:
        budgets = self._budgets
        budgets.accounts.recount(self._charges())
        is_on = bool(budgets.accounts)
        if is_on is not budgets.is_on:
            budgets.is_on = is_on
            self._plugins.set_own(budgets, is_on=is_on)
        budgets.waiters.ask_anew()

    def _charges(self) -> Iterator[tuple[Uid, AnyCharge, Declared]]:
        """Yield all charges, each with what is known of how long it lasts."""
        usage = self._units.usage
        admitted = {each.uid: each.unit for each in self._units if each.state is UnitState.ADMITTED}
        for unit in admitted.values():
            usage.terms.note(unit)
        for uid, charge in usage.charges.items():
            yield uid, charge, usage.terms.of(uid)

    def _find_with_time(self) -> set[str]:
        """Return the quotas with pending units for which the declared time makes a difference."""
        quotas = self._units.queues.quotas()
        return {quota for quota in quotas if self._budgets.accounts.chains.reserves(quota)}

    def _place_again(self, had_time: set[str]) -> None:
        has_time = self._find_with_time()
        again: dict[str, None] = {}
        for queue in self._units.queues:
            for quota in queue.pending.by_quota:
                if (quota in had_time) is not (quota in has_time):
                    again |= dict.fromkeys(map(unit_key, queue.pending.in_order(quota)))
        self._units.place_again(again)
        if not self._budgets.is_on:
            # Nobody asks the budgets any more, so who waits for one is woken here.
            for waiter in self._budgets.waiters.refused():
                self._wake_up.wake(waiter)
            self._budgets.end()

    def _beginning(self, account: BudgetAccount, ledger: Ledger) -> Iterator[None]:
        """Let a budget begin with what the accounts know of its present period, if they do."""
        rule, start, now = account.rule, account.start, ledger.second
        if rule.period is Period.ROLLING_30D or (
            rule.period.is_of_calendar and start not in ledger.kept_edges()
        ):
            return
        spent = 0
        for whose, line in ledger:
            if account.quota in self._plugins.chain(whose.quota):
                spent += rule.rate_of(line.used(now))
                if rule.period.is_of_calendar:
                    spent -= rule.rate_of(line.used_at_edge(start))
            yield
        account.set_spent(spent, max(start, ledger.complete_from), now)
