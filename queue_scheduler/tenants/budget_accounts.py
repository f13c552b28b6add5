"""The accounts of all budgets, and which of them a charge counts in. Exact, pure.

A charge counts in the budgets of its quota and of all above it. Nothing is kept while no quota has
budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.tenants.budget_account import BudgetAccount, StoredBudget
from queue_scheduler.tenants.budget_rules import BudgetRule
from queue_scheduler.tenants.budgets_in_chains import BudgetKey, BudgetsInChains, key_of
from queue_scheduler.tenants.calendars import CalendarKey, Calendars
from queue_scheduler.tenants.commitments import NOTHING_DECLARED, Declared, Promise
from queue_scheduler.tenants.limit_use import AnyCharge
from shared_api.objects.meta import Uid

_NEVER: Final = 2**40
"""Seconds; more than thirty thousand years."""


class Part(msgspec.Struct, frozen=True, gc=False):
    """What a charge counts in one budget."""

    key: BudgetKey
    rate: int
    promise: Promise | None


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A charge that counts in budgets.

    Attributes:
        declared: For how long it is charged.
        parts: What it counts.
    """

    declared: Declared
    parts: tuple[Part, ...]


class BudgetSums(NamedTuple):
    """What is summed up over the charges of a budget: each second, and until their ends."""

    rate: int
    promised: tuple[object, ...]


class WrongBudget(NamedTuple):
    """A budget whose sums are wrong: what they are, and what they should be."""

    key: BudgetKey
    got: BudgetSums
    want: BudgetSums


