"""Survival estimates, against the definition of Kaplan and Meier's, computed from scratch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import exp, log, sqrt

import pytest

from queue_insight.forecast.survival import (
    BINS,
    Curve,
    Group,
    bin_of,
    edge_of,
    hazards,
    log_normal_hazards,
)

Runs = Sequence[tuple[float, bool]]
"""Each with how long it lasted, and whether it was cut."""


def kaplan_meier(runs: Runs, at: float) -> float:
    """Return the product over the ends up to a time of the share that goes on."""
    alive = 1.0
    for end in sorted({value for value, is_cut in runs if not is_cut and value <= at}):
        at_risk = sum(value >= end for value, _ in runs)
        ends = sum(value == end and not is_cut for value, is_cut in runs)
        alive *= 1 - ends / at_risk
    return alive


def estimate(runs: Runs) -> Curve:
    group = Group()
    for value, is_cut in runs:
        group.add(value, 1.0, is_cut=is_cut)
    return Curve(hazards(group, None, 0.0))


def spread_runs(seed: int) -> list[tuple[float, bool]]:
    """Return runs of which no two are in one bin, where the grid changes nothing."""
    rng = random.Random(seed)
    places = rng.sample(range(10, BINS - 1), 60)
    return [(edge_of(place + 0.5), rng.random() < 0.4) for place in places]


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_estimate_of_kaplan_and_meier(seed: int) -> None:
    runs = spread_runs(seed)
    curve = estimate(runs)
    longest = max(value for value, is_cut in runs)
    for place in range(bin_of(longest)):
        at = edge_of(place)
        assert curve.survival(at) == pytest.approx(kaplan_meier(runs, at), abs=1e-6), at


def test_what_goes_on_counts_as_cut() -> None:
    group = Group()
    for value in (100.0, 400.0, 1600.0):
        group.add(value, 1.0, is_cut=False)
    going = [800.0] * 5
    runs = [*((value, False) for value in (100.0, 400.0, 1600.0)), *((v, True) for v in going)]
    curve = Curve(hazards(group, None, 0.0, going=going))
    assert curve.survival(700.0) == pytest.approx(kaplan_meier(runs, 700.0), abs=1e-6)
    assert curve.survival(700.0) == pytest.approx(6 / 8)


def test_finished_runs_alone_are_biased_short() -> None:
    """Of runs with a median of 1000 s, those that last longer than 1500 s were cut then."""
    rng = random.Random(5)
    true = [rng.lognormvariate(log(1000.0), 1.5) for _ in range(4000)]
    runs = [(min(value, 1500.0), value > 1500.0) for value in true]
    honest = estimate(runs).quantile(0.5)
    biased = estimate([run for run in runs if not run[1]]).quantile(0.5)
    assert honest == pytest.approx(1000.0, rel=0.1)
    assert biased < 700.0


@pytest.mark.parametrize("ran", [0.0, 50.0, 1000.0, 30_000.0])
@pytest.mark.parametrize("luck", [0.05, 0.5, 0.95])
def test_a_quantile_is_the_inverse_of_survival(ran: float, luck: float) -> None:
    curve = Curve(log_normal_hazards(1000.0, 2.0))
    value = curve.quantile(luck, ran)
    assert value >= ran
    assert curve.survival(value) == pytest.approx((1 - luck) * curve.survival(ran), rel=0.01)


def test_a_log_normal_prior_has_its_median_and_spread() -> None:
    curve = Curve(log_normal_hazards(1000.0, 2.0))
    assert curve.quantile(0.5) == pytest.approx(1000.0, rel=0.02)
    assert curve.quantile(0.841) == pytest.approx(1000.0 * exp(2.0), rel=0.05)


def test_a_thin_group_is_pooled_upward_and_a_thick_one_is_not() -> None:
    larger = log_normal_hazards(1000.0, 1.0)
    medians = []
    for count in (0, 2, 2000):
        group = Group()
        for number in range(count):
            group.add(50.0 + number % 7, 1.0, is_cut=False)
        medians.append(Curve(hazards(group, larger, 16.0)).quantile(0.5))
    none, few, many = medians
    assert none == pytest.approx(1000.0, rel=0.02)
    assert few == pytest.approx(1000.0, rel=0.3)
    assert 50.0 <= many <= 58.0


def test_the_tail_of_a_group_without_long_runs_is_the_larger_groups() -> None:
    group = Group()
    for _ in range(200):
        group.add(100.0, 1.0, is_cut=False)
    curve = Curve(hazards(group, log_normal_hazards(1000.0, 1.0), 16.0))
    want = Curve(log_normal_hazards(1000.0, 1.0)).quantile(0.5, 5000.0)
    assert curve.quantile(0.5, 5000.0) == pytest.approx(want, rel=0.02)


@pytest.mark.parametrize("value", [0.0, 1.0, 1e12])
def test_durations_outside_the_grid_are_in_its_first_or_last_bin(value: float) -> None:
    assert bin_of(value) in {0, BINS - 1}
    curve = estimate([(value, False), (sqrt(1e5), False)])
    assert 0.0 <= curve.quantile(0.99, value) < float("inf")
