from __future__ import annotations

import pytest

from queue_scheduler.decision import Reason
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import Rounding
from queue_scheduler.quota.quota_spec import parse_quota
from queue_scheduler.quota.quota_tree import QuotaTree, build_forest
from queue_scheduler.quota.runtime_contract import ContractRules, find_breach
from queue_scheduler.quota.runtime_division import DivisionRules
from shared_api.resource_list import Amounts
from tests.properties.quota_cases import build_quota

DIVISION = DivisionRules(Rounding.LARGEST_REMAINDER)


def tree() -> QuotaTree:
    """Return q and r of max 100 and min 20, with equal weight, and s below r."""
    quotas = [
        build_quota(name, minimum={"x": 20}, maximum={"x": 100, "y": 100}, weight={"x": 1, "y": 1})
        for name in "qr"
    ]
    quotas.append(build_quota("s", minimum={"x": 20}, maximum={"x": 100, "y": 100}, parent="r"))
    return build_forest(map(parse_quota, quotas)).trees[""]


def breach(
    quota: str,
    job: Demand,
    rules: ContractRules,
    np_demands: dict[str, Amounts] | None = None,
    **demands: Amounts,
) -> tuple[Reason, str, tuple[str, ...]] | None:
    total = {"x": 100, "y": 100}
    got = find_breach(tree(), demands, np_demands or {}, total, quota, job, rules)
    return None if got is None else (got.reason, got.quota, got.exceed)


def test_min_counts_non_preemptible_usage_below_too() -> None:
    rules = ContractRules(division=DIVISION)
    over = (Reason.NON_PREEMPTIBLE_OVER_MIN, "r", ("x",))
    job = Demand({"x": 11}, non_preemptible=True)
    assert breach("r", job, rules, {"s": {"x": 10}}, s={"x": 10}) == over
    assert breach("r", job, rules, {"q": {"x": 10}}, s={"x": 10}) is None
    assert breach("r", Demand({"x": 11}), rules, {"s": {"x": 10}}, s={"x": 10}) is None


def test_parents_are_checked_if_configured() -> None:
    rules = ContractRules(division=DIVISION, check_parent=True)
    job = Demand({"x": 20})
    assert breach("s", job, rules, s={"x": 0}, q={"x": 40}, r={"x": 45}) == (
        Reason.OVER_PARENT_RUNTIME, "r", ("x",),
    )  # fmt: skip


def test_admission_limits_what_can_be_created() -> None:
    rules = ContractRules(division=DIVISION, admission={"q": {"x": 5}})
    assert breach("q", Demand({"x": 6}), rules) == (Reason.OVER_QUOTA_MAX, "q", ("x",))
    assert breach("q", Demand({"x": 5}), rules) is None
    assert breach("s", Demand({"x": 50}), rules) is None


@pytest.mark.parametrize(
    ("amount", "want"),
    [
        pytest.param(20, None, id="within min: the loan may be called back"),
        pytest.param(21, Reason.HURTS_OTHERS, id="above min: not"),
    ],
)
def test_reclaim(amount: int, want: Reason | None) -> None:
    rules = ContractRules(division=DIVISION, reclaim=True)
    got = breach("q", Demand({"x": amount}), rules, s={"x": 100})
    assert (got and got[0]) == want


def test_reclaim_is_for_quotas_of_the_tree() -> None:
    rules = ContractRules(division=DIVISION, reclaim=True)
    job = Demand({"x": 1})
    assert breach("koordinator-default-quota", job, rules, q={"x": 100}) is not None


@pytest.mark.parametrize(("by_resource", "want"), [(True, ("x",)), (False, None)])
def test_a_quota_that_lacks_one_resource_may_be_hurt_on_others_or_not(
    *, by_resource: bool, want: tuple[str, ...] | None
) -> None:
    rules = ContractRules(division=DIVISION, by_resource=by_resource)
    got = breach("q", Demand({"x": 10}), rules, s={"x": 100, "y": 200})
    assert (got and got[2]) == want
