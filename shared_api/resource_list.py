"""Vectors of amounts: one exact integer per resource, in base units.

cpu is counted in milli, everything else in whole units (`shared_api.quantity`). A missing key
counts as 0 in every operation here; that a missing key of a *limit* may mean "unlimited" is a rule
of quotas. Every function returns a new dict and does not modify its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from shared_api.objects.pod import QuantityText, ResourceQuantities
from shared_api.quantity import QuantityError, format_amount
from shared_api.quantity import amount as amount_of

Amounts: TypeAlias = dict[str, int]
"""Resource name -> amount in base units."""


def parse_amounts(quantities: Mapping[str, QuantityText]) -> Amounts:
    """Return the amounts of a resource list, each rounded up to base units.

    Raises:
        QuantityError: A value is not a quantity; the message starts with the resource's name.
    """
    amounts: Amounts = {}
    for resource, quantity in quantities.items():
        try:
            amounts[resource] = amount_of(resource, quantity)
        except QuantityError as error:
            raise QuantityError(f"{resource}: {error}") from error
    return amounts


def parse_demand(quantities: Mapping[str, QuantityText]) -> Amounts:
    """Return the amounts of a resource list that states a demand, each rounded up to base units.

    Raises:
        QuantityError: A value is not a quantity, or is negative: a negative demand would give
            others capacity that does not exist.
    """
    amounts = parse_amounts(quantities)
    for resource, amount in amounts.items():
        if amount < 0:
            raise QuantityError(f"{resource}: {quantities[resource]!r} is negative")
    return amounts


def add(first: Mapping[str, int], second: Mapping[str, int]) -> Amounts:
    """Return first + second."""
    total = dict(first)
    for resource, amount in second.items():
        total[resource] = total.get(resource, 0) + amount
    return total


def subtract(first: Mapping[str, int], second: Mapping[str, int]) -> Amounts:
    """Return first - second; a result may be negative."""
    rest = dict(first)
    for resource, amount in second.items():
        rest[resource] = rest.get(resource, 0) - amount
    return rest


def scale(amounts: Mapping[str, int], factor: int) -> Amounts:
    """Return every amount multiplied by `factor`."""
    return {resource: amount * factor for resource, amount in amounts.items()}


def maximum(first: Mapping[str, int], second: Mapping[str, int]) -> Amounts:
    """Return the larger amount of each resource."""
    return {
        resource: max(first.get(resource, 0), second.get(resource, 0))
        for resource in {**first, **second}
    }


def fits(demand: Mapping[str, int], room: Mapping[str, int]) -> bool:
    """Return whether every amount of `demand` is at most that of `room`."""
    return all(amount <= room.get(resource, 0) for resource, amount in demand.items())


def format_amounts(amounts: Mapping[str, int]) -> ResourceQuantities:
    """Return the canonical texts of the amounts, ordered by the names of the resources."""
    return {resource: format_amount(resource, amounts[resource]) for resource in sorted(amounts)}
