"""The usage: admissions and living pods, combined into one charge per uid.

An admitted unit is charged the larger of what it was granted and what its living pods request; the
same holds for the number of pods.
A unit in any other state, or one that is gone, is charged what its living pods request, until the
last of them is gone; so are strays (`pod_accounting`). Plugins are called only when a charge
changes, with the whole charge: they keep no data of their own about a uid, so their usage follows
from the objects as the charges do.

The quota is that of the current unit; for a unit that is gone, the one that it was charged to last;
for strays, the one that their pods name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from queue_scheduler.cache.expected_ends import ExpectedEnds
from queue_scheduler.cache.pod_accounting import FindUnit, PodAccounting, is_stray
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import Occupancy, QueueUnitInfo
from shared_api.objects.meta import Uid
from shared_api.resource_list import Amounts


class Charge(msgspec.Struct, frozen=True, gc=False):
    """What is charged for one uid, and to which quota."""

    quota: str
    amounts: Amounts
    non_preemptible: bool
    pods: int

    @property
    def occupancy(self) -> Occupancy:
        """The charged amounts and pods, without the quota."""
        return Occupancy(self.amounts, self.pods)


class Usage:
    """Charges by uid, kept in sync with the plugins that track usage.

    Attributes:
        pods: The living pods, by unit.
        ends: The expected ends of units that are charged as a whole.
        changes: Incremented whenever a charge changes.
        eased: Incremented whenever that may free capacity, or an expected end may have changed.
    """

    def __init__(self, plugins: PluginRunner, find_unit: FindUnit) -> None:
        self.pods = PodAccounting(find_unit)
        self.ends = ExpectedEnds()
        self.changes = 0
        self.eased = 0
        self._plugins = plugins
        self._charges: dict[Uid, Charge] = {}

    def __iter__(self) -> Iterator[Uid]:
        return iter(self._charges)

    def charge_of(self, uid: Uid) -> Charge | None:
        """Return the charge of a uid, or None."""
        return self._charges.get(uid)

    def note_reserved(self, info: QueueUnitInfo) -> None:
        """Record the charge of a unit that the plugins have just reserved with its whole demand."""
        self.changes += 1
        self.ends.note(info)
        asked = info.demand
        self._charges[info.uid] = Charge(info.quota, asked.total, info.non_preemptible, asked.pods)
        if self.pods.has_living(info.uid):
            # Pods of an earlier run may request more; that was charged before, so it still fits.
            self.charge_admitted(info, asked.occupancy)

    def charge_admitted(self, info: QueueUnitInfo, admitted: Occupancy) -> None:
        """Charge an admitted unit."""
        uid = info.uid
        if self.ends.note(info) and uid in self._charges:
            self._note_eased()  # a unit that was not charged before frees nothing
        if self.pods.has_living(uid):
            admitted = self.pods.living(uid).at_least(admitted)
        self._set(uid, Charge(info.quota, admitted.amounts, info.non_preemptible, admitted.pods))

    def charge_living(self, uid: Uid, quota: str, *, non_preemptible: bool) -> None:
        """Charge a unit only what its living pods request.

        If its quota is not known (""), it stays charged to the last one.
        """
        if not self.pods.has_living(uid):
            self.release(uid)
            return
        if not quota:
            self.charge_left_behind(uid)
            return
        self.ends.drop(uid)
        living = self.pods.living(uid)
        self._set(uid, Charge(quota, living.amounts, non_preemptible, living.pods))

    def charge_left_behind(self, uid: Uid) -> None:
        """Charge what the living pods of a unit that does not exist request."""
        if not self.pods.has_living(uid):
            self.release(uid)
            return
        self.ends.drop(uid)
        known = None if is_stray(uid) else self._charges.get(uid)
        if known is not None:
            quota, non_preemptible = known.quota, known.non_preemptible
        else:
            namespace, labels = self.pods.labels_of(uid)
            quota = self._plugins.quota_of_pod(namespace, labels)
            non_preemptible = self._plugins.is_non_preemptible(quota, labels)
        living = self.pods.living(uid)
        self._set(uid, Charge(quota, living.amounts, non_preemptible, living.pods))

    def release(self, uid: Uid) -> None:
        """Remove the charge of a uid."""
        self.ends.drop(uid)
        if self._charges.pop(uid, None) is not None:
            self.changes += 1
            self.eased += 1
            self._plugins.unreserve(uid)

    def tell_foreign(self) -> None:
        """Pass changed foreign pods on to the plugins."""
        for key, pod in self.pods.take_changed_foreign():
            self._note_eased()
            self._plugins.on_foreign_pod(key, pod)

    def fork(self, plugins: PluginRunner, find_unit: FindUnit) -> Usage:
        """Return an independent copy over forked plugins."""
        twin = Usage(plugins, find_unit)
        twin.pods = self.pods.fork(find_unit)
        twin.ends = self.ends.copy()
        twin.changes = self.changes
        twin.eased = self.eased
        twin._charges = dict(self._charges)
        return twin

    def validate_left_behind(self, uids: Collection[Uid]) -> None:
        """Raise AssertionError unless all uids but these are charged only for living pods."""
        for uid, charge in self._charges.items():
            if uid not in uids:
                assert self.pods.has_living(uid), f"{uid} is charged {charge} and has no pods"
                assert charge.occupancy == self.pods.living(uid), f"{uid} is charged {charge}"

    def _note_eased(self) -> None:
        self.changes += 1
        self.eased += 1

    def _set(self, uid: Uid, charge: Charge) -> None:
        known = self._charges.get(uid)
        if known == charge:
            return
        self.changes += 1
        if known is not None:
            self.eased += 1  # the charge may be smaller, or of another quota
        self._charges[uid] = charge
        self._plugins.resize(
            uid,
            charge.quota,
            charge.amounts,
            non_preemptible=charge.non_preemptible,
            pods=charge.pods,
        )
