"""Which policy counts for which quota, and what of it is in force."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from queue_scheduler.queueing.managed_queues import PolicyStatement
from queue_scheduler.tenants.quota_policies import UNREADABLE_LIMIT, QuotaPolicies
from shared_api.objects.queue import FairShare
from shared_api.objects.quota_policy import QuotaPolicy, StatedQueue, UserLimit
from tests.properties.engine_kit import build_policy

FOUR = UserLimit(users=("ann",), running=4)
FIVE = UserLimit(users=("ann",), running=5)
TOO_LARGE = UserLimit(users=("ann",), max={"cpu": "1e300"})


def told(*policies: QuotaPolicy) -> QuotaPolicies:
    found = QuotaPolicies()
    for policy in policies:
        found.put(policy)
    return found


def running(policies: QuotaPolicies, quota: str) -> int | None:
    """Return how many units ann may have admitted in a quota; None: any number."""
    rule = policies.limits_of(quota).for_user("ann")
    return None if rule is None else rule.running


def test_each_quota_that_a_policy_names_has_its_limits() -> None:
    policies = told(build_policy("p", ["a", "root/a/b", "team/quota"], FOUR))
    got = {quota: running(policies, quota) for quota in ("a", "root/a/b", "team/quota", "root")}
    assert got == {"a": 4, "root/a/b": 4, "team/quota": 4, "root": None}
    assert (policies.policy_of("a"), policies.policy_of("root")) == ("p", "")


OLDER = build_policy("zero", ["a", "b"], FOUR, second=1)
YOUNGER = build_policy("younger", ["b", "c"], FIVE, second=2)
TWIN = build_policy("alike", ["b"], UserLimit(users=("ann",), running=6), second=1)


@pytest.mark.parametrize(
    ("policies", "want"),
    [
        pytest.param([OLDER, YOUNGER], (4, 4, 5), id="the older counts for what both name"),
        pytest.param([OLDER, TWIN], (4, 6, None), id="of those of one second, the first by name"),
        pytest.param([YOUNGER], (None, 5, 5), id="alone"),
    ],
)
def test_of_policies_that_name_one_quota_the_oldest_counts(
    policies: Sequence[QuotaPolicy], want: tuple[int | None, ...]
) -> None:
    for order in itertools.permutations(policies):
        found = told(*order)
        assert tuple(running(found, quota) for quota in "abc") == want


def test_the_order_of_facts_makes_no_difference() -> None:
    facts = (OLDER, YOUNGER, TWIN, build_policy("bad", ["c"], TOO_LARGE, in_force=[FOUR]))
    answers = []
    for order in itertools.permutations(facts):
        found = told(*order)
        found.drop("alike")
        answers.append([found.limits_of(quota).rules for quota in "abc"])
    assert all(answer == answers[0] for answer in answers)


def test_when_the_older_is_deleted_the_younger_counts() -> None:
    policies = told(OLDER, YOUNGER)
    assert set(policies.drop("zero")) == {"a", "b"}
    assert [running(policies, quota) for quota in "abc"] == [None, 5, 5]
    assert policies.drop("zero") == ()


def test_a_quota_that_is_no_longer_named_has_no_limits() -> None:
    policies = told(build_policy("p", ["a", "b"], FOUR))
    assert policies.put(build_policy("p", ["b"], FOUR)) == ("a",)
    assert [running(policies, quota) for quota in "ab"] == [None, 4]


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        pytest.param(build_policy("p", ["a"], FOUR), (), id="the same again"),
        pytest.param(build_policy("p", ["a"], FOUR, generation=2), (), id="another version"),
        pytest.param(build_policy("p", ["a"], FIVE), ("a",), id="another limit"),
        pytest.param(build_policy("p", ["a", "b"], FOUR), ("b",), id="one more quota"),
        pytest.param(build_policy("q", ["a"], FIVE, second=9), (), id="a younger policy"),
        pytest.param(build_policy("p", ["a", "a"], FOUR), (), id="a quota twice"),
    ],
)
def test_a_change_names_the_quotas_whose_limits_differ(
    policy: QuotaPolicy, want: tuple[str, ...]
) -> None:
    assert told(build_policy("p", ["a"], FOUR)).put(policy) == want


def test_a_policy_elsewhere_counts_for_nothing() -> None:
    policies = told(build_policy("p", ["a"], FOUR, namespace="team-a"))
    assert (running(policies, "a"), list(policies)) == (None, [])


# --- what cannot be read ------------------------------------------------------------------------


def test_bad_settings_of_limits_leave_those_before_in_force() -> None:
    policies = told(build_policy("p", ["a"], FOUR), build_policy("p", ["a", "b"], TOO_LARGE))
    assert [running(policies, quota) for quota in "ab"] == [4, 4]
    stated = policies.find("p")
    assert stated is not None
    assert stated.user_limits == (FOUR,)
    assert "userLimits[0].max.cpu: '1e300' is larger" in stated.problem
    assert stated.problem.endswith("the last valid limits stay in force")


def test_bad_settings_leave_what_was_in_force_before_a_restart() -> None:
    policies = told(build_policy("p", ["a"], TOO_LARGE, in_force=[FOUR]))
    assert running(policies, "a") == 4


@pytest.mark.parametrize("in_force", [[], [TOO_LARGE]], ids=["nothing", "an unreadable limit"])
def test_without_a_value_before_nothing_is_in_force(in_force: list[UserLimit]) -> None:
    policies = told(build_policy("p", ["a"], TOO_LARGE, in_force=in_force))
    assert (running(policies, "a"), policies.policy_of("a")) == (None, "p")


def test_a_status_counts_for_nothing_while_the_spec_can_be_read() -> None:
    assert running(told(build_policy("p", ["a"], FIVE, in_force=[FOUR])), "a") == 5
    assert running(told(build_policy("p", ["a"], in_force=[FOUR])), "a") is None


def test_a_policy_of_the_same_name_inherits_nothing() -> None:
    policies = told(build_policy("p", ["a"], FOUR), build_policy("p", ["a"], TOO_LARGE, uid="2"))
    assert running(policies, "a") is None


def test_a_corrected_policy_is_in_force_at_once() -> None:
    policies = told(build_policy("p", ["a"], FOUR), build_policy("p", ["a"], TOO_LARGE))
    policies.put(build_policy("p", ["a"], FIVE))
    stated = policies.find("p")
    assert stated is not None
    assert (running(policies, "a"), stated.problem) == (5, "")


def test_what_cannot_be_read_is_told_once() -> None:
    policies = told(build_policy("p", ["a"], TOO_LARGE), build_policy("p", ["a"], TOO_LARGE))
    (notice,) = policies.take_notices()
    assert (notice.kind, notice.key, notice.reason) == (
        "QuotaPolicy",
        "koord-queue/p",
        UNREADABLE_LIMIT,
    )
    policies.put(build_policy("p", ["a", "b"], TOO_LARGE))
    assert policies.take_notices() == []
    policies.put(build_policy("p", ["a"], UserLimit(users=("ann",), running=-1)))
    assert len(policies.take_notices()) == 1


def test_of_a_deleted_policy_nothing_is_told() -> None:
    policies = told(build_policy("p", ["a"], TOO_LARGE))
    policies.drop("p")
    assert policies.take_notices() == []


# --- the kind -----------------------------------------------------------------------------------


def test_without_the_kind_there_are_no_policies() -> None:
    policies = told(OLDER, YOUNGER)
    assert policies.set_served(are_served=True) == ()
    assert running(policies, "a") == 4
    assert policies.set_served(are_served=False) == ("a", "b", "c")
    assert not list(policies)
    assert (policies.are_served, running(policies, "a")) == (False, None)


def test_whether_there_is_the_kind_is_not_known_at_first() -> None:
    assert QuotaPolicies().are_served is None


def test_a_copy_is_independent() -> None:
    policies = told(OLDER, YOUNGER)
    policies.set_served(are_served=True)
    twin = policies.copy()
    assert (twin.are_served, running(twin, "b")) == (True, 4)
    twin.drop("zero")
    twin.put(build_policy("younger", ["c"], FOUR, second=2))
    assert [running(policies, quota) for quota in "abc"] == [4, 4, 5]
    assert [running(twin, quota) for quota in "abc"] == [None, None, 4]


def test_a_fair_share_that_cannot_be_read_leaves_the_last_valid_one() -> None:
    policies = QuotaPolicies()
    policy = build_policy("p", ["a"])
    for half_life in ("1h", "0s"):
        queue = StatedQueue(FairShare(half_life=half_life))
        policies.put(replace(policy, spec=replace(policy.spec, queue=queue)))
    stated = policies.statement_of("a")
    assert stated == PolicyStatement("p", FairShare(half_life="1h"))
    found = policies.find("p")
    assert found is not None
    assert found.problem.startswith("queue.fairShare.halfLife: '0s' is not between")
    assert found.problem_reason == "UnreadableFairShare"
