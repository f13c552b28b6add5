"""What is charged for units: admissions and living pods, turned into one charge per uid.

An admitted unit is charged for what will live (`living_pods`): its living pods, and those that it
was granted and that do not live. A unit in any other state, or one that is gone, is charged what
its living pods ask for, until the last of them is gone; so are strays, and pods of a unit that name
another quota (`pod_accounting`). What is granted for the latter stays charged in addition: a pod in
their place names the unit's quota again. A living pod that may not be preempted by its own label
counts so, whatever its unit says. Plugins get a charge only when it changes, and then all of it:
they keep nothing else about a uid, so what they know follows from the objects, as the charges do.

The account (quota, queue, namespace, group, user) is that of the unit's present object; if the unit
is gone, the one that it was charged to last; for strays, the one that their pods name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from queue_scheduler.cache.declared_terms import DeclaredTerms
from queue_scheduler.cache.expected_ends import ExpectedEnds
from queue_scheduler.cache.known_pods import KnownPods
from queue_scheduler.cache.living_pods import firm_part, occupied_by
from queue_scheduler.cache.pod_accounting import FindUnit, is_charged_by_labels
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import Granted, Occupancy, QueueUnitInfo
from queue_scheduler.reservations.windows import Windows
from queue_scheduler.tenants.accounts import Account, account_of_unit
from queue_scheduler.tenants.budgets import Budgets
from queue_scheduler.tenants.fair_use import MAX_STORED, FairUse, StoredUse
from queue_scheduler.tenants.ledger import Ledger
from queue_scheduler.tenants.quota_use import QuotaUse
from queue_scheduler.tenants.user_limits import UserLimits
from shared_api.objects.meta import Uid
from shared_api.resource_list import Amounts
from shared_api.submitters import read_submitter
from shared_api.well_known_labels import NOT_PREEMPTIBLE, PREEMPTIBLE


class Charge(msgspec.Struct, frozen=True, gc=False):
    """What is charged for one uid."""

    account: Account
    amounts: Amounts
    non_preemptible: bool
    pods: int
    firm: Amounts = {}
    """The part of `amounts` of living pods that may not be preempted, though the unit may be."""
    is_admitted: bool = False
    """Whether its unit is admitted; otherwise living pods alone are charged."""

    @property
    def quota(self) -> str:
        """The quota that is charged."""
        return self.account.quota

    def is_same_for_quotas(self, other: Charge) -> bool:
        """Return whether no more differs than the account and the state, and not the quota."""
        alike = replace(self, account=other.account, is_admitted=other.is_admitted)
        return self.quota == other.quota and alike == other

    @property
    def occupancy(self) -> Occupancy:
        """The amounts and the number of pods, without the quota."""
        return Occupancy(self.amounts, self.pods)


class ChangedCharge(msgspec.Struct, frozen=True, gc=False):
    """A change of what is charged for one uid.

    Attributes:
        uid: The uid.
        before: What was charged; None: nothing was.
        after: What is charged now; None: nothing is.
        is_assumed: Whether it is a start that is not written yet.
    """

    uid: Uid
    before: Charge | None
    after: Charge | None
    is_assumed: bool = False


HeldChange: TypeAlias = ChangedCharge | int
"""A change that is counted later, or a second that passes."""


class ChargeWatch(Protocol):
    """Is told each change of a charge, where accounts are kept; under the lock of the engine."""

    def on_charge(self, uid: Uid, before: Charge | None, after: Charge | None) -> None:
        """Take a change of what is charged for a uid; None: nothing is."""


class Usage:
    """Charges by uid; the plugins with Reserve get every change.

    Attributes:
        known: All pods.
        pods: The living ones, by unit.
        ends: Until when admitted units declare that they run.
        limits: What users and groups have, where that is limited.
        budgets: What is spent of the budgets of quotas.
        terms: For how long admitted units run, for budgets.
        windows: When units must not run.
        are_names_proved: Whether the API server proves who has submitted a job.
        boost_per_eviction: By how much an eviction raises a unit's priority as a victim.
        changes: Increases when any charge changes.
        releases: Increases when a change may have freed room, or an expected end may have changed.
        ledger: What each account has used; None: accounts are not kept.
        watch: Is told each change of a charge that the ledger is told; copies have none.
        fair: What accounts have used in the queues with the policy Fair.
        quota_use: What quotas have used above their min; None: turns do not depend on it.
        held: Changes that accounts, budgets and quotas' use count later; None: they do at once.
    """

    watch: ChargeWatch | None = None

    def __init__(self, plugins: PluginRunner, find_unit: FindUnit) -> None:
        self.ends = ExpectedEnds()
        self.terms = DeclaredTerms(self.ends)
        self.are_names_proved = False
        self.boost_per_eviction = 0
        self.changes = 0
        self.releases = 0
        self.ledger: Ledger | None = None
        self.limits = UserLimits(plugins)
        self.budgets = Budgets(plugins)
        self.windows = Windows(plugins)
        self.fair = FairUse(plugins)
        self.quota_use: QuotaUse | None = None
        self.held: list[HeldChange] | None = None
        self._plugins = plugins
        self._charges: dict[Uid, Charge] = {}
        self._hold(KnownPods(plugins, find_unit, self._charges))

    def _hold(self, known: KnownPods) -> None:
        self.known, self.pods, self._claims = known, known.of_units, known.claims

    def __iter__(self) -> Iterator[Uid]:
        return iter(self._charges)

    @property
    def charges(self) -> Mapping[Uid, Charge]:
        """All charges by uid; for reading."""
        return self._charges

    def charge_of(self, uid: Uid) -> Charge | None:
        """Return what is charged for a uid, or None."""
        return self._charges.get(uid)

    def note_reserved(self, info: QueueUnitInfo) -> None:
        """Note the charge of a unit for whose whole demand the plugins have just reserved."""
        self.changes += 1
        self.ends.note(info)
        self.terms.drop(info.uid)
        need = info.demand
        account = self.account_of(info)
        charge = Charge(account, need.total, info.non_preemptible, need.pods, is_admitted=True)
        self._note_accounts(info.uid, self._charges.get(info.uid), charge, is_assumed=True)
        self._charges[info.uid] = charge
        self._claims.note_charged(info.uid)
        if self.pods.has_living(info.uid):
            # Pods of an earlier run may ask for more; that was charged before, so it still fits.
            self.charge_admitted(info, need.granted)

    def charge_admitted(self, info: QueueUnitInfo, granted: Granted) -> None:
        """Charge a unit whose object says that it occupies quota."""
        uid = info.uid
        is_other_end = self.ends.note(info)
        if self.budgets.is_on:
            is_other_end |= self.terms.note(info.unit)
        if is_other_end and uid in self._charges:
            self._note_release()  # a unit that was not charged before frees no room
        account, firm = self.account_of(info), info.non_preemptible
        if self.fair.is_on:
            self.fair.on_confirmed(uid)
        self._set(uid, self.build_admitted(uid, account, granted, non_preemptible=firm))
        if is_other_end and self.budgets.is_on:
            charge = self._charges[uid]
            if self.held is None:
                self._note_budgets(uid, charge)
            else:
                self.held.append(ChangedCharge(uid, charge, charge))

    def occupied(self, uid: Uid, granted: Granted) -> Occupancy:
        """Return what a unit occupies that has this grant."""
        return occupied_by(granted, self.pods.counts.of(uid))

    def build_admitted(
        self, uid: Uid, account: Account, granted: Granted, *, non_preemptible: bool
    ) -> Charge:
        """Return the charge that follows from a grant and the living pods of a uid."""
        charged = self.occupied(uid, granted)
        return self._build(uid, account, charged, non_preemptible=non_preemptible, is_admitted=True)

    def build_living(self, uid: Uid, account: Account, *, non_preemptible: bool) -> Charge:
        """Return the charge that follows from the living pods of a uid alone."""
        return self._build(uid, account, self.pods.living(uid), non_preemptible=non_preemptible)

    def _build(
        self,
        uid: Uid,
        account: Account,
        charged: Occupancy,
        *,
        non_preemptible: bool,
        is_admitted: bool = False,
    ) -> Charge:
        firm = {} if non_preemptible else firm_part(self.pods.counts.of(uid))
        return Charge(account, charged.amounts, non_preemptible, charged.pods, firm, is_admitted)

    def charge_living(self, uid: Uid, account: Account, *, non_preemptible: bool) -> None:
        """Charge only what the living pods of a unit ask for.

        If its quota is unknown (""), the account that it was charged to last stays.
        """
        if not self.pods.has_living(uid):
            self.release(uid)
            return
        if not account.quota:
            self.charge_left_behind(uid)
            return
        self.ends.drop(uid)
        self._set(uid, self.build_living(uid, account, non_preemptible=non_preemptible))

    def charge_left_behind(self, uid: Uid) -> None:
        """Charge what the living pods of a unit that does not exist ask for."""
        if not self.pods.has_living(uid):
            self.release(uid)
            return
        self.ends.drop(uid)
        known = None if is_charged_by_labels(uid) else self._charges.get(uid)
        if known is not None:
            account, non_preemptible = known.account, known.non_preemptible
        else:
            namespace, labels = self.pods.labels_of(uid)
            quota = self._plugins.placing.quota_of_pod(namespace, labels)
            account = self._account_of_pods(uid, quota)
            # Of pods that do not all say so by the common label, only those that do.
            is_shared = labels.get(PREEMPTIBLE) == NOT_PREEMPTIBLE
            is_part = is_shared and not all(shape.is_firm for shape in self.pods.counts.of(uid))
            non_preemptible = not is_part and self._plugins.placing.is_non_preemptible(
                quota, labels
            )
        self._set(uid, self.build_living(uid, account, non_preemptible=non_preemptible))

    def account_of(self, info: QueueUnitInfo) -> Account:
        """Return the account that a unit is charged to."""
        return account_of_unit(info.unit, info.quota, info.queue, are_proved=self.are_names_proved)

    def _account_of_pods(self, uid: Uid, quota: str) -> Account:
        """Return the account of living pods without a unit, charged to a quota.

        Their labels are as anybody may write them, and prove nothing.
        """
        namespace, labels = self.pods.labels_of(uid)
        user, group = read_submitter(namespace, labels, {}, are_proved=self.are_names_proved)
        return Account(quota, "", namespace, group, user)

    def release(self, uid: Uid) -> None:
        """Release the charge of a uid, if there is one."""
        self.ends.drop(uid)
        known = self._charges.pop(uid, None)
        if known is not None:
            self.changes += 1
            self.releases += 1
            self.terms.drop(uid)
            self._note_accounts(uid, known, None)
            self._plugins.unreserve(uid)
            self._claims.note_charged(uid)

    def void(self, uid: Uid) -> None:
        """Release what is charged for a uid, even what only plugins know of; to be charged anew."""
        self.release(uid)
        self._note_release()
        self._plugins.unreserve(uid)

    def report_foreign(self) -> None:
        """Pass on to the plugins what has changed of foreign pods, and of what held ones claim."""
        for key, pod in self.known.take_changed():
            self._note_release()
            self._plugins.facts.on_foreign_pod(key, pod)

    def on_time(self, wall: datetime) -> bool:
        """Let time pass; return whether a foreign pod is stuck by now that no scheduler tries."""
        late = self.known.take_late(wall)
        for key, pod in late:
            self._note_release()
            self._plugins.facts.on_foreign_pod(key, pod)
        return bool(late)

    def stored_uses(self, second: int) -> tuple[StoredUse, ...]:
        """Return what is to be kept of decayed use at a second: that of quotas, and of accounts."""
        of_quotas = () if self.quota_use is None else self.quota_use.stored(second)
        return (*of_quotas, *self.fair.stored(second, MAX_STORED - len(of_quotas)))

    def fork(self, plugins: PluginRunner, find_unit: FindUnit) -> Usage:
        """Return an independent copy over forked plugins."""
        twin = Usage(plugins, find_unit)
        twin._charges = dict(self._charges)
        twin._hold(self.known.fork(plugins, find_unit, twin._charges))
        twin.ends = self.ends.copy()
        twin.limits = self.limits.fork(plugins)
        twin.budgets = self.budgets.fork(plugins)
        twin.terms = self.terms.copy(twin.ends)
        if self.windows.is_on:
            twin.windows = self.windows.fork(plugins)
        twin.are_names_proved = self.are_names_proved
        twin.boost_per_eviction = self.boost_per_eviction
        twin.changes = self.changes
        twin.releases = self.releases
        twin.ledger = None if self.ledger is None else self.ledger.fork()
        if self.fair.is_on:
            twin.fair = self.fair.fork(plugins)
        if self.quota_use is not None:
            twin.quota_use = self.quota_use.fork(plugins)
        return twin

    def _note_accounts(
        self, uid: Uid, before: Charge | None, after: Charge | None, *, is_assumed: bool = False
    ) -> None:
        """Count a change for users, groups and budgets, where that is asked for."""
        if self.limits.is_on:
            self.limits.on_charge(uid, before, after)
        if self.watch is not None and self.ledger is not None:
            self.watch.on_charge(uid, before, after)
        if self.held is not None:
            self.held.append(ChangedCharge(uid, before, after, is_assumed))
            return
        self._count(uid, before, after, is_assumed=is_assumed)

    def _count(
        self, uid: Uid, before: Charge | None, after: Charge | None, *, is_assumed: bool
    ) -> None:
        """Count a change where something is counted over time."""
        if self.fair.is_on:
            self.fair.on_charge(uid, before, after, is_assumed=is_assumed)
        if self.quota_use is not None:
            self.quota_use.on_charge(before, after)
        if self.ledger is not None:
            self.ledger.on_charge(before, after)
        if self.budgets.is_on:
            self._note_budgets(uid, after)

    def _note_budgets(self, uid: Uid, charge: Charge | None) -> None:
        accounts = self.budgets.accounts
        if charge is None or not accounts.in_chain(charge.account.quota):
            accounts.drop_charge(uid)
        else:
            accounts.set_charge(uid, charge, self.terms.of(uid))

    def _note_release(self) -> None:
        self.changes += 1
        self.releases += 1

    def _set(self, uid: Uid, charge: Charge) -> None:
        known = self._charges.get(uid)
        if known == charge:
            return
        self._note_accounts(uid, known, charge)
        self._charges[uid] = charge
        if known is not None and known.is_same_for_quotas(charge):
            if self.limits.is_on:
                self._note_release()  # of one account's limit
            return
        self.changes += 1
        if known is not None:
            self.releases += 1  # it may be less, or another quota's
        self._claims.note_charged(uid)
        self._plugins.resize(
            uid,
            charge.quota,
            charge.amounts,
            non_preemptible=charge.non_preemptible,
            pods=charge.pods,
            firm=charge.firm,
        )


def count_held(usage: Usage, change: HeldChange) -> None:
    """Count a change that was held back, or let a second pass where something counts over time."""
    if not isinstance(change, int):
        uid, before, after = change.uid, change.before, change.after
        usage._count(uid, before, after, is_assumed=change.is_assumed)  # noqa: SLF001 - its module
        return
    if usage.ledger is not None:
        usage.ledger.advance(change)
        usage.budgets.accounts.advance(change)
    if usage.quota_use is not None:
        usage.quota_use.advance(change)
    if usage.fair.is_on:
        usage.fair.advance(change)
