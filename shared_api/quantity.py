"""Kubernetes quantities ("500m", "2Gi", 1e3) as exact integers.

Kubernetes keeps no digits below a billionth: finer values are rounded up while they are parsed.
So every quantity is a whole number of nanos, and no fraction or float is needed here.

The grammar, from the documentation of `resource.Quantity`:

    quantity = sign? number suffix?       number = digits | digits "." digits? | "." digits
    suffix   = n u m k M G T P E          decimal: powers of 1000
             | Ki Mi Gi Ti Pi Ei          binary: powers of 1024
             | (e | E) sign? digits       decimal exponent

This module deliberately differs from the Go code. That caps a binary quantity above 2^63-1 and lets
a decimal one overflow; here both are errors, since a silently smaller quota is worse than a refused
one. It reads a text without any digit ("m", "+", ".") as zero, against its own grammar; here that
is an error as well. It prints some texts unchanged although they are not canonical ("1.500", "+1");
here they become canonical.

Source: k8s.io/apimachinery v0.36.3, pkg/api/resource: quantity.go, suffix.go, amount.go.
"""

from __future__ import annotations

import decimal
import enum
import functools
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from shared_api.objects.pod import QuantityText

MAX_LENGTH: Final = 64
"""Most characters of a quantity. 2^63-1 with nanos has 28 digits; the CRDs have the same limit."""
MAX_EXPONENT: Final = 324
"""Largest decimal exponent, of either sign: the smallest JSON number of a float64 is 5e-324."""
MAX_UNITS: Final = 2**63 - 1
"""Largest quantity ("No quantity may represent a number greater than 2^63-1")."""

_NANOS_PER_UNIT: Final = 10**9
_NANOS_PER_MILLI: Final = 10**6
_MILLIS_PER_UNIT: Final = 1000
_NANO_DIGITS: Final = 9
_MAX_NANOS: Final = MAX_UNITS * _NANOS_PER_UNIT
# Enough for every distinct quantity of a large cluster's pods; a hit costs a tenth of a parse.
_CACHED_TEXTS: Final = 8192

_PATTERN: Final = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?"
)
_DECIMAL_SUFFIXES: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_DECIMAL_SUFFIX_OF: Final = {exponent: text for text, exponent in _DECIMAL_SUFFIXES.items()}
_LARGEST_DECIMAL_EXPONENT: Final = 18
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_KIBI: Final = 1024
# Outside of it Go's encoding/json writes an exponent: below 0.000001, above 100000000000000000000.
_GO_FIXED_RANGE: Final = range(-6, 21)


class QuantityError(ValueError):
    """The text is not a quantity, or exceeds what this project (and Kubernetes) can hold."""


