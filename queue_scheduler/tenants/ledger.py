"""What each account has used: charged amounts times the time that they were charged. Exact, pure.

An account is a line: from its last change on it has used `offset + rate * t` of a resource at
second t. A change of what is charged bends the line at the present second, and touches nothing
else, so neither the number of units nor the time that passes costs anything. Use is in base units
(`shared_api.resource_list`) times whole seconds; everything is an integer.

The ledger has its own time, in whole seconds since the epoch: `advance` moves it, never back. A
charge that is taken back leaves what it has used until then.

*Edges* are the seconds at which a period ends and the next begins (`periods`). They are handed in,
since they depend on time zones. What an account had used at the last two of them is kept, so that
the use of the present and of the last period is known.

There are bounds: `MAX_ACCOUNTS`, beyond which users count as their namespace, and `MAX_RESOURCES`
of an account. An account that nothing was charged to for the time `keep_seconds` is dropped.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.budget_account import StoredBudget
from queue_scheduler.tenants.fair_use import StoredUses
from shared_api.resource_list import Amounts
from shared_api.submitters import namespace_submitter

MAX_ACCOUNTS: Final = 50_000
"""Accounts of users; a user's name is a label that anybody may write."""

MAX_RESOURCES: Final = 16
"""Resources of an account; a pod may request any names, and what is used stays for weeks. What is
beyond is not counted."""

KEPT_EDGES: Final = 2

KEEP_SECONDS: Final = 10 * 168 * 3600
"""Ten half-lives of a week: by then, decayed use is a thousandth of what it was."""

MOST_AHEAD_SECONDS: Final = 300
"""How far stored use may be ahead of this process's clock; more is no difference of clocks."""

Mark = tuple[int, Amounts]
"""A second, and what was used until then."""


class Charged(Protocol):
    """A charge of a uid."""

    @property
    def account(self) -> Account:
        """The account that it is counted for."""

    @property
    def amounts(self) -> Amounts:
        """What is charged, in base units."""


class Line(msgspec.Struct, gc=False):
    """The use of one account, from its last change on; read-only outside of its ledger.

    Attributes:
        offsets: By resource; at second t it has used `offsets + rates * t`.
        rates: What is charged now; a resource without a rate is not in it.
        marks: What was used at the last edges before the last change, ascending.
        marked_to: The edge up to which `marks` are complete; at an edge that is not in them,
            nothing was used yet.
        changed: The second of the last change.
        epoch: That of the ledger when the line was made. Copies of a ledger share the lines that
            are older than their epochs, and do not change them.
    """

    offsets: Amounts
    rates: Amounts
    marks: tuple[Mark, ...] = ()
    marked_to: int = 0
    changed: int = 0
    epoch: int = 0

    def used(self, second: int) -> Amounts:
        """Return the base units times seconds used until a second that is not before `changed`."""
        rates = self.rates
        if not rates:
            return dict(self.offsets)
        return {name: at + rates.get(name, 0) * second for name, at in self.offsets.items()}

    def used_at_edge(self, edge: int) -> Amounts:
        """Return what was used until one of the edges that are kept.

        For an edge that was not known when it passed, as after a change of time zone, all use until
        the last change counts as before it.
        """
        if edge > self.marked_to:
            return self.used(max(edge, self.changed))
        return next((dict(used) for at, used in self.marks if at == edge), {})


