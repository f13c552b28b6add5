"""What is charged, by owner, and the sums per quota name.

Charges and foreign pods are kept under the *name* of their quota, with all their resources, whether
that quota exists or not: so they are found when a quota is recreated, edited or moved to another
parent. The sums per name make it cheap to rebuild the trees after an edit. Owners, pods and sums
change together, only in the methods of `QuotaLedger`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias, assert_never

import msgspec

from queue_scheduler.quota.quota_decision import Demand, PodStage
from queue_scheduler.quota_cache.tree_usage import add_up, without_zeros
from shared_api.objects.meta import NO_UID, Uid
from shared_api.resource_list import Amounts, add

QuotaCharge: TypeAlias = tuple[str, Demand]
"""(quota, demand) of one charge."""


class ForeignCharge(msgspec.Struct, frozen=True, gc=False):
    """A pod without a unit, or the held pods of one job: what they ask for.

    `job` is the uid of the job that held pods are of.
    """

    quota: str
    demand: Demand
    stage: PodStage
    job: Uid = NO_UID

    @property
    def is_bound(self) -> bool:
        """Whether it has a node."""
        return self.stage is PodStage.BOUND


class Holder(NamedTuple):
    """The owner of a charge, or the key of a foreign pod."""

    name: str
    is_pod: bool = False


class ChargedSums:
    """What is charged; `non_preemptible` is the part of `amounts` that may not be preempted."""

    __slots__ = ("amounts", "non_preemptible")

    def __init__(self) -> None:
        self.amounts: Amounts = defaultdict(int)
        self.non_preemptible: Amounts = defaultdict(int)

    def fork(self) -> ChargedSums:
        """Return an independent copy."""
        copy: ChargedSums = ChargedSums.__new__(ChargedSums)
        # Most are empty, and a new dict is made faster than a copy: the engine's lock is held.
        amounts, part = self.amounts, self.non_preemptible
        copy.amounts = amounts.copy() if amounts else defaultdict(int)
        copy.non_preemptible = part.copy() if part else defaultdict(int)
        return copy

    def add(self, demand: Demand, sign: int) -> None:
        """Add (1) or take back (-1) a demand; what is negative in it does not count.

        What nothing is charged for any longer has no key.
        """
        # This runs twice in the life of every unit.
        _add_positive(self.amounts, demand.amounts, sign)
        if demand.non_preemptible or demand.firm:
            _add_positive(self.non_preemptible, demand.firm_amounts, sign)

    def is_empty(self) -> bool:
        """Return whether nothing is charged."""
        return not (any(self.amounts.values()) or any(self.non_preemptible.values()))

    def numbers(self) -> tuple[Amounts, Amounts]:
        """Return copies of both sums, for comparisons."""
        return without_zeros(self.amounts), without_zeros(self.non_preemptible)


def _add_positive(sums: Amounts, amounts: Mapping[str, int], sign: int) -> None:
    if sign < 0:
        add_up(sums, [(key, -amount) for key, amount in amounts.items() if amount > 0])
        return
    for key, amount in amounts.items():
        if amount > 0:
            sums[key] += amount


class Account:
    """What is charged to one quota name: by units, and by foreign pods at each of their stages.

    `stuck` and `held` are made when there is such a pod.
    """

    __slots__ = ("bound", "held", "pending", "stuck", "units")

    def __init__(self) -> None:
        self.units = ChargedSums()
        self.bound = ChargedSums()
        self.pending = ChargedSums()
        self.stuck: ChargedSums | None = None
        self.held: ChargedSums | None = None

    def fork(self) -> Account:
        """Return an independent copy."""
        copy: Account = Account.__new__(Account)
        copy.units = self.units.fork()
        copy.bound = self.bound.fork()
        copy.pending = self.pending.fork()
        copy.stuck = None if self.stuck is None else self.stuck.fork()
        copy.held = None if self.held is None else self.held.fork()
        return copy

    def add_pod(self, pod: ForeignCharge, sign: int) -> None:
        """Add (1) or take back (-1) a foreign pod."""
        sums = self.sums_of(pod.stage)
        if sums is None:
            sums = ChargedSums()
            if pod.stage is PodStage.HELD:
                self.held = sums
            else:
                self.stuck = sums
        sums.add(pod.demand, sign)

    def sums_of(self, stage: PodStage) -> ChargedSums | None:
        """Return what foreign pods at a stage are charged; None: nothing."""
        match stage:
            case PodStage.BOUND:
                return self.bound
            case PodStage.PENDING:
                return self.pending
            case PodStage.STUCK:
                return self.stuck
            case PodStage.HELD:
                return self.held
            case _:
                assert_never(stage)

    def parts(self) -> dict[str, ChargedSums]:
        """Return all sums by name."""
        foreign = {stage.value: self.sums_of(stage) for stage in PodStage}
        return {"units": self.units} | {k: sums for k, sums in foreign.items() if sums is not None}

    def is_empty(self) -> bool:
        """Return whether nothing is charged."""
        every = (self.units, self.bound, self.pending, self.stuck, self.held)
        return all(sums is None or sums.is_empty() for sums in every)


class QuotaLedger:
    """All charges and foreign pods, and an account of each quota name that they are charged to."""

    __slots__ = ("_accounts", "_held_of", "_own", "_owners", "_pods")

    def __init__(self) -> None:
        self._owners: dict[str, QuotaCharge] = {}
        self._pods: dict[str, ForeignCharge] = {}
        self._accounts: dict[str, Account] = {}
        # The keys of what is charged for held pods, by their job. Replaced, never changed.
        self._held_of: dict[Uid, tuple[str, ...]] = {}
        # The names whose account no copy shares; another is copied before it is changed.
        self._own: set[str] = set()

    def fork(self) -> QuotaLedger:
        """Return an independent copy, which shares each account until either changes it."""
        copy = QuotaLedger()
        copy._owners = dict(self._owners)
        copy._pods = dict(self._pods)
        copy._accounts = dict(self._accounts)
        copy._held_of = dict(self._held_of)
        self._own = set()
        return copy

    def charge(self, owner: str, quota: str, demand: Demand) -> QuotaCharge | None:
        """Charge a demand to a quota for `owner`; return the earlier charge that it replaces."""
        old = self._owners.get(owner)
        if old is not None:
            self._open_account(old[0]).units.add(old[1], -1)
        self._owners[owner] = (quota, demand)
        self._open_account(quota).units.add(demand, 1)
        return old

    def release(self, owner: str) -> QuotaCharge | None:
        """Release the charge of an owner, if there is one; return it."""
        old = self._owners.pop(owner, None)
        if old is not None:
            self._open_account(old[0]).units.add(old[1], -1)
        return old

    def owners(self) -> list[str]:
        """Return all owners that are charged."""
        return list(self._owners)

    def charge_of(self, owner: str) -> QuotaCharge | None:
        """Return the charge of an owner, or None."""
        return self._owners.get(owner)

    def holders(self, quota: str) -> Iterator[tuple[Holder, Demand]]:
        """Yield who is charged to a quota, and what."""
        for owner, (name, demand) in self._owners.items():
            if name == quota:
                yield Holder(owner), demand
        for key, pod in self._pods.items():
            if pod.quota == quota:
                yield Holder(key, is_pod=True), pod.demand

    def pods(self) -> list[str]:
        """Return the keys of the foreign pods that are charged."""
        return list(self._pods)

    def pod(self, key: str) -> ForeignCharge | None:
        """Return what is charged for a foreign pod, or None."""
        return self._pods.get(key)

    def put_pod(self, key: str, pod: ForeignCharge | None) -> ForeignCharge | None:
        """Charge a foreign pod; return what it replaces under its key. None if the pod is gone."""
        old = self._pods.get(key)
        if old == pod:
            return old
        if old is not None:
            del self._pods[key]
            self._open_account(old.quota).add_pod(old, -1)
            if old.job:
                self._forget_held(key, old.job)
        if pod is not None:
            self._pods[key] = pod
            self._open_account(pod.quota).add_pod(pod, 1)
            if pod.job:
                self._held_of[pod.job] = (*self._held_of.get(pod.job, ()), key)
        if old is not None and (pod is None or pod.quota != old.quota):
            self._close_if_empty(old.quota)
        return old

    def _close_if_empty(self, quota: str) -> None:
        # The label of a pod may name anything. The quotas that units are charged to exist, so their
        # accounts are left to `close_empty_accounts`: mostly the next unit opens them again.
        if self._accounts[quota].is_empty():
            del self._accounts[quota]
            self._own.discard(quota)

    def _forget_held(self, key: str, job: Uid) -> None:
        left = tuple(each for each in self._held_of[job] if each != key)
        if left:
            self._held_of[job] = left
        else:
            del self._held_of[job]

    def held_of(self, job: Uid, quota: str) -> Amounts:
        """Return what the held pods of a job ask for in a quota."""
        found: Amounts = {}
        for key in self._held_of.get(job, ()):
            pod = self._pods[key]
            if pod.quota == quota:
                found = add(found, pod.demand.amounts)
        return found

    def account(self, quota: str) -> Account:
        """Return what is charged to a quota name, for reading."""
        return self._accounts.get(quota) or Account()

    def accounts(self) -> Iterable[tuple[str, Account]]:
        """Return the quota names with an account, each with it, for reading."""
        return self._accounts.items()

    def close_empty_accounts(self) -> None:
        """Forget accounts with nothing in them: names come and go."""
        self._accounts = {
            name: account for name, account in self._accounts.items() if not account.is_empty()
        }
        self._own.intersection_update(self._accounts)

    def validate(self) -> None:
        """Recompute the accounts from owners and pods."""
        want = QuotaLedger()
        for owner, (quota, demand) in self._owners.items():
            want.charge(owner, quota, demand)
        for key, pod in self._pods.items():
            want.put_pod(key, pod)
        for name in sorted({*want._accounts, *self._accounts}):
            got_parts, want_parts = self.account(name).parts(), want.account(name).parts()
            for part in {**got_parts, **want_parts}:
                got = got_parts.get(part, ChargedSums()).numbers()
                wanted = want_parts.get(part, ChargedSums()).numbers()
                assert got == wanted, (
                    f"account {name!r}, {part}: {got} is charged, but its owners and pods"
                    f" add up to {wanted}"
                )

    def _open_account(self, quota: str) -> Account:
        """Return the account of a quota name, for changing."""
        if quota in self._own:
            return self._accounts[quota]
        shared = self._accounts.get(quota)
        account = self._accounts[quota] = Account() if shared is None else shared.fork()
        self._own.add(quota)
        return account
