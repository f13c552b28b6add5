"""A limit of a user or group with more room: an entry of a QuotaPolicy, edited. Pure.

An entry may name several, and then all of them have more. Its policy may name several quotas, too;
what else starts is seen by the engine that is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from queue_insight.insight.change import Patch, patch_of
from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo
from queue_scheduler.tenants.limit_rules import LimitRule
from queue_scheduler.tenants.limit_use import PENDING_UNITS, RUNNING_UNITS, Counted
from queue_scheduler.tenants.user_limits import describe
from shared_api.json_pointer import pointer_token
from shared_api.objects.pod import QuantityText
from shared_api.objects.quota_policy import QuotaPolicy, UserLimit
from shared_api.quantity import QuantityError, Rounding, amount_for_people, format_amount
from shared_api.quantity import amount as amount_of
from shared_api.resource_list import Amounts
from shared_api.resource_names import current_name

_COUNTS: Final = {RUNNING_UNITS: "running", PENDING_UNITS: "pending"}
"""The fields of an entry that count units."""

_API_VERSION: Final = "scheduling.x-k8s.io/v1alpha1"


class UserLimitPlace(NamedTuple):
    """Where a limit stands, and whose it is.

    Attributes:
        policy: Name of the QuotaPolicy.
        entry: The place in its `userLimits`.
        counted: Whose use is compared with it, and where.
        whose: The same in words; others that the entry names are counted, and not named.
    """

    policy: str
    entry: int
    counted: Counted
    whose: str


def find_place(engine: Engine, info: QueueUnitInfo, refusal: Refusal) -> UserLimitPlace | None:
    """Return the limit by which a unit is refused; None if another one refuses it by now."""
    if refusal.reason is not Reason.USER_LIMIT or info.submitter is None:
        return None
    for counted, rule in engine.usage.limits.rules.concern(info.quota, info.submitter):
        if (counted.quota, describe(counted)) == (refusal.quota, refusal.other):
            return UserLimitPlace(rule.policy, rule.index, counted, _whose(counted, rule))
    return None


def _whose(counted: Counted, rule: LimitRule) -> str:
    names = rule.groups if counted.is_group else rule.users
    if not names:
        return describe(counted) if counted.is_group else "each user without an entry"
    if len(names) == 1:
        return describe(counted)
    return f"{describe(counted)} and of {len(names) - 1} more of its entry"


def raise_entry(
    policy: QuotaPolicy, place: UserLimitPlace, more: Amounts
) -> tuple[QuotaPolicy, str, Patch] | None:
    """Return a policy with more room, the new values in words, and its patch.

    None: there is no such entry, or a value cannot be read.

    Args:
        policy: As it is.
        place: The limit.
        more: By how much it is raised, by resource.
    """
    entries = policy.spec.user_limits
    if place.entry >= len(entries):
        return None
    entry, values, operations = entries[place.entry], list[str](), list[dict[str, Any]]()
    try:
        for resource, amount in sorted(more.items()):
            for field, key, old, new in _raised(entry, resource, amount):
                entry = _with(entry, field, key, new)
                values.append(_in_words(resource, amount_of(resource, new)))
                at = f"/spec/userLimits/{place.entry}/{field}"
                at += f"/{pointer_token(key)}" if key else ""
                # The test fails if the list was edited meanwhile: its entries have no names.
                operations.append({"op": "test", "path": at, "value": old})
                operations.append({"op": "replace", "path": at, "value": new})
    except QuantityError:
        return None
    edited = (*entries[: place.entry], entry, *entries[place.entry + 1 :])
    spec = replace(policy.spec, user_limits=edited)
    patch = patch_of(_API_VERSION, "QuotaPolicy", policy.metadata, {})
    return (
        replace(policy, spec=spec),
        ", ".join(values),
        replace(patch, operations=tuple(operations)),
    )


def _raised(
    entry: UserLimit, resource: str, more: int
) -> Iterator[tuple[str, str, QuantityText, QuantityText]]:
    """Yield the fields of a limit: name, key in it or "", old value and new value."""
    field = _COUNTS.get(resource)
    if field is not None:
        count = getattr(entry, field)
        if count is not None:
            yield field, "", count, count + more
        return
    keys = {key: amount_of(resource, text) for key, text in _of_resource(entry, resource)}
    target = min(keys.values(), default=0) + more
    for key, has in keys.items():
        if has < target:
            yield "max", key, entry.max[key], format_amount(resource, target)


def _of_resource(entry: UserLimit, resource: str) -> Iterator[tuple[str, QuantityText]]:
    return ((key, text) for key, text in entry.max.items() if current_name(key) == resource)


def _with(entry: UserLimit, field: str, key: str, value: Any) -> UserLimit:  # noqa: ANN401 - any JSON
    return replace(entry, **{field: {**entry.max, key: value} if key else value})


def name_more(place: UserLimitPlace, more: Amounts, values: str) -> str:
    """Return by how much a limit is raised, and to what, in words."""
    amounts = ", ".join(_in_words(resource, more[resource]) for resource in sorted(more))
    return f"{name_place(place)} by {amounts}, to {values}"


def name_place(place: UserLimitPlace) -> str:
    """Return a limit in words."""
    return f"the limit of {place.whose} in quota {place.counted.quota} (QuotaPolicy {place.policy})"


def _in_words(resource: str, amount: int) -> str:
    if resource in _COUNTS:
        return f"{amount} {resource}"
    return f"{amount_for_people(resource, amount, Rounding.UP)} of {resource}"


def left_at(engine: Engine, place: UserLimitPlace, resource: str) -> int:
    """Return how much is left at a limit; 0 if it is not known."""
    limits = engine.usage.limits
    rules = limits.rules.of_quota(place.counted.quota)
    rule = next((each for each in rules if each.index == place.entry), None)
    if rule is None or resource == PENDING_UNITS:
        return 0
    limit = rule.running if resource == RUNNING_UNITS else rule.max.get(resource)
    return 0 if limit is None else limit - limits.sums.use_of(place.counted).of(resource)
