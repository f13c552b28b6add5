from __future__ import annotations

import pytest

from queue_scheduler.quota.quota_settings import Rounding
from queue_scheduler.quota.quota_spec import parse_quota
from queue_scheduler.quota.quota_tree import QuotaTree, build_forest
from queue_scheduler.quota.runtime_division import (
    Claim,
    DivisionRules,
    DivisionState,
    completed_by,
    compute_division,
    divide,
    half_up,
    largest_remainder,
    scale_mins,
    scaled_min,
)
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.well_known_labels import ROOT_QUOTA
from tests.properties.quota_cases import build_quota

BOTH = pytest.mark.parametrize("rounding", Rounding)
EXACT = DivisionRules(Rounding.LARGEST_REMAINDER)


def tree_of(*quotas: ElasticQuota) -> QuotaTree:
    return build_forest(map(parse_quota, quotas)).trees[""]


@BOTH
@pytest.mark.parametrize(
    ("total", "claims", "want"),
    [
        pytest.param(10, [], [], id="no child"),
        pytest.param(100, [(1, 5, 10, True), (1, 90, 10, True)], [5, 90], id="idle min is lent"),
        pytest.param(100, [(1, 5, 10, False), (1, 95, 10, True)], [10, 90], id="or is not"),
        pytest.param(10, [(0, 9, 3, True)], [3], id="no weight, no more than the floor"),
        pytest.param(10, [(1, 9, 8, True), (1, 9, 8, True)], [8, 8], id="floors are promises"),
        pytest.param(0, [(1, 9, 0, True)], [0], id="nothing to give"),
        pytest.param(-5, [(1, 9, 2, True)], [2], id="less than nothing"),
        pytest.param(90, [(1, 10, 0, True), (2, 90, 0, True)], [10, 80], id="one has enough"),
    ],
)
def test_divide(
    rounding: Rounding, total: int, claims: list[tuple[int, int, int, bool]], want: list[int]
) -> None:
    assert divide(total, [Claim(*claim) for claim in claims], rounding) == want


@pytest.mark.parametrize(
    ("rounding", "total", "want"),
    [
        pytest.param(Rounding.HALF_UP, 1, [0, 0, 0], id="half-up loses units"),
        pytest.param(Rounding.HALF_UP, 2, [1, 1, 1], id="half-up makes units"),
        pytest.param(Rounding.LARGEST_REMAINDER, 2, [1, 1, 0], id="remainders: ties by name"),
    ],
)
def test_rounding(rounding: Rounding, total: int, want: list[int]) -> None:
    assert divide(total, [Claim(3, 100, 0, lends=True)] * 3, rounding) == want


# Five rounds that each lose as much as they can: nine units of seven children.
MOST_LOST = [320, 1001, 1114, 1136, 1141, 1145, 1146]


@pytest.mark.parametrize(
    ("total", "claims", "bare", "want"),
    [
        pytest.param(
            2250,
            [(30_000, 1000, 818), (40_000, 750, 409), (40_000, 500, 340)],
            [1000, 749, 500],
            [1000, 750, 500],
            id="750m in a nearly empty cluster",
        ),
        pytest.param(
            1000, [(1, 334, 0), (1, 335, 0), (1, 900, 0)], [333] * 3, [334, 333, 333],
            id="to the claim it completes",
        ),
        pytest.param(1000, [(1, 334, 0)] * 3, [333] * 3, [333] * 3, id="all or none of equals"),
        pytest.param(999, [(1, 334, 0)] * 3, [333] * 3, [333] * 3, id="nothing was lost"),
        pytest.param(1001, [(1, 335, 0)] * 3, [334] * 3, [334] * 3, id="nor where units are made"),
        pytest.param(
            4, [(1, 1, 0), (1, 1, 0), (1, 2, 0), (0, 1, 0)], [1, 1, 1, 0], [1, 1, 2, 0],
            id="not without a weight",
        ),
        pytest.param(
            7003, [(1, request, 0) for request in MOST_LOST],
            [*MOST_LOST[:5], 1141, 1141], [*MOST_LOST[:6], 1141],
            id="one unit for each child at most",
        ),
    ],
)  # fmt: skip
def test_a_tolerant_division_makes_up_for_what_rounding_lost(
    total: int, claims: list[tuple[int, int, int]], bare: list[int], want: list[int]
) -> None:
    lending = [Claim(*claim, lends=True) for claim in claims]
    assert divide(total, lending, Rounding.HALF_UP) == bare
    assert divide(total, lending, Rounding.HALF_UP, tolerant=True) == want
    exact = divide(total, lending, Rounding.LARGEST_REMAINDER)
    assert divide(total, lending, Rounding.LARGEST_REMAINDER, tolerant=True) == exact


