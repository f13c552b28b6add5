"""Reads `budgets` of a QuotaPolicy. Pure.

The API server has checked most of it, but not under every CRD that an object may have been stored
under; and no CEL rule can tell whether there is such a time zone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeVar

from queue_scheduler.tenants.budget_rules import (
    AMOUNT,
    NANOS,
    PRICE_SCALE,
    BudgetRule,
    Enforce,
    price_weight,
    scale_of,
)
from queue_scheduler.tenants.calendars import CalendarKey, Calendars
from queue_scheduler.tenants.periods import Period
from shared_api.durations import DurationError, parse_duration
from shared_api.objects.pod import QuantityText
from shared_api.objects.quota_policy import (
    COUNT,
    DECLARED,
    FORGIVE,
    MAX_BUDGETS,
    NO_RESERVE,
    REFUSE,
    Budget,
)
from shared_api.quantity import QuantityError, parse_quantity
from shared_api.resource_names import RENAMED

_PLACE: Final = "budgets[{}]"
_MAX_PERCENT: Final = 100

WordT = TypeVar("WordT", bound=StrEnum)


class BudgetError(ValueError):
    """Budgets cannot be read; the message begins with the place in the spec."""


def read_budgets(
    entries: Iterable[Budget], policy: str, calendars: Calendars
) -> tuple[BudgetRule, ...]:
    """Return the budgets that the entries of a policy state.

    Args:
        entries: `budgets`.
        policy: The policy's name.
        calendars: Those of all time zones that exist.

    Raises:
        BudgetError: An entry cannot be read: then none counts.
    """
    rules: list[BudgetRule] = []
    alike: Counter[tuple[str, Period, str]] = Counter()
    for index, entry in enumerate(entries):
        if index >= MAX_BUDGETS:
            raise BudgetError(f"budgets: at most {MAX_BUDGETS} are read")
        rule = _read(entry, policy, index, alike, calendars)
        alike[rule.name, rule.period, rule.time_zone] += 1
        rules.append(rule)
    return tuple(rules)


def _read(
    entry: Budget,
    policy: str,
    index: int,
    alike: Counter[tuple[str, Period, str]],
    calendars: Calendars,
) -> BudgetRule:
    place = _PLACE.format(index)
    period = _word(Period, entry.period, f"{place}.period")
    _check_calendar(entry, period, place, calendars)
    name, weights, limit, scale = _read_limit(entry, place)
    if not 0 <= entry.carry_over <= _MAX_PERCENT:
        raise BudgetError(f"{place}.carryOver: must be between 0 and {_MAX_PERCENT}")
    return BudgetRule(
        name=name,
        weights=weights,
        limit=limit,
        scale=scale,
        period=period,
        time_zone=entry.time_zone,
        enforce=_word(Enforce, entry.enforce, f"{place}.enforce"),
        is_reserved=_choice(entry.reserve, f"{place}.reserve", DECLARED, NO_RESERVE),
        undeclared=_read_undeclared(entry.undeclared, f"{place}.undeclared"),
        grace=_seconds(entry.grace, f"{place}.grace"),
        carry_over=entry.carry_over,
        is_debt_counted=_choice(entry.debt, f"{place}.debt", COUNT, FORGIVE),
        policy=policy,
        index=index,
        number=alike[name, period, entry.time_zone],
    )


def _check_calendar(entry: Budget, period: Period, place: str, calendars: Calendars) -> None:
    if not period.is_of_calendar:
        if entry.carry_over or entry.debt != COUNT or entry.time_zone != "UTC":
            fields = "timeZone, carryOver and debt"
            raise BudgetError(f"{place}: {fields} need the period Day, Week or Month")
        return
    if not calendars.edges_of(CalendarKey(period, entry.time_zone)):
        raise BudgetError(f"{place}.timeZone: there is no time zone {entry.time_zone!r}")


def _read_limit(entry: Budget, place: str) -> tuple[str, dict[str, int], int, int]:
    """Return what counts, the weights, the limit, and the scale."""
    if (entry.hours is None) is (entry.amount is None):
        raise BudgetError(f"{place}: set either hours or amount")
    if entry.hours is not None:
        if not entry.resource or entry.price:
            raise BudgetError(f"{place}: hours are of one resource, and have no price")
        resource = RENAMED.get(entry.resource, entry.resource)
        scale = scale_of(resource)
        limit = _nanos(entry.hours, f"{place}.hours") * scale // NANOS
        return resource, {resource: 1}, limit, scale
    if entry.resource or not entry.price:
        raise BudgetError(f"{place}: an amount needs a price, and no resource")
    assert entry.amount is not None, "either hours or amount is set"
    weights: dict[str, int] = {}
    for resource, price in sorted(entry.price.items()):
        name = RENAMED.get(resource, resource)
        weights[name] = price_weight(name, _nanos(price, f"{place}.price.{resource}"))
    limit = _nanos(entry.amount, f"{place}.amount") * PRICE_SCALE // NANOS
    return AMOUNT, weights, limit, PRICE_SCALE


def _nanos(quantity: QuantityText, place: str) -> int:
    try:
        nanos = parse_quantity(quantity).nanos
    except QuantityError as error:
        raise BudgetError(f"{place}: {error}") from error
    if nanos < 0:
        raise BudgetError(f"{place}: must not be negative")
    return nanos


def _word(words: type[WordT], text: str, place: str) -> WordT:
    try:
        return words(text)
    except ValueError as error:
        known = ", ".join(words)
        raise BudgetError(f"{place}: {text!r} is none of {known}") from error


def _choice(text: str, place: str, yes: str, no: str) -> bool:
    if text not in {yes, no}:
        raise BudgetError(f"{place}: {text!r} is none of {yes}, {no}")
    return text == yes


def _read_undeclared(text: str, place: str) -> int | None:
    if text == REFUSE:
        return None
    seconds = _seconds(text, place)
    if not seconds:
        raise BudgetError(f"{place}: must be more than 0, or {REFUSE}")
    return seconds


def _seconds(text: str, place: str) -> int:
    """Return the seconds of a duration, rounded up."""
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise BudgetError(f"{place}: {error}") from error
    return -(-seconds.numerator // seconds.denominator)
