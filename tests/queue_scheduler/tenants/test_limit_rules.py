"""Which rule of a quota concerns whom."""

from __future__ import annotations

import pytest

from queue_scheduler.tenants.limit_rules import (
    EVERYBODY,
    NO_LIMITS,
    LimitRule,
    QuotaUserLimits,
)

ANN = LimitRule(users=frozenset({"ann"}), running=4, index=0)
ANN_AND_BOB = LimitRule(users=frozenset({"ann", "bob"}), running=2, index=1)
INTERNS = LimitRule(groups=frozenset({"interns"}), running=8, index=2)
OTHER_USERS = LimitRule(users=frozenset(), running=1, index=3)
OTHER_GROUPS = LimitRule(groups=frozenset(), running=20, index=4)
LIMITS = QuotaUserLimits((OTHER_USERS, ANN, ANN_AND_BOB, INTERNS, OTHER_GROUPS))


@pytest.mark.parametrize(
    ("user", "want"),
    [
        pytest.param("ann", ANN, id="the first rule that names a user counts"),
        pytest.param("bob", ANN_AND_BOB, id="a rule may name several users"),
        pytest.param("eve", OTHER_USERS, id="a user that no rule names has the rule of *"),
        pytest.param("namespace:a", OTHER_USERS, id="a namespace counts as a user does"),
    ],
)
def test_one_rule_counts_for_a_user(user: str, want: LimitRule) -> None:
    assert LIMITS.for_user(user) is want


@pytest.mark.parametrize(
    ("group", "want"),
    [
        pytest.param("interns", INTERNS, id="the rule that names a group counts"),
        pytest.param("staff", OTHER_GROUPS, id="a group that no rule names has the rule of *"),
        pytest.param("", OTHER_GROUPS, id="units without a group have the rule of *"),
    ],
)
def test_one_rule_counts_for_a_group(group: str, want: LimitRule) -> None:
    assert LIMITS.for_group(group) is want


def test_a_rule_of_users_concerns_no_group_of_that_name() -> None:
    limits = QuotaUserLimits((ANN, INTERNS))
    assert (limits.for_group("ann"), limits.for_user("interns")) == (None, None)


@pytest.mark.parametrize(
    ("rule", "name", "want"),
    [
        pytest.param(ANN_AND_BOB, "bob", "bob", id="each user that a rule names, alone"),
        pytest.param(OTHER_USERS, "eve", "eve", id="each other user, alone"),
        pytest.param(INTERNS, "interns", "interns", id="the members of a group, together"),
        pytest.param(OTHER_GROUPS, "staff", EVERYBODY, id="all other groups, together"),
    ],
)
def test_what_a_rule_adds_up(rule: LimitRule, name: str, want: str) -> None:
    assert rule.counted_as(name) == want


def test_without_rules_nobody_is_limited() -> None:
    assert not NO_LIMITS
    assert (NO_LIMITS.for_user("ann"), NO_LIMITS.for_group("")) == (None, None)