@pytest.mark.parametrize(
    ("lost", "lacks", "want"),
    [
        pytest.param(3, [], 0, id="no claim lacks anything"),
        pytest.param(3, [5, 2, 1], 2, id="those that lack least"),
        pytest.param(2, [2, 1], 1, id="no more than was lost"),
        pytest.param(3, [1, 2, 2], 1, id="both or none of two that lack the same"),
    ],
)
def test_which_claims_lost_units_complete(lost: int, lacks: list[int], want: int) -> None:
    assert completed_by(lost, lacks) == want


def test_half_up_repeats_float64() -> None:
    assert half_up([1, 1, 1], 80, 3) == [27, 27, 27]
    assert half_up([2**60, 1], 3, 2**60 + 1) == [3, 0]


def test_a_negative_weight_is_in_the_sum_and_gets_nothing() -> None:
    # Observed (os-005): one core each with 9 cores left are promised 6428m each.
    assert largest_remainder(9000, [1000, 1000, -600], 1400) == [6428, 6428, 0]
    claims = [Claim(weight, 10**6, 0, lends=True) for weight in (300, 300, -600)]
    assert divide(9000, claims, Rounding.LARGEST_REMAINDER) == [0, 0, 0]


@pytest.mark.parametrize(
    ("total", "want"),
    [
        pytest.param({"x": 100}, {"a": {"x": 60}, "b": {"x": 40}}, id="they fit"),
        pytest.param({"x": 50}, {"a": {"x": 30}, "b": {"x": 20}}, id="in proportion"),
        pytest.param({"x": -1}, {"a": {"x": 0}, "b": {"x": 0}}, id="nothing there"),
        pytest.param({}, {"a": {"x": 60}, "b": {"x": 40}}, id="a resource that none has"),
    ],
)
def test_scale_mins(total: dict[str, int], want: dict[str, dict[str, int]]) -> None:
    assert scale_mins(total, {"a": {"x": 60}, "b": {"x": 40}}) == want


def test_fixed_mins_come_first() -> None:
    mins = {"a": {"x": 60}, "b": {"x": 40}, "c": {"x": 40}}
    want = {"a": {"x": 60}, "b": {"x": 10}, "c": {"x": 10}}
    assert scale_mins({"x": 80}, mins, frozenset({"a", "gone"})) == want


def test_scaled_min_truncates() -> None:
    assert [scaled_min(available, 100, 300) for available in (-3, 0, 200)] == [0, 0, 66]


@pytest.mark.parametrize(
    ("state", "want"),
    [
        pytest.param(DivisionState(), {"a": 2, "b": 8}, id="after its first pod or a restart"),
        pytest.param(
            DivisionState(unseeded=frozenset("b")), {"a": 5, "b": 5}, id="never had a pod"
        ),
    ],
)
def test_memory_of_a_quota_that_does_not_lend(state: DivisionState, want: dict[str, int]) -> None:
    tree = tree_of(
        build_quota("a", minimum={"x": 8}, maximum={"x": 10}, weight={"x": 0, "y": 1}),
        build_quota("b", minimum={"x": 8}, maximum={"x": 10}, weight={"x": 1}, lends=False),
    )
    division = compute_division(tree, {"a": {"x": 2}}, {"x": 10}, EXACT, state=state)
    assert division.runtime["b"]["x"] == want["b"]


def test_memory_of_a_min_that_nothing_refreshes() -> None:
    tree = tree_of(
        build_quota("a", minimum={"x": 8}, maximum={"x": 10}, is_parent=True, lends=False),
        build_quota("b", minimum={"x": 8}, maximum={"x": 10}),
    )
    state = DivisionState(unrefreshed=frozenset("a"))
    division = compute_division(tree, {"b": {"x": 9}}, {"x": 10}, EXACT, state=state)
    assert division.scaled_min == {"a": {"x": 8}, "b": {"x": 5}}
    assert division.runtime["b"] == {"x": 5}


def test_resources_that_a_parent_does_not_govern() -> None:
    tree = tree_of(
        build_quota("p", maximum={"x": 10}, is_parent=True),
        build_quota("c", parent="p", maximum={"x": 10, "y": 10}),
    )
    division = compute_division(tree, {"c": {"x": 1, "y": 5}}, {"x": 9, "y": 9}, EXACT)
    # p has no weight for y, and its child is not limited by p there.
    assert division.runtime == {
        ROOT_QUOTA: {"x": 9, "y": 9},
        "p": {"x": 1, "y": 0},
        "c": {"x": 1},
    }


def test_the_guarantee_keeps_what_is_used() -> None:
    tree = tree_of(
        build_quota("a", minimum={"x": 2}, maximum={"x": 10}),
        build_quota("b", minimum={"x": 2}, maximum={"x": 10}),
    )
    rules = DivisionRules(Rounding.LARGEST_REMAINDER, guarantee=True)
    asked = {"a": {"x": 10}, "b": {"x": 10}}
    division = compute_division(tree, asked, {"x": 10}, rules, own_used={"a": {"x": 7}})
    assert division.guaranteed == {"a": {"x": 7}, "b": {"x": 2}}
    assert division.runtime["a"] == {"x": 8}
