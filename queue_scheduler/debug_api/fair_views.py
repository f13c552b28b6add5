"""What the accounts of a queue with the policy Fair have used, as the debug API answers it."""

from __future__ import annotations

from typing import Annotated, Final

from queue_scheduler.debug_api.hiding import OfUnit, Owner
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.fair_questions import AccountShare, find_shares
from shared_api.debug_api.views import FieldsOf, View

MOST_ACCOUNTS: Final = 100
"""Accounts of one answer: half of them have used the most, half of them the least."""

_of_account = FieldsOf[AccountShare]()


class FairAccountView(View):
    """What one account has used of its share, and which units it has in the queue.

    `level` is between what it is compared: user, group or namespace. Where groups are compared
    first, a user has a `group`, and is compared with the other users of that. `times_share`: what
    it has used, divided by what those beside it have used on average by their weights; null if its
    weight is 0, which comes after all others. `namespaces` are those of its units, also of former
    ones; "" among them stands for some that are not known any more.
    """

    level: str = _of_account(lambda each: each.level.value)
    name: str = _of_account(lambda each: each.path[-1])
    group: str = _of_account(lambda each: each.path[0] if len(each.path) > 1 else "")
    namespaces: Annotated[list[str], Owner()] = _of_account(lambda each: list(each.namespaces))
    weight: int = _of_account(lambda each: each.weight)
    times_share: float | None = _of_account(
        lambda each: None if each.hundredths is None else each.hundredths / 100
    )
    pending: int = _of_account(lambda each: each.pending)
    running: int = _of_account(lambda each: each.running)


class FairAccountsView(View):
    """The accounts of a queue that have used the most of their shares, and the least.

    The most comes first; `total` counts all. `others` counts those that are left out: there are too
    many, or the caller may not read the units of all their namespaces.
    """

    total: int
    items: Annotated[list[FairAccountView], OfUnit(counted="others")]
    others: int = 0


def view_fair_accounts(engine: Engine, queue: str, second: int) -> FairAccountsView | None:
    """Return the accounts of a queue; None: its policy is not Fair.

    Args:
        engine: A fork, as all accounts are looked through.
        queue: Its name.
        second: The time, in seconds since the epoch.
    """
    found = find_shares(engine, queue, MOST_ACCOUNTS, second)
    if found is None:
        return None
    items = [FairAccountView.of(each) for each in found.shares]
    return FairAccountsView(total=found.total, items=items, others=found.total - len(items))