class BudgetAccounts:
    """The accounts by quota.

    Attributes:
        second: The time, in seconds since the epoch.
        chains: The budgets, and which of them count where.
        eased: Quotas with budgets that may have more left than when this was last cleared.
        tightened: Quotas with budgets that may have less left.
    """

    def __init__(self, plugins: PluginRunner) -> None:
        """Start without budgets; `plugins` know the chains of quotas."""
        self.second = 0
        self.chains = BudgetsInChains(plugins)
        self.eased: dict[str, None] = {}
        self.tightened: dict[str, None] = {}
        self._accounts: dict[BudgetKey, BudgetAccount] = {}
        # Those that a charge to a quota counts in; follows from accounts and chains.
        self._in_chains: dict[str, tuple[tuple[BudgetKey, BudgetAccount], ...]] = {}
        self._entries: dict[Uid, Entry] = {}
        # What was kept of budgets that no policy states yet.
        self._kept: dict[BudgetKey, tuple[int, StoredBudget]] = {}
        self._next_change = 0

    def __bool__(self) -> bool:
        return bool(self.chains)

    def __iter__(self) -> Iterator[tuple[BudgetKey, BudgetAccount]]:
        return iter(self._accounts.items())

    # --- rules --------------------------------------------------------------------------------

    def set_rules(
        self, quota: str, rules: tuple[BudgetRule, ...], calendars: Calendars
    ) -> tuple[BudgetAccount, ...]:
        """Take the budgets of a quota, () for none; return the accounts that are new.

        `recount` must follow.
        """
        self.chains.put(quota, rules)
        wanted = {key_of(quota, rule): rule for rule in rules}
        for key in [each for each in self._accounts if each.quota == quota and each not in wanted]:
            del self._accounts[key]
        edges = (calendars.edges_of(CalendarKey(rule.period, rule.time_zone)) for rule in rules)
        new = [self._take(*each) for each in zip(wanted, rules, edges, strict=True)]
        self.eased[quota] = self.tightened[quota] = None
        return tuple(each for each in new if each is not None)

    def _take(
        self, key: BudgetKey, rule: BudgetRule, edges: tuple[int, ...]
    ) -> BudgetAccount | None:
        """Take a budget; return its account if it is new, and nothing is kept of it."""
        account = self._accounts.get(key)
        if account is not None:
            account.take_rule(rule, edges, self.second)
            return None
        account = self._accounts[key] = BudgetAccount(key.quota, rule, edges, self.second)
        kept = self._kept.pop(key, None)
        if kept is None:
            return account
        settled, stored = kept
        account.restore(stored, settled)
        account.advance(self.second)
        return None

    def renew_calendars(self, calendars: Calendars) -> bool:
        """Take the present calendars; return whether a budget's is another: then `recount`."""
        moved = False
        for key, account in self._accounts.items():
            edges = calendars.edges_of(CalendarKey(key.period, key.time_zone))
            if edges and edges != account.promised.starts:
                account.take_rule(account.rule, edges, self.second)
                self.eased[key.quota] = self.tightened[key.quota] = None
                moved = True
        return moved

    def recount(self, charges: Iterable[tuple[Uid, AnyCharge, Declared]]) -> None:
        """Count all charges anew from now on, by the present rules and chains.

        What was used until now stays where it was counted.
        """
        self._forget_chains()
        self._entries = {}
        for account in self._accounts.values():
            account.take_rule(account.rule, account.promised.starts, self.second)
            account.bend(-account.rate, self.second)
        for uid, charge, declared in charges if self.chains else ():
            self.set_charge(uid, charge, declared)
        self._next_change = 0

    # --- time ---------------------------------------------------------------------------------

    def advance(self, second: int) -> None:
        """Let time pass; an earlier second than the present one changes nothing."""
        if second <= self.second:
            return
        self.second = second
        if second >= self._next_change:
            self._look(second)

    def _look(self, second: int) -> None:
        """Follow what time alone has changed, and find when it does again."""
        next_change: int | None = None
        for key, account in self._accounts.items():
            at = account.next_change(account.seen)
            if at is not None and at <= second:
                account.advance(second)
                self.eased[key.quota] = self.tightened[key.quota] = None
                at = account.next_change(second)
            if at is not None and (next_change is None or at < next_change):
                next_change = at
        self._next_change = second + _NEVER if next_change is None else next_change

    def next_change(self) -> int:
        """Return the next second at which time alone changes an answer."""
        if not self._next_change:
            self._look(self.second)
        return self._next_change

    # --- charges ------------------------------------------------------------------------------

    def drop_charge(self, uid: Uid) -> None:
        """Note that what is charged for a uid, if anything, counts in no budget from now on."""
        known = self._entries.pop(uid, None)
        if known is not None:
            for part in known.parts:
                self._count(part, -1)
                self.eased[part.key.quota] = None

    def set_charge(self, uid: Uid, charge: AnyCharge, declared: Declared) -> None:
        """Take what is charged for a uid from now on, and for how long."""
        self.drop_charge(uid)
        parts = self._parts(charge, declared)
        if not parts:
            return
        for part in parts:
            self._count(part, 1)
            self.tightened[part.key.quota] = None
        self._entries[uid] = Entry(declared, parts)

    def _parts(self, charge: AnyCharge, declared: Declared) -> tuple[Part, ...]:
        parts: list[Part] = []
        for key, account in self.in_chain(charge.account.quota):
            rate = account.rule.rate_of(charge.amounts)
            if rate:
                parts.append(Part(key, rate, _promise(account, charge, declared)))
        return tuple(parts)

    def _count(self, part: Part, sign: int) -> None:
        account = self._accounts.get(part.key)
        if account is None:
            return  # its budget has gone
        account.advance(self.second)
        account.bend(sign * part.rate, self.second)
        if part.promise is not None:
            account.promised.add(part.promise, sign * part.rate)
        self._next_change = 0

    # --- questions ----------------------------------------------------------------------------

    def in_chain(self, quota: str) -> tuple[tuple[BudgetKey, BudgetAccount], ...]:
        """Return the accounts that a charge to a quota counts in, the nearest first.

        They are as of their last change: time passes by `advance`.
        """
        found = self._in_chains.get(quota)
        if found is None:
            found = tuple((key, self._accounts[key]) for key in self.chains.levels(quota))
            self._in_chains[quota] = found
        return found

    def _forget_chains(self) -> None:
        self.chains.forget()
        self._in_chains = {}

    def account(self, key: BudgetKey) -> BudgetAccount:
        """Return an account, up to the present second."""
        account = self._accounts[key]
        account.advance(self.second)
        return account

    def is_charged_to(self, uid: Uid, key: BudgetKey) -> bool:
        """Return whether the charge of a uid counts in a budget."""
        entry = self._entries.get(uid)
        return entry is not None and _counts_in(key, entry)

    # --- outside and copies -------------------------------------------------------------------

    def stored(self) -> tuple[StoredBudget, ...]:
        """Return what is to be kept outside, as of the present second."""
        kept = (stored for _, (_, stored) in sorted(self._kept.items()))
        known = (self.account(key).stored(self.second) for key in sorted(self._accounts))
        return (*known, *kept)

    def restoring(
        self,
        stored: Iterable[StoredBudget],
        settled: int,
        charges: Iterable[tuple[Uid, int, AnyCharge]],
        terms: Callable[[Uid], Declared],
    ) -> Generator[None, None, tuple[BudgetAccount, ...]]:
        """Begin anew with what was kept, and with what is charged now, in steps.

        A step takes some microseconds; until the last, use is incomplete.

        Args:
            stored: What was kept.
            settled: The second until which that counts.
            charges: Each with the second since when it has been charged, ascending; it counts from
                the later of that and `settled`.
            terms: Returns for how long a charge is declared.

        Returns:
            The accounts of which nothing was kept. They count from now on.
        """
        now = self.second
        self._entries = {}
        self._forget_chains()
        self._kept = {_key_of(each): (settled, each) for each in stored}
        new: list[BudgetAccount] = []
        for key, account in list(self._accounts.items()):
            edges = account.promised.starts
            fresh = self._accounts[key] = BudgetAccount(key.quota, account.rule, edges, now)
            self._in_chains = {}
            kept = self._kept.pop(key, None)
            if kept is not None:
                fresh.restore(kept[1], settled)
            else:
                new.append(fresh)
            yield
        # As if they were charged at these times, one after the other.
        for uid, since, charge in charges if self.chains else ():
            self.second = max(min(since, now), settled)
            self.set_charge(uid, charge, terms(uid))
            yield
        self.second = max(now, settled)
        for key in self._accounts:
            self.account(key)
            self.eased[key.quota] = self.tightened[key.quota] = None
        self._next_change = 0
        return tuple(new)

    def state(self) -> list[object]:
        """Return what the accounts say, in the same order in every process."""
        found: list[object] = [self.second]
        for key in sorted(self._accounts):
            account = self.account(key)
            found.append((account.stored(self.second), account.rate, account.promised.state()))
        return found

    def fork(self, plugins: PluginRunner) -> BudgetAccounts:
        """Return an independent copy over forked plugins."""
        twin = BudgetAccounts(plugins)
        twin.second = self.second
        if not self.chains and not self._kept:
            return twin
        twin.eased, twin.tightened = dict(self.eased), dict(self.tightened)
        twin.chains = self.chains.fork(plugins)
        twin._accounts = {key: account.copy() for key, account in self._accounts.items()}
        twin._entries, twin._kept = dict(self._entries), dict(self._kept)
        twin._next_change = self._next_change
        return twin

    def validate(self, charges: Mapping[Uid, AnyCharge]) -> None:
        """Raise AssertionError unless rates and promises are the sums of these charges."""
        if not self.chains:
            return
        self.chains.validate()
        for uid, charge in charges.items():
            entry = self._entries.get(uid)
            parts = () if entry is None else entry.parts
            assert parts == self._parts(charge, _declared(entry)), f"{uid} counts {parts}"
        assert self._entries.keys() <= charges.keys(), "what is not charged counts"
        for wrong in self.differences(charges):
            raise AssertionError(f"{wrong.key} has {wrong.got}, should be {wrong.want}")

    def differences(self, charges: Mapping[Uid, AnyCharge]) -> Iterator[WrongBudget]:
        """Yield the budgets whose rates and promises are not the sums of these charges."""
        sums = dict.fromkeys(self._accounts, 0)
        promised = {key: each.promised.copy_empty() for key, each in self._accounts.items()}
        for uid, charge in charges.items():
            for part in self._parts(charge, _declared(self._entries.get(uid))):
                sums[part.key] += part.rate
                if part.promise is not None:
                    promised[part.key].add(part.promise, part.rate)
        for key, account in self._accounts.items():
            got = BudgetSums(account.rate, account.promised.state())
            want = BudgetSums(sums[key], promised[key].state())
            if got != want:
                yield WrongBudget(key, got, want)


def _declared(entry: Entry | None) -> Declared:
    return NOTHING_DECLARED if entry is None else entry.declared


def _counts_in(key: BudgetKey, entry: Entry) -> bool:
    return any(part.key == key for part in entry.parts)


def _key_of(stored: StoredBudget) -> BudgetKey:
    return BudgetKey(stored.quota, stored.resource, stored.period, stored.time_zone, stored.number)


def _promise(account: BudgetAccount, charge: AnyCharge, declared: Declared) -> Promise | None:
    """Return until when a charge counts in a budget; None: only while it is charged."""
    rule = account.rule
    if not rule.is_reserved or not charge.is_admitted:
        return None
    if declared.promise is None and rule.undeclared is None:
        return None
    return account.promise(declared.or_else(rule.undeclared or 0))


def accounts_of(accounts: BudgetAccounts, quota: str) -> list[BudgetAccount]:
    """Return the accounts of a quota's own budgets, up to the present second."""
    return [accounts.account(key) for key, _ in accounts if key.quota == quota]
