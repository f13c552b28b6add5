"""Conformal calibration, against its definition, and on forecasts that are wrong on purpose."""

from __future__ import annotations

import random
from math import ceil, inf

import pytest

from queue_insight.forecast.calibration import (
    BELIEVED,
    FEW,
    SPACING,
    Calibration,
    censored_quantile,
)
from queue_insight.forecast.quantiles import Wait

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


DAY = 24 * HOUR


def calibrated(moments: int, times: float, each: int = 1) -> Calibration:
    """Return a calibration after a moment a day, in which waits were this many times the p50."""
    found, rng = Calibration(), random.Random(3)
    for moment in range(moments):
        for number in range(each):
            found.add((moment, number), moment * DAY, RAW)
            found.come_true((moment, number), RAW.p50 * times * rng.lognormvariate(0, 0.5))
    return found


def test_forecasts_that_were_too_short_become_longer() -> None:
    """Nearly as many times as waits were longer: a hundred moments show it."""
    reported = calibrated(100, 3.0).at(100 * DAY).adjust(RAW)
    assert reported.p50 == pytest.approx(3 ** (100 / (100 + BELIEVED)) * RAW.p50, rel=0.2)
    assert reported.p90 / reported.p10 > RAW.p90 / RAW.p10


def test_a_few_moments_are_half_believed_at_most() -> None:
    few, more = (calibrated(count, 3.0).at(100 * DAY).adjust(RAW) for count in (1, int(BELIEVED)))
    assert 1.0 < few.p50 / RAW.p50 < 3 ** (1.5 / BELIEVED)
    assert more.p50 / RAW.p50 == pytest.approx(3**0.5, rel=0.2)


def test_forecasts_of_one_moment_count_as_one() -> None:
    one, many = (calibrated(1, 3.0, each).at(DAY).adjust(RAW).p50 for each in (1, 200))
    assert many == pytest.approx(one, rel=0.1)
    assert calibrated(0, 3.0).at(DAY).adjust(RAW) == RAW


def test_each_moment_weighs_the_same() -> None:
    """A moment with many forecasts, whose waits were long, does not outvote two others."""
    found = Calibration()
    for moment, (each, wait) in enumerate(((50, 9 * RAW.p50), (2, RAW.p50), (2, RAW.p50))):
        for number in range(each):
            found.add((moment, number), moment * DAY, RAW)
            found.come_true((moment, number), wait)
    assert found.at(3 * DAY).adjust(RAW).p50 == RAW.p50


def test_moments_soon_after_another_are_left_out() -> None:
    """A renewal each minute would fill all that is kept within two hours, before any came true."""
    found = Calibration()
    for minute in range(3 * 24 * 60):
        found.add(minute, 60.0 * minute, RAW)
    found.come_true(0, 30 * RAW.p50)
    assert found.at(3 * DAY).adjust(RAW).p50 > RAW.p50
    found.come_true(1, 30 * RAW.p50)
    again = found.at(3 * DAY).adjust(RAW)
    found.come_true(int(SPACING[1] / 60), 30 * RAW.p50)
    assert found.at(3 * DAY).adjust(RAW).p50 > again.p50


def test_each_horizon_is_corrected_by_its_own() -> None:
    short = Wait(60.0, 600.0, 1200.0)
    assert calibrated(100, 3.0).at(100 * DAY).adjust(short) == short


def test_a_unit_that_waits_on_lengthens_forecasts() -> None:
    found = calibrated(40, 1.0)
    before = found.at(40 * DAY).adjust(RAW)
    for key in range(40):
        found.add(f"open {key}", (40 + key) * DAY, RAW)
    after = found.at(200 * DAY).adjust(RAW)
    assert after.p90 > 2 * before.p90
    for key in range(40):
        found.forget(f"open {key}")
    assert found.at(200 * DAY).adjust(RAW) == before


def test_a_unit_that_has_only_begun_to_wait_changes_little() -> None:
    found = calibrated(60, 1.0)
    before = found.at(60 * DAY).adjust(RAW)
    for key in range(60):
        found.add(f"open {key}", 60 * DAY, RAW)
    assert found.at(60 * DAY + 60.0).adjust(RAW).p50 == pytest.approx(before.p50, rel=0.1)


def test_beyond_the_horizon_stays_beyond_it() -> None:
    reported = calibrated(100, 0.5).at(100 * DAY).adjust(Wait(2 * HOUR, 3 * HOUR, inf))
    assert reported.p90 == inf


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
    found, reported = Calibration(), Wait(4 * HOUR, 5.9 * HOUR, 8 * HOUR)
    for key in range(FEW):
        found.add(key, 0.0, RAW, reported)
        if times < inf:
            found.come_true(key, times * RAW.p90)
    assert found.coverage(now) == want


def test_what_was_not_told_corrects_and_is_no_part_of_a_coverage() -> None:
    found, alike = Calibration(), Calibration()
    for key in range(FEW):
        found.add(key, 0.0, RAW)
        alike.add(key, 0.0, RAW, RAW)
        for each in (found, alike):
            each.come_true(key, 3.0 * RAW.p90)
    assert found.coverage(99 * HOUR) == {}
    assert found.coverage_between(0.0, 99 * HOUR) is None
    assert alike.coverage(99 * HOUR) != {}
    assert found.at(99 * HOUR).adjust(RAW) == alike.at(99 * HOUR).adjust(RAW)


def test_a_coverage_of_few_is_not_told() -> None:
    assert calibrated(FEW - 1, 1.0).coverage(99 * HOUR) == {}


def test_the_coverage_of_a_time_counts_what_was_due_in_it() -> None:
    """Of 40 forecasts, half were due on the first day, and none of those came true."""
    calibration, reported = Calibration(), Wait(0.5 * HOUR, 0.5 * HOUR, HOUR)
    for number in range(40):
        now = number * HOUR + (0.0 if number < 20 else 48 * HOUR)
        assert calibration.add(number, now, reported, reported)
        if number >= 20:
            calibration.come_true(number, 0.5 * HOUR)
    end = 90 * HOUR
    assert calibration.coverage_between(0.0, 24 * HOUR) == 0.0
    assert calibration.coverage_between(end - 24 * HOUR, end) == 1.0
    assert calibration.coverage_between(0.0, end) == 0.5
    assert calibration.coverage_between(end - 2 * HOUR, end) is None
