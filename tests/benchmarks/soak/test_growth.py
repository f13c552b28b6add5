"""What is called growth, and what is noise."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.benchmarks.soak.growth import Track, judge
from tests.benchmarks.soak.linear_fit import without_fit

SAMPLES = 100


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(lambda hour, _: 50 + 0.1 * hour, True, id="a steady growth"),
        pytest.param(lambda hour, noise: 50 + 0.1 * hour + noise, True, id="one within noise"),
        pytest.param(lambda _, noise: 50 + noise, False, id="noise alone"),
        pytest.param(lambda hour, _: min(hour, 40.0), False, id="a growth that ends in time"),
        pytest.param(lambda hour, _: 50 - 0.1 * hour, False, id="what shrinks"),
        pytest.param(lambda hour, _: 50 + 40 * (hour == 90), False, id="an outlier"),
        pytest.param(lambda hour, _: 50 + 0.01 * hour, False, id="less than the floor"),
    ],
)
def test_what_grows(value: Callable[[float, float], float], want: bool) -> None:
    """The slope of the second half decides, if it is more than noise and floor."""
    rng = random.Random(1)
    points = [(float(at), value(float(at), rng.uniform(-1, 1))) for at in range(SAMPLES)]
    assert judge(Track(name="it", floor=1.0, points=points)).grows is want


def test_few_samples_are_not_judged() -> None:
    """There is no growth, not even one of 0."""
    got = judge(Track(name="it", points=[(0.0, 1.0), (1.0, 90.0)]))
    assert (got.growth, got.grows) == (None, False)


def test_what_follows_a_load_is_no_growth() -> None:
    """A load that grows with time takes nothing away from what grows with time."""
    rng = random.Random(1)
    loads = [(at + rng.uniform(0, 50), rng.uniform(0, 9)) for at in range(SAMPLES)]
    points = [(float(at), 7 + 3 * one + other + 0.5 * at) for at, (one, other) in enumerate(loads)]
    left = without_fit(points, loads)
    assert [later[1] - earlier[1] for earlier, later in pairwise(left)] == (
        pytest.approx([0.5] * (SAMPLES - 1))
    )
