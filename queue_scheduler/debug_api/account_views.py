"""What each account has used, as the debug API answers it.

Accounts of namespaces that the caller may not read are summed up by quota, without names, if they
are of enough namespaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

from queue_scheduler.debug_api.hiding import Owner, may_sum
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.hours import in_hours
from queue_scheduler.tenants.ledger import Ledger
from shared_api.debug_api.views import View
from shared_api.resource_list import Amounts, add, subtract
from shared_api.timestamps import rfc3339


class UseView(View):
    """Use in cores, GiB or pieces times hours, by resource: in all, and by period."""

    used: dict[str, str]
    this_period: dict[str, str]
    last_period: dict[str, str]


class AccountView(UseView):
    """One account; `user` is `namespace:NS` where nobody was named."""

    quota: str
    queue: str
    namespace: Annotated[str, Owner()]
    group: str
    user: str


class OtherAccountsView(View):
    """The accounts of a quota that the caller may not read; `use` is null if they are too few."""

    quota: str
    accounts: int
    use: UseView | None


class AccountPage(View):
    """Who has used how much; `complete_from`: before that, use may be missing.

    `this_period_from` and `last_period_from` are null where no such period has begun.
    """

    leader: bool
    at: str
    complete_from: str | None
    this_period_from: str | None
    last_period_from: str | None
    total: int
    offset: int
    limit: int
    items: list[AccountView]
    others: list[OtherAccountsView]


class Use(NamedTuple):
    """What was used in all and by period, in base units times seconds."""

    used: Amounts
    this_period: Amounts
    last_period: Amounts

    def view(self) -> UseView:
        """Return it in hours."""
        return UseView(
            used=in_hours(self.used),
            this_period=in_hours(self.this_period),
            last_period=in_hours(self.last_period),
        )


def view_accounts(
    ledger: Ledger, readable: AbstractSet[str], offset: int, limit: int, *, leader: bool
) -> AccountPage:
    """Return a page of the accounts that may be read, by name, and the sums of all others.

    Args:
        ledger: A copy, advanced to the present.
        readable: The namespaces whose units the caller may read.
        offset: Accounts to leave out.
        limit: Accounts at most.
        leader: Whether this replica decides.
    """
    uses = {account: use_of(ledger, account) for account, _ in sorted(ledger)}
    shown = [account for account in uses if account.namespace in readable]
    hidden = {account: use for account, use in uses.items() if account.namespace not in readable}
    edges = ledger.kept_edges()
    return AccountPage(
        leader=leader,
        at=_time(ledger.second),
        complete_from=_time(ledger.complete_from) if ledger.complete_from else None,
        this_period_from=_time(edges[-1]) if edges else None,
        last_period_from=_time(edges[-2]) if len(edges) > 1 else None,
        total=len(shown),
        offset=offset,
        limit=limit,
        items=[_view(account, uses[account]) for account in shown[offset : offset + limit]],
        others=[
            _sum_up(quota, {each: use for each, use in hidden.items() if each.quota == quota})
            for quota in sorted({account.quota for account in hidden})
        ],
    )


def use_of(ledger: Ledger, account: Account) -> Use:
    """Return what an account of a ledger has used."""
    line, edges = ledger.line_of(account), ledger.kept_edges()
    assert line is not None, f"{account} has no line"
    used = line.used(ledger.second)
    this_from = line.used_at_edge(edges[-1]) if edges else used
    last_from = line.used_at_edge(edges[-2]) if len(edges) > 1 else this_from
    return Use(used, subtract(used, this_from), subtract(this_from, last_from))


def _view(account: Account, use: Use) -> AccountView:
    return AccountView(**account._asdict(), **dict(use.view()))


def _sum_up(quota: str, uses: dict[Account, Use]) -> OtherAccountsView:
    is_shown = may_sum(account.namespace for account in uses)
    use = _sum_of(uses.values()).view() if is_shown else None
    return OtherAccountsView(quota=quota, accounts=len(uses), use=use)


def _sum_of(uses: Iterable[Use]) -> Use:
    total = Use({}, {}, {})
    for use in uses:
        total = Use(*(add(*each) for each in zip(total, use, strict=True)))
    return total


def _time(second: int) -> str:
    return rfc3339(datetime.fromtimestamp(second, UTC))
