"""A unit that rounding half up loses: who waits for it, and who starts with it."""

from __future__ import annotations

import pytest

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.quota.quota_decision import Demand, PodStage
from queue_scheduler.quota.quota_settings import QuotaSettings, Rounding
from queue_scheduler.quota_cache.full_runtime_check import check_from_scratch
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from tests.properties.quota_cases import build_quota, take_woken

GPU = "nvidia.com/gpu"


def quotas_with(rounding: Rounding = Rounding.HALF_UP) -> QuotaCache:
    return QuotaCache(QuotaSettings(rounding_override=rounding))


def devices(rounding: Rounding = Rounding.HALF_UP) -> QuotaCache:
    """Return three GPUs for quotas of weight 7, 7 and 1: all three hungry, c gets none."""
    quotas = quotas_with(rounding)
    for name, weight in (("a", 7), ("b", 7), ("c", 1)):
        maximum: dict[str, int | str] = {GPU: 3, "cpu": 10}
        quotas.on_quota(build_quota(name, maximum=maximum, weight={GPU: weight, "cpu": 1}))
    quotas.on_capacity({GPU: 3, "cpu": 30_000})
    return quotas


def refuse(quotas: QuotaCache, quota: str, **amounts: int) -> Refusal | None:
    """Return the refusal of both forms of the promise, which must agree."""
    named = {GPU if key == "gpu" else key: amount for key, amount in amounts.items()}
    got, node = quotas.check(quota, Demand(named)), quotas.trees.nodes[quota]
    want = check_from_scratch(node, Demand(named))
    assert (got and got.reason, got and got.resource) == (
        want and want.reason, want and want.resource,
    )  # fmt: skip
    return got


def start(quotas: QuotaCache, owner: str, quota: str, **amounts: int) -> None:
    named = {GPU if key == "gpu" else key: amount for key, amount in amounts.items()}
    assert quotas.check(quota, Demand(named)) is None
    quotas.charge(owner, quota, Demand(named))


def test_a_job_waits_for_the_device_that_its_quota_would_never_get() -> None:
    quotas = devices()
    for name in "ab":
        start(quotas, name, name, gpu=1)
    refusal = refuse(quotas, "c", gpu=1)
    assert refusal is not None
    assert (refusal.reason, refusal.limit, refusal.is_rounded) == (Reason.OVER_RUNTIME, 0, True)
    quotas.wait("waits", "c", Demand({GPU: 1}), refusal)
    assert take_woken(quotas) == []
    quotas.release("a")
    assert take_woken(quotas) == ["waits"]
    assert refuse(quotas, "c", gpu=1) is None


def test_a_device_is_not_taken_from_a_quota_by_rounding() -> None:
    quotas = devices()
    start(quotas, "c", "c", gpu=1)
    start(quotas, "a", "a", gpu=1)
    refusal = refuse(quotas, "b", gpu=1)
    assert refusal is not None
    assert (refusal.reason, refusal.other) == (Reason.HURTS_OTHERS, "c")
    assert refusal.is_rounded
    # So jobs of c that ask for no device start, as koord-scheduler lets them.
    start(quotas, "later", "c", cpu=1000)


def test_a_job_waits_where_a_device_that_it_does_not_ask_for_is_lost() -> None:
    quotas = devices()
    quotas.charge("running", "c", Demand({GPU: 1}))
    for name in "ab":
        quotas.on_foreign(name, name, {GPU: 1}, stage=PodStage.BOUND)
    refusal = refuse(quotas, "c", cpu=1000)
    assert refusal is not None
    assert (refusal.resource, refusal.requested, refusal.is_rounded) == (GPU, 0, True)
    quotas.wait("waits", "c", Demand({"cpu": 1000}), refusal)
    assert take_woken(quotas) == []
    quotas.on_foreign("b", "b", None)
    assert take_woken(quotas) == ["waits"]


def test_later_releases_lose_no_device() -> None:
    quotas = devices(Rounding.LARGEST_REMAINDER)
    for name in "abc":
        start(quotas, name, name, gpu=1)
    assert refuse(quotas, "c", cpu=1000) is None


# --- the exception --------------------------------------------------------------------------------


