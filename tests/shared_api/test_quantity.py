"""Quantities are read and written exactly as by Kubernetes, within limits."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_api.objects.pod import QuantityText
from shared_api.quantity import (
    MAX_EXPONENT,
    MAX_LENGTH,
    MAX_UNITS,
    Format,
    Quantity,
    QuantityError,
    Rounding,
    amount,
    amount_for_people,
    amount_of_nanos,
    canonical,
    for_people,
    format_alike,
    format_amount,
    milli_value,
    parse_quantity,
    unit_value,
)

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "quantities_of_go.json").read_text(encoding="utf-8")
)
NANOS = 10**9


@pytest.mark.parametrize(
    ("text", "want_canonical", "want_value", "want_milli"),
    RECORDED["accepted"],
    ids=[row[0] for row in RECORDED["accepted"]],
)
def test_agrees_with_kubernetes(
    text: str, want_canonical: str, want_value: int, want_milli: int | None
) -> None:
    assert canonical(text) == want_canonical
    assert unit_value(text) == want_value
    if want_milli is not None:
        assert milli_value(text) == want_milli


@pytest.mark.parametrize("text", RECORDED["refused"])
def test_refuses_what_kubernetes_refuses(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["+", "-", ".", "+.", "m", "Gi", ".k", "E", "e5"])
def test_refuses_a_text_without_digits_which_go_reads_as_zero(text: str) -> None:
    with pytest.raises(QuantityError, match="no digits"):
        parse_quantity(text)


@pytest.mark.parametrize(
    "text",
    ["8Ei", "9.3E", "10E", str(MAX_UNITS + 1), "9223372036854775807.1", "-8Ei", "1e19"],
)
def test_refuses_what_is_too_large_where_go_caps_or_overflows(text: str) -> None:
    with pytest.raises(QuantityError, match="larger than"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("quantity", "reason"),
    [
        ("9e999999999", "exponent"),
        ("1e-999999999", "exponent"),
        (f"0e{MAX_EXPONENT + 1}", "exponent"),
        (f"1e-{MAX_EXPONENT + 1}", "exponent"),
        ("1" * (MAX_LENGTH + 1), "characters"),
        ("0" * 100_000 + "1", "characters"),
        ("1e" + "9" * 50, "exponent"),
        (10**400, "larger than"),
        (-(10**19), "larger than"),
        (1e308, "larger than"),
        (math.inf, "not a quantity"),
        (math.nan, "not a quantity"),
        (True, "bool"),
    ],
)
def test_extreme_input_is_an_error_at_once(quantity: QuantityText, reason: str) -> None:
    with pytest.raises(QuantityError, match=reason) as caught:
        parse_quantity(quantity)
    assert len(str(caught.value)) < 200, "the message must not contain the whole text"


@pytest.mark.parametrize("text", [f"1e-{MAX_EXPONENT}", f"0e{MAX_EXPONENT}", "0" * MAX_LENGTH])
def test_values_at_the_limits_are_allowed(text: str) -> None:
    assert parse_quantity(text).nanos in {0, 1}


def test_the_largest_quantities() -> None:
    assert unit_value(MAX_UNITS) == unit_value(str(MAX_UNITS)) == MAX_UNITS
    assert milli_value(-MAX_UNITS) == -MAX_UNITS * 1000


@pytest.mark.parametrize(
    ("number", "want"),
    [
        (0, "0"),
        (4, "4"),
        (-3, "-3"),
        (2000, "2k"),
        (0.0, "0"),
        (0.1, "100m"),
        (0.3, "300m"),
        (1.0, "1"),
        (2.5, "2500m"),
        (1e-6, "1u"),
        # Go writes an exponent from 1e-7 down, Python from 1e-5 down.
        (1e-5, "10u"),
        (1.5e-7, "150e-9"),
        # And from 1e21 up, Python from 1e16 up.
        (1e16, "10P"),
        (5e-324, "1e-9"),
    ],
)
def test_a_json_number_counts_as_the_text_that_go_writes_for_it(number: float, want: str) -> None:
    assert canonical(number) == want


@pytest.mark.parametrize(
    ("text", "want_milli", "want_units"),
    [
        ("0.0001", 1, 1),
        ("1.0000000001", 1001, 2),
        ("1.5", 1500, 2),
        ("-1.5", -1500, -2),
        ("-1500u", -2, -1),
        ("-0.1n", -1, -1),
    ],
)
def test_rounds_away_from_zero(text: str, want_milli: int, want_units: int) -> None:
    assert milli_value(text) == want_milli
    assert unit_value(text) == want_units


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1.5Gi", Quantity(1536 * 2**20 * NANOS, Format.BINARY_SI)),
        ("15e-1", Quantity(1500 * 10**6, Format.DECIMAL_EXPONENT)),
        ("1.5E", Quantity(15 * 10**17 * NANOS, Format.DECIMAL_SI)),
        ("0Ki", Quantity(0, Format.BINARY_SI)),
    ],
)
def test_remembers_the_family_of_the_suffix(text: str, want: Quantity) -> None:
    assert parse_quantity(text) == want


@pytest.mark.parametrize(
    ("resource", "quantity", "want"),
    [
        ("cpu", "1.5", 1500),
        ("cpu", "0.1m", 1),
        ("memory", "1.5", 2),
        ("memory", "2Gi", 2**31),
        ("nvidia.com/gpu", "500m", 1),
        ("pods", 3, 3),
    ],
)
def test_base_units_are_milli_for_cpu_and_whole_units_else(
    resource: str, quantity: QuantityText, want: int
) -> None:
    assert amount(resource, quantity) == want
    assert amount_of_nanos(resource, parse_quantity(quantity).nanos) == want


@pytest.mark.parametrize(
    ("resource", "base_units", "want"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("cpu", 0, "0"),
        ("cpu", 3_000_000, "3k"),
        ("cpu", -500, "-500m"),
        ("memory", 2147483648, "2Gi"),
        ("memory", 2_000_000_000, "1953125Ki"),
        ("memory", 1000, "1k"),
        ("memory", -(2**31), "-2Gi"),
        ("ephemeral-storage", 1536 * 2**20, "1536Mi"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("nvidia.com/gpu", 8, "8"),
        ("pods", 4000, "4k"),
        # A sum may exceed any quantity; there is no suffix above E and Ei.
        ("cpu", 10**24, "1000E"),
        ("memory", 2**73, "8192Ei"),
    ],
)
def test_amounts_are_written_in_the_family_of_their_resource(
    resource: str, base_units: int, want: str
) -> None:
    assert format_amount(resource, base_units) == want


# --------------------------------------------------------------------------------- properties


def is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


suffixes = st.sampled_from(
    ["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e0", "E3", "e-4", "e+2"]
)
numbers = st.from_regex(r"[+-]?([0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9})", fullmatch=True)
quantities = st.builds(lambda number, suffix: number + suffix, numbers, suffixes).filter(
    is_quantity
)


@pytest.mark.properties
@given(quantities)
def test_canonical_keeps_the_value_and_is_stable(text: str) -> None:
    once = canonical(text)
    assert parse_quantity(once).nanos == parse_quantity(text).nanos
    assert canonical(once) == once
    assert "." not in once
    assert not once.startswith("+")


@pytest.mark.properties
@given(quantities)
def test_rounding_goes_away_from_zero_by_less_than_one(text: str) -> None:
    nanos = parse_quantity(text).nanos
    for rounded, unit in ((milli_value(text), 10**6), (unit_value(text), NANOS)):
        assert 0 <= abs(rounded) * unit - abs(nanos) < unit
        assert rounded == 0 or (rounded > 0) == (nanos > 0)


@pytest.mark.properties
@given(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "hugepages-1Gi"]),
    st.integers(-(2**62), 2**62),
)
def test_an_amount_survives_being_written_and_read(resource: str, base_units: int) -> None:
    assert amount(resource, format_amount(resource, base_units)) == base_units


@pytest.mark.properties
@given(st.floats(min_value=-1e15, max_value=1e15, allow_nan=False))
def test_a_float_is_never_read_as_less_than_it_is(number: float) -> None:
    nanos = parse_quantity(number).nanos
    assert abs(nanos) >= abs(math.trunc(number)) * NANOS
    assert nanos == 0 or (nanos > 0) == (number > 0)


@pytest.mark.properties
@given(st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=MAX_LENGTH + 6))
def test_any_text_is_a_quantity_or_an_error(text: str) -> None:
    if is_quantity(text):
        assert abs(parse_quantity(text).nanos) <= MAX_UNITS * NANOS


@pytest.mark.parametrize(
    ("resource", "amounts", "want"),
    [
        pytest.param("cpu", (4000, 3000), ("4", "3"), id="whole cores"),
        pytest.param("cpu", (4000, 3500, 0), ("4000m", "3500m", "0"), id="one is in milli"),
        pytest.param("cpu", (10_000_000,), ("10000",), id="thousands of cores"),
        pytest.param("memory", (2**31, 2**30), ("2Gi", "1Gi"), id="the largest unit that fits all"),
        pytest.param("memory", (2**30, 2**20), ("1024Mi", "1Mi"), id="the smaller of two units"),
        pytest.param("memory", (2**30, 1), ("1073741824", "1"), id="one is in bytes"),
        pytest.param("memory", (0, 0), ("0", "0"), id="nothing"),
        pytest.param("nvidia.com/gpu", (1000, 1200), ("1000", "1200"), id="counts"),
        pytest.param("kubernetes.io/batch-cpu", (6000,), ("6000",), id="one count"),
    ],
)
def test_amounts_that_are_compared_have_one_unit(
    resource: str, amounts: tuple[int, ...], want: tuple[str, ...]
) -> None:
    got = format_alike(resource, amounts)
    assert got == want
    assert tuple(amount(resource, text) for text in got) == amounts


GIB = 2**30


@pytest.mark.parametrize(
    ("resource", "amounts", "want"),
    [
        ("cpu", [51692], ["51.7"]),
        ("cpu", [51692, 692, 51000, 0], ["51.7", "0.69", "51", "0"]),
        ("cpu", [1250, 1200, 1000], ["1.25", "1.2", "1"]),
        ("cpu", [750, 5], ["750m", "5m"]),
        ("cpu", [51692, 1], ["51.7", "0.001"]),
        ("memory", [222016770993], ["206.8Gi"]),
        ("memory", [222016770993, 5 * 2**20], ["206.8Gi", "5Mi"]),
        ("memory", [1500 * 2**20, GIB], ["1.46Gi", "1Gi"]),
        ("memory", [206 * GIB, GIB // 2], ["206Gi", "0.5Gi"]),
        ("memory", [1023], ["1023"]),
        ("kubernetes.io/batch-memory", [222016770993], ["206.8Gi"]),
        ("nvidia.com/gpu", [8, 16, 0], ["8", "16", "0"]),
        ("pods", [999_999], ["999999"]),
        ("example.com/tokens", [222016770993], ["222G"]),
        ("cpu", [-1500], ["-1.5"]),
    ],
)
def test_amounts_are_short_for_people(resource: str, amounts: list[int], want: list[str]) -> None:
    assert list(for_people(resource, amounts)) == want


@pytest.mark.parametrize(
    ("rounding", "want"), [(Rounding.UP, "206.8Gi"), (Rounding.DOWN, "206.7Gi")]
)
def test_what_is_needed_is_rounded_up_and_what_is_left_down(rounding: Rounding, want: str) -> None:
    assert amount_for_people("memory", 222016770993, rounding) == want


@given(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]),
    st.integers(1, 2**60),
    st.integers(1, 2**60),
)
def test_an_amount_for_people_is_near_and_on_the_right_side(
    resource: str, number: int, beside: int
) -> None:
    for rounding in Rounding:
        text, _ = for_people(resource, [number, beside], rounding)
        shown = amount(resource, text)
        assert abs(shown - number) * 199 <= number + 199
        if rounding is Rounding.UP:
            assert shown >= number
        if rounding is Rounding.DOWN:
            # Reading a quantity rounds up to whole base units.
            assert shown <= number + 1