class StoredAccount(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The use of one account as it is kept outside.

    Attributes:
        account: The account.
        used: Base units times seconds by resource, until `StoredAccounts.settled_at`.
        marks: As in `Line`.
        marked_to: As in `Line`.
        changed: As in `Line`.
    """

    account: Account
    used: Amounts
    marks: tuple[Mark, ...] = ()
    marked_to: int = 0
    changed: int = 0


class StoredAccounts(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What was kept of a ledger.

    Attributes:
        settled_at: The second until which use is counted in it.
        complete_from: The second since which nothing is missing.
        accounts: The accounts.
        uses: What accounts have used in queues with the policy Fair.
        is_rebuilt: Some or all accounts are lost: what is charged now to an account that is not
            here counts from its beginning.
        budgets: What was kept of budgets.
        budgets_settled_at: The second until which use is counted in these; None: `settled_at`. They
            are in one shard, and another one may be newer.
    """

    settled_at: int = 0
    complete_from: int = 0
    accounts: tuple[StoredAccount, ...] = ()
    is_rebuilt: bool = False
    uses: StoredUses = StoredUses()
    budgets: tuple[StoredBudget, ...] = ()
    budgets_settled_at: int | None = None


class Ledger:
    """The accounts.

    Attributes:
        second: The time, in seconds since the epoch.
        edges: The edges of periods, ascending.
        complete_from: Since when nothing is missing; 0: it does not know the time yet.
        folds: How many charges were counted for a namespace since there were too many users.
    """

    def __init__(self, keep_seconds: int = KEEP_SECONDS, most_accounts: int = MAX_ACCOUNTS) -> None:
        """Start without accounts.

        Args:
            keep_seconds: After how long an account without charges is dropped.
            most_accounts: Accounts of users.
        """
        self.second = 0
        self.edges: tuple[int, ...] = ()
        self.complete_from = 0
        self.folds = 0
        self._keep_seconds = keep_seconds
        self._most = most_accounts
        self._epoch = 1
        self._lines: dict[Account, Line] = {}
        # Those without charges, in the order in which they became so.
        self._idle: dict[Account, int] = {}
        # Users without an account of their own: how many of their charges their namespace counts.
        self._folded: dict[Account, int] = {}
        self._edge = 0
        self._next_edge: int | None = None
        self._next_drop = 0

    def __iter__(self) -> Iterator[tuple[Account, Line]]:
        return iter(self._lines.items())

    def __len__(self) -> int:
        return len(self._lines)

    def line_of(self, account: Account) -> Line | None:
        """Return the use of an account, or None."""
        return self._lines.get(account)

    # --- time ---------------------------------------------------------------------------------

    def advance(self, second: int) -> None:
        """Let time pass; an earlier second than the present one changes nothing."""
        if second <= self.second:
            return
        if not self.complete_from:
            self.complete_from = second
        self.second = second
        if self._next_edge is not None and second >= self._next_edge:
            self._find_edge()
        if second >= self._next_drop:
            self._drop_idle()

    def set_edges(self, edges: Iterable[int]) -> None:
        """Take the edges of periods; those that have passed count from now on."""
        self.edges = tuple(sorted(set(edges)))
        self._find_edge()

    def kept_edges(self) -> tuple[int, ...]:
        """Return the last edges that have passed; use is known at them."""
        passed = bisect_right(self.edges, self.second)
        return self.edges[max(0, passed - KEPT_EDGES) : passed]

    def _find_edge(self) -> None:
        passed = bisect_right(self.edges, self.second)
        self._edge = self.edges[passed - 1] if passed else 0
        self._next_edge = self.edges[passed] if passed < len(self.edges) else None

    def _drop_idle(self) -> None:
        until = self.second - self._keep_seconds
        while self._idle:
            account, since = next(iter(self._idle.items()))
            if since > until:
                break
            del self._idle[account], self._lines[account]
        # What becomes idle later is dropped later, so no account is due before that.
        first = next(iter(self._idle.values()), self.second)
        self._next_drop = first + self._keep_seconds

    # --- charges ------------------------------------------------------------------------------

    def on_charge(self, before: Charged | None, after: Charged | None) -> None:
        """Take a change of what is charged for one uid; None: nothing is."""
        if before is not None:
            self._bend(before.account, before.amounts, -1)
        if after is not None:
            self._bend(after.account, after.amounts, 1)

    def _bend(self, account: Account, amounts: Amounts, sign: int) -> None:
        """Charge an account for more or less from the present second on."""
        line = self._lines.get(account)
        if line is None or self._folded or line.epoch != self._epoch or line.marked_to < self._edge:
            found = self._find_line(account, amounts, sign)
            if found is None:
                return
            account, line = found
        now, offsets, rates = self.second, line.offsets, line.rates
        was_idle = not rates
        for name, amount in amounts.items():
            change = amount * sign
            if name in offsets:
                offsets[name] -= change * now
            elif change and len(offsets) < MAX_RESOURCES:
                offsets[name] = -change * now
            else:
                continue
            rate = rates.get(name, 0) + change
            if rate:
                rates[name] = rate
            else:
                rates.pop(name, None)
        if rates:
            line.changed = now
            if was_idle:
                self._idle.pop(account, None)
        elif not was_idle:
            line.changed = self._idle[account] = now

    def _find_line(
        self, account: Account, amounts: Amounts, sign: int
    ) -> tuple[Account, Line] | None:
        """Return the account that a charge is counted for, with its line, to be changed."""
        if account not in self._lines or account in self._folded:
            if not any(amounts.values()):
                return None  # a unit that asks for nothing makes no account
            account = self._open(account) if sign > 0 else self._unfold(account)
        line = self._lines[account]
        if line.epoch != self._epoch:
            line = self._own(account, line)
        if line.marked_to < self._edge:
            line.marks, line.marked_to = self._marks(line), self._edge
        return account, line

    def _open(self, account: Account) -> Account:
        """Return the account that a charge of this one is counted for; there is a line for it."""
        own = account
        if account in self._folded or len(self._lines) >= self._most:
            account = _folded(account)
            if account != own:
                # All its charges, until the last of them is gone: what is added here is taken off
                # here.
                self._folded[own] = self._folded.get(own, 0) + 1
                self.folds += 1
        if account not in self._lines:
            self._lines[account] = Line({}, {}, (), self._edge, self.second, self._epoch)
        return account

    def _unfold(self, account: Account) -> Account:
        left = self._folded[account] - 1
        if left:
            self._folded[account] = left
        else:
            del self._folded[account]
        return _folded(account)

    def _own(self, account: Account, line: Line) -> Line:
        """Return a line that no copy of this ledger has, in place of one that copies may have."""
        offsets, rates = line.offsets.copy(), line.rates.copy()
        own = Line(offsets, rates, line.marks, line.marked_to, line.changed, self._epoch)
        self._lines[account] = own
        return own

    def _marks(self, line: Line) -> tuple[Mark, ...]:
        return tuple(
            (edge, used) for edge in self.kept_edges() if (used := line.used_at_edge(edge))
        )

    # --- what is kept outside -----------------------------------------------------------------

    def stored(self) -> StoredAccounts:
        """Return what is to be kept outside."""
        return StoredAccounts(
            self.second,
            self.complete_from,
            tuple(self.stored_account(account, line) for account, line in self._lines.items()),
        )

    def stored_account(self, account: Account, line: Line) -> StoredAccount:
        """Return what is to be kept of one account, as of the present second."""
        marks = self._marks(line) if line.marked_to < self._edge else line.marks
        return StoredAccount(
            account,
            line.used(self.second),
            marks,
            max(line.marked_to, self._edge),
            self.second if line.rates else line.changed,
        )

    def restore(self, stored: StoredAccounts, charges: Iterable[tuple[int, Charged]]) -> None:
        """Begin anew with what was kept, and with what is charged now.

        Args:
            stored: What was kept.
            charges: Each with the second since when it has been charged.
        """
        dated = sorted(charges, key=lambda each: (each[0], each[1].account))
        for _ in self.restoring(stored, dated):
            pass

    def restoring(
        self, stored: StoredAccounts, charges: Sequence[tuple[int, Charged]]
    ) -> Iterator[None]:
        """Do the same in steps of some microseconds; until the last, use is incomplete.

        Args:
            stored: What was kept.
            charges: Each with the second since when it has been charged, ascending. It counts from
                the later of that and `stored.settled_at`; if accounts were lost, and its account is
                not among those that were kept, from the former.
        """
        now = self.second
        # Another process's clock may be ahead of this one's, not much.
        settled = min(stored.settled_at, now + MOST_AHEAD_SECONDS)
        before, self._lines = self._lines, {}
        while before:
            before.popitem()  # to free them takes its time, too
            yield
        self._idle.clear()
        self._folded.clear()
        for kept in sorted(stored.accounts, key=lambda each: each.changed):
            line = Line(kept.used, {}, kept.marks, kept.marked_to, kept.changed)
            self._lines[kept.account] = line
            self._idle[kept.account] = kept.changed
            yield
        # Charges of lost accounts first: they count from before the time at which the others begin.
        known = self._lines.copy()
        for are_lost in (True, False) if stored.is_rebuilt else (False,):
            dated = (
                (since if are_lost else max(since, settled), each)
                for since, each in charges
                if not stored.is_rebuilt or (each.account not in known) is are_lost
            )
            yield from self._charge_since(dated, now, max(now, settled) + 1)
        self._next_drop = 0
        self.advance(max(now, settled))
        self.complete_from = now if stored.is_rebuilt else stored.complete_from or now

    def _charge_since(
        self, dated: Iterable[tuple[int, Charged]], now: int, next_drop: int
    ) -> Iterator[None]:
        """Charge as if it were done at these times, one after the other, in steps."""
        is_first = True
        for since, each in dated:
            if is_first:
                self.second = min(since, now)
                self._find_edge()
                # It is not known yet which accounts are charged.
                self._next_drop, is_first = next_drop, False
            self.advance(since)
            self.on_charge(None, each)
            yield

    def state(self) -> list[object]:
        """Return what the ledger says, in the same order in every process."""
        return [
            (self.second, self.complete_from, self.edges),
            [
                (self.stored_account(account, line), line.rates)
                for account, line in sorted(self._lines.items(), key=lambda each: each[0])
            ],
            sorted(self._folded.items()),
        ]

    # --- copies -------------------------------------------------------------------------------

    def fork(self) -> Ledger:
        """Return an independent copy; it shares the lines until one of the two changes them."""
        twin = Ledger(self._keep_seconds, self._most)
        self._epoch += 1
        twin._epoch = self._epoch
        twin.second, twin.edges = self.second, self.edges
        twin.complete_from, twin.folds = self.complete_from, self.folds
        twin._lines = self._lines.copy()
        twin._idle = self._idle.copy()
        twin._folded = self._folded.copy()
        twin._edge, twin._next_edge = self._edge, self._next_edge
        twin._next_drop = self._next_drop
        return twin

    def validate(self, charges: Iterable[Charged]) -> None:
        """Raise AssertionError unless the rates are the sums of these charges."""
        sums: dict[Account, Amounts] = {}
        for each in charges:
            account = _folded(each.account) if each.account in self._folded else each.account
            total = sums.setdefault(account, {})
            for name, amount in each.amounts.items():
                total[name] = total.get(name, 0) + amount
        for account, line in self._lines.items():
            want = {name: each for name, each in sums.pop(account, {}).items() if each}
            got = line.rates
            if len(line.offsets) >= MAX_RESOURCES:
                want = {name: each for name, each in want.items() if name in line.offsets}
            assert got == want, f"{account} is charged {want}, and its account says {got}"
            assert (account in self._idle) is not bool(line.rates), f"{account}: is it idle?"
            used = line.used(self.second)
            assert all(each >= 0 for each in used.values()), f"{account} has used {used}"
        assert not any(each for total in sums.values() for each in total.values()), sums


def _folded(account: Account) -> Account:
    """Return the account of a user's namespace."""
    user, group = namespace_submitter(account.namespace)
    return account._replace(group=group, user=user)
