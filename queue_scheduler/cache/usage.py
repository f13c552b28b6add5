"""What is charged for units: admissions and living pods, turned into one charge per uid.

An admitted unit is charged for what will live (`living_pods`): its living pods, and those that it
was granted and that do not live. A unit in any other state, or one that is gone, is charged what
its living pods ask for, until the last of them is gone; so are strays, and pods of a unit that name
another quota (`pod_accounting`). What is granted for the latter stays charged in addition: a pod in
their place names the unit's quota again. A living pod that may not be preempted by its own label
counts so, whatever its unit says. Plugins get a charge only when it changes, and then all of it:
they keep nothing else about a uid, so what they know follows from the objects, as the charges do.

The quota is that of the unit's present object; if the unit is gone, the one that it was charged to
last; for strays, the one that their pods name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

import msgspec
from msgspec.structs import replace

from queue_scheduler.cache.claims import Claims
from queue_scheduler.cache.expected_ends import ExpectedEnds
from queue_scheduler.cache.living_pods import firm_part, occupied_by
from queue_scheduler.cache.pod_accounting import (
    CountedPod,
    FindUnit,
    PodAccounting,
    as_foreign,
    is_charged_by_labels,
)
from queue_scheduler.cache.untried_pods import UntriedPods
from queue_scheduler.framework.extension_points import ForeignPod
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import Granted, Occupancy, QueueUnitInfo
from shared_api.objects.meta import Uid
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts, subtract
from shared_api.well_known_labels import NOT_PREEMPTIBLE, PREEMPTIBLE


class Charge(msgspec.Struct, frozen=True, gc=False):
    """What is charged for one uid."""

    quota: str
    amounts: Amounts
    non_preemptible: bool
    pods: int
    firm: Amounts = {}
    """The part of `amounts` of living pods that may not be preempted, though the unit may be."""

    @property
    def occupancy(self) -> Occupancy:
        """The amounts and the number of pods, without the quota."""
        return Occupancy(self.amounts, self.pods)


class Usage:
    """Charges by uid; the plugins with Reserve get every change.

    Attributes:
        pods: The pods, by unit.
        claims: The pods that the queue's gate holds, and what they claim.
        untried: The foreign pods that no scheduler has tried to bind yet.
        ends: Until when admitted units declare that they run.
        changes: Increases when any charge changes.
        releases: Increases when a change may have freed room, or an expected end may have changed.
    """

    def __init__(self, plugins: PluginRunner, find_unit: FindUnit) -> None:
        self.pods = PodAccounting(find_unit)
        self.claims = Claims(plugins, self.pods, find_unit, self.held_room)
        self.untried = UntriedPods()
        self.ends = ExpectedEnds()
        self.changes = 0
        self.releases = 0
        self._plugins = plugins
        self._charges: dict[Uid, Charge] = {}

    def __iter__(self) -> Iterator[Uid]:
        return iter(self._charges)

    def charge_of(self, uid: Uid) -> Charge | None:
        """Return what is charged for a uid, or None."""
        return self._charges.get(uid)

    @property
    def has_changed(self) -> bool:
        """Whether charges or claims must follow pods that came, changed or went."""
        return self.pods.has_changed or self.claims.held.has_changed

    def on_pod(self, pod: Pod) -> str | None:
        """Take a new or changed pod; return what is newly wrong with its requests, if anything."""
        self.claims.held.on_pod(pod)
        return self.pods.on_pod(pod)

    def on_pod_gone(self, pod: Pod) -> None:
        """Take a deleted pod."""
        self.claims.held.on_pod_gone(pod)
        self.pods.on_pod_gone(pod)

    def on_unit(self, unit: QueueUnit, before: QueueUnit | None) -> None:
        """Take a new or changed unit; `before`: its previous object, None: it is new."""
        self.pods.on_unit(unit, before)
        self.claims.note_unit(unit)

    def on_unit_gone(self, unit: QueueUnit) -> None:
        """Take a deleted unit."""
        self.pods.on_unit_gone(unit)
        self.claims.note_unit(unit)

    def note_reserved(self, info: QueueUnitInfo) -> None:
        """Note the charge of a unit for whose whole demand the plugins have just reserved."""
        self.changes += 1
        self.ends.note(info)
        asked = info.demand
        self._charges[info.uid] = Charge(info.quota, asked.total, info.non_preemptible, asked.pods)
        self.claims.note_charged(info.uid)
        if self.pods.has_living(info.uid):
            # Pods of an earlier run may ask for more; that was charged before, so it still fits.
            self.charge_admitted(info, asked.granted)

    def charge_admitted(self, info: QueueUnitInfo, granted: Granted) -> None:
        """Charge a unit whose object says that it occupies quota."""
        uid = info.uid
        if self.ends.note(info) and uid in self._charges:
            self._note_release()  # a unit that was not charged before frees no room
        firm = info.non_preemptible
        self._set(uid, self.build_admitted(uid, info.quota, granted, non_preemptible=firm))

    def occupied(self, uid: Uid, granted: Granted) -> Occupancy:
        """Return what a unit occupies that has this grant."""
        return occupied_by(granted, self.pods.shapes(uid))

    def build_admitted(
        self, uid: Uid, quota: str, granted: Granted, *, non_preemptible: bool
    ) -> Charge:
        """Return the charge that follows from a grant and the living pods of a uid."""
        charged = self.occupied(uid, granted)
        return self._build(uid, quota, charged, non_preemptible=non_preemptible)

    def build_living(self, uid: Uid, quota: str, *, non_preemptible: bool) -> Charge:
        """Return the charge that follows from the living pods of a uid alone."""
        return self._build(uid, quota, self.pods.living(uid), non_preemptible=non_preemptible)

    def _build(self, uid: Uid, quota: str, charged: Occupancy, *, non_preemptible: bool) -> Charge:
        firm = {} if non_preemptible else firm_part(self.pods.shapes(uid))
        return Charge(quota, charged.amounts, non_preemptible, charged.pods, firm)

    def charge_living(self, uid: Uid, quota: str, *, non_preemptible: bool) -> None:
        """Charge only what the living pods of a unit ask for.

        If its quota is unknown (""), the quota that it was charged to last stays.
        """
        if not self.pods.has_living(uid):
            self.release(uid)
            return
        if not quota:
            self.charge_left_behind(uid)
            return
        self.ends.drop(uid)
        self._set(uid, self.build_living(uid, quota, non_preemptible=non_preemptible))

    def charge_left_behind(self, uid: Uid) -> None:
        """Charge what the living pods of a unit that does not exist ask for."""
        if not self.pods.has_living(uid):
            self.release(uid)
            return
        self.ends.drop(uid)
        known = None if is_charged_by_labels(uid) else self._charges.get(uid)
        if known is not None:
            quota, non_preemptible = known.quota, known.non_preemptible
        else:
            namespace, labels = self.pods.labels_of(uid)
            quota = self._plugins.quota_of_pod(namespace, labels)
            # Of pods that do not all say so by the common label, only those that do.
            is_shared = labels.get(PREEMPTIBLE) == NOT_PREEMPTIBLE
            is_part = is_shared and not all(shape.is_firm for shape in self.pods.shapes(uid))
            non_preemptible = not is_part and self._plugins.is_non_preemptible(quota, labels)
        self._set(uid, self.build_living(uid, quota, non_preemptible=non_preemptible))

    def release(self, uid: Uid) -> None:
        """Release the charge of a uid, if there is one."""
        self.ends.drop(uid)
        if self._charges.pop(uid, None) is not None:
            self.changes += 1
            self.releases += 1
            self._plugins.unreserve(uid)
            self.claims.note_charged(uid)

    def void(self, uid: Uid) -> None:
        """Release what is charged for a uid, even what only plugins know of; to be charged anew."""
        self.release(uid)
        self._note_release()
        self._plugins.unreserve(uid)

    def charge_left_anew(self, uid: Uid) -> None:
        """Charge the living pods of a unit that does not exist, whatever was charged."""
        known = self._charges.get(uid)
        self.void(uid)
        if known is None or is_charged_by_labels(uid):
            self.charge_left_behind(uid)
        else:
            self.charge_living(uid, known.quota, non_preemptible=known.non_preemptible)

    def tell_foreign(self) -> None:
        """Pass the foreign pods that changed to the plugins."""
        for key, pod in self.pods.take_changed_foreign():
            self._note_release()
            self.untried.put(key, None if pod is None else self.pods.facts_of(key))
            self._plugins.on_foreign_pod(key, self._as_known(key, pod))

    def _as_known(self, key: str, pod: ForeignPod | None) -> ForeignPod | None:
        """Return a foreign pod at the stage that time has brought it to."""
        return None if pod is None else replace(pod, stage=self.untried.stage_of(key, pod.stage))

    def tell_claims(self) -> None:
        """Pass on to the plugins what held pods claim, as far as it may have changed."""
        for key, pod in self.claims.take_changed():
            self._note_release()
            self._plugins.on_foreign_pod(key, pod)

    def held_room(self, uid: Uid) -> tuple[str, Amounts]:
        """Return what a unit is charged beyond its living pods, and the quota of the charge."""
        charge = self._charges.get(uid)
        if charge is None:
            return "", {}
        rest = subtract(charge.amounts, self.pods.living(uid).amounts)
        return charge.quota, {key: amount for key, amount in rest.items() if amount > 0}

    def on_time(self, wall: datetime) -> bool:
        """Let time pass; return whether a foreign pod is stuck by now that no scheduler tried."""
        late = self.untried.take_late(wall)
        for key in late:
            self._note_release()
            self._plugins.on_foreign_pod(key, self.foreign_pod(key, self.pods.find(key, None)))
        return bool(late)

    def foreign_pod(self, key: str, counted: CountedPod) -> ForeignPod | None:
        """Return what plugins are told under a key; None: nothing.

        Args:
            key: `namespace/name` of a pod, or the key of a group of held pods.
            counted: What is counted under that name.
        """
        facts = counted.facts
        if facts is None:
            return self.claims.claim(key)
        return None if counted.group else self._as_known(key, as_foreign(key, facts))

    def pods_of(self, unit: QueueUnit) -> list[str]:
        """Return the keys of a unit's living pods, and of its job's held ones."""
        living = [key for key, _ in self.pods.pods_of(unit.metadata.uid)]
        return [*living, *self.claims.pods_of(unit)]

    def fork(self, plugins: PluginRunner, find_unit: FindUnit) -> Usage:
        """Return an independent copy over forked plugins."""
        twin = Usage(plugins, find_unit)
        twin.pods = self.pods.fork(find_unit)
        twin.claims = self.claims.fork(plugins, twin.pods, find_unit, twin.held_room)
        twin.untried = self.untried.fork()
        twin.ends = self.ends.copy()
        twin.changes = self.changes
        twin.releases = self.releases
        twin._charges = dict(self._charges)
        return twin

    def validate_left_behind(self, uids: Collection[Uid]) -> None:
        """Raise AssertionError unless all others than these units are charged for living pods."""
        for uid, charge in self._charges.items():
            if uid not in uids:
                assert self.pods.has_living(uid), f"{uid} is charged {charge} and has no pods"
                assert charge.occupancy == self.pods.living(uid), f"{uid} is charged {charge}"

    def _note_release(self) -> None:
        self.changes += 1
        self.releases += 1

    def _set(self, uid: Uid, charge: Charge) -> None:
        known = self._charges.get(uid)
        if known == charge:
            return
        self.changes += 1
        if known is not None:
            self.releases += 1  # it may be less, or another quota's
        self._charges[uid] = charge
        self.claims.note_charged(uid)
        self._plugins.resize(
            uid,
            charge.quota,
            charge.amounts,
            non_preemptible=charge.non_preemptible,
            pods=charge.pods,
            firm=charge.firm,
        )
