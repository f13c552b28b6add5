"""What is spent and left of budgets, for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from queue_scheduler.tenants.budget_account import BudgetAccount
from queue_scheduler.tenants.budget_accounts import BudgetAccounts, accounts_of
from queue_scheduler.tenants.hours import in_decimals
from shared_api.objects.meta import Timestamp
from shared_api.objects.quota_policy import BudgetFigures
from shared_api.timestamps import rfc3339


def read_figures(accounts: BudgetAccounts, quota: str, policy: str) -> Iterator[BudgetFigures]:
    """Yield what is left of each budget that a policy states for a quota, as it states them."""
    found = [each for each in accounts_of(accounts, quota) if each.rule.policy == policy]
    for account in sorted(found, key=lambda each: each.rule.index):
        yield read_figures_of(account, accounts.second)


def budgets_left(accounts: BudgetAccounts) -> dict[str, dict[str, str]]:
    """Return what new units may use of the budgets of each quota that has any.

    Returns:
        By quota, and by resource or `amount`: the hours or the amount; of several budgets the least
        that is left of one.
    """
    least: dict[str, dict[str, tuple[int, int]]] = {}
    for key, _ in accounts:
        account, known = accounts.account(key), least.setdefault(key.quota, {})
        second, scale = accounts.second, account.rule.scale
        left = account.left(second) - account.committed(second)
        known[key.name] = min((left, scale), known.get(key.name, (left, scale)))
    return {
        quota: {name: in_decimals(*left) for name, left in sorted(known.items())}
        for quota, known in least.items()
    }


def read_figures_of(account: BudgetAccount, second: int) -> BudgetFigures:
    """Return what is left of one budget; time must have passed until then."""
    rule = account.rule
    spent, committed = account.spent(second), account.committed(second)
    left = account.left(second)
    amounts = (spent, committed, left - committed, account.brought)
    texts = [in_decimals(each, rule.scale) for each in amounts]
    return BudgetFigures(
        budget=rule.index,
        resource=rule.name,
        spent=texts[0],
        committed=texts[1],
        left=texts[2],
        carried=texts[3],
        exhausted=left <= 0,
        counted_from=_time(account.counted_from),
        resets_at=_time(account.end),
        at=_time(second),
    )


def _time(second: int | None) -> Timestamp | None:
    return None if second is None else rfc3339(datetime.fromtimestamp(second, UTC))
