"""Vectors of amounts: a missing key is 0 everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_api.quantity import QuantityError
from shared_api.resource_list import (
    Amounts,
    add,
    fits,
    format_amounts,
    maximum,
    parse_amounts,
    parse_demand,
    scale,
    subtract,
)

lists = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(-(10**6), 10**6)
)


def without_zeros(amounts: Amounts) -> Amounts:
    return {resource: amount for resource, amount in amounts.items() if amount}


def test_each_resource_is_read_in_its_base_units() -> None:
    got = parse_amounts({"cpu": "1500m", "memory": "1Ki", "nvidia.com/gpu": 2, "pods": "0.5"})
    assert got == {"cpu": 1500, "memory": 1024, "nvidia.com/gpu": 2, "pods": 1}


def test_an_error_names_the_resource() -> None:
    with pytest.raises(QuantityError, match=r"^memory: '1GB' is not a quantity"):
        parse_amounts({"cpu": "1", "memory": "1GB"})


def test_a_demand_is_not_negative_but_an_amount_may_be() -> None:
    assert parse_amounts({"cpu": "-1"}) == {"cpu": -1000}
    assert parse_demand({"cpu": "0", "memory": "1"}) == {"cpu": 0, "memory": 1}
    with pytest.raises(QuantityError, match=r"^cpu: '-1' is negative"):
        parse_demand({"memory": "1", "cpu": "-1"})


@pytest.mark.parametrize(
    ("demand", "room", "want"),
    [
        ({}, {}, True),
        ({"cpu": 1}, {"cpu": 1}, True),
        ({"cpu": 2}, {"cpu": 1}, False),
        ({"cpu": 0}, {}, True),
        ({"cpu": 1}, {"memory": 9}, False),
        ({"cpu": 1}, {"cpu": 5, "memory": -1}, True),
        ({"cpu": 0}, {"cpu": -1}, False),
    ],
)
def test_fits_checks_only_demanded_resources(demand: Amounts, room: Amounts, *, want: bool) -> None:
    assert fits(demand, room) is want


def test_maximum_treats_a_missing_key_as_zero_on_either_side() -> None:
    assert maximum({"cpu": -1, "memory": 3}, {"gpu": -2, "memory": 5}) == {
        "cpu": 0,
        "memory": 5,
        "gpu": 0,
    }


def test_amounts_are_written_in_the_order_of_names() -> None:
    got = format_amounts({"memory": 2**30, "cpu": 250, "a/b": 3})
    assert list(got.items()) == [("a/b", "3"), ("cpu", "250m"), ("memory", "1Gi")]


@pytest.mark.properties
@given(lists, lists)
def test_subtraction_reverses_addition(first: Amounts, second: Amounts) -> None:
    assert add(first, second) == add(second, first)
    rest = subtract(add(first, second), second)
    assert without_zeros(rest) == without_zeros(first)


@pytest.mark.properties
@given(lists, lists)
def test_arguments_are_not_changed(first: Amounts, second: Amounts) -> None:
    before = dict(first), dict(second)
    for operation in (add, subtract, maximum):
        got = operation(first, second)
        assert got is not first
        assert got is not second
        assert (first, second) == before


@pytest.mark.properties
@given(lists, st.integers(0, 50))
def test_scaling_is_repeated_addition(amounts: Amounts, factor: int) -> None:
    total: Amounts = {}
    for _ in range(factor):
        total = add(total, amounts)
    assert without_zeros(scale(amounts, factor)) == without_zeros(total)


@pytest.mark.properties
@given(lists, lists)
def test_both_fit_into_their_maximum(first: Amounts, second: Amounts) -> None:
    room = maximum(first, second)
    assert fits(first, room)
    assert fits(second, room)
    assert all(
        room[resource] in {first.get(resource, 0), second.get(resource, 0)} for resource in room
    )


@pytest.mark.properties
@given(lists)
def test_amounts_survive_being_written_and_read(amounts: Amounts) -> None:
    assert parse_amounts(format_amounts(amounts)) == amounts
