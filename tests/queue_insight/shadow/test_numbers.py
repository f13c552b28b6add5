"""Numbers that are easy to get wrong: order inversions, against their definition."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_insight.shadow.numbers import count_inversions, moment

Started = tuple[int, float, float | None]


def by_definition(jobs: list[Started]) -> int:
    """Count pairs of which the later job, with no higher priority, started first."""
    return sum(
        first_start is not None
        and (earlier_start is None or earlier_start > first_start)
        and earlier < later
        and earlier_priority >= priority
        for (priority, later, first_start), (earlier_priority, earlier, earlier_start) in (
            permutations(jobs, 2)
        )
    )


@pytest.mark.parametrize(
    ("jobs", "want"),
    [
        pytest.param([(0, 1, 10), (0, 2, 20)], 0, id="in order"),
        pytest.param([(0, 1, 20), (0, 2, 10)], 1, id="out of order"),
        pytest.param([(0, 1, 20), (5, 2, 10)], 0, id="the later one has a higher priority"),
        pytest.param([(5, 1, 20), (0, 2, 10)], 1, id="a lower one"),
        pytest.param([(0, 1, None), (0, 2, 10)], 1, id="the earlier one still waits"),
        pytest.param([(0, 1, 10), (0, 2, 10)], 0, id="together"),
        pytest.param([(0, 1, 20), (0, 1, 10)], 0, id="submitted together"),
    ],
)
def test_a_pair_out_of_order(jobs: list[Started], want: int) -> None:
    assert by_definition(jobs) == want
    assert count_inversions(jobs) == want


times = st.integers(0, 6).map(float)


@given(st.lists(st.tuples(st.integers(0, 2), times, st.none() | times), max_size=12))
def test_it_counts_what_the_definition_says(jobs: list[Started]) -> None:
    assert count_inversions(jobs) == by_definition(jobs)


def test_times_have_a_fraction_only_if_there_is_one() -> None:
    assert moment(0.0) == "1970-01-01T00:00:00Z"
    assert moment(0.5) == "1970-01-01T00:00:00.500000Z"
    assert moment(None) is None
