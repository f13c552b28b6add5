"""Budgets of quotas: which units they refuse, and who waits for that. Pure.

A budget (`budget_rules`) limits what a quota and what is below it use in a period. A unit starts
only if every period that it touches has room for its part: of what is left by what was used, after
what running units may still use by the time that they declare.

It is one of the engine's own filters (`OwnFilter`), asked before the plugins: a unit that a budget
refuses starts with no room, so it must be no head, hold back nobody, and evict nobody. Its answers
follow from the accounts (`budget_accounts`) and the time that the engine was told. As time passes,
passing only gets harder until a period ends.
"""

from __future__ import annotations

from collections.abc import Callable

from queue_scheduler.decision import BudgetShortage, Reason, Refusal
from queue_scheduler.framework.extension_points import Place, Waiter
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, remaining_seconds
from queue_scheduler.tenants.budget_account import BudgetAccount, Shortage
from queue_scheduler.tenants.budget_accounts import BudgetAccounts
from queue_scheduler.tenants.budget_rules import AMOUNT
from queue_scheduler.tenants.budget_waiters import BudgetWaiters, Waiting
from queue_scheduler.tenants.budgets_in_chains import BudgetKey
from queue_scheduler.tenants.hours import HOUR
from queue_scheduler.tenants.limit_use import AnyCharge
from shared_api.resource_list import Amounts


