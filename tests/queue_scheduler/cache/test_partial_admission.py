"""The demands between all pods and the fewest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from queue_scheduler.cache.partial_admission import demand_of, most_that, shape_of, with_least
from queue_scheduler.framework.queue_unit_info import PodSetDemand, UnitDemand


def demand(*sets: tuple[int, int, int | None]) -> UnitDemand:
    """Return a demand of pod sets given as (count, cpu of each, least)."""
    names = (f"set-{n}" for n in range(len(sets)))
    pods = zip(names, sets, strict=False)
    whole = demand_of(tuple(PodSetDemand(name, n, {"cpu": cpu}) for name, (n, cpu, _) in pods))
    return with_least(whole, tuple(least for *_, least in sets))


def counts(found: UnitDemand | None) -> list[int]:
    assert found is not None
    return [each.count for each in found.pod_sets]


def within(cpu: int) -> Callable[[UnitDemand], bool]:
    return lambda asked: asked.total["cpu"] <= cpu


def test_the_least_has_the_fewest_pods_of_each_set_and_their_requests() -> None:
    found = demand((8, 2, 3), (2, 10, None))
    assert (counts(found), found.total, found.pods) == ([8, 2], {"cpu": 36}, 10)
    assert found.least is not None
    assert (counts(found.least), found.least.total) == ([3, 2], {"cpu": 26})
    assert found.least.pods == 5
    assert found.least.least is None


@pytest.mark.parametrize("least", [None, 0, -1, 4, 5], ids=str)
def test_a_count_that_reduces_nothing_is_ignored(least: int | None) -> None:
    assert demand((4, 1, least)).least is None


def test_pod_sets_are_reduced_in_the_same_proportion() -> None:
    found = demand((10, 1, 2), (5, 1, 1), (3, 1, None))
    assert found.least is not None
    seen: list[list[int]] = []

    def fits(asked: UnitDemand) -> bool:
        seen.append(counts(asked))
        return asked.total["cpu"] <= 12

    assert counts(most_that(fits, found, found.least)) == [6, 3, 3]
    assert [6, 3, 3] in seen
    assert len(seen) <= 4, "a binary search over 12 steps"


def test_the_largest_that_fits_is_found_wherever_it_is() -> None:
    found = demand((100, 1, 1))
    assert found.least is not None
    for room in range(1, 100):
        assert counts(most_that(within(room), found, found.least)) == [room]
    assert most_that(within(0), found, found.least) is found.least


def test_units_share_a_class_only_if_they_may_be_reduced_alike() -> None:
    shapes = {
        shape_of(each)
        for each in (
            demand((4, 1, None)),
            demand((2, 2, None)),
            demand((4, 1, 2)),
            demand((4, 1, 3)),
            demand((2, 2, 1)),
        )
    }
    assert len(shapes) == 4, "of a whole unit only the total request counts"
