"""Special cases of the promise; that it agrees with the contract is a property."""

from __future__ import annotations

from queue_scheduler.decision import Reason
from queue_scheduler.quota.quota_decision import Demand, PodStage
from queue_scheduler.quota.quota_settings import QuotaSettings, Rounding
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from shared_api.well_known_labels import DEFAULT_QUOTA, ROOT_QUOTA
from tests.properties.quota_cases import build_quota, take_woken


def new_quotas(rounding: Rounding = Rounding.LARGEST_REMAINDER, **flags: bool) -> QuotaCache:
    return QuotaCache(
        QuotaSettings(
            rounding_override=rounding,
            check_parent=flags.get("check_parent", False),
            cap_by_total=flags.get("cap_by_total", True),
            guarantee_usage=flags.get("guarantee_usage", False),
        )
    )


def why(quotas: QuotaCache, quota: str, **amounts: int) -> tuple[Reason, str] | None:
    got = quotas.check(quota, Demand(amounts))
    return None if got is None else (got.reason, got.other or got.quota)


def test_min_that_is_not_lent_is_out_of_reach() -> None:
    quotas = new_quotas()
    quotas.on_quota(build_quota("a", maximum={"x": 10}))
    quotas.on_quota(build_quota("b", minimum={"x": 7}, maximum={"x": 10}, lends=False))
    quotas.on_capacity({"x": 10})
    assert why(quotas, "a", x=3) is None
    assert why(quotas, "a", x=4) == (Reason.OVER_RUNTIME, "a")
    assert why(quotas, "b", x=7) is None


def test_the_more_cautious_of_two_memories_is_promised() -> None:
    # T = 10, mins 8 and 8, b does not lend and had no pod (os-008): 5 + 5 or 8 + 2 is unknown.
    quotas = new_quotas()
    quotas.on_quota(build_quota("a", minimum={"x": 8}, maximum={"x": 10}))
    quotas.on_quota(build_quota("b", minimum={"x": 8}, maximum={"x": 10}, lends=False))
    quotas.on_capacity({"x": 10})
    views = [quotas.view(name) for name in "ab"]
    assert [view and view.runtime for view in views] == [{"x": 0}, {"x": 5}]
    quotas.charge("one", "a", Demand({"x": 5}))
    assert why(quotas, "b", x=5) is None
    assert why(quotas, "b", x=6) == (Reason.NO_CAPACITY, ROOT_QUOTA)
    assert why(quotas, "a", x=1) == (Reason.OVER_RUNTIME, "a")


def test_a_first_pod_brings_a_min_into_force() -> None:
    # Without a pod b has its scaled min, 4; from its first pod on it asks for 8, of any resource.
    quotas = new_quotas()
    quotas.on_quota(build_quota("a", minimum={"x": 2}, maximum={"x": 10}))
    quota = build_quota("b", minimum={"x": 8}, maximum={"x": 10, "y": 10}, lends=False)
    quotas.on_quota(quota)
    quotas.on_quota(build_quota("c", minimum={"x": 10}, maximum={"x": 10}))
    quotas.on_capacity({"x": 10, "y": 10})
    quotas.charge("one", "a", Demand({"x": 6}))
    refusal = quotas.check("b", Demand({"y": 1}))
    assert refusal is not None
    assert (refusal.reason, refusal.other) == (Reason.HURTS_OTHERS, "a")
    quotas.wait("w", "b", Demand({"y": 1}), refusal)
    before = quotas.view("a")
    quotas.charge("first", "b", Demand({"y": 1}))
    after = quotas.view("b")
    assert before is not None
    assert after is not None
    assert (before.runtime["x"], after.runtime["x"]) == (4, 6)
    assert take_woken(quotas) == ["w"]
    assert why(quotas, "b", y=1) is None


def test_a_loan_is_not_called_back() -> None:
    quotas = new_quotas()
    for name in "ab":
        quotas.on_quota(build_quota(name, minimum={"x": 4}, maximum={"x": 10}))
    quotas.on_capacity({"x": 10})
    quotas.on_foreign("pod", "b", {"x": 9})
    assert why(quotas, "a", x=1) is None
    assert why(quotas, "a", x=2) == (Reason.HURTS_OTHERS, "b")


