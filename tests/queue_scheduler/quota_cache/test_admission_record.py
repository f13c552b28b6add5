"""What a demand was admitted on, in each mode of quotas."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings, Rounding
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from shared_api.well_known_labels import ROOT_QUOTA
from tests.properties.quota_cases import build_quota

Row = tuple[str, str, str, int, int, int]
"""Quota, kind, resource, limit, used, requested."""

OWN: Row = ("a", "max", "x", 8, 2, 3)
PARENT: Row = ("top", "max", "x", 9, 5, 3)
NODES: Row = (ROOT_QUOTA, "nodes", "x", 20, 5, 3)


def new_quotas(mode: QuotaMode, nodes: int = 20, **more: Any) -> QuotaCache:
    """Return two quotas below one: `a` uses 2 of its min of 5, half of it fixed, and `b` uses 3."""
    settings = QuotaSettings(mode=mode, rounding_override=Rounding.LARGEST_REMAINDER, **more)
    quotas = QuotaCache(settings)
    quotas.on_quota(build_quota("top", minimum={"x": 6}, maximum={"x": 9}, is_parent=True))
    quotas.on_quota(build_quota("a", minimum={"x": 5}, maximum={"x": 8}, parent="top"))
    quotas.on_quota(build_quota("b", minimum={"x": 1}, maximum={"x": 8}, parent="top"))
    quotas.on_capacity({"x": nodes})
    quotas.on_quota(build_quota("alone", maximum={"x": 8}))
    for name, fixed in (("one", True), ("other", False)):
        quotas.charge(name, "a", Demand({"x": 1}, non_preemptible=fixed))
    quotas.charge("two", "b", Demand({"x": 3}))
    return quotas


def admit(quotas: QuotaCache, demand: Demand, quota: str = "a") -> list[Row]:
    """Charge a demand that fits, and return what it was compared with."""
    assert quotas.check(quota, demand) is None
    record = quotas.charge("new", quota, demand, notes=True)
    assert record is not None
    return [
        (row.quota, row.kind.value, row.resource, row.limit, row.used, row.requested)
        for row in record.limits()
    ]


@pytest.mark.parametrize(
    ("mode", "fixed", "want"),
    [
        pytest.param(QuotaMode.MAX, False, [OWN, PARENT], id="every max on the way up"),
        pytest.param(
            QuotaMode.MIN, False, [("a", "min", "x", 5, 2, 3), OWN, PARENT], id="the min as well",
        ),
        pytest.param(QuotaMode.RUNTIME, False, [OWN, PARENT, NODES], id="and what the nodes have"),
        pytest.param(
            QuotaMode.RUNTIME, True, [OWN, PARENT, ("a", "min", "x", 5, 1, 3), NODES],
            id="the min of what may not be preempted",
        ),
    ],
)  # fmt: skip
def test_which_limits_there_are(mode: QuotaMode, *, fixed: bool, want: list[Row]) -> None:
    assert admit(new_quotas(mode), Demand({"x": 3}, non_preemptible=fixed)) == want


def test_a_runtime_is_noted_where_it_was_computed() -> None:
    """The nodes have too little for all that is asked for, so what they have is divided."""
    quotas = new_quotas(QuotaMode.RUNTIME, nodes=12)
    quotas.on_quota(build_quota("far", minimum={"x": 1}, maximum={"x": 9}))
    quotas.on_foreign("pod", "far", {"x": 9})
    rows = admit(quotas, Demand({"x": 2}))
    assert ("a", "runtime", "x", 4, 2, 2) in rows, rows


@pytest.mark.parametrize(
    ("siblings", "check_parent", "want"),
    [
        pytest.param(3, False, [], id="rounding three shares loses no more than is made up for"),
        pytest.param(
            5, False, [("s0", 4, 1)], id="five are divided, and all have what they ask for"
        ),
        pytest.param(
            5,
            True,
            [("org", 20, 14), ("top", 20, 14), ("s0", 4, 1)],
            id="and the parents are compared, one of which has its min",
        ),
    ],
)
def test_a_runtime_that_was_divided_is_noted_where_all_are_covered(
    siblings: int, *, check_parent: bool, want: list[tuple[str, int, int]]
) -> None:
    quotas = QuotaCache(
        QuotaSettings(rounding_override=Rounding.HALF_UP, check_parent=check_parent)
    )
    quotas.on_quota(build_quota("org", maximum={"x": 90}, is_parent=True))
    top = build_quota("top", minimum={"x": 20}, maximum={"x": 90}, parent="org", lends=False)
    quotas.on_quota(top)
    for number in range(siblings):
        quotas.on_quota(build_quota(f"s{number}", maximum={"x": 9}, parent="top"))
        quotas.charge(f"unit-{number}", f"s{number}", Demand({"x": min(3, number) + 1}))
    quotas.on_capacity({"x": 1000})
    rows = admit(quotas, Demand({"x": 3}), "s0")
    assert [(row[0], row[3], row[4]) for row in rows if row[1] == "runtime"] == want


def test_what_does_not_count_is_no_row() -> None:
    assert admit(new_quotas(QuotaMode.RUNTIME), Demand({"x": 3, "other": 9, "z": 0})) == [
        OWN, PARENT, NODES,
    ]  # fmt: skip


@pytest.mark.parametrize("quota", ["a", "alone"])
def test_a_record_stays_as_it_was_noted(quota: str) -> None:
    quotas, demand = new_quotas(QuotaMode.MAX), Demand({"x": 3})
    assert quotas.check(quota, demand) is None
    record = quotas.charge("new", quota, demand, notes=True)
    assert record is not None
    before = record.limits()
    quotas.charge("later", quota, Demand({"x": 1}))
    assert record.limits() == before
    quotas.on_quota(build_quota(quota, minimum={"x": 5}, maximum={"x": 30}, parent="top"))
    assert record.limits() == before


def test_an_own_charge_of_before_counts_as_it_did_in_the_check() -> None:
    """Pods of an earlier run live on: the demand was asked for in addition."""
    quotas = new_quotas(QuotaMode.MAX)
    quotas.charge("new", "a", Demand({"x": 2}))
    assert admit(quotas, Demand({"x": 2})) == [
        ("a", "max", "x", 8, 4, 2), ("top", "max", "x", 9, 7, 2),
    ]  # fmt: skip


def test_an_unknown_quota_has_no_record() -> None:
    assert new_quotas(QuotaMode.MAX).charge("new", "gone", Demand({"x": 1}), notes=True) is None