class Budgets:
    """The filter.

    Attributes:
        name: Names this filter among the plugins.
        is_on: Whether any quota has budgets.
        accounts: What is spent, by budget.
        waiters: The classes that wait for a budget, or are watched.
    """

    name: str = "budgets"

    def __init__(self, plugins: PluginRunner) -> None:
        """Start without budgets; `plugins` know the chains of quotas."""
        self.is_on = False
        self.accounts = BudgetAccounts(plugins)
        self.waiters = BudgetWaiters()
        self._plugins = plugins

    # --- the filter ---------------------------------------------------------------------------

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        """Return why a budget refuses a unit now; None: none does."""
        found = self._find_refusals(info)
        return found[0] if found else None

    def every_refusal(self, info: QueueUnitInfo) -> list[Refusal]:
        """Return a refusal for each budget that refuses a unit now, the nearest quota's first."""
        return self._find_refusals(info)

    def why_not_grow(
        self, info: QueueUnitInfo, charge: AnyCharge, amounts: Amounts
    ) -> Refusal | None:
        """Return why an admitted unit may not be charged these amounts in place of its charge."""
        if not self.is_on:
            return None
        found = self._find_refusals(info, amounts, charge.amounts)
        return found[0] if found else None

    def _find_refusals(
        self, info: QueueUnitInfo, amounts: Amounts | None = None, instead_of: Amounts | None = None
    ) -> list[Refusal]:
        found: list[Refusal] = []
        amounts, second = info.demand.total if amounts is None else amounts, self.accounts.second
        for _, account in self.accounts.in_chain(info.quota):
            account.advance(second)
            rule = account.rule
            rate = rule.rate_of(amounts)
            if instead_of is not None:
                rate -= rule.rate_of(instead_of)
            # What asks for none of it does not make it worse.
            if rate > 0 and rule.refuses:
                refusal = self._judge(account, rate, info)
                if refusal is not None:
                    found.append(refusal)
        return found

    def _judge(self, account: BudgetAccount, rate: int, info: QueueUnitInfo) -> Refusal | None:
        rule, second = account.rule, self.accounts.second
        seconds = remaining_seconds(info.unit)
        if not rule.is_reserved:
            left = account.left(second)
            if left > 0:
                return None
            return self._refuse(account, Shortage(second, left, 0, 0, is_present=True))
        if seconds is None:
            seconds = rule.undeclared
        if seconds is None:
            left, committed = account.left(second), account.committed(second)
            shortage = Shortage(second, left - committed, committed, 0, is_present=True)
            return self._refuse(account, shortage, declares_nothing=True)
        # One that has no time left, by what it declares, starts like one with a second.
        found = account.find_shortage(rate, max(seconds, 1), second)
        if found is None:
            return None
        fits = found.start - second + max(0, found.left) // rate
        return self._refuse(account, found, would_start_seconds=fits)

    def _refuse(
        self,
        account: BudgetAccount,
        shortage: Shortage,
        *,
        would_start_seconds: int = 0,
        declares_nothing: bool = False,
    ) -> Refusal:
        rule, second = account.rule, self.accounts.second
        limit, spent = rule.limit, 0
        if shortage.is_present:
            limit, spent = limit + account.brought, account.spent(second)
        lacks = BudgetShortage(
            scale=rule.scale,
            limit=limit,
            spent=spent,
            committed=shortage.committed,
            needed=shortage.need,
            begins=shortage.start,
            resets_at=account.frees_at(max(1, shortage.missing), second),
            would_start_seconds=would_start_seconds,
            declares_nothing=declares_nothing,
        )
        hour = rule.scale if rule.name == AMOUNT else HOUR
        return Refusal(
            reason=Reason.BUDGET_SPENT,
            quota=account.quota,
            resource=rule.name,
            limit=limit // hour,
            used=-(-(spent + shortage.committed) // hour),
            requested=-(-shortage.need // hour),
            detail=describe(account),
            budget=lacks,
        )

    # --- waiting ------------------------------------------------------------------------------

    def wait(self, waiter: Waiter, info: QueueUnitInfo, refusal: Refusal) -> None:
        """Register a class that `check` refused."""
        self._add(waiter, info, is_watched=False, short=self._find_short(info, refusal))

    def watch(self, waiter: Waiter, info: QueueUnitInfo) -> None:
        """Register a class that something else refused: it is asked when a budget refuses it."""
        self._add(waiter, info, is_watched=True)

    def _find_short(self, info: QueueUnitInfo, refusal: Refusal) -> tuple[BudgetKey, int] | None:
        """Return the budget that a refusal is by, and what is needed of it, if that is now."""
        lacks, accounts = refusal.budget, self.accounts
        if lacks is None or lacks.begins > accounts.second or not lacks.needed:
            return None
        for key in accounts.chains.levels(info.quota):
            if key.quota == refusal.quota and describe(accounts.account(key)) == refusal.detail:
                return key, lacks.needed
        return None

    def _left_of(self, key: BudgetKey) -> int:
        account, second = self.accounts.account(key), self.accounts.second
        return account.left(second) - account.committed(second)

    def _add(
        self,
        waiter: Waiter,
        info: QueueUnitInfo,
        *,
        is_watched: bool,
        short: tuple[BudgetKey, int] | None = None,
    ) -> None:
        # At all of them: another budget may refuse it once this one does no more.
        at = tuple(dict.fromkeys(key.quota for key in self.accounts.chains.levels(info.quota)))
        if at:
            domain = self._domain_of(info)
            self.waiters.add(waiter, Waiting(info, domain, at, is_watched, short))

    def _domain_of(self, info: QueueUnitInfo) -> str:
        return min(self._plugins.domains(info.quota), default="")

    def stop_waiting(self, waiter: Waiter) -> None:
        """Forget a class that was woken or has left; it may be unknown."""
        self.waiters.discard(waiter)

    def stirred_domains(self) -> list[str]:
        """Return the domains in which some class is due."""
        accounts = self.accounts
        if accounts.eased or accounts.tightened:
            eased, tightened = accounts.eased, accounts.tightened
            accounts.eased, accounts.tightened = {}, {}
            self.waiters.follow(eased, tightened, self._left_of)
        return list(self.waiters.due)

    def first_woken(
        self, domain: str, place_of: Callable[[Waiter], Place], before: Place | None
    ) -> tuple[Place, Waiter] | None:
        """Return the first class of a domain that is due, with its place, or None."""
        return self.waiters.first_due(domain, place_of, self._is_refused)

    def _is_refused(self, info: QueueUnitInfo) -> bool:
        return self.check(info) is not None

    def renew_domains(self) -> None:
        """Ask the classes anew whose quota competes for something else by now."""
        self.waiters.ask_anew(lambda each: each.domain != self._domain_of(each.info))

    def end(self) -> None:
        """Forget who waits: no budget is in force."""
        self.waiters = BudgetWaiters()
        self.accounts.eased.clear()
        self.accounts.tightened.clear()

    # --- copies -------------------------------------------------------------------------------

    def fork(self, plugins: PluginRunner) -> Budgets:
        """Return an independent copy over forked plugins, which then ask it."""
        twin = Budgets(plugins)
        twin.accounts = self.accounts.fork(plugins)
        if not self.is_on:
            return twin
        twin.is_on, twin.waiters = True, self.waiters.copy()
        plugins.set_own(twin, is_on=True)
        return twin


def describe(account: BudgetAccount) -> str:
    """Return which entry of which policy a budget is."""
    return f"QuotaPolicy {account.rule.policy}, budgets {account.rule.index}"
