"""What each mode compares with which limit, in the quota cache."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.quota.quota_decision import Demand, PodStage
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from shared_api.well_known_labels import DEFAULT_QUOTA, ROOT_QUOTA
from tests.properties.quota_cases import build_quota, take_woken


def books_in(mode: QuotaMode, rate: tuple[int, int] = (1, 1)) -> QuotaCache:
    """Return a parent of max 10 with two children of min 3 and max 8; y only at the parent."""
    settings = QuotaSettings(mode=mode, oversell_numerator=rate[0], oversell_denominator=rate[1])
    quotas = QuotaCache(settings)
    quotas.on_quota(build_quota("p", minimum={"x": 6}, maximum={"x": 10, "y": 5}, is_parent=True))
    for name in ("a", "b"):
        quotas.on_quota(build_quota(name, minimum={"x": 3}, maximum={"x": 8}, parent="p"))
    quotas.on_quota(build_quota("free", weight={"x": 1}))
    quotas.on_capacity({"x": 100, "y": 100})
    return quotas


def refusal(quotas: QuotaCache, quota: str, **amounts: int) -> tuple[Reason, str] | None:
    got = quotas.check(quota, Demand(amounts))
    return None if got is None else (got.reason, got.quota)


OVER_MAX, OVER_PARENT = Reason.OVER_QUOTA_MAX, Reason.OVER_PARENT_MAX


@pytest.mark.parametrize("mode", [QuotaMode.MAX, QuotaMode.RUNTIME])
def test_max_at_the_quota_and_at_its_ancestors(mode: QuotaMode) -> None:
    quotas = books_in(mode)
    assert refusal(quotas, "a", x=8) is None
    assert refusal(quotas, "a", x=9) == (OVER_MAX, "a")
    quotas.charge("one", "b", Demand({"x": 6}))
    assert refusal(quotas, "a", x=4) is None
    assert refusal(quotas, "a", x=5) == (OVER_PARENT, "p")


def test_a_refusal_carries_its_numbers() -> None:
    quotas = books_in(QuotaMode.MAX)
    quotas.charge("one", "a", Demand({"x": 6}))
    assert quotas.check("a", Demand({"x": 5})) == Refusal(
        reason=OVER_MAX, quota="a", resource="x", limit=8, used=6, requested=5
    )


def test_max_mode_judges_each_level_by_its_own_resources() -> None:
    quotas = books_in(QuotaMode.MAX)
    assert refusal(quotas, "a", y=5, z=99) is None
    assert refusal(quotas, "a", y=6) == (OVER_PARENT, "p")
    assert refusal(quotas, "free", x=10**9) is None


def test_runtime_mode_knows_the_resources_of_the_quota_only() -> None:
    quotas = books_in(QuotaMode.RUNTIME)
    assert refusal(quotas, "a", y=6, z=99) is None


def test_overselling_raises_every_max() -> None:
    quotas = books_in(QuotaMode.MAX, rate=(3, 2))
    assert refusal(quotas, "a", x=12) is None
    assert refusal(quotas, "a", x=13) == (OVER_MAX, "a")
    quotas.charge("one", "b", Demand({"x": 6}))
    assert refusal(quotas, "a", x=9) is None
    assert refusal(quotas, "a", x=10) == (OVER_PARENT, "p")


def test_min_mode() -> None:
    quotas = books_in(QuotaMode.MIN)
    assert refusal(quotas, "a", x=3) is None
    assert refusal(quotas, "a", x=4) == (Reason.OVER_MIN, "a")
    quotas.on_quota(build_quota("a", maximum={"x": 8}, parent="p"))
    assert refusal(quotas, "a", x=1) == (Reason.OVER_MIN, "a")
    quotas.charge("much", "b", Demand({"x": 9}))
    quotas.on_quota(build_quota("a", minimum={"x": 3}, maximum={"x": 8}, parent="p"))
    assert refusal(quotas, "a", x=2) == (OVER_PARENT, "p")


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        pytest.param(QuotaMode.MAX, None, id="max does not count pods without unit"),
        pytest.param(QuotaMode.RUNTIME, (OVER_MAX, "a"), id="runtime does"),
        pytest.param(QuotaMode.MIN, (Reason.OVER_MIN, "a"), id="min does"),
    ],
)
def test_foreign_pods(mode: QuotaMode, want: tuple[Reason, str] | None) -> None:
    quotas = books_in(mode)
    quotas.on_foreign("pod", "a", {"x": 7}, stage=PodStage.BOUND)
    assert refusal(quotas, "a", x=2) == want
    quotas.on_foreign("pod", "a", None)
    assert refusal(quotas, "a", x=2) is None


def test_a_hopeless_pod_blocks_its_quota_and_not_the_branch() -> None:
    quotas = books_in(QuotaMode.RUNTIME)
    quotas.on_foreign("pod", "a", {"x": 50})
    assert refusal(quotas, "a", x=1) == (OVER_MAX, "a")
    assert refusal(quotas, "b", x=2) is None
    quotas.on_foreign("pod", "a", {"x": 50}, stage=PodStage.BOUND)
    assert refusal(quotas, "b", x=2) == (OVER_PARENT, "p")


def test_pending_pods_do_not_help_an_ancestor() -> None:
    quotas = books_in(QuotaMode.MIN)
    quotas.on_quota(build_quota("b", minimum={"x": 8}, maximum={"x": 8}, parent="p"))
    quotas.on_foreign("pod", "a", {"x": 50})
    quotas.charge("one", "a", Demand({"x": 2}))
    assert refusal(quotas, "b", x=8) is None
    quotas.charge("one", "a", Demand({"x": 3}))
    assert refusal(quotas, "b", x=8) == (OVER_PARENT, "p")


def test_an_excess_of_a_quota_blocks_all_of_it() -> None:
    quotas = books_in(QuotaMode.RUNTIME)
    quotas.on_quota(build_quota("a", maximum={"x": 8, "y": 2}, parent="p"))
    quotas.charge("adopted", "a", Demand({"y": 3}))
    got = quotas.check("a", Demand({"x": 1}))
    assert got == Refusal(reason=OVER_MAX, quota="a", resource="y", limit=2, used=3, requested=0)


def test_non_preemptible_demand_is_limited_by_min() -> None:
    quotas = books_in(QuotaMode.RUNTIME)
    reason = Reason.NON_PREEMPTIBLE_OVER_MIN
    quotas.charge("one", "a", Demand({"x": 2}, non_preemptible=True))
    quotas.charge("two", "a", Demand({"x": 2}))
    assert quotas.check("a", Demand({"x": 1}, non_preemptible=True)) is None
    got = quotas.check("a", Demand({"x": 2}, non_preemptible=True))
    assert got is not None
    assert (got.reason, got.limit, got.used) == (reason, 3, 2)
    quotas.release("one")
    assert quotas.check("a", Demand({"x": 2}, non_preemptible=True)) is None


def lowered_min() -> QuotaCache:
    """Return a quota of which 3 x run that may not be preempted, and whose min is 2 x by now."""
    quotas = QuotaCache(QuotaSettings(mode=QuotaMode.RUNTIME))
    quotas.on_quota(build_quota("a", minimum={"x": 2, "y": 4}, maximum={"x": 8, "y": 8}))
    quotas.on_capacity({"x": 100, "y": 100})
    quotas.charge("one", "a", Demand({"x": 3}, non_preemptible=True))
    return quotas


FIRM_Y = Demand({"y": 1}, non_preemptible=True)


def test_non_preemptible_demand_waits_while_min_is_exceeded_on_any_resource() -> None:
    quotas = lowered_min()
    want = Refusal(
        reason=Reason.NON_PREEMPTIBLE_OVER_MIN,
        quota="a",
        resource="x",
        limit=2,
        used=3,
        requested=0,
    )
    assert quotas.check("a", FIRM_Y) == want
    assert quotas.every_refusal("a", FIRM_Y) == [want]
    assert quotas.check("a", Demand({}, non_preemptible=True)) == want
    assert quotas.check("a", Demand({"y": 1})) is None
    # What is not in min is not limited by it.
    quotas.on_quota(build_quota("a", minimum={"y": 4}, maximum={"x": 8, "y": 8}))
    assert quotas.check("a", FIRM_Y) is None


@pytest.mark.parametrize(
    "heal",
    [
        pytest.param(lambda quotas: quotas.release("one"), id="it ends"),
        pytest.param(
            lambda quotas: quotas.charge("one", "a", Demand({"x": 2}, non_preemptible=True)),
            id="it shrinks",
        ),
        pytest.param(
            lambda quotas: quotas.charge("one", "a", Demand({"x": 3})), id="it is preemptible"
        ),
        pytest.param(
            lambda quotas: quotas.on_quota(
                build_quota("a", minimum={"x": 3, "y": 4}, maximum={"x": 8, "y": 8})
            ),
            id="min is raised",
        ),
    ],
)
def test_a_waiter_is_woken_once_min_is_no_longer_exceeded(
    heal: Callable[[QuotaCache], object],
) -> None:
    quotas = lowered_min()
    refusal = quotas.check("a", FIRM_Y)
    assert refusal is not None
    quotas.wait("waits", "a", FIRM_Y, refusal)
    quotas.charge("other", "a", Demand({"y": 1}))
    quotas.release("other")
    assert take_woken(quotas) == []
    heal(quotas)
    assert take_woken(quotas) == ["waits"]
    assert quotas.check("a", FIRM_Y) is None


def test_the_end_of_what_exceeds_min_is_supposed() -> None:
    quotas = lowered_min()
    assert quotas.check_without("a", FIRM_Y, ["one"]) is None
    got = quotas.check_without("a", FIRM_Y, [])
    assert got is not None
    assert got.resource == "x"


def test_the_nodes_limit_starts() -> None:
    quotas = books_in(QuotaMode.RUNTIME)
    quotas.on_capacity({"x": 7})
    quotas.charge("one", "b", Demand({"x": 4}))
    got = quotas.check("a", Demand({"x": 4}))
    assert got is not None
    assert (got.reason, got.quota, got.limit, got.used) == (
        Reason.NO_CAPACITY, ROOT_QUOTA, 7, 4,
    )  # fmt: skip
    assert refusal(quotas, "a", x=3) is None


def test_default_quota_is_unlimited_and_takes_from_all() -> None:
    quotas = books_in(QuotaMode.RUNTIME)
    assert quotas.check(DEFAULT_QUOTA, Demand({"memory": 10**15})) is None
    quotas.on_capacity({"x": 7, "cpu": 5000})
    quotas.on_quota(build_quota("c", maximum={"cpu": 9}))
    quotas.charge("one", "c", Demand({"cpu": 4000}))
    got = quotas.check(DEFAULT_QUOTA, Demand({"cpu": 2000}))
    assert got is not None
    assert (got.reason, got.other) == (Reason.HURTS_OTHERS, "c")


def test_without_nodes_nothing_starts() -> None:
    quotas = books_in(QuotaMode.RUNTIME)
    quotas.on_capacity(None)
    assert refusal(quotas, "a", x=1) == (Reason.NO_CAPACITY, ROOT_QUOTA)
    assert refusal(books_in(QuotaMode.MAX), "a", x=1) is None
