"""Resources of which every pod must request something: their names, and what lacks them."""

from __future__ import annotations

import pytest

from queue_scheduler.framework.queue_unit_info import PodSetDemand, UnitDemand
from queue_scheduler.quota.quota_settings import QuotaSettingsError
from queue_scheduler.required_requests import join_with_or, missing_requests_text, read_required

CPU = frozenset({"cpu"})
BOTH = frozenset({"cpu", "memory"})
FULL = {"cpu": 1000, "memory": 1}


def sets(*given: tuple[str, int, dict[str, int]]) -> UnitDemand:
    return UnitDemand(tuple(PodSetDemand(*each) for each in given), total={})


@pytest.mark.parametrize(
    ("demand", "required", "want"),
    [
        pytest.param(sets(("main", 2, FULL)), BOTH, "", id="all is requested"),
        pytest.param(sets(("main", 2, {})), CPU, "pod set main requests no cpu", id="nothing is"),
        pytest.param(
            sets(("main", 2, {"cpu": 0})), CPU, "pod set main requests no cpu", id="zero is nothing"
        ),
        pytest.param(
            sets(("head", 1, FULL), ("workers", 3, {"cpu": 1})),
            BOTH,
            "pod set workers requests no memory",
            id="one of two sets lacks one of two",
        ),
        pytest.param(
            sets(("head", 1, {}), ("workers", 3, {"memory": 1})),
            BOTH,
            "pod set head requests no cpu or memory, pod set workers requests no cpu",
            id="both sets lack some",
        ),
        pytest.param(sets(("head", 1, FULL), ("idle", 0, {})), CPU, "", id="a set without pods"),
        pytest.param(UnitDemand((), {"memory": 1}), CPU, "it requests no cpu", id="a total"),
        pytest.param(UnitDemand((), FULL), BOTH, "", id="a total with all"),
    ],
)
def test_a_missing_request_is_named_with_its_pod_set(
    demand: UnitDemand, required: frozenset[str], want: str
) -> None:
    assert missing_requests_text(demand, required) == want


def test_names_are_those_that_pods_use() -> None:
    given = ["nvidia.com/gpu", "kubernetes.io/gpu-core"]
    assert read_required(given) == {"nvidia.com/gpu", "koordinator.sh/gpu-core"}


@pytest.mark.parametrize("name", ["", "pods", "requests.cpu", "limits.cpu", "koord-queue/max-jobs"])
def test_a_resource_that_no_container_requests_is_refused(name: str) -> None:
    with pytest.raises(QuotaSettingsError, match=f"requiredRequests: '{name}': "):
        read_required(["cpu", name])


def test_names_are_joined_into_a_sentence() -> None:
    assert join_with_or(["a"]) == "a"
    assert join_with_or(["a", "b", "c"]) == "a, b or c"
