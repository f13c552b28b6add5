"""Limits of a QuotaPolicy in base units, and what of them cannot be read."""

from __future__ import annotations

import pytest

from queue_scheduler.tenants.limit_reading import LimitError, read_limits
from queue_scheduler.tenants.limit_rules import LimitRule
from shared_api.objects.quota_policy import UserLimit

ANN = UserLimit(users=("ann",), running=4)


def test_each_entry_becomes_a_rule() -> None:
    entries = (
        UserLimit(users=("ann", "bob"), max={"cpu": "1500m", "memory": "1Gi", "x.org/gpu": 8}),
        UserLimit(groups=("interns",), running=0, pending=50),
        UserLimit(users=("*",), pending=0),
        UserLimit(groups=("*",), running=7),
    )
    amounts = {"cpu": 1500, "memory": 2**30, "x.org/gpu": 8}
    assert read_limits(entries, "p").rules == (
        LimitRule(users=frozenset({"ann", "bob"}), max=amounts, policy="p", index=0),
        LimitRule(groups=frozenset({"interns"}), running=0, pending=50, policy="p", index=1),
        LimitRule(users=frozenset(), pending=0, policy="p", index=2),
        LimitRule(groups=frozenset(), running=7, policy="p", index=3),
    )


def test_a_deprecated_resource_limits_the_one_that_took_its_place() -> None:
    (rule,) = read_limits([UserLimit(users=("ann",), max={"kubernetes.io/gpu": 8})], "p").rules
    assert rule.max == {"koordinator.sh/gpu": 8}


@pytest.mark.parametrize(
    ("entry", "want"),
    [
        pytest.param(UserLimit(running=1), "name either users or groups", id="nobody"),
        pytest.param(
            UserLimit(users=("ann",), groups=("g",), running=1),
            "name either users or groups",
            id="users and groups",
        ),
        pytest.param(UserLimit(users=("ann",)), "set at least one of", id="no limit"),
        pytest.param(
            UserLimit(users=("*", "ann"), running=1), "users: * must stand alone", id="* and a user"
        ),
        pytest.param(
            UserLimit(groups=("g", "*"), running=1),
            "groups: * must stand alone",
            id="* and a group",
        ),
        pytest.param(UserLimit(users=("",), running=1), "users: a name is empty", id="no name"),
        pytest.param(
            UserLimit(users=("ann",), max={"cpu": "1e300"}),
            "max.cpu: '1e300' is larger",
            id="large",
        ),
        pytest.param(
            UserLimit(users=("ann",), max={"cpu": "many"}), "max.cpu: 'many' is not", id="a word"
        ),
        pytest.param(
            UserLimit(users=("ann",), max={"cpu": "-1"}), "max.cpu: '-1' is negative", id="below 0"
        ),
        pytest.param(
            UserLimit(users=("ann",), running=-1), "running: must not be negative", id="running"
        ),
        pytest.param(
            UserLimit(users=("ann",), pending=-1), "pending: must not be negative", id="pending"
        ),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(entry: UserLimit, want: str) -> None:
    with pytest.raises(LimitError) as caught:
        read_limits((ANN, entry), "p")
    assert str(caught.value).startswith("userLimits[1]")
    assert want in str(caught.value)


@pytest.mark.parametrize(
    ("field", "entry"),
    [
        ("users", UserLimit(users=("*",), running=1)),
        ("groups", UserLimit(groups=("*",), running=1)),
    ],
)
def test_only_one_entry_is_for_all_others(field: str, entry: UserLimit) -> None:
    with pytest.raises(LimitError, match=rf"userLimits\[2\].{field}: only one entry may have \*"):
        read_limits((entry, ANN, entry), "p")
