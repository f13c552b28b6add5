"""Scaled use: the order of decayed use, in numbers that only grow."""

from __future__ import annotations

from fractions import Fraction

import pytest

from queue_scheduler.tenants.scaled_use import BITS, ScaledUse, scale

HOUR = 3600
WEEK = 168 * HOUR
BEGIN = 1_800_000_000
NEAR = Fraction(1, 10**9)


def hours(use: ScaledUse, second: int, half_life: int = WEEK) -> float:
    return float(use.decayed(second, half_life) / HOUR)


def test_half_life() -> None:
    """Ann has 8 GPUs for a week, then Bob has 4 in the next week."""
    ann = scale(8, BEGIN, BEGIN + WEEK, WEEK)
    bob = scale(4, BEGIN + WEEK, BEGIN + 2 * WEEK, WEEK)
    assert round(hours(ann, BEGIN + WEEK), 3) == 969.491
    assert round(hours(ann, BEGIN + 2 * WEEK), 3) == 484.746
    assert round(hours(bob, BEGIN + 2 * WEEK), 3) == 484.746
    one, other = (use.decayed(BEGIN + 2 * WEEK, WEEK) for use in (ann, bob))
    assert abs(one - other) <= NEAR * one
    more = bob.plus(scale(4, BEGIN + 2 * WEEK, BEGIN + 2 * WEEK + 1, WEEK))
    assert ann.is_below(more)
    assert not more.is_below(ann)


def test_nothing_is_nothing() -> None:
    nothing = scale(0, BEGIN, BEGIN + HOUR, WEEK)
    assert nothing == scale(7, BEGIN, BEGIN, WEEK) == ScaledUse()
    assert nothing.decayed(BEGIN, WEEK) == 0
    some = scale(1, BEGIN, BEGIN + 1, WEEK)
    assert nothing.plus(some) == some.plus(nothing) == some
    assert nothing.is_below(some)
    assert not some.is_below(nothing)


@pytest.mark.parametrize("half_life", [1, 7, 60, WEEK, 10 * 366 * 86_400])
def test_parts_add_up_to_the_whole(half_life: int) -> None:
    whole = scale(3, BEGIN, BEGIN + 1000, half_life)
    parts = ScaledUse()
    for second in range(BEGIN, BEGIN + 1000, 10):
        parts = parts.plus(scale(3, second, second + 10, half_life))
    one, other = (use.decayed(BEGIN + 1000, half_life) for use in (whole, parts))
    assert abs(one - other) <= NEAR * one
    assert max(use.mantissa.bit_length() for use in (whole, parts)) <= BITS


@pytest.mark.parametrize("half_life", [1, 60, WEEK])
def test_it_halves_in_each_half_life(half_life: int) -> None:
    use = scale(5, BEGIN, BEGIN + 3, half_life)
    now = use.decayed(BEGIN + 3, half_life)
    for number in range(1, 5):
        assert use.decayed(BEGIN + 3 + number * half_life, half_life) * 2**number == now


def test_with_a_long_half_life_it_is_the_use_itself() -> None:
    use = scale(2, BEGIN, BEGIN + 100, 10**12)
    assert abs(use.decayed(BEGIN + 100, 10**12) - 200) < Fraction(1, 10**6)


def test_it_is_the_same_number_everywhere() -> None:
    want = ScaledUse(mantissa=303384514196418770405323323648254775692, exponent=2858)
    assert scale(8, BEGIN, BEGIN + 100, WEEK) == want
