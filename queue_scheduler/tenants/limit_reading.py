"""Reads `userLimits` of a QuotaPolicy into base units. Pure.

The API server has checked most of it, but not under every CRD that an object may have been stored
under, and no CEL rule can tell whether an amount is too large.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from queue_scheduler.tenants.limit_rules import EVERYBODY, LimitRule, QuotaUserLimits
from shared_api.objects.quota_policy import UserLimit
from shared_api.quantity import QuantityError
from shared_api.resource_list import Amounts, parse_demand
from shared_api.resource_names import rename_deprecated

_PLACE: Final = "userLimits[{}]"


class LimitError(ValueError):
    """Limits cannot be read; the message begins with the place in the spec."""


def read_limits(entries: Iterable[UserLimit], policy: str) -> QuotaUserLimits:
    """Return the rules that the entries of a policy state.

    Args:
        entries: `userLimits`.
        policy: The policy's name.

    Raises:
        LimitError: An entry cannot be read: then none counts.
    """
    rules = tuple(_read(entry, policy, index) for index, entry in enumerate(entries))
    for others in ("users", "groups"):
        wide = [rule.index for rule in rules if getattr(rule, others) == frozenset()]
        if len(wide) > 1:
            place = _PLACE.format(wide[1])
            raise LimitError(f"{place}.{others}: only one entry may have {EVERYBODY}")
    return QuotaUserLimits(rules)


def _read(entry: UserLimit, policy: str, index: int) -> LimitRule:
    place = _PLACE.format(index)
    if bool(entry.users) == bool(entry.groups):
        raise LimitError(f"{place}: name either users or groups")
    if not entry.max and entry.running is None and entry.pending is None:
        raise LimitError(f"{place}: set at least one of max, running and pending")
    return LimitRule(
        users=_names(entry.users, f"{place}.users"),
        groups=_names(entry.groups, f"{place}.groups"),
        max=_amounts(entry, f"{place}.max"),
        running=_count(entry.running, f"{place}.running"),
        pending=_count(entry.pending, f"{place}.pending"),
        policy=policy,
        index=index,
    )


def _names(names: tuple[str, ...], place: str) -> frozenset[str] | None:
    """Return names as a rule has them; None: there are none."""
    found = frozenset(names)
    if "" in found:
        raise LimitError(f"{place}: a name is empty")
    if EVERYBODY not in found:
        return found or None
    if len(found) > 1:
        raise LimitError(f"{place}: {EVERYBODY} must stand alone")
    return frozenset()


def _amounts(entry: UserLimit, place: str) -> Amounts:
    try:
        # As in the demand of units, which is what is compared with it.
        return rename_deprecated(parse_demand(entry.max))
    except QuantityError as error:
        raise LimitError(f"{place}.{error}") from error


def _count(count: int | None, place: str) -> int | None:
    if count is not None and count < 0:
        raise LimitError(f"{place}: must not be negative")
    return count