class Format(enum.Enum):
    """The family of suffixes in which a quantity was written, and is formatted again."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class Quantity(NamedTuple):
    """An exact amount: `nanos` billionths, and its family of suffixes."""

    nanos: int
    format: Format


def parse_quantity(quantity: QuantityText) -> Quantity:
    """Return the exact value of a quantity on the wire.

    A JSON number counts as the text that Go's encoder writes for it, so 0.1 is exactly a tenth.

    Raises:
        QuantityError: It is not a quantity, too long, or larger than 2^63-1.
    """
    if isinstance(quantity, str):
        return _parse_text(quantity)
    return _parse_number(quantity)


def milli_value(quantity: QuantityText) -> int:
    """Return the quantity in thousandths, rounded up (a negative one: away from zero).

    Source: `Quantity.MilliValue`; "-1.5m" decoded from JSON is -2 there.
    """
    return _divide_away_from_zero(parse_quantity(quantity).nanos, _NANOS_PER_MILLI)


def unit_value(quantity: QuantityText) -> int:
    """Return the quantity in whole units, rounded up (a negative one: away from zero).

    Source: `Quantity.Value`, "rounded up to the nearest integer away from 0".
    """
    return _divide_away_from_zero(parse_quantity(quantity).nanos, _NANOS_PER_UNIT)


def amount(resource: str, quantity: QuantityText) -> int:
    """Return the quantity in base units of the resource: cpu in milli, others in whole units."""
    return milli_value(quantity) if resource == "cpu" else unit_value(quantity)


def amount_of_nanos(resource: str, nanos: int) -> int:
    """Return an exact sum of billionths rounded up to base units of the resource."""
    divisor = _NANOS_PER_MILLI if resource == "cpu" else _NANOS_PER_UNIT
    return _divide_away_from_zero(nanos, divisor)


def canonical(quantity: QuantityText) -> str:
    """Return the canonical text: no fraction, the largest suffix of the same family.

    As in Kubernetes, a binary quantity below 1024 or with a fraction becomes decimal.
    """
    return _text_of(parse_quantity(quantity))


def format_amount(resource: str, base_units: int) -> str:
    """Return the canonical text of an amount in base units: ("cpu", 1500) is "1500m".

    Bytes are formatted with binary suffixes, everything else with decimal ones.
    """
    if resource == "cpu":
        return _text_of(Quantity(base_units * _NANOS_PER_MILLI, Format.DECIMAL_SI))
    family = Format.BINARY_SI if _is_in_bytes(resource) else Format.DECIMAL_SI
    return _text_of(Quantity(base_units * _NANOS_PER_UNIT, family))


def format_alike(resource: str, base_units: Sequence[int]) -> tuple[str, ...]:
    """Return the texts of amounts of one resource in the same unit, so that users can compare them.

    Bytes are in the largest binary unit in which all are whole, cpu is in cores if all are whole
    and in milli otherwise, others have no suffix: ("cpu", [1000, 1200]) becomes 1000m, 1200m.
    """
    if resource == "cpu":
        if all(amount % _MILLIS_PER_UNIT == 0 for amount in base_units):
            return tuple(str(amount // _MILLIS_PER_UNIT) for amount in base_units)
        return tuple(f"{amount}m" if amount else "0" for amount in base_units)
    power = 0
    if _is_in_bytes(resource) and any(base_units):
        while power + 1 < len(_BINARY_SUFFIXES) and not any(
            amount % _KIBI ** (power + 1) for amount in base_units
        ):
            power += 1
    suffix, size = _BINARY_SUFFIXES[power], _KIBI**power
    return tuple(f"{amount // size}{suffix}" if amount else "0" for amount in base_units)


class Rounding(enum.Enum):
    """How an amount is rounded that is written for people."""

    NEAREST = enum.auto()
    UP = enum.auto()
    """For what is needed at least."""
    DOWN = enum.auto()
    """For what is left at most."""


def for_people(
    resource: str, base_units: Sequence[int], rounding: Rounding = Rounding.NEAREST
) -> tuple[str, ...]:
    """Return short texts of amounts of one resource for a sentence: 51.7, 206.8Gi, 750m.

    They are in the largest unit in which the largest amount is at least 1, with one to three
    decimals, and exact to half a percent; one that is too small for that is in a unit of its own.
    What is to be read by a program or applied needs `format_amount`.
    """
    return tuple(_for_people(resource, amount, base_units, rounding) for amount in base_units)


def amount_for_people(resource: str, base_units: int, rounding: Rounding = Rounding.NEAREST) -> str:
    """Return `for_people` of one amount."""
    return _for_people(resource, base_units, (base_units,), rounding)


def _for_people(resource: str, amount: int, beside: Sequence[int], rounding: Rounding) -> str:
    if not amount:
        return "0"
    size, suffix = _unit_for_people(resource, max(abs(each) for each in beside))
    for decimals in range(1, _MAX_DECIMALS + 1):
        tens = 10**decimals
        scaled = _divide(abs(amount) * tens, size, rounding if amount > 0 else Rounding.NEAREST)
        if abs(scaled * size - abs(amount) * tens) * _MAX_ERROR <= abs(amount) * tens:
            whole, rest = divmod(scaled, tens)
            text = f"{whole}.{rest:0{decimals}}".rstrip("0").rstrip(".") if rest else str(whole)
            return f"{'-' if amount < 0 else ''}{text}{suffix}"
    if len(beside) > 1:
        return _for_people(resource, amount, (amount,), rounding)
    return format_amount(resource, amount)


_MAX_DECIMALS: Final = 3
_MAX_ERROR: Final = 200
"""A text differs from the amount by a 200th at most."""
_LARGE_COUNT: Final = 1_000_000
"""The count from which on decimal suffixes are used."""


def _divide(dividend: int, divisor: int, rounding: Rounding) -> int:
    match rounding:
        case Rounding.UP:
            return -(-dividend // divisor)
        case Rounding.DOWN:
            return dividend // divisor
        case Rounding.NEAREST:
            return (2 * dividend + divisor) // (2 * divisor)


def _unit_for_people(resource: str, largest: int) -> tuple[int, str]:
    """Return the size of the unit in base units, and its suffix."""
    if resource == "cpu":
        return (_MILLIS_PER_UNIT, "") if largest >= _MILLIS_PER_UNIT else (1, "m")
    if counts_bytes(resource):
        step, suffixes = _KIBI, _BINARY_SUFFIXES
    elif largest >= _LARGE_COUNT:
        step, suffixes = _MILLIS_PER_UNIT, ("", "k", "M", "G", "T", "P", "E")
    else:
        return 1, ""
    power = 0
    while power + 1 < len(suffixes) and largest >= step ** (power + 1):
        power += 1
    return step**power, suffixes[power]


_BYTES_OF_KOORDINATOR: Final = ("/batch-memory", "/mid-memory", "/gpu-memory")


def counts_bytes(resource: str) -> bool:
    """Return whether a resource is counted in bytes, Koordinator's resources included."""
    return _is_in_bytes(resource) or resource.endswith(_BYTES_OF_KOORDINATOR)


