"""What each unit is charged for, by its record; `usage` keeps the charges."""

from __future__ import annotations

from collections.abc import Mapping

from queue_scheduler.cache.unit_state import CachedUnit, UnitState, granted_to
from queue_scheduler.cache.usage import Charge, Usage
from queue_scheduler.decision import Reason
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import Granted, QueueUnitInfo
from queue_scheduler.tenants.accounts import Account, account_of_unit
from shared_api.objects.meta import Uid
from shared_api.resource_list import Amounts, add


class UnitCharges:
    """Charges units, and pods whose unit is gone.

    Args:
        plugins: They know the quotas of units that are mapped to none.
        usage: The charges.
        records: The units by key; read only.
    """

    def __init__(
        self, plugins: PluginRunner, usage: Usage, records: Mapping[str, CachedUnit]
    ) -> None:
        self._plugins = plugins
        self._usage = usage
        self._records = records
        # By uid: a grant, and the record that it is of. Pods come and go more often than records.
        self._grants: dict[Uid, tuple[CachedUnit, Granted]] = {}

    def charge(self, uid: Uid, record: CachedUnit | None) -> None:
        """Charge a unit for what its record says; None if it is gone, and its living pods count."""
        if record is None:
            self._usage.charge_left_behind(uid)
        elif record.info is not None and record.occupies:
            self._usage.charge_admitted(record.info, self._granted(record, record.info))
        else:
            self.charge_living(record)

    def charge_living(self, record: CachedUnit) -> None:
        """Charge a unit that is not admitted for its living pods; if it has none, release it."""
        uid = record.unit.metadata.uid
        self._grants.pop(uid, None)
        if self._usage.pods.has_living(uid):
            account, non_preemptible = self._account_of(record)
            self._usage.charge_living(uid, account, non_preemptible=non_preemptible)
        else:
            self._usage.release(uid)

    def charge_living_again(self) -> None:
        """Charge all living pods of units that occupy nothing: their quota may be another now."""
        for group, key in self._usage.pods.groups():
            record = self._record_of(group, key)
            if record is None or not record.occupies:
                self.charge(Uid(group), record)
        self._usage.known.claims.held.note_all()

    def charge_changed_pods(self) -> None:
        """Update the charges for the pods that came, changed and went."""
        for group, key in self._usage.pods.take_changed_groups():
            self.charge(Uid(group), self._record_of(group, key))
            self._usage.known.claims.note_charged(Uid(group))
        self._usage.report_foreign()

    def implied(self, record: CachedUnit) -> Charge | None:
        """Return the charge that follows from a unit's state and its living pods."""
        uid, info, usage = record.uid, record.info, self._usage
        occupies = record.occupies and info is not None
        if not (occupies or usage.pods.has_living(uid)):
            return None
        account, non_preemptible = self._account_of(record)
        charged = usage.charge_of(uid)
        if not account.quota and charged is not None:
            # The account that it was charged to last stays.
            account, non_preemptible = charged.account, charged.non_preemptible
        if occupies and info is not None:
            granted = granted_to(record, info)
            return usage.build_admitted(uid, account, granted, non_preemptible=non_preemptible)
        return usage.build_living(uid, account, non_preemptible=non_preemptible)

    def elsewhere(self, record: CachedUnit) -> dict[str, Amounts]:
        """Return what pods of an admitted unit are charged to other quotas, by their names."""
        found: dict[str, Amounts] = {}
        if record.state is not UnitState.ADMITTED or record.info is None:
            return found
        for group in self._usage.pods.moved.groups_of(record.uid):
            charge = self._usage.charge_of(Uid(group))
            if charge is not None and charge.quota not in {"", record.info.quota}:
                found[charge.quota] = add(found.get(charge.quota, {}), charge.amounts)
        return dict(sorted(found.items()))

    def _validate_counts(self) -> None:
        """Compare what is counted over time with the charges."""
        usage = self._usage
        if usage.ledger is not None:
            usage.ledger.validate(usage.charges.values())
        if usage.quota_use is not None:
            usage.quota_use.validate(usage.charges.values())
        usage.fair.validate(usage.charges)
        usage.budgets.accounts.validate(usage.charges)

    def validate(self) -> None:
        """Compare every charge with what it follows from; raise AssertionError where it differs."""
        for key, record in self._records.items():
            got, want = self._usage.charge_of(record.uid), self.implied(record)
            assert got == want, f"{key} is charged {got}, should be {want}"
        if self._usage.held is None:
            self._validate_counts()
        pods, uids = self._usage.pods, {record.uid for record in self._records.values()}
        for uid, charge in self._usage.charges.items():
            if uid not in uids:
                assert pods.has_living(uid), f"{uid} is charged {charge} and has no pods"
                assert charge.occupancy == pods.living(uid), f"{uid} is charged {charge}"

    def _granted(self, record: CachedUnit, info: QueueUnitInfo) -> Granted:
        known = self._grants.get(record.uid)
        if known is not None and known[0] is record:
            return known[1]
        granted = granted_to(record, info)
        self._grants[record.uid] = (record, granted)
        return granted

    def _record_of(self, group: str, key: str) -> CachedUnit | None:
        """Return the unit of a group of pods, unless it is gone."""
        record = self._records.get(key)
        return record if record is not None and record.uid == group else None

    def _account_of(self, record: CachedUnit) -> tuple[Account, bool]:
        """Return (account, non-preemptible) of a unit, by its object.

        The account's quota is "" if the object names none, its queue if the unit is in none.
        """
        info = record.info
        if info is not None:
            return self._usage.account_of(info), info.non_preemptible
        uid, labels = record.uid, record.unit.metadata.labels
        is_theirs = record.hold is None or record.hold.reason is not Reason.QUOTA_NOT_IN_NAMESPACE
        if not is_theirs and self._usage.pods.has_living(uid):
            # It may not name that quota: its pods are charged to the one that they name.
            namespace, labels = self._usage.pods.labels_of(uid)
            quota = self._plugins.placing.quota_of_pod(namespace, labels)
        else:
            names = self._plugins.placing.quota_names(record.unit)
            quota = names[0] if names else ""
        are_proved = self._usage.are_names_proved
        account = account_of_unit(record.unit, quota, "", are_proved=are_proved)
        return account, self._plugins.placing.is_non_preemptible(quota, labels)
