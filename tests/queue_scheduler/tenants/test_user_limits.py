"""What users and groups have, and whom their limits refuse; in an engine: `test_limit_changes`."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.limit_rules import EVERYBODY, LimitRule
from queue_scheduler.tenants.limit_use import Counted, Use
from queue_scheduler.tenants.user_limits import UserLimits
from shared_api.resource_list import Amounts

ANN = LimitRule(users=frozenset({"ann"}), max={"cpu": 8}, policy="teams")
OTHERS = LimitRule(groups=frozenset(), max={"cpu": 9}, policy="teams", index=1)


class Tree:
    """Two quotas below one."""

    name = "Tree"

    def chain(self, quota: str) -> tuple[str, ...]:
        return (quota, "top") if quota in {"vision", "speech"} else ()


class Charged(NamedTuple):
    account: Account
    amounts: Amounts
    is_admitted: bool = True


def charge(
    quota: str, user: str, cpu: int, group: str = "", *, is_admitted: bool = True
) -> Charged:
    return Charged(Account(quota, "q", "ns", group, user), {"cpu": cpu}, is_admitted)


@pytest.fixture
def limits() -> UserLimits:
    plugins = PluginRunner([Tree()])
    limits = UserLimits(plugins)
    assert limits.set_rules("top", (ANN, OTHERS))
    limits.recount(())
    plugins.set_own(limits)
    return limits


def test_charges_add_up_at_the_levels_that_have_rules(limits: UserLimits) -> None:
    charges = [
        charge("vision", "ann", 2),
        charge("speech", "ann", 3, "staff", is_admitted=False),
        charge("speech", "bob", 1),
        charge("elsewhere", "ann", 7),
    ]
    for each in charges:
        limits.on_charge(None, each)
    limits.validate(charges)
    assert list(limits.uses("top")) == [
        (Counted("top", is_group=False, name="ann"), Use({"cpu": 5}, 1, 2)),
        (Counted("top", is_group=True, name=EVERYBODY), Use({"cpu": 6}, 2, 3)),
    ]
    limits.on_charge(charges[1], charge("speech", "bob", 4))
    limits.on_charge(charges[0], None)
    assert dict(limits.uses("top")) == {
        Counted("top", is_group=True, name=EVERYBODY): Use({"cpu": 5}, 2, 2)
    }
    assert list(limits.uses("vision")) == []


def test_sums_that_are_wrong_are_found(limits: UserLimits) -> None:
    limits.on_charge(None, charge("vision", "ann", 2))
    with pytest.raises(AssertionError, match="users have"):
        limits.validate([])


def test_nothing_is_kept_without_rules(limits: UserLimits) -> None:
    charges = [charge("vision", "ann", 2)]
    assert limits.set_rules("top", ())
    assert not limits.is_on
    limits.recount(charges)
    assert list(limits.uses("top")) == []
    assert not limits.set_rules("top", ())
