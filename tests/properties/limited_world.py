"""A cluster in miniature whose quotas limit users and groups, and a naive judge of that.

The judge adds up all charges anew for each question, and knows of no class, group or waiter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from queue_scheduler.cache.known_units import pending_units
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.decision import Dequeue, Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, at_least
from queue_scheduler.queueing.queue_policies import HoldsBack, bands_of
from queue_scheduler.queueing.queue_questions import refusal_of
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.limit_rules import LimitRule, QuotaUserLimits
from shared_api.resource_list import Amounts, add
from shared_api.well_known_labels import GROUP, USER
from tests.properties import engine_checks as checks
from tests.properties.engine_checks import BACKFILLED, QUOTAS, Quotas
from tests.properties.engine_kit import new_engine
from tests.properties.engine_world import World

USERS = ("ann", "bob", "eve")
GROUPS = ("staff", "interns", "")


def some_rules(a: int, b: int) -> tuple[LimitRule, ...]:
    """Return rules of users and groups; () for some numbers."""
    if b % 5 == 0:
        return ()
    cores, running = 1000 * (b % 4), (None, 1, 2)[b % 3]
    named = LimitRule(users=frozenset({USERS[a % 3]}), max={"cpu": cores}, running=running)
    others = LimitRule(users=frozenset(), max={"cpu": 1000 * (1 + a % 4)}, index=1)
    if (a + b) % 3 == 0:
        others = replace(others, pending=1 + b % 2)
    group = LimitRule(groups=frozenset({GROUPS[a % 2]}), max={"cpu": 1000 * (2 + b % 4)}, index=2)
    rest = LimitRule(groups=frozenset(), running=2 + a % 3, index=3)
    return tuple(rule for n, rule in enumerate((named, others, group, rest)) if (a + b) >> n & 1)


class LimitedWorld(World):
    """Adds users, groups and their limits."""

    def __init__(self, build: Callable[[], tuple[Engine, Quotas]] = new_engine) -> None:
        super().__init__(build)
        self.rules: dict[str, tuple[LimitRule, ...]] = {}

    def create_unit(self, a: int, b: int) -> None:
        before = set(self.units)
        super().create_unit(a, b)
        for key in set(self.units) - before:
            # Not put anew: it was not seen without its user.
            unit = self._events["unit"].pop()[1]
            who = {USER: USERS[b % 3], GROUP: GROUPS[a % 3]}
            labels = {**unit.metadata.labels, **{k: v for k, v in who.items() if v}}
            named = replace(unit, metadata=replace(unit.metadata, labels=labels))
            self.units[key] = named
            self._emit("unit", named)

    def edit_account(self, a: int, b: int) -> None:
        """Let a unit count for another user, which only the judge of names would deny."""
        unit = self.some_unit(a)
        if unit is not None:
            labels = {**unit.metadata.labels, USER: USERS[b % 3]}
            self.put_unit(replace(unit, metadata=replace(unit.metadata, labels=labels)))

    def put_rules(self, a: int, b: int) -> None:
        quota = QUOTAS[a % len(QUOTAS)]
        self.rules[quota] = some_rules(a // 4, b)
        self.workers.wake(self.engine.limit_rules.set_rules({quota: self.rules[quota]}))
        self.engine.validate()

    def put_rules_in_slices(self, a: int, b: int) -> None:
        """Begin to change the rules of a quota; `go_on` goes on."""
        quota = QUOTAS[a % len(QUOTAS)]
        self.rules[quota] = some_rules(a // 4, b)
        changes = self.engine.limit_rules
        self.workers.wake(changes.set_rules({quota: self.rules[quota]}, in_slices=True))
        self.engine.validate()

    def go_on(self, a: int, b: int) -> None:
        if self.engine.limit_rules.is_behind:
            self.workers.wake(self.engine.go_on_with_limits())
            self.engine.validate()

    def ask(self, a: int, b: int) -> None:
        sent = len(self._sent)
        super().ask(a, b)
        if len(self._sent) > sent:
            check_not_over(self.engine, self.plugin, self.rules_in_force(), self._sent[-1])

    def rules_in_force(self) -> dict[str, tuple[LimitRule, ...]]:
        """Return the rules that count: the last ones, unless these are still to be counted."""
        limits = self.engine.usage.limits
        if not limits.is_changing:
            return self.rules
        return {quota: limits.rules.of_quota(quota) for quota in QUOTAS}

    def come_to_rest(self) -> None:
        while self.engine.limit_rules.is_behind:
            self.go_on(0, 0)
        super().come_to_rest()

    def rebuilt(self, shuffle: Callable[[list[Any]], object]) -> World:
        twin = super().rebuilt(shuffle)
        assert isinstance(twin, LimitedWorld)
        twin.rules = dict(self.rules)
        twin.workers.wake(twin.engine.limit_rules.set_rules(self.rules))
        return twin

    def new_twin(self) -> World:
        return LimitedWorld(self._build)

    def check_rest(self) -> None:
        self.come_to_rest()
        checks.check_units_are_known(self.engine, self.units)
        for queue in self.engine.queues:
            check_nobody_could_start(self.engine, self.plugin, self.rules, queue)
        checks.check_held(self.engine)
        checks.check_quotas(self.engine, self.plugin)


# --- the judge ------------------------------------------------------------------------------------


def uses_of(
    engine: Engine, quotas: Quotas, quota: str, rule: LimitRule, account: Account
) -> tuple[Amounts, int]:
    """Return what counts at a quota for a rule that concerns an account: amounts and units."""
    amounts, units = Amounts(), 0
    for uid in engine.usage:
        charge = engine.usage.charge_of(uid)
        assert charge is not None
        if quota not in (quotas.chain(charge.quota) or (charge.quota,)):
            continue
        other = charge.account
        if rule.users is not None:
            counts = other.user == account.user
        elif rule.groups:
            counts = other.group == account.group
        else:
            limits = QuotaUserLimits(engine.usage.limits.rules.of_quota(quota))
            counts = limits.for_group(other.group) == rule
        if counts:
            amounts, units = add(amounts, charge.amounts), units + charge.is_admitted
    return amounts, units


def over(
    engine: Engine,
    quotas: Quotas,
    rules: dict[str, tuple[LimitRule, ...]],
    account: Account,
    asked: Amounts,
    *,
    is_charged: bool = False,
) -> Iterator[str]:
    """Yield the limits that an account exceeds, or would with one more unit that asks for this."""
    for quota in quotas.chain(account.quota) or (account.quota,):
        limits = QuotaUserLimits(rules.get(quota, ()))
        for rule in (limits.for_user(account.user), limits.for_group(account.group)):
            if rule is None:
                continue
            amounts, units = uses_of(engine, quotas, quota, rule, account)
            amounts = amounts if is_charged else add(amounts, asked)
            units = units if is_charged else units + 1
            above = {r: n for r, n in amounts.items() if asked.get(r) and n > rule.max.get(r, n)}
            if above:
                yield f"{above} at {quota}, limit {rule.max}"
            if rule.running is not None and units > rule.running:
                yield f"units at {quota}: {units}, limit {rule.running}"


def is_over(
    engine: Engine, quotas: Quotas, rules: dict[str, tuple[LimitRule, ...]], info: QueueUnitInfo
) -> bool:
    """Return whether a pending unit may not start for its user or group."""
    account = engine.usage.account_of(info)
    return any(over(engine, quotas, rules, account, info.demand.total))


def check_not_over(
    engine: Engine, quotas: Quotas, rules: dict[str, tuple[LimitRule, ...]], decision: Dequeue
) -> None:
    """Check that no limit is exceeded by a decision; pods of an earlier run are facts."""
    record = engine.record(decision.unit)
    assert record is not None
    assert record.info is not None
    account = engine.usage.account_of(record.info)
    asked = Amounts()
    for grant in decision.grants:
        asked = add(asked, grant.amounts)
    found = list(over(engine, quotas, rules, account, asked, is_charged=True))
    assert not found, f"{decision.unit} of {account} starts: {found}"


def decidable(
    engine: Engine,
    quotas: Quotas,
    rules: dict[str, tuple[LimitRule, ...]],
    queue: SchedulingQueue,
) -> Iterator[CachedUnit]:
    """Yield the units that the policy offers and no limit of users or groups holds up."""
    blocked: set[str] = set()
    first_band: int | None = None
    tried = 0
    if queue.in_flight or queue.rules.options.is_stopped:
        return
    for record in pending_units(engine.units, queue.name):
        info = record.info
        assert info is not None
        if is_over(engine, quotas, rules, at_least(info)):
            continue
        band = queue.rules.band_of(info.order_key)
        first_band = band if first_band is None else first_band
        tried += 1
        depth = queue.rules.depth
        if band != first_band or (depth is not None and tried > depth):
            return
        if info.quota in blocked:
            continue
        if queue.rules.is_backfilling and refusal_of(queue, info).reason in BACKFILLED:
            continue
        yield record
        holds_back = bands_of(queue.rules.policy)[band]
        if holds_back is HoldsBack.SAME_QUOTA and not queue.rules.is_backfilling:
            blocked.add(info.quota)


def check_nobody_could_start(
    engine: Engine, quotas: Quotas, rules: dict[str, tuple[LimitRule, ...]], queue: SchedulingQueue
) -> None:
    """Check at rest that every unit waits for what it is said to wait for."""
    held_back: set[str] = set()
    for record in decidable(engine, quotas, rules, queue):
        assert record.info is not None
        refusal = refusal_of(queue, record.info)
        if refusal.reason is Reason.WAITING_FOR_NODES_OF_OTHERS:
            assert queue.requests.hold_back(checks.counted_priority(engine, record)), record.key
            held_back.add(record.info.quota)
        if record.info.quota in held_back or quotas.check(at_least(record.info)) is not None:
            continue
        is_kept = refusal.reason is Reason.ROOM_FOR_PREEMPTOR
        assert is_kept, f"{record.key} could start: {refusal}"
        assert refusal.other in engine.nominations.by_key, f"{record.key} waits for no preemptor"
    for record in pending_units(engine.units, queue.name):
        assert record.info is not None
        if refusal_of(queue, record.info).reason is Reason.USER_LIMIT:
            info = at_least(record.info)
            assert is_over(engine, quotas, rules, info), f"{record.key} is over no limit"
