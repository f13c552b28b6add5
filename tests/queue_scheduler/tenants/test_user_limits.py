"""What users and groups have, and whom their limits refuse; in an engine: `test_limit_changes`."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.limit_rules import EVERYBODY, LimitRule
from queue_scheduler.tenants.limit_use import Counted, Use
from queue_scheduler.tenants.user_limits import UserLimits
from shared_api.objects.meta import Uid
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
    plugins.set_own(limits, is_on=True)
    put(limits, {}, ANN, OTHERS)
    limits.lagging.clear()
    return limits


def put(limits: UserLimits, charges: dict[str, Charged], *rules: LimitRule) -> int:
    """Bring rules of `top` into force, one charge in a slice; return how many slices it took."""
    limits.want({"top": rules})
    slices = 0
    while limits.is_changing:
        limits.advance(by_uid(charges), ("ns/a",), 1)
        limits.validate(by_uid(charges))
        slices += 1
    return slices


def by_uid(charges: dict[str, Charged]) -> dict[Uid, Charged]:
    return {Uid(uid): each for uid, each in charges.items()}


def test_charges_add_up_at_the_levels_that_have_rules(limits: UserLimits) -> None:
    charges = {
        "1": charge("vision", "ann", 2),
        "2": charge("speech", "ann", 3, "staff", is_admitted=False),
        "3": charge("speech", "bob", 1),
        "4": charge("elsewhere", "ann", 7),
    }
    for uid, each in charges.items():
        limits.on_charge(Uid(uid), None, each)
    limits.validate(by_uid(charges))
    assert list(limits.sums.in_quota("top")) == [
        (Counted("top", is_group=False, name="ann"), Use({"cpu": 5}, 1, 2)),
        (Counted("top", is_group=True, name=EVERYBODY), Use({"cpu": 6}, 2, 3)),
    ]
    limits.on_charge(Uid("2"), charges["2"], charge("speech", "bob", 4))
    limits.on_charge(Uid("1"), charges["1"], None)
    assert dict(limits.sums.in_quota("top")) == {
        Counted("top", is_group=True, name=EVERYBODY): Use({"cpu": 5}, 2, 2)
    }
    assert list(limits.sums.in_quota("vision")) == []


def test_sums_that_are_wrong_are_found(limits: UserLimits) -> None:
    limits.on_charge(Uid("1"), None, charge("vision", "ann", 2))
    with pytest.raises(AssertionError, match="users have"):
        limits.validate({})


def test_nothing_is_kept_without_rules(limits: UserLimits) -> None:
    charges = {"1": charge("vision", "ann", 2)}
    limits.on_charge(Uid("1"), None, charges["1"])
    put(limits, charges)
    assert not limits.rules
    assert list(limits.sums.in_quota("top")) == []
    assert limits.lagging == {"ns/a": None}, "it may have an account in its class"
    limits.lagging.clear()
    assert put(limits, charges) == 1, "nothing differs"
    assert limits.lagging == {}


def test_rules_are_in_force_once_all_charges_are_counted(limits: UserLimits) -> None:
    charges = {str(n): charge("vision", "bob", 1) for n in range(3)}
    for uid, each in charges.items():
        limits.on_charge(Uid(uid), None, each)
    bob = LimitRule(users=frozenset({"bob"}), max={"cpu": 2}, policy="teams")
    limits.want({"top": (bob,)})
    for _ in range(2):  # begin, and count one
        limits.advance(by_uid(charges), (), 1)
    assert limits.rules.of_quota("top") == (ANN, OTHERS)
    changes: list[tuple[str, Charged | None, Charged | None]] = [
        ("2", charges.pop("2"), None),
        ("0", charges["0"], charge("speech", "bob", 5)),
        ("9", None, charge("speech", "bob", 7)),
    ]
    for uid, before, after in changes:
        if after is not None:
            charges[uid] = after
        limits.on_charge(Uid(uid), before, after)
        limits.validate(by_uid(charges))
    while limits.is_changing:
        limits.advance(by_uid(charges), (), 1)
        limits.validate(by_uid(charges))
    assert dict(limits.sums.in_quota("top")) == {
        Counted("top", is_group=False, name="bob"): Use({"cpu": 13}, 3, 3)
    }


def test_rules_that_change_again_meanwhile_come_after_those_that_are_counted(
    limits: UserLimits,
) -> None:
    charges = {str(n): charge("vision", "bob", 1) for n in range(3)}
    for uid, each in charges.items():
        limits.on_charge(Uid(uid), None, each)
    bob = LimitRule(users=frozenset({"bob"}), max={"cpu": 2}, policy="teams")
    limits.want({"top": (bob,)})
    limits.advance(by_uid(charges), (), 1)
    assert put(limits, charges, ANN) == 7, "three for those, four for the others"
    assert limits.rules.of_quota("top") == (ANN,)


@pytest.mark.parametrize(
    ("fields", "lags"),
    [({"max": {"cpu": 9}}, False), ({"policy": "other"}, False), ({"pending": 3}, True)],
    ids=["more of it", "another policy", "another number of pending units"],
)
def test_nothing_is_counted_again_where_only_numbers_differ(
    limits: UserLimits, fields: dict[str, Any], *, lags: bool
) -> None:
    assert put(limits, {}, replace(ANN, **fields), OTHERS) == 1
    assert bool(limits.lagging) == lags
