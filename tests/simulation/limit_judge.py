"""Judges limits of users and groups: it reads the policies, and adds up all charges, by itself.

- *user limits*: no decision exceeds a limit that is in force; in quiet times, the sums that the
  engine keeps are those of its charges, and of the units that may be pending the oldest are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from queue_scheduler.cache.unit_state import CachedUnit, UnitState
from queue_scheduler.decision import Dequeue, Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.queue_policies import creation_order
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.limit_rules import LimitRule, QuotaUserLimits
from queue_scheduler.tenants.limit_use import Counted
from shared_api.quantity import amount
from shared_api.resource_list import Amounts
from tests.properties.limited_world import check_not_over, uses_of
from tests.properties.real_quotas import RealQuotas
from tests.simulation.change_feed import Json

USER_LIMITS: Final = "user limits"

Rules = dict[str, tuple[LimitRule, ...]]


def read_rules(policies: Iterable[Json]) -> Rules:
    """Return the rules of each quota, as the oldest policy that names it states them."""
    rules: Rules = {}
    for policy in sorted(policies, key=_age):
        for quota in policy["spec"]["quotas"]:
            entries = enumerate(policy["spec"].get("userLimits") or ())
            read = (_read(policy["metadata"]["name"], index, entry) for index, entry in entries)
            rules.setdefault(quota, tuple(read))
    return rules


def _age(policy: Json) -> tuple[str, str]:
    return policy["metadata"]["creationTimestamp"], policy["metadata"]["name"]


def _read(policy: str, index: int, entry: Json) -> LimitRule:
    most = {key: amount(key, text) for key, text in (entry.get("max") or {}).items()}
    return LimitRule(
        users=_names(entry.get("users")),
        groups=_names(entry.get("groups")),
        max=most,
        running=entry.get("running"),
        pending=entry.get("pending"),
        policy=policy,
        index=index,
    )


def _names(names: list[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names) - {"*"}


def check_decision(engine: Engine, decision: Dequeue) -> None:
    """Raise AssertionError if a decision exceeds a limit of the rules in force."""
    if not engine.usage.limits.is_changing:
        check_not_over(engine, RealQuotas(engine), _rules_known_to(engine), decision)


def _rules_known_to(engine: Engine) -> Rules:
    known: list[dict[str, Any]] = []
    for stated in engine.policies:
        meta, entries = stated.api_object.metadata, []
        for entry in stated.api_object.spec.user_limits:
            whose: Json = {"users": [*entry.users]} if entry.users else {"groups": [*entry.groups]}
            more = {"max": entry.max, "running": entry.running, "pending": entry.pending}
            entries.append({**whose, **more})
        spec = {"quotas": [*stated.api_object.spec.quotas], "userLimits": entries}
        age = {"name": meta.name, "creationTimestamp": meta.creation_timestamp}
        known.append({"metadata": age, "spec": spec})
    return read_rules(known)


def check_sums(engine: Engine, policies: Iterable[Json]) -> None:
    """Raise AssertionError if the sums that the engine keeps are not those of its charges."""
    rules, quotas = read_rules(policies), RealQuotas(engine)
    known = {quota: engine.usage.limits.rules.of_quota(quota) for quota in rules}
    assert known == rules, f"in force are {known}, should be {rules}"
    want: dict[Counted, tuple[Amounts, int]] = {}
    for account in {charge.account for charge in engine.usage.charges.values()}:
        for counted, rule in _concerning(rules, quotas, account):
            amounts, units = uses_of(engine, quotas, counted.quota, rule, account)
            want[counted] = ({key: n for key, n in amounts.items() if n}, units)
    got = {
        counted: (dict(use.amounts), use.units)
        for quota in rules
        for counted, use in engine.usage.limits.sums.in_quota(quota)
    }
    assert got == want, f"users have {got}, should be {want}"


def check_seats(engine: Engine, policies: Iterable[Json]) -> None:
    """Raise AssertionError unless the oldest units are pending where that is limited."""
    rules, quotas = read_rules(policies), RealQuotas(engine)
    taken: dict[Counted, int] = {}
    for record in sorted(_may_be_pending(engine), key=lambda each: creation_order(each.unit)):
        info = record.info
        assert info is not None
        account = engine.usage.account_of(info)
        concerning = list(_concerning(rules, quotas, account))
        limits = [(each, rule.pending) for each, rule in concerning if rule.pending is not None]
        is_seated = all(taken.get(counted, 0) < limit for counted, limit in limits)
        assert is_seated == (record.state is UnitState.WAITING), f"{record.key} has a seat"
        for counted, _ in limits if is_seated else ():
            taken[counted] = taken.get(counted, 0) + 1


def _concerning(
    rules: Rules, quotas: RealQuotas, account: Account
) -> Iterator[tuple[Counted, LimitRule]]:
    """Yield the rules that concern an account, and what is compared with each."""
    for quota in quotas.chain(account.quota) or (account.quota,):
        limits = QuotaUserLimits(rules.get(quota, ()))
        for rule, name in (
            (limits.for_user(account.user), account.user),
            (limits.for_group(account.group), account.group),
        ):
            if rule is not None:
                is_group = rule.groups is not None
                yield Counted(quota, is_group=is_group, name=rule.counted_as(name)), rule


def _may_be_pending(engine: Engine) -> Iterator[CachedUnit]:
    for record in engine.units:
        hold = record.hold
        is_held = hold is not None and hold.reason is Reason.USER_LIMIT
        if record.state is UnitState.WAITING or is_held:
            yield record