def piece_size(resource: str) -> int:
    """Return the base units of one piece of a resource: of a core, a GiB, or a piece."""
    if resource == "cpu" or resource.endswith("/batch-cpu"):
        return _MILLIS_PER_UNIT
    return _KIBI**3 if counts_bytes(resource) else 1


def _is_in_bytes(resource: str) -> bool:
    return resource in {"memory", "ephemeral-storage", "storage"} or resource.startswith(
        "hugepages-"
    )


@functools.lru_cache(maxsize=_CACHED_TEXTS)
def _parse_text(text: str) -> Quantity:
    if len(text) > MAX_LENGTH:
        raise QuantityError(f"{text[:20]!r}...: a quantity has at most {MAX_LENGTH} characters")
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a quantity such as 500m, 2Gi or 1e3")
    sign, whole, fraction, suffix = match.groups("")
    if not whole and not fraction:
        raise QuantityError(f"{text!r} has no digits")
    nanos, family = _scale(int(whole + fraction), len(fraction), suffix)
    if nanos > _MAX_NANOS:
        raise QuantityError(f"{text!r} is larger than {MAX_UNITS}")
    return Quantity(-nanos if sign == "-" else nanos, family)


def _parse_number(number: float) -> Quantity:
    # The exact type: True is an int for isinstance, but not a quantity.
    if type(number) is int:
        if abs(number) > MAX_UNITS:
            raise QuantityError(f"an integer larger than {MAX_UNITS} is no quantity")
        return Quantity(number * _NANOS_PER_UNIT, Format.DECIMAL_SI)
    if type(number) is not float:
        raise QuantityError(f"a {type(number).__name__} is not a quantity")
    # The shortest digits of a float are the same in Go; the sizes from which it writes an exponent
    # are not, and an exponent means another family.
    shortest = decimal.Decimal(repr(number))
    if not shortest.is_finite():
        raise QuantityError(f"{number} is not a quantity")
    is_fixed = shortest.is_zero() or shortest.adjusted() in _GO_FIXED_RANGE
    return _parse_text(f"{shortest:f}" if is_fixed else repr(number))


def _scale(digits: int, fraction_digits: int, suffix: str) -> tuple[int, Format]:
    """Return digits / 10^fraction_digits x suffix in nanos, rounded up."""
    if suffix.endswith("i"):
        family, exponent = Format.BINARY_SI, 0
        digits <<= 10 * _BINARY_SUFFIXES.index(suffix)
    elif suffix in _DECIMAL_SUFFIXES:
        family, exponent = Format.DECIMAL_SI, _DECIMAL_SUFFIXES[suffix]
    else:
        family, exponent = Format.DECIMAL_EXPONENT, int(suffix[1:])
        if abs(exponent) > MAX_EXPONENT:
            raise QuantityError(f"exponent {exponent} is beyond {MAX_EXPONENT}")
    shift = exponent + _NANO_DIGITS - fraction_digits
    if shift >= 0:
        return digits * 10**shift, family
    return -(-digits // 10**-shift), family


def _divide_away_from_zero(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor) if dividend >= 0 else dividend // divisor


def _text_of(quantity: Quantity) -> str:
    nanos, family = quantity
    if nanos == 0:
        return "0"
    units, rest = divmod(nanos, _NANOS_PER_UNIT)
    if family is Format.BINARY_SI and rest == 0 and abs(units) >= _KIBI:
        return _binary_text(units)
    return _decimal_text(nanos, family)


def _binary_text(units: int) -> str:
    power = 0
    while units % _KIBI == 0 and power + 1 < len(_BINARY_SUFFIXES):
        units >>= 10
        power += 1
    return f"{units}{_BINARY_SUFFIXES[power]}"


def _decimal_text(nanos: int, family: Format) -> str:
    mantissa, exponent = nanos, -_NANO_DIGITS
    while mantissa % 1000 == 0 and exponent < _LARGEST_DECIMAL_EXPONENT:
        mantissa //= 1000
        exponent += 3
    if family is Format.DECIMAL_EXPONENT:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIX_OF[exponent]}"
