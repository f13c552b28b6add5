"""Which budgets are spent, and which units are to be stopped for it. Pure questions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.budget_account import BudgetAccount
from queue_scheduler.tenants.budget_rules import Enforce
from queue_scheduler.tenants.budgets_in_chains import BudgetKey
from queue_scheduler.tenants.hours import in_decimals
from shared_api.queue_unit_phases import is_being_evicted
from shared_api.timestamps import rfc3339


class SpentBudget(msgspec.Struct, frozen=True):
    """A budget of which nothing is left.

    Attributes:
        key: Which one, and of which quota.
        policy: The QuotaPolicy that states it.
        since: Since when, in seconds since the epoch.
        text: It, and what follows, in a sentence for users; the same until it begins anew.
        is_stopped: Whether its units are to be evicted now.
    """

    key: BudgetKey
    policy: str
    since: int
    text: str
    is_stopped: bool


def find_spent(engine: Engine) -> list[SpentBudget]:
    """Return the budgets of which nothing is left."""
    accounts = engine.usage.budgets.accounts
    found = []
    for key, _ in accounts:
        account = accounts.account(key)
        since = account.spent_since
        if since is not None:
            text = _describe(account, since)
            is_stopped = _stops_at(account, since) <= accounts.second and (
                account.rule.enforce is Enforce.STOP
            )
            found.append(SpentBudget(key, account.rule.policy, since, text, is_stopped))
    return found


def find_units(engine: Engine, key: BudgetKey) -> Iterator[CachedUnit]:
    """Yield the admitted units that a spent budget counts, and that are not evicted yet."""
    is_charged_to = engine.usage.budgets.accounts.is_charged_to
    for record in engine.units:
        if is_charged_to(record.uid, key) and _is_running(record):
            yield record


def find_reason_to_stop(engine: Engine, key: str) -> SpentBudget | None:
    """Return a spent budget for which a unit is to be evicted now; None: there is none."""
    record, accounts = engine.record(key), engine.usage.budgets.accounts
    if record is None or not _is_running(record):
        return None
    stopped = (each for each in find_spent(engine) if each.is_stopped)
    return next((each for each in stopped if accounts.is_charged_to(record.uid, each.key)), None)


def _is_running(record: CachedUnit) -> bool:
    return record.state is UnitState.ADMITTED and not is_being_evicted(record.unit)


def _stops_at(account: BudgetAccount, since: int) -> int:
    return since + account.rule.grace


def _describe(account: BudgetAccount, since: int) -> str:
    rule = account.rule
    limit = in_decimals(rule.limit + account.brought, rule.scale)
    unit = "" if rule.name == "amount" else " hours"
    text = f"the budget of quota {account.quota} ({limit} {rule.name}{unit}, budgets {rule.index})"
    follows = {
        Enforce.HOLD: "no unit that asks for it starts, and what runs goes on",
        Enforce.WARN: "units start all the same",
        Enforce.STOP: "no unit that asks for it starts, and what runs is evicted from"
        f" {_time(_stops_at(account, since))} on",
    }[rule.enforce]
    until = "" if account.end is None else f"; it begins anew at {_time(account.end)}"
    return f"{text} is spent: {follows}{until}"


def _time(second: int) -> str:
    return rfc3339(datetime.fromtimestamp(second, UTC))
