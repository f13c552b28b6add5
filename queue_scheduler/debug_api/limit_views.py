"""What users and groups have in quotas, and may have at most, as the debug API answers it.

What a user has is a sum over namespaces. A row is shown to whoever may read the units of all of
them; others are counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from queue_scheduler.debug_api.views import quantities
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.limit_rules import LimitRule
from queue_scheduler.tenants.limit_use import Counted, Use
from shared_api.debug_api.views import View
from shared_api.submitters import Submitter


class UserLimitView(View):
    """What one user, or the members of a group, have in a quota and below it.

    `name` is `*` for all groups that no entry names, together. `max` has what is limited, `used`
    the same resources; `max_running` is null where the number of admitted units is not limited.
    `entry` is the place in the `userLimits` of the QuotaPolicy `policy`, from 0.
    """

    quota: str
    is_group: bool
    name: str
    policy: str
    entry: int
    max: dict[str, str]
    used: dict[str, str]
    max_running: int | None
    running: int


class UserLimitPage(View):
    """Who has how much of what is limited, by quota; who has nothing is in no row.

    `others` counts those that the caller may not read.
    """

    leader: bool
    total: int
    offset: int
    limit: int
    items: list[UserLimitView]
    others: int


class LimitUse(NamedTuple):
    """What one user or group has at a quota.

    Attributes:
        counted: Who, and where.
        rule: The rule that it is compared with.
        use: What it has.
        namespaces: Those of the units that it is the sum of.
    """

    counted: Counted
    rule: LimitRule
    use: Use
    namespaces: frozenset[str]

    def is_readable(self, readable: AbstractSet[str]) -> bool:
        """Return whether it tells nothing about namespaces that are not among these."""
        return self.namespaces <= readable


def find_limit_uses(engine: Engine, quota: str = "") -> list[LimitUse]:
    """Return what users and groups have at quotas that limit them, sorted by quota and name.

    Args:
        engine: A fork, as all charges are looked through.
        quota: Only those of this quota; "": of all.
    """
    limits = engine.usage.limits
    found: dict[Counted, tuple[LimitRule, set[str]]] = {}
    for charge in engine.usage.charges.values() if limits.rules else ():
        account = charge.account
        submitter = Submitter(account.user, account.group)
        for counted, rule in limits.rules.concern(account.quota, submitter):
            if quota in {"", counted.quota}:
                found.setdefault(counted, (rule, set()))[1].add(account.namespace)
    return [
        LimitUse(counted, rule, limits.sums.use_of(counted), frozenset(namespaces))
        for counted, (rule, namespaces) in sorted(found.items(), key=lambda each: each[0])
    ]


def namespaces_of(uses: Iterable[LimitUse]) -> list[str]:
    """Return the namespaces whose units are in any of these, sorted."""
    return sorted({namespace for each in uses for namespace in each.namespaces})


def view_user_limits(
    uses: Iterable[LimitUse], readable: AbstractSet[str], offset: int, limit: int, *, leader: bool
) -> UserLimitPage:
    """Return a page of what may be read.

    Args:
        uses: What users and groups have.
        readable: The namespaces whose units the caller may read.
        offset: Rows to leave out.
        limit: Rows at most.
        leader: Whether this replica decides.
    """
    known = list(uses)
    shown = [each for each in known if each.is_readable(readable)]
    return UserLimitPage(
        leader=leader,
        total=len(shown),
        offset=offset,
        limit=limit,
        items=[view_user_limit(each) for each in shown[offset : offset + limit]],
        others=len(known) - len(shown),
    )


def view_user_limit(each: LimitUse) -> UserLimitView:
    """Return one row."""
    rule = each.rule
    return UserLimitView(
        quota=each.counted.quota,
        is_group=each.counted.is_group,
        name=each.counted.name,
        policy=rule.policy,
        entry=rule.index,
        max=quantities(rule.max),
        used=quantities({name: each.use.of(name) for name in rule.max}),
        max_running=rule.running,
        running=each.use.units,
    )
