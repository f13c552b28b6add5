"""A resource that is taken out of a max while it is in use keeps its claim in the division."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from queue_scheduler.decision import Reason
from queue_scheduler.quota.quota_decision import Demand, PodStage, ProblemKind
from queue_scheduler.quota.quota_settings import QuotaSettings, Rounding
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from shared_api.objects.elastic_quota import ElasticQuota
from tests.properties.quota_cases import build_quota, take_woken

GPU = "example.com/gpu"
SEVEN = Demand({GPU: 7})


def narrow(name: str = "a") -> ElasticQuota:
    """Return a quota whose max no longer names the GPUs; its weight still does."""
    return build_quota(name, maximum={"cpu": 9}, weight={"cpu": 1, GPU: 1})


def edited(*, bound: bool = True) -> QuotaCache:
    """Return ten GPUs, 4 of which a unit or pod of a uses, whose max named them until now."""
    quotas = QuotaCache(QuotaSettings(rounding_override=Rounding.LARGEST_REMAINDER))
    for name in "ab":
        quotas.on_quota(build_quota(name, maximum={"cpu": 9, GPU: 10}, weight={"cpu": 1, GPU: 1}))
    quotas.on_capacity({"cpu": 18_000, GPU: 10})
    quotas.charge("unit", "a", Demand({GPU: 3}))
    quotas.on_foreign("pod", "a", {GPU: 1}, stage=PodStage.BOUND if bound else PodStage.PENDING)
    quotas.on_quota(narrow())
    return quotas


def kinds(quotas: QuotaCache) -> list[tuple[str, str]]:
    return [(problem.quota, problem.kind) for problem in quotas.problems()]


def test_what_runs_still_presses_other_quotas() -> None:
    quotas = edited()
    refusal = quotas.check("b", SEVEN)
    assert refusal is not None
    assert (refusal.reason, refusal.limit) == (Reason.OVER_RUNTIME, 6)
    assert quotas.check("b", Demand({GPU: 6})) is None
    assert kinds(quotas) == [("a", ProblemKind.RESOURCE_STILL_COUNTED)]
    assert GPU in quotas.problems()[0].text


def test_its_own_quota_is_no_longer_limited_by_it() -> None:
    quotas = edited()
    assert quotas.check("a", Demand({"cpu": 9000, GPU: 100})) is None
    # Nor does what comes later count.
    quotas.charge("later", "a", Demand({GPU: 9}))
    assert quotas.check("b", Demand({GPU: 6})) is None


@pytest.mark.parametrize(
    "end",
    [
        pytest.param([lambda quotas: quotas.release("unit")], id="a unit ends"),
        pytest.param(
            [
                lambda quotas: quotas.charge("unit", "a", Demand({GPU: 1})),
                lambda quotas: quotas.on_foreign("pod", "a", None),
            ],
            id="it shrinks, and a pod ends",
        ),
        pytest.param(
            [lambda quotas: quotas.charge("unit", "b", Demand({"cpu": 1}))], id="it moves"
        ),
        pytest.param([lambda quotas: quotas.on_quota_gone("ns", "a")], id="the quota is deleted"),
    ],
)
def test_a_waiter_is_woken_as_it_ends(end: list[Callable[[QuotaCache], object]]) -> None:
    quotas = edited()
    refusal = quotas.check("b", SEVEN)
    assert refusal is not None
    quotas.wait("waits", "b", SEVEN, refusal)
    assert take_woken(quotas) == []
    for step in end:
        step(quotas)
    assert take_woken(quotas) == ["waits"]
    assert quotas.check("b", SEVEN) is None
    quotas.validate()


def test_nothing_is_left_once_all_has_ended() -> None:
    quotas = edited()
    fork = quotas.fork()
    quotas.release("unit")
    assert kinds(quotas) == [("a", ProblemKind.RESOURCE_STILL_COUNTED)]
    quotas.on_foreign("pod", "a", None)
    assert kinds(quotas) == []
    # A unit of that name that comes back is a new one.
    quotas.charge("unit", "a", Demand({GPU: 3}))
    assert quotas.check("b", Demand({GPU: 10})) is None
    assert kinds(fork) == [("a", ProblemKind.RESOURCE_STILL_COUNTED)]


def test_what_is_named_again_counts_as_all_else() -> None:
    quotas = edited()
    quotas.on_quota(build_quota("a", maximum={"cpu": 9, GPU: 10}, weight={"cpu": 1, GPU: 1}))
    assert kinds(quotas) == []
    refusal = quotas.check("b", SEVEN)
    assert refusal is not None
    view = quotas.view("a")
    assert view is not None
    assert view.used == {GPU: 4}


def test_a_younger_quota_of_that_name_which_does_not_count_changes_nothing() -> None:
    quotas = QuotaCache(QuotaSettings(rounding_override=Rounding.LARGEST_REMAINDER))
    wide = {"cpu": 9, GPU: 10}
    for name in "ab":
        quotas.on_quota(build_quota(name, maximum=wide, weight={"cpu": 1, GPU: 1}, created="1"))
    quotas.on_capacity({"cpu": 18_000, GPU: 10})
    quotas.charge("unit", "a", Demand({GPU: 4}))
    for maximum in (wide, {"cpu": 9}):
        quotas.on_quota(build_quota("a", maximum=maximum, namespace="other", created="2"))
    assert quotas.check("b", Demand({GPU: 6})) is None
    assert set(kinds(quotas)) == {("a", ProblemKind.DUPLICATE_NAME)}


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(
            lambda quotas: quotas.on_quota(
                build_quota("a", maximum={GPU: 10}, namespace="other", created="3")
            ),
            id="it is edited",
        ),
        pytest.param(lambda quotas: quotas.on_quota_gone("other", "a"), id="it is deleted"),
    ],
)
def test_a_younger_quota_of_that_name_does_not_end_it(act: Callable[[QuotaCache], object]) -> None:
    quotas = edited()
    quotas.on_quota(build_quota("a", maximum={"cpu": 9}, namespace="other", created="2"))
    act(quotas)
    assert quotas.check("b", SEVEN) is not None
    assert ("a", ProblemKind.RESOURCE_STILL_COUNTED) in kinds(quotas)