def test_demand_of_the_default_quota_counts_twice() -> None:
    # Observed (os-004): total 1000, 100 used outside, a and b hungry: 400 each.
    quotas = QuotaCache(QuotaSettings(default_quota_max={"x": 10**6}))
    for name in "ab":
        quotas.on_quota(build_quota(name, maximum={"x": 1000}, weight={"x": 1}))
        quotas.on_foreign(f"pod-{name}", name, {"x": 900})
    quotas.on_foreign("outside", DEFAULT_QUOTA, {"x": 100}, stage=PodStage.BOUND)
    quotas.on_capacity({"x": 1000})
    view = quotas.view("a")
    assert view is not None
    assert view.runtime == {"x": 400}


def test_the_default_quota_may_take_what_no_quota_needs() -> None:
    quotas = QuotaCache(QuotaSettings(default_quota_max={"x": 10**6}))
    quotas.on_quota(build_quota("a", maximum={"x": 1000}))
    quotas.on_capacity({"x": 100})
    quotas.charge("one", "a", Demand({"x": 40}))
    assert why(quotas, DEFAULT_QUOTA, x=30) is None
    assert why(quotas, DEFAULT_QUOTA, x=31) == (Reason.HURTS_OTHERS, "a")
    assert why(quotas, DEFAULT_QUOTA) is None


def test_the_parent_check() -> None:
    quotas = new_quotas(check_parent=True, cap_by_total=False)
    quotas.on_quota(build_quota("p", minimum={"x": 4}, maximum={"x": 100}, is_parent=True))
    quotas.on_quota(build_quota("a", minimum={"x": 4}, maximum={"x": 9}, parent="p"))
    quotas.on_quota(build_quota("b", maximum={"x": 9}, parent="p"))
    quotas.on_quota(build_quota("hungry", maximum={"x": 100}, weight={"x": 1000}))
    quotas.on_capacity({"x": 10})
    quotas.on_foreign("pod", "hungry", {"x": 90})
    quotas.on_foreign("stuck", "b", {"x": 9})
    assert why(quotas, "a", x=3) == (Reason.OVER_PARENT_RUNTIME, "p")


def test_a_resource_that_the_parent_does_not_govern_is_not_limited_by_it() -> None:
    quotas = new_quotas()
    quotas.on_quota(build_quota("p", maximum={"x": 10}, weight={"x": 1, "y": 1}, is_parent=True))
    quotas.on_quota(build_quota("a", maximum={"x": 10, "y": 10}, parent="p"))
    quotas.on_capacity({"x": 10, "y": 10})
    assert why(quotas, "a", x=1, y=9) is None
    view = quotas.view("a")
    assert view is not None
    assert view.runtime == {"x": 0}


def test_a_parent_with_pods_of_its_own_must_stay_covered() -> None:
    quotas = new_quotas()
    quotas.on_quota(build_quota("p", maximum={"x": 10}, is_parent=True))
    quotas.on_quota(build_quota("a", maximum={"x": 10}, parent="p"))
    quotas.on_quota(build_quota("b", minimum={"x": 5}, maximum={"x": 10}))
    quotas.on_capacity({"x": 14})
    quotas.on_foreign("own", "p", {"x": 4})
    quotas.on_foreign("full", "b", {"x": 6})
    assert why(quotas, "a", x=4) is None
    assert why(quotas, "a", x=5) == (Reason.HURTS_OTHERS, "p")


def test_the_gate_for_used_amounts_is_computed_from_scratch() -> None:
    quotas = new_quotas(guarantee_usage=True, cap_by_total=False)
    for name in "ab":
        quotas.on_quota(build_quota(name, minimum={"x": 4}, maximum={"x": 10}))
    quotas.on_capacity({"x": 10})
    quotas.charge("one", "a", Demand({"x": 6}))
    assert why(quotas, "b", x=4) is None
    assert why(quotas, "b", x=5) == (Reason.OVER_RUNTIME, "b")
    assert why(quotas, "b", x=5) != (Reason.NO_CAPACITY, ROOT_QUOTA)
