from __future__ import annotations

import pytest

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings, Rounding
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from shared_api.well_known_labels import ROOT_QUOTA
from tests.properties.quota_cases import build_quota, take_woken

GUARANTEE = Reason.GUARANTEE_OF_OTHERS


def cluster(mode: QuotaMode = QuotaMode.RUNTIME) -> QuotaCache:
    """Return owner and two borrowers below one parent of max 10, all of min 3."""
    books = QuotaCache(QuotaSettings(mode=mode, rounding_override=Rounding.LARGEST_REMAINDER))
    books.on_quota(build_quota("p", minimum={"x": 9}, maximum={"x": 10}, is_parent=True))
    for name in ("owner", "b1", "b2"):
        books.on_quota(build_quota(name, minimum={"x": 3}, maximum={"x": 9}, parent="p"))
    books.on_quota(build_quota("far", minimum={"x": 1}, maximum={"x": 99}))
    books.on_capacity({"x": 12})
    return books


def reason(books: QuotaCache, quota: str, amount: int) -> Reason | None:
    got = books.check(quota, Demand({"x": amount}))
    return None if got is None else got.reason


@pytest.mark.parametrize("mode", [QuotaMode.RUNTIME, QuotaMode.MAX])
def test_a_borrower_leaves_the_room_that_an_owner_needs(mode: QuotaMode) -> None:
    books = cluster(mode)
    books.book("one", "b1", Demand({"x": 8}))
    assert reason(books, "b2", 2) is None
    books.protect("owner", Demand({"x": 3}))
    books.book("two", "b2", Demand({"x": 3}))
    books.release("one")
    assert reason(books, "b1", 3) is None
    assert reason(books, "b1", 4) is None
    assert books.check("b1", Demand({"x": 5})) == Refusal(
        reason=GUARANTEE, quota="p", resource="x",
        limit=7, used=3, requested=5, other="owner",
    )  # fmt: skip


def test_the_total_is_shared_in_runtime_mode() -> None:
    books = cluster()
    books.book("one", "far", Demand({"x": 6}))
    books.protect("owner", Demand({"x": 3}))
    got = books.check("far", Demand({"x": 4}))
    assert got is not None
    assert (got.reason, got.quota, got.other) == (GUARANTEE, ROOT_QUOTA, "owner")
    assert reason(books, "far", 3) is None
    assert reason(cluster(QuotaMode.MAX), "far", 50) is None


def test_own_waiting_demand_is_no_obstacle() -> None:
    books = cluster()
    books.protect("owner", Demand({"x": 3}))
    assert reason(books, "owner", 9) is None


@pytest.mark.parametrize(
    ("amount", "booked", "want"),
    [
        pytest.param(3, 0, GUARANTEE, id="whole, and within min"),
        pytest.param(2, 1, GUARANTEE, id="with what runs still within min"),
        pytest.param(4, 0, None, id="more than min"),
        pytest.param(2, 2, None, id="with what runs more than min"),
    ],
)
def test_who_is_protected(amount: int, booked: int, want: Reason | None) -> None:
    books = cluster()
    books.book("mine", "owner", Demand({"x": booked}))
    books.book("one", "b1", Demand({"x": 3}))
    books.protect("owner", Demand({"x": amount}))
    assert reason(books, "b1", 6 - booked) == want


def test_a_broken_quota_protects_nothing() -> None:
    books = cluster()
    books.protect("owner", Demand({"x": 3}))
    assert reason(books, "b1", 8) is GUARANTEE
    books.on_quota(build_quota("owner", minimum={"x": 3}, maximum={"x": 9}, parent="gone"))
    assert reason(books, "b1", 8) is None


def test_room_is_kept_for_a_quota_that_shares_a_limit() -> None:
    books = cluster(QuotaMode.MAX)
    books.protect("far", Demand({"x": 1}))
    assert books.keeps_room_for("far"), "nobody has asked yet, so it is not known"
    books.check("far", Demand({"x": 1}))
    kept = {name: books.keeps_room_for(name) for name in ("p", "owner", "far", "unknown")}
    assert kept == {"p": True, "owner": True, "far": False, "unknown": True}
    runtimes = cluster(QuotaMode.RUNTIME)
    runtimes.check("far", Demand({"x": 1}))
    assert runtimes.keeps_room_for("far"), "all share the nodes"


def test_use_of_children_counts_for_their_parent() -> None:
    books = cluster()
    books.protect("p", Demand({"x": 2}))
    assert reason(books, "far", 11) is GUARANTEE
    books.book("one", "b1", Demand({"x": 8}))
    assert reason(books, "far", 4) is None


def test_mins_are_scaled_to_what_there_is() -> None:
    books = cluster()
    books.on_capacity({"x": 5})
    views = [books.view(name) for name in ("p", "owner", "far")]
    assert [view and view.scaled_min for view in views] == [{"x": 4}, {"x": 1}, {"x": 0}]


def test_a_parent_without_min_claims_what_its_children_do() -> None:
    books = QuotaCache(QuotaSettings())
    books.on_quota(build_quota("p", maximum={"x": 8}, is_parent=True))
    books.on_quota(build_quota("a", minimum={"x": 9}, maximum={"x": 9}, parent="p"))
    books.on_capacity({"x": 100})
    views = [books.view(name) for name in ("p", "a")]
    assert [view and view.scaled_min for view in views] == [{"x": 8}, {"x": 8}]


@pytest.mark.parametrize(
    ("change", "is_woken"),
    [("protected", True), ("room", True), ("start", False)],
)
def test_who_waits_for_the_guarantee_is_woken(change: str, *, is_woken: bool) -> None:
    books = cluster()
    books.book("one", "b2", Demand({"x": 3}))
    books.protect("owner", Demand({"x": 3}))
    demand = Demand({"x": 5})
    refusal = books.check("b1", demand)
    assert refusal is not None
    books.wait("w", "b1", demand, refusal)
    match change:
        case "protected":
            books.protect("owner", None)
        case "room":
            books.release("one")
        case _:
            books.book("more", "far", Demand({"x": 1}))
    assert take_woken(books) == (["w"] if is_woken else [])


def test_default_quota_use_changes_what_owners_are_entitled_to() -> None:
    books = QuotaCache(QuotaSettings(default_quota_max={"x": 99}))
    books.on_quota(build_quota("owner", minimum={"x": 6}, maximum={"x": 9}))
    books.on_quota(build_quota("b", minimum={"x": 4}, maximum={"x": 10}))
    books.on_capacity({"x": 10})
    books.protect("owner", Demand({"x": 6}))
    assert reason(books, "b", 5) is GUARANTEE
    books.on_foreign("pod", "koordinator-default-quota", {"x": 5}, bound=True)
    view = books.view("owner")
    assert view is not None
    assert (view.scaled_min, view.protected) == ({"x": 3}, {})
    books.validate()
