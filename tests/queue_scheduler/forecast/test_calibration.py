"""Conformal calibration, against its definition, and on forecasts that are wrong on purpose."""

from __future__ import annotations

import random
from math import ceil, inf, log

import pytest

from queue_scheduler.forecast.calibration import FEW, Calibration, censored_quantile
from queue_scheduler.forecast.quantiles import Wait

HOUR = 3600.0
RAW = Wait(2 * HOUR, 3 * HOUR, 4 * HOUR)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("count", [1, 9, 20, 99, 200])
def test_it_is_the_conformal_quantile(level: float, count: int) -> None:
    values = [random.Random(count).gauss(0, 1) for _ in range(count)]
    place = min(count, max(1, ceil((count + 1) * level - 1e-9)))
    got = censored_quantile([(value, True) for value in values], level)
    assert got == sorted(values)[place - 1]


def test_the_next_value_is_within_the_quantile_as_often_as_it_says() -> None:
    rng, within = random.Random(1), 0
    for _ in range(2000):
        *past, following = (rng.expovariate(1.0) for _ in range(40))
        within += following <= censored_quantile([(value, True) for value in past], 0.9)
    assert 0.885 <= within / 2000 <= 0.93


def test_what_still_waits_is_not_left_out() -> None:
    """Half of the values are known only to be larger than the median."""
    rng = random.Random(2)
    true = sorted(rng.gauss(0, 1) for _ in range(400))
    seen = [(value, True) if value < 0.5 else (0.5, False) for value in true]
    assert censored_quantile(seen, 0.5) == pytest.approx(true[200], abs=0.05)
    exact = [value for value in seen if value[1]]
    assert censored_quantile(exact, 0.5) < true[200] - 0.3


KNOWN, LARGER = True, False


@pytest.mark.parametrize(
    ("values", "level", "want"),
    [
        # Shares above each known value, by Kaplan and Meier: 4/5, times 2/3, times 1/2.
        pytest.param(
            [(1.0, KNOWN), (2.0, LARGER), (3.0, KNOWN), (4.0, KNOWN), (5.0, KNOWN)],
            *(0.625, 5.0),
            id="one that is only larger is no end: four of fifteen are above the fourth",
        ),
        pytest.param(
            [(1.0, LARGER), (1.0, KNOWN), (2.0, KNOWN)],
            *(0.3, 2.0),
            id="of equal ones, the known one comes first: two thirds are above it",
        ),
        pytest.param([(1.0, LARGER)], *(0.5, 1.0), id="none is known: the largest"),
        pytest.param([], *(0.5, 0.0), id="nothing is known"),
    ],
)
def test_censored_values_by_hand(
    values: list[tuple[float, bool]], level: float, want: float
) -> None:
    assert censored_quantile(values, level) == want


def test_a_unit_that_has_only_begun_to_wait_changes_little() -> None:
    found = calibrated(60, 1.0)
    before = found.at(0.0).adjust(RAW)
    for key in range(60):
        found.add(f"open {key}", 0.0, RAW)
    assert found.at(60.0).adjust(RAW).p50 == pytest.approx(before.p50, rel=0.1)


def calibrated(count: int, times: float) -> Calibration:
    """Return a calibration after forecasts of which each wait was this many times the p50."""
    found, rng = Calibration(), random.Random(3)
    for key in range(count):
        found.add(key, 0.0, RAW)
        found.come_true(key, RAW.p50 * times * rng.lognormvariate(0, 0.5))
    return found


def test_forecasts_that_were_too_short_become_longer() -> None:
    told = calibrated(100, 3.0).at(0.0).adjust(RAW)
    assert told.p50 == pytest.approx(3 * RAW.p50, rel=0.2)
    assert log(told.p90 / told.p10) == pytest.approx(2 * 1.2816 * 0.5, rel=0.3)


def test_few_forecasts_change_nothing() -> None:
    assert calibrated(FEW - 1, 3.0).at(0.0).adjust(RAW) == RAW


def test_a_horizon_without_enough_is_corrected_by_the_others() -> None:
    short = Wait(60.0, 600.0, 1200.0)
    assert calibrated(100, 3.0).at(0.0).adjust(short).p50 > 2 * short.p50


def test_a_unit_that_waits_on_lengthens_forecasts() -> None:
    found = calibrated(60, 1.0)
    before = found.at(0.0).adjust(RAW)
    for key in range(60):
        found.add(f"open {key}", 0.0, RAW)
    after = found.at(40 * HOUR).adjust(RAW)
    assert after.p90 > 2 * before.p90
    for key in range(60):
        found.forget(f"open {key}")
    assert found.at(40 * HOUR).adjust(RAW) == before


def test_beyond_the_horizon_stays_beyond_it() -> None:
    told = calibrated(100, 0.5).at(0.0).adjust(Wait(HOUR, inf, inf))
    assert told.p90 == inf


@pytest.mark.parametrize(
    ("times", "now", "want"),
    [
        pytest.param(0.5, 9 * HOUR, {"1-6h": 1.0}, id="all have started by then"),
        pytest.param(1.9, 9 * HOUR, {"1-6h": 1.0}, id="later than the paths said, as was told"),
        pytest.param(9.0, 9 * HOUR, {"1-6h": 0.0}, id="all have started later"),
        pytest.param(inf, 9 * HOUR, {"1-6h": 0.0}, id="all still wait"),
        pytest.param(0.5, 7 * HOUR, {}, id="nothing is counted before that has passed"),
    ],
)
def test_coverage_is_of_what_was_told(times: float, now: float, want: dict[str, float]) -> None:
    """Told is twice what the paths say: a p90 of eight hours, and a p50 of under six."""
    found, told = Calibration(), Wait(4 * HOUR, 5.9 * HOUR, 8 * HOUR)
    for key in range(FEW):
        found.add(key, 0.0, RAW, told)
        if times < inf:
            found.come_true(key, times * RAW.p90)
    assert found.coverage(now) == want


def test_a_coverage_of_few_is_not_told() -> None:
    assert calibrated(FEW - 1, 1.0).coverage(99 * HOUR) == {}
