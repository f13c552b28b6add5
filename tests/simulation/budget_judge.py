"""Judges budgets: no start breaks one, what they have spent is the integral, and Stop stops.

What is spent is summed up second by second, in an engine that is told the same calls
(`replayed_engine`), from nothing but what is charged. Days are those of UTC.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.decision import Dequeue, Reason, Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, remaining_seconds
from queue_scheduler.tenants.budget_account import ROLLING_SECONDS, BudgetAccount
from queue_scheduler.tenants.budget_accounts import accounts_of
from queue_scheduler.tenants.budget_rules import BudgetRule, Enforce
from queue_scheduler.tenants.budgets_in_chains import BudgetKey
from queue_scheduler.tenants.hours import HOUR
from queue_scheduler.tenants.periods import Period
from shared_api.objects.meta import Uid
from shared_api.queue_unit_phases import is_being_evicted
from tests.properties.real_quotas import RealQuotas

BUDGETS: Final = "budgets"
DAY: Final = 24 * HOUR
SPENT: Final = Refusal(reason=Reason.BUDGET_SPENT)
PATIENCE_SECONDS: Final = 15
"""By then a unit is evicted whose time is over: the shell looks each five seconds."""


def check_start(engine: Engine, decision: Dequeue) -> None:
    """Raise AssertionError if a start breaks a budget, whatever others have promised."""
    record, charge = engine.record(decision.unit), engine.usage.charge_of(decision.uid)
    assert record is not None
    assert record.info is not None
    assert charge is not None
    seconds = remaining_seconds(record.unit)
    # Pods of an earlier run that live are charged as before: the start takes nothing for them.
    cpu = min(charge.amounts.get("cpu", 0), record.info.demand.total.get("cpu", 0))
    found = _find_broken(engine, charge.quota, cpu, seconds, decision.uid)
    assert found is None, f"{decision.unit} starts, and {found}"


class JudgedBudgets(RealQuotas):
    """The quotas of an engine, which refuse what its budgets must refuse, too."""

    def check(self, info: QueueUnitInfo) -> Refusal | None:
        cpu, seconds = info.demand.total.get("cpu", 0), remaining_seconds(info.unit)
        if _find_broken(self.engine, info.quota, cpu, seconds, info.unit.metadata.uid) is not None:
            return SPENT
        return super().check(info)


def _find_broken(engine: Engine, quota: str, cpu: int, seconds: int | None, own: Uid) -> str | None:
    """Return which budget has no room for a unit; None: all have."""
    accounts = engine.usage.budgets.accounts
    for level in _chain(engine, quota) if cpu else ():
        for account in accounts_of(accounts, level):
            if account.rule.enforce is Enforce.WARN:
                continue
            problem = _problem_of(engine, account, cpu, seconds, own)
            if problem:
                rule = account.rule
                return f"budget {rule.index} of policy {rule.policy} at quota {level}: {problem}"
    return None


def _problem_of(
    engine: Engine, account: BudgetAccount, cpu: int, seconds: int | None, own: Uid
) -> str:
    rule, now = account.rule, engine.usage.budgets.accounts.second
    rest = rule.limit + account.brought - account.spent(now)
    if not rule.is_reserved:
        return "" if rest > 0 else f"{rest} is left"
    seconds = rule.undeclared if seconds is None else max(1, seconds)
    if seconds is None:
        return "it declares no time"
    if rule.period is Period.ROLLING_30D:
        seconds = min(seconds, ROLLING_SECONDS + HOUR)
    ends = dict(_expected_ends(engine, account.quota, rule, own))
    for first, last in _periods(rule, now):
        needed = cpu * _overlap(now, now + seconds, first, last)
        if not needed:
            return ""
        promised = sum(rate * _overlap(now, end, first, last) for rate, end in ends.values())
        free = (rest if first <= now else rule.limit) - promised
        if needed > free:
            return f"it needs {needed} from {first} on, and {free} is free"
    return ""


def _expected_ends(
    engine: Engine, quota: str, rule: BudgetRule, own: Uid
) -> Iterator[tuple[Uid, tuple[int, int]]]:
    """Yield what other units are charged there, and until when, as they declare it."""
    now = engine.usage.budgets.accounts.second
    for uid, charge in engine.usage.charges.items():
        if uid == own or quota not in _chain(engine, charge.quota) or not charge.is_admitted:
            continue
        declared = engine.usage.terms.of(uid)
        if declared.promise is None and rule.undeclared is None:
            continue
        end, seconds = declared.or_else(rule.undeclared or 0)
        if rule.period is Period.ROLLING_30D and seconds > ROLLING_SECONDS + HOUR:
            continue
        yield uid, (charge.amounts.get("cpu", 0), now + seconds if end is None else end)


def _periods(rule: BudgetRule, now: int) -> Iterator[tuple[int, int]]:
    """Yield the present period and the next ones: their first seconds, and their ends."""
    if rule.period is not Period.DAY:
        yield 0, 2**40
        return
    start = now - now % DAY
    for number in range(3):
        yield start + number * DAY, start + (number + 1) * DAY


def _chain(engine: Engine, quota: str) -> tuple[str, ...]:
    """Return a quota and its ancestors; one that does not exist may have budgets as well."""
    return RealQuotas(engine).chain(quota) or (quota,)


def _overlap(start: int, end: int, first: int, last: int) -> int:
    return max(0, min(end, last) - max(start, first))


# --- what is spent --------------------------------------------------------------------------------


@dataclass
class _Metered:
    """What is known of one budget since it was first seen, or begun anew by what was kept.

    Attributes:
        account: It, of the engine.
        since: When that was.
        spent: What was spent of the present period then.
        day: When that period began.
        used: (from, to, how much each second) since then.
        brought: What the present period has from the last one.
        spent_since: Since when nothing is left; None: something is.
    """

    account: BudgetAccount
    since: int
    spent: int
    brought: int
    used: list[tuple[int, int, int]] = field(default_factory=list)
    spent_since: int | None = None

    def spent_in(self, first: int, last: int) -> int:
        """Return what was spent in the period from `first` until `last`."""
        before = self.spent if first <= self.since else 0
        return before + sum(rate * _overlap(a, b, first, last) for a, b, rate in self.used)


class BudgetMeter:
    """Sums up what an engine's budgets have spent. Call `before` and `after` each of its calls."""

    def __init__(self) -> None:
        self._metered: dict[BudgetKey, _Metered] = {}
        self._second = 0
        self._rates: dict[BudgetKey, int] = {}
        self._limits: dict[BudgetKey, int] = {}
        # Budgets that begin with what was kept once a policy states them.
        self._kept: frozenset[BudgetKey] = frozenset()

    def before(self, engine: Engine) -> None:
        """Note what is charged."""
        accounts = engine.usage.budgets.accounts
        self._second = accounts.second
        self._rates = dict.fromkeys((key for key, _ in accounts), 0)
        self._limits = {key: account.rule.limit for key, account in accounts}
        self._kept = frozenset(accounts._kept)  # noqa: SLF001 - no question needs it
        for charge in engine.usage.charges.values() if self._rates else ():
            chain = _chain(engine, charge.quota)
            for key in self._rates:
                if key.quota in chain:
                    self._rates[key] += charge.amounts.get("cpu", 0)

    def after(self, engine: Engine) -> None:
        """Count what was used if time has passed, and compare the accounts with it."""
        accounts = engine.usage.budgets.accounts
        now = accounts.second
        here = {key: accounts.account(key) for key, _ in accounts}
        for key, account in here.items():
            known = self._metered.get(key)
            if known is None or known.account is not account:
                spent, brought = account.spent(now), account.brought
                is_kept = known is not None or key in self._kept
                since = account.spent_since if is_kept else None
                self._metered[key] = _Metered(account, now, spent, brought, spent_since=since)
            elif now > self._second:
                known.used.append((self._second, now, self._rates[key]))
                self._carry(key, known, now)
            self._compare(key, self._metered[key], now)
        self._metered = {key: each for key, each in self._metered.items() if key in here}

    def _carry(self, key: BudgetKey, known: _Metered, now: int) -> None:
        """Follow the days that have ended."""
        rule = known.account.rule
        for day in range(self._second // DAY, now // DAY) if rule.period is Period.DAY else ():
            limit = self._limits[key]
            left = limit + known.brought - known.spent_in(day * DAY, (day + 1) * DAY)
            known.brought = left if rule.is_debt_counted else 0
            if left >= 0:
                known.brought = min(left, limit) * rule.carry_over // 100

    def _compare(self, key: BudgetKey, known: _Metered, now: int) -> None:
        account, is_daily = known.account, known.account.rule.period is Period.DAY
        first = now - now % DAY if is_daily else 0
        want = known.spent_in(first, now)
        got = account.spent(now)
        assert got == want, f"{key} has spent {got}, should be {want}"
        assert account.brought == known.brought, f"{key} has from the last day {account.brought}"
        limit = account.rule.limit + known.brought
        if limit > want:
            known.spent_since = None
        elif known.spent_since is None:
            seconds = range(max(first, self._second), now)
            passed = bisect_left(seconds, limit, key=lambda each: known.spent_in(first, each))
            known.spent_since = seconds.start + passed

    def check_stop(self, engine: Engine, key: str) -> None:
        """Raise AssertionError unless a unit is to be stopped: nothing was left for the grace."""
        record, second = engine.record(key), engine.usage.budgets.accounts.second
        assert record is not None, f"{key} is stopped and does not exist"
        charge = engine.usage.charge_of(record.uid)
        chain = () if charge is None else _chain(engine, charge.quota)
        found = {
            each: known.spent_since
            for each, known in self._metered.items()
            if each.quota in chain and known.account.rule.enforce is Enforce.STOP
        }
        assert any(
            since is not None and since + self._metered[each].account.rule.grace <= second
            for each, since in found.items()
        ), f"{key} is stopped at {second}, and its budgets are spent since {found}"

    def check_stopped(self, engine: Engine, wall: int) -> None:
        """Raise AssertionError if a unit runs on whose budget was spent long ago."""
        stopped = {
            key
            for key, each in self._metered.items()
            if each.account.rule.enforce is Enforce.STOP
            and each.spent_since is not None
            and each.spent_since + each.account.rule.grace + PATIENCE_SECONDS < wall
        }
        for record in engine.units if stopped else ():
            charge = engine.usage.charge_of(record.uid)
            if record.state is not UnitState.ADMITTED or is_being_evicted(record.unit):
                continue
            if charge is None or not charge.amounts.get("cpu", 0):
                continue
            over = [key for key in stopped if key.quota in _chain(engine, charge.quota)]
            assert not over, f"{record.key} runs on, and is to be stopped by {over}"
