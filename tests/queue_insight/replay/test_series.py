"""Averages over time."""

from __future__ import annotations

import random

import pytest

from queue_insight.replay.series import Series


def test_an_amount_is_averaged_by_step() -> None:
    series = Series(10.0)
    series.change(5.0, 4)
    series.change(25.0, -2)
    assert series.averages(40.0) == [2.0, 4.0, 3.0, 2.0]
    assert series.level == 2


def test_a_last_step_may_be_shorter() -> None:
    series = Series(10.0)
    series.change(0.0, 6)
    assert series.averages(14.0) == [6.0, 6.0]


def test_nothing_is_zero_until_the_end() -> None:
    series = Series(10.0)
    series.change(0.0, 6)
    series.change(5.0, -6)
    assert series.averages(25.0) == [3.0, 0.0, 0.0]


@pytest.mark.parametrize("seed", range(5))
def test_it_agrees_with_a_sum_over_seconds(seed: int) -> None:
    rng = random.Random(seed)
    series, level, per_second, changes = Series(7.0), 0, [], {}
    for at in sorted(rng.sample(range(100), 12)):
        changes[at] = rng.randint(-3, 5)
    for second in range(105):
        if second in changes:
            series.change(float(second), changes[second])
            level += changes[second]
        per_second.append(level)
    want = [sum(per_second[at : at + 7]) / 7 for at in range(0, 105, 7)]
    assert series.averages(105.0) == pytest.approx(want)