def nearly_empty_cluster(key: str = "cpu", low: int = 1) -> QuotaCache:
    """Return 100 cores under a parent of min 40, of which 1.5 run; rc asks for 0.75 more.

    Below p 2250m are divided. The mins are scaled to 818m, 409m and 340m; of the 683m that are
    left, rounding half up loses one: rc gets 749m. `low`: what the mins are multiplied by.
    """
    quotas = quotas_with()
    kilo = 1 if key == "cpu" else 1000

    def add(name: str, least: int, most: int, parent: str = "") -> None:
        quota = build_quota(
            name,
            minimum={key: low * least * kilo},
            maximum={key: most * kilo, "x": 9},
            weight={key: most * kilo, "x": 1},
            parent=parent,
            is_parent=not parent,
        )
        quotas.on_quota(quota)

    add("p", 40, 48)
    for name, least, most in (("ra", 12, 30), ("rb", 10, 30), ("rc", 6, 40), ("rd", 5, 40)):
        add(name, least, most, "p")
    quotas.on_capacity({key: 100_000, "x": 9})
    quotas.charge("one", "ra", Demand({key: 1000}))
    quotas.charge("two", "rd", Demand({key: 500}))
    return quotas


@pytest.mark.parametrize("key", ["cpu", "memory"])
def test_where_mins_are_scaled_no_unit_waits_for_what_is_lost(key: str) -> None:
    quotas = nearly_empty_cluster(key)
    assert refuse(quotas, "rc", **{key: 750}) is None
    quotas.charge("three", "rc", Demand({key: 750}))
    view = quotas.view("rc")
    assert view is not None
    assert view.runtime[key] == 750


@pytest.mark.parametrize(
    ("key", "low", "amount"),
    [
        # Of what 1750m are divided, rounding takes one of the 1000m that ra uses.
        pytest.param("cpu", 0, 250, id="no min is scaled"),
        pytest.param("example.com/link", 1, 750, id="another resource"),
    ],
)
def test_elsewhere_it_waits(key: str, low: int, amount: int) -> None:
    quotas = nearly_empty_cluster(key, low)
    refusal = refuse(quotas, "rc", **{key: amount})
    assert refusal is not None
    assert refusal.is_rounded
    quotas.wait("waits", "rc", Demand({key: amount}), refusal)
    quotas.release("two")
    assert take_woken(quotas) == ["waits"]


def test_what_started_with_a_lost_unit_holds_back_what_asks_for_none() -> None:
    quotas = nearly_empty_cluster()
    quotas.charge("three", "rc", Demand({"cpu": 750}))
    refusal = refuse(quotas, "rc", x=1)
    assert refusal is not None
    assert (refusal.resource, refusal.limit, refusal.used) == ("cpu", 749, 750)
    # What asks for cpu as well counts with the tolerance, and there is more of it then.
    assert refuse(quotas, "rc", x=1, cpu=50) is None
    quotas.wait("waits", "rc", Demand({"x": 1}), refusal)
    quotas.charge("four", "ra", Demand({"cpu": 20}))
    quotas.release("two")
    assert take_woken(quotas) == ["waits"]
    assert refuse(quotas, "rc", x=1) is None


# --- what is said ---------------------------------------------------------------------------------


def test_a_refusal_says_that_rounding_lost_what_is_missing() -> None:
    # A third of 1000 is 333 for each of three: one unit is lost.
    quotas = quotas_with()
    for name in "abc":
        quotas.on_quota(build_quota(name, maximum={"x": 900}, weight={"x": 1}))
    quotas.on_capacity({"x": 1000})
    for name in "bc":
        quotas.on_foreign(name, name, {"x": 334})
    refusals = [quotas.check("a", Demand({"x": amount})) for amount in (332, 334, 335)]
    assert [refusal and (refusal.missing, refusal.is_rounded) for refusal in refusals] == [
        None, (1, True), (2, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rounding", "want"), [(Rounding.HALF_UP, "c"), (Rounding.LARGEST_REMAINDER, None)]
)
def test_a_unit_that_is_lost_below_the_first_level(rounding: Rounding, want: str | None) -> None:
    # The division of koord-scheduler 1.8 gives a and b 1 each, and c 1 of the 2 it asks for.
    quotas = quotas_with(rounding)
    quotas.on_quota(build_quota("p", maximum={"x": 100}, is_parent=True))
    for name in "abc":
        quota = build_quota(name, maximum={"x": 50}, weight={"x": 1}, parent="p")
        quotas.on_quota(quota)
    quotas.on_capacity({"x": 1000})
    quotas.charge("one", "b", Demand({"x": 1}))
    quotas.charge("two", "c", Demand({"x": 2}))
    refusal = refuse(quotas, "a", x=1)
    assert (refusal and refusal.other) == want
