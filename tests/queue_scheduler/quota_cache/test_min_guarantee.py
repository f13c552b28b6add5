from __future__ import annotations

import pytest

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.quota.quota_decision import Demand, PodStage
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings, Rounding
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from shared_api.well_known_labels import ROOT_QUOTA
from tests.properties.quota_cases import build_quota, take_woken

GUARANTEE = Reason.GUARANTEE_OF_OTHERS


def cluster(mode: QuotaMode = QuotaMode.RUNTIME) -> QuotaCache:
    """Return owner and two borrowers below one parent of max 10, all of min 3."""
    quotas = QuotaCache(QuotaSettings(mode=mode, rounding_override=Rounding.LARGEST_REMAINDER))
    quotas.on_quota(build_quota("p", minimum={"x": 9}, maximum={"x": 10}, is_parent=True))
    for name in ("owner", "b1", "b2"):
        quotas.on_quota(build_quota(name, minimum={"x": 3}, maximum={"x": 9}, parent="p"))
    quotas.on_quota(build_quota("far", minimum={"x": 1}, maximum={"x": 99}))
    quotas.on_capacity({"x": 12})
    return quotas


def reason(quotas: QuotaCache, quota: str, amount: int) -> Reason | None:
    got = quotas.check(quota, Demand({"x": amount}))
    return None if got is None else got.reason


@pytest.mark.parametrize("mode", [QuotaMode.RUNTIME, QuotaMode.MAX])
def test_a_borrower_leaves_the_room_that_an_owner_needs(mode: QuotaMode) -> None:
    quotas = cluster(mode)
    quotas.charge("one", "b1", Demand({"x": 8}))
    assert reason(quotas, "b2", 2) is None
    quotas.protect("owner", Demand({"x": 3}))
    quotas.charge("two", "b2", Demand({"x": 3}))
    quotas.release("one")
    assert reason(quotas, "b1", 3) is None
    assert reason(quotas, "b1", 4) is None
    assert quotas.check("b1", Demand({"x": 5})) == Refusal(
        reason=GUARANTEE, quota="p", resource="x",
        limit=7, used=3, requested=5, other="owner",
    )  # fmt: skip


def test_the_total_is_shared_in_runtime_mode() -> None:
    quotas = cluster()
    quotas.charge("one", "far", Demand({"x": 6}))
    quotas.protect("owner", Demand({"x": 3}))
    got = quotas.check("far", Demand({"x": 4}))
    assert got is not None
    assert (got.reason, got.quota, got.other) == (GUARANTEE, ROOT_QUOTA, "owner")
    assert reason(quotas, "far", 3) is None
    assert reason(cluster(QuotaMode.MAX), "far", 50) is None


def test_its_own_waiting_demand_is_no_obstacle() -> None:
    quotas = cluster()
    quotas.protect("owner", Demand({"x": 3}))
    assert reason(quotas, "owner", 9) is None


@pytest.mark.parametrize(
    ("amount", "booked", "want"),
    [
        pytest.param(3, 0, GUARANTEE, id="whole, and within min"),
        pytest.param(2, 1, GUARANTEE, id="within min, including running usage"),
        pytest.param(4, 0, None, id="more than min"),
        pytest.param(2, 2, None, id="more than min, including running usage"),
    ],
)
def test_which_demands_are_protected(amount: int, booked: int, want: Reason | None) -> None:
    quotas = cluster()
    quotas.charge("mine", "owner", Demand({"x": booked}))
    quotas.charge("one", "b1", Demand({"x": 3}))
    quotas.protect("owner", Demand({"x": amount}))
    assert reason(quotas, "b1", 6 - booked) == want


def test_a_broken_quota_protects_nothing() -> None:
    quotas = cluster()
    quotas.protect("owner", Demand({"x": 3}))
    assert reason(quotas, "b1", 8) is GUARANTEE
    quotas.on_quota(build_quota("owner", minimum={"x": 3}, maximum={"x": 9}, parent="gone"))
    assert reason(quotas, "b1", 8) is None


def test_room_is_kept_for_a_quota_that_shares_a_limit() -> None:
    quotas = cluster(QuotaMode.MAX)
    quotas.protect("far", Demand({"x": 1}))
    assert quotas.keeps_room_for("far"), "it has not been asked yet, so it is not known"
    quotas.check("far", Demand({"x": 1}))
    kept = {name: quotas.keeps_room_for(name) for name in ("p", "owner", "far", "unknown")}
    assert kept == {"p": True, "owner": True, "far": False, "unknown": True}
    runtimes = cluster(QuotaMode.RUNTIME)
    runtimes.check("far", Demand({"x": 1}))
    assert runtimes.keeps_room_for("far"), "all share the nodes"


def test_use_of_children_counts_for_their_parent() -> None:
    quotas = cluster()
    quotas.protect("p", Demand({"x": 2}))
    assert reason(quotas, "far", 11) is GUARANTEE
    quotas.charge("one", "b1", Demand({"x": 8}))
    assert reason(quotas, "far", 4) is None


def test_mins_are_scaled_to_the_capacity() -> None:
    quotas = cluster()
    quotas.on_capacity({"x": 5})
    views = [quotas.view(name) for name in ("p", "owner", "far")]
    assert [view and view.scaled_min for view in views] == [{"x": 4}, {"x": 1}, {"x": 0}]


def test_a_parent_without_min_claims_what_its_children_do() -> None:
    quotas = QuotaCache(QuotaSettings())
    quotas.on_quota(build_quota("p", maximum={"x": 8}, is_parent=True))
    quotas.on_quota(build_quota("a", minimum={"x": 9}, maximum={"x": 9}, parent="p"))
    quotas.on_capacity({"x": 100})
    views = [quotas.view(name) for name in ("p", "a")]
    assert [view and view.scaled_min for view in views] == [{"x": 8}, {"x": 8}]


@pytest.mark.parametrize(
    ("change", "is_woken"),
    [("protected", True), ("room", True), ("start", False)],
)
def test_a_unit_that_waits_for_the_guarantee_is_woken(change: str, *, is_woken: bool) -> None:
    quotas = cluster()
    quotas.charge("one", "b2", Demand({"x": 3}))
    quotas.protect("owner", Demand({"x": 3}))
    demand = Demand({"x": 5})
    refusal = quotas.check("b1", demand)
    assert refusal is not None
    quotas.wait("w", "b1", demand, refusal)
    match change:
        case "protected":
            quotas.protect("owner", None)
        case "room":
            quotas.release("one")
        case _:
            quotas.charge("more", "far", Demand({"x": 1}))
    assert take_woken(quotas) == (["w"] if is_woken else [])


def test_default_quota_use_changes_what_owners_are_entitled_to() -> None:
    quotas = QuotaCache(QuotaSettings(default_quota_max={"x": 99}))
    quotas.on_quota(build_quota("owner", minimum={"x": 6}, maximum={"x": 9}))
    quotas.on_quota(build_quota("b", minimum={"x": 4}, maximum={"x": 10}))
    quotas.on_capacity({"x": 10})
    quotas.protect("owner", Demand({"x": 6}))
    assert reason(quotas, "b", 5) is GUARANTEE
    quotas.on_foreign("pod", "koordinator-default-quota", {"x": 5}, stage=PodStage.BOUND)
    view = quotas.view("owner")
    assert view is not None
    assert (view.scaled_min, view.protected) == ({"x": 3}, {})
    quotas.validate()
