"""Use that decays by half in a half-life, as numbers that only grow. Exact enough, pure.

Decayed use gets smaller by the second, so whoever orders by it would have to compute it anew for
all. *Scaled* use is decayed use times 2^(t/h) for the present second t and the half-life h: of an
account that is charged nothing it stays as it is, and at any moment it orders accounts in the same
way.

A number is `mantissa * 2^exponent`, both of them integers: 2^(t/h) has hundreds of digits after
some years, and floating-point functions differ between machines, while what is compared must not.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Final, TypeAlias

import msgspec

BITS: Final = 128
"""Bits of a mantissa, and of the fractions that it is computed from: far below 1e-9, also after
billions of additions."""

_ONE: Final = 1 << BITS

_LN2: Final = 0xB17217F7D1CF79ABC9E3B39803F2F6AF
"""The natural logarithm of 2, times 2^128."""

_DIGIT_BITS: Final = 8
_DIGITS: Final = 10
"""Digits of the fraction of t/h that count, each of `_DIGIT_BITS`: a half-life of ten years is
divided into less than 1e-15 seconds."""


def _roots() -> tuple[tuple[int, ...], ...]:
    """Return for each digit what its values multiply by, times 2^BITS: 2^(value / 256^place)."""
    root, tables = 2 * _ONE, []
    for _ in range(_DIGITS):
        for _ in range(_DIGIT_BITS):
            root = isqrt(root << BITS)
        table = [_ONE]
        while len(table) < 1 << _DIGIT_BITS:
            table.append(table[-1] * root >> BITS)
        tables.append(tuple(table))
    return tuple(tables)


_ROOTS: Final = _roots()

_FAR: Final = 2 * BITS
"""If the exponents of two numbers differ by more, the smaller one does not count: exponents may
differ by the half-lives of years, and a shift by that many bits would take all memory."""

_RANK_BITS: Final = 64
"""Bits of a rank's mantissa."""

_RANK_BASE: Final = 4 * BITS
"""Added to the exponents of ranks, which are not below -2 * BITS."""

Power: TypeAlias = tuple[int, int]
"""2^(t/h) as (mantissa, exponent)."""


class ScaledUse(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """`mantissa * 2^exponent`, in base units times seconds, scaled; never below 0."""

    mantissa: int = 0
    exponent: int = 0

    def plus(self, other: ScaledUse) -> ScaledUse:
        """Return the sum, rounded down to `BITS` bits."""
        if not (self.mantissa and other.mantissa):
            return self if self.mantissa else other
        if abs(self.exponent - other.exponent) > _FAR:
            return self if self.exponent > other.exponent else other
        low = min(self.exponent, other.exponent)
        mantissa = (self.mantissa << (self.exponent - low)) + (
            other.mantissa << (other.exponent - low)
        )
        return _rounded(mantissa, low)

    def minus(self, other: ScaledUse) -> ScaledUse:
        """Return the difference, not below 0."""
        if not (self.mantissa and other.mantissa):
            return self
        if abs(self.exponent - other.exponent) > _FAR:
            return self if self.exponent > other.exponent else ScaledUse()
        low = min(self.exponent, other.exponent)
        mantissa = (self.mantissa << (self.exponent - low)) - (
            other.mantissa << (other.exponent - low)
        )
        return _rounded(max(0, mantissa), low)

    def rescaled(self, old: Power, new: Power) -> ScaledUse:
        """Return the same use at one second, by the powers of that second for two half-lives."""
        if self.exponent - old[1] < -_FAR:
            return ScaledUse()
        mantissa = (self.mantissa << BITS) // old[0] * new[0]
        return _rounded(mantissa, self.exponent - old[1] + new[1] - BITS)

    def rank(self, weight: int) -> int:
        """Return a number that orders uses of one half-life, each divided by its weight, above 0.

        It has the first 64 bits of the quotient after its exponent, so it compares quickly.
        """
        quotient = (self.mantissa << _RANK_BITS) // weight
        if not quotient:
            return 0
        length = quotient.bit_length()
        first = quotient >> (length - _RANK_BITS) if length > _RANK_BITS else quotient
        return (self.exponent + length + _RANK_BASE << _RANK_BITS) + first

    def is_below(self, other: ScaledUse) -> bool:
        """Return whether it is less than another one of the same half-life."""
        return self.rank(1) < other.rank(1)

    def part_of(self, total: ScaledUse) -> Fraction:
        """Return which part it is of a use of the same half-life; 0 if that is 0."""
        if not total.mantissa or total.exponent - self.exponent > _FAR:
            return Fraction(0)
        return Fraction(self.mantissa, total.mantissa) * Fraction(2) ** (
            self.exponent - total.exponent
        )

    def decayed(self, second: int, half_life: int) -> Fraction:
        """Return what is left of it at a second, in base units times seconds."""
        mantissa, exponent = power(second, half_life)
        if not self.mantissa or exponent - self.exponent > _FAR:
            return Fraction(0)
        return Fraction(self.mantissa, mantissa) * Fraction(2) ** (self.exponent - exponent)


NOTHING: Final = ScaledUse()


def scale(amount: int, begin: int, end: int, half_life: int) -> ScaledUse:
    """Return the scaled use of a charge.

    Args:
        amount: Base units that are charged, not below 0.
        begin: The second from which on they are.
        end: The second until which they are, not before `begin`.
        half_life: Seconds in which use decays by half, above 0.
    """
    return scale_between(amount, power(begin, half_life), power(end, half_life), half_life)


def scale_between(amount: int, first: Power, last: Power, half_life: int) -> ScaledUse:
    """Return the same, between two powers of which the latter is not smaller."""
    if last[1] - first[1] > _FAR:
        first = (0, last[1])
    low = min(first[1], last[1])
    grown = (last[0] << (last[1] - low)) - (first[0] << (first[1] - low))
    # The integral of 2^(t/h) is h / ln 2 * 2^(t/h).
    return _rounded((amount * half_life * grown << BITS) // _LN2, low)


def power(second: int, half_life: int) -> Power:
    """Return 2^(second / half_life) as (mantissa, exponent), with a mantissa of BITS + 1 bits."""
    whole, rest = divmod(second, half_life)
    mantissa = _ONE
    for table in _ROOTS:
        if not rest:
            break
        digit, rest = divmod(rest << _DIGIT_BITS, half_life)
        mantissa = mantissa * table[digit] >> BITS
    return mantissa, whole - BITS


def _rounded(mantissa: int, exponent: int) -> ScaledUse:
    more = max(0, mantissa.bit_length() - BITS)
    return ScaledUse(mantissa >> more, exponent + more) if mantissa else NOTHING
