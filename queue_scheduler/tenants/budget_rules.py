"""Budgets, as a quota has them: what counts, how much of it, and in which periods. Pure.

What a budget counts is a number: the amounts that are charged times their seconds, each resource
weighted. The weights make it whole: for hours of a resource, the base units times seconds
themselves; for an amount at a price, billionths of the unit of price. `scale` of them are what
users call 1: an hour of a core, of a GiB or of a piece; or 1 of the unit of price.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from queue_scheduler.tenants.hours import GIB, HOUR, MILLI, base_of
from queue_scheduler.tenants.periods import Period
from shared_api.resource_list import Amounts

NANOS: Final = 10**9

AMOUNT: Final = "amount"
"""The name of what a budget with a price counts, where others have that of their resource."""

_BASES: Final = GIB * MILLI // 8
"""A multiple of the base units of all resources: 8 is what a thousand and a GiB share."""

PRICE_SCALE: Final = NANOS * _BASES * HOUR


class Enforce(StrEnum):
    """What happens once a budget is spent."""

    HOLD = "Hold"
    WARN = "Warn"
    STOP = "Stop"


class BudgetRule(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One entry of `budgets`.

    Attributes:
        name: The resource whose hours count, or `AMOUNT`.
        weights: By resource: what a base unit counts in a second.
        limit: How much may be used in a period.
        scale: How much of that users call 1.
        period: When it begins anew.
        time_zone: The time zone of its calendar.
        enforce: What happens once it is spent.
        is_reserved: Whether what has started counts with the time that it declares.
        undeclared: The seconds that a unit without a declared time counts; None: it does not start.
        grace: The seconds that units run on once it is spent, where they are stopped.
        carry_over: The percent of what is left that the next period has in addition.
        is_debt_counted: Whether the next period has less by what was used beyond it.
        policy: The QuotaPolicy that states it.
        index: Its place in that policy's `budgets`, from 0.
        number: How many entries before it count the same in the same periods.
    """

    name: str
    weights: Mapping[str, int]
    limit: int
    scale: int
    period: Period
    time_zone: str = "UTC"
    enforce: Enforce = Enforce.HOLD
    is_reserved: bool = True
    undeclared: int | None = 24 * HOUR
    grace: int = 600
    carry_over: int = 0
    is_debt_counted: bool = True
    policy: str = ""
    index: int = 0
    number: int = 0

    @property
    def refuses(self) -> bool:
        """Whether it keeps units from starting."""
        return self.enforce is not Enforce.WARN

    def rate_of(self, amounts: Amounts) -> int:
        """Return what amounts count in a second."""
        rate = 0
        for name, each in self.weights.items():  # no generator: asked three times for every unit
            rate += each * amounts.get(name, 0)
        return rate


def scale_of(resource: str) -> int:
    """Return the base units times seconds that are an hour of a resource."""
    return base_of(resource) * HOUR


def price_weight(resource: str, price_nanos: int) -> int:
    """Return what a base unit of a resource counts in a second.

    Args:
        resource: The resource.
        price_nanos: What an hour costs, in billionths.
    """
    return price_nanos * (_BASES // base_of(resource))
