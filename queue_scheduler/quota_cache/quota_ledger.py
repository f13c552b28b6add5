"""Who has booked what, by owner, and the sums per quota name.

Usage and foreign pods are kept under the *name* of their quota, unmasked, whether that quota
exists or not: a quota that is deleted and made again, edited or moved to another parent finds them.
The sums per name make it cheap to build the trees anew after an edit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec

from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota_cache.tree_usage import without_zeros
from shared_api.resource_list import Amounts


class ForeignPod(msgspec.Struct, frozen=True, gc=False):
    """A pod without unit: what it asks for, and whether it is bound to a node."""

    quota: str
    demand: Demand
    is_bound: bool


class Account:
    """What is charged to one quota name; `np` parts are contained in the others."""

    __slots__ = ("bound", "bound_np", "pending", "pending_np", "units", "units_np")

    def __init__(self) -> None:
        self.units: Amounts = defaultdict(int)
        self.units_np: Amounts = defaultdict(int)
        self.bound: Amounts = defaultdict(int)
        self.bound_np: Amounts = defaultdict(int)
        self.pending: Amounts = defaultdict(int)
        self.pending_np: Amounts = defaultdict(int)

    def fork(self) -> Account:
        """Return a copy."""
        copy = Account.__new__(Account)
        copy.units, copy.units_np = self.units.copy(), self.units_np.copy()
        copy.bound, copy.bound_np = self.bound.copy(), self.bound_np.copy()
        copy.pending, copy.pending_np = self.pending.copy(), self.pending_np.copy()
        return copy

    def add_unit(self, demand: Demand, sign: int) -> None:
        """Add (1) or take back (-1) a booking."""
        # Written out: twice in the life of every unit.
        units = self.units
        for key, amount in demand.amounts.items():
            if amount > 0:
                units[key] += amount if sign > 0 else -amount
        if demand.non_preemptible:
            _add(self.units_np, demand.amounts, sign)

    def add_pod(self, pod: ForeignPod, sign: int) -> None:
        """Add (1) or take back (-1) a foreign pod."""
        _add(self.bound if pod.is_bound else self.pending, pod.demand.amounts, sign)
        if pod.demand.non_preemptible:
            _add(self.bound_np if pod.is_bound else self.pending_np, pod.demand.amounts, sign)

    def is_empty(self) -> bool:
        """Return whether nothing is charged."""
        return not any(any(getattr(self, name).values()) for name in Account.__slots__)


class QuotaLedger:
    """All bookings and foreign pods."""

    __slots__ = ("accounts", "owners", "pods")

    def __init__(self) -> None:
        self.owners: dict[str, tuple[str, Demand]] = {}
        self.pods: dict[str, ForeignPod] = {}
        self.accounts: dict[str, Account] = {}

    def fork(self) -> QuotaLedger:
        """Return an independent copy; the values in it are shared, since they are frozen."""
        copy = QuotaLedger()
        copy.owners = dict(self.owners)
        copy.pods = dict(self.pods)
        copy.accounts = {name: account.fork() for name, account in self.accounts.items()}
        return copy

    def open_account(self, quota: str) -> Account:
        """Return the account of a quota name, opening it if need be."""
        account = self.accounts.get(quota)
        if account is None:
            account = self.accounts[quota] = Account()
        return account

    def close_empty_accounts(self) -> None:
        """Forget accounts with nothing in them: names come and go."""
        self.accounts = {
            name: account for name, account in self.accounts.items() if not account.is_empty()
        }

    def validate(self) -> None:
        """Recompute the accounts from owners and pods."""
        want = QuotaLedger()
        for quota, demand in self.owners.values():
            want.open_account(quota).add_unit(demand, 1)
        for pod in self.pods.values():
            want.open_account(pod.quota).add_pod(pod, 1)
        for name in sorted({*want.accounts, *self.accounts}):
            for part in Account.__slots__:
                got_part = without_zeros(getattr(self.accounts.get(name, Account()), part))
                want_part = without_zeros(getattr(want.accounts.get(name, Account()), part))
                assert got_part == want_part, (
                    f"account {name!r}, {part}: {got_part} is booked, but its owners and pods"
                    f" add up to {want_part}"
                )


def _add(sums: Amounts, amounts: Mapping[str, int], sign: int) -> None:
    for key, amount in amounts.items():
        if amount > 0:
            sums[key] += amount if sign > 0 else -amount
