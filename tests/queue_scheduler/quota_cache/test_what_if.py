"""Queries about hypothetical bookings (the properties are in tests/properties)."""

from __future__ import annotations

import pytest

from queue_scheduler.decision import Reason
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from queue_scheduler.quota_cache.quota_ledger import QuotaLedger
from queue_scheduler.quota_cache.what_if import net_changes
from tests.properties.quota_cases import build_quota, take_woken

EVERY_MODE = pytest.mark.parametrize("mode", list(QuotaMode))
FOUR, SIX = Demand({"x": 4}), Demand({"x": 6})


def quota_of_ten(mode: QuotaMode) -> QuotaCache:
    """Return a quota cache of a quota of 10, with two units of 4 charged."""
    quotas = QuotaCache(QuotaSettings(mode=mode))
    quotas.on_quota(build_quota("a", minimum={"x": 10}, maximum={"x": 10}))
    quotas.on_capacity({"x": 100})
    quotas.charge("one", "a", FOUR)
    quotas.charge("two", "a", FOUR)
    return quotas


@EVERY_MODE
@pytest.mark.parametrize(
    ("released", "added", "fits"),
    [
        pytest.param([], [], False, id="as things are"),
        pytest.param(["one"], [], True, id="one gone"),
        pytest.param(["one", "one"], [("a", FOUR)], False, id="one gone, another instead"),
        pytest.param(["one", "two"], [("a", FOUR)], True, id="both gone, another instead of one"),
        pytest.param(["nobody"], [], False, id="an unknown unit gone"),
        pytest.param(["one"], [("elsewhere", SIX)], True, id="in no tree"),
    ],
)
def test_it_fits_if_enough_is_gone(
    mode: QuotaMode, released: list[str], added: list[tuple[str, Demand]], *, fits: bool
) -> None:
    quotas = quota_of_ten(mode)
    got = quotas.check_without("a", SIX, released, added)
    assert (got is None) == fits
    assert quotas.check("a", SIX) is not None
    quotas.validate()


def test_an_unknown_quota_stays_unknown() -> None:
    got = quota_of_ten(QuotaMode.MAX).check_without("b", FOUR, ["one"])
    assert got is not None
    assert got.reason is Reason.UNKNOWN_QUOTA


@EVERY_MODE
def test_no_waiter_is_woken_by_a_query(mode: QuotaMode) -> None:
    quotas = quota_of_ten(mode)
    refusal = quotas.check("a", SIX)
    assert refusal is not None
    quotas.wait("waiter", "a", SIX, refusal)
    assert quotas.check_without("a", SIX, ["one", "two"]) is None
    assert take_woken(quotas) == []
    quotas.release("one")
    assert take_woken(quotas) == ["waiter"]


def test_a_unit_that_would_be_within_its_min_would_be_protected() -> None:
    quotas = QuotaCache(QuotaSettings(mode=QuotaMode.MAX))
    quotas.on_quota(build_quota("p", minimum={"x": 10}, maximum={"x": 10}, is_parent=True))
    for name in ("owner", "other"):
        quotas.on_quota(build_quota(name, minimum={"x": 5}, maximum={"x": 10}, parent="p"))
    quotas.charge("one", "owner", Demand({"x": 3}))
    quotas.protect("owner", FOUR)
    assert quotas.check_without("other", SIX, []) is None
    got = quotas.check_without("other", Demand({"x": 7}), ["one"])
    assert got is not None
    assert got.reason is Reason.GUARANTEE_OF_OTHERS
    assert quotas.check("other", SIX) is None


@EVERY_MODE
def test_a_query_leaves_the_marks_of_changes(mode: QuotaMode) -> None:
    quotas = quota_of_ten(mode)
    quotas.on_quota(build_quota("b", minimum={"x": 5}, maximum={"x": 10}))
    quotas.protect("b", FOUR)
    refusal = quotas.check("a", SIX)
    assert refusal is not None
    quotas.wait("waiter", "a", SIX, refusal)
    tree = quotas.trees.trees[""]
    for node in (*tree.nodes.values(), tree.root):
        tree.changes.watch(node.name)

    def marks() -> list[object]:
        changes = tree.changes
        ages = [changes.charged_at(name) for name in tree.nodes]
        seen = [dict(changes.touched), dict(changes.keys), changes.is_room_freed]
        return [changes.clock, changes.is_entitled_anew, *seen, *ages]

    before = marks()
    # With that much more in it, the unit that waits in b would no longer be protected.
    quotas.check_without("a", SIX, ["one"], [("b", SIX)])
    assert marks() == before
    quotas.release("one")
    assert marks() != before


def test_non_preemptible_usage_is_released_within_min() -> None:
    quotas = QuotaCache(QuotaSettings(mode=QuotaMode.RUNTIME))
    quotas.on_quota(build_quota("a", minimum={"x": 10}, maximum={"x": 50}))
    quotas.on_capacity({"x": 100})
    firm = Demand({"x": 8}, non_preemptible=True)
    quotas.charge("one", "a", firm)
    got = quotas.check_without("a", firm, [])
    assert got is not None
    assert got.reason is Reason.NON_PREEMPTIBLE_OVER_MIN
    assert quotas.check_without("a", firm, ["one"]) is None


def test_non_preemptible_parts_are_kept_separate() -> None:
    ledger = QuotaLedger()
    ledger.charge("one", "a", Demand({"x": 4, "y": 0}, non_preemptible=True))
    ledger.charge("two", "a", Demand({"x": 1}))
    got = net_changes(ledger, ["one", "two"], [("a", Demand({"x": 2}, non_preemptible=True))])
    assert {name: (dict(all_of_it), dict(np)) for name, (all_of_it, np) in got.items()} == {
        "a": ({"x": -3}, {"x": -2})
    }
