"""Whose pod is it? Every living pod is counted exactly once: for a unit, or as foreign.

A pod belongs to a unit by its annotation `koord-queue/related-queueunit`, else by its
controller: the unit's consumer, or one of the unit's `podOwners`. What a unit occupies is at
least what its living pods ask for, also when its phase says that it occupies nothing any more:
ended, evicted, deleted. A pod that names a unit which does not exist is a *stray*: it is
charged to the quota it names, in every mode, until it is gone. All other pods are foreign.

Units are told apart by uid. A unit made again under its old name does not inherit pods that
are older than itself, unless it was made for a job that already ran (adopted). A pod that once
belonged to a unit stays with it when the unit is gone, until it is found to be another's.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from queue_scheduler.framework.extension_points import ForeignPod
from shared_api.objects.meta import NO_UID, Timestamp, Uid
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from shared_api.pod_requests import pod_requests
from shared_api.quantity import QuantityError
from shared_api.queue_unit_phases import is_adopted
from shared_api.resource_list import Amounts, add, subtract
from shared_api.well_known_labels import RELATED_QUEUE_UNIT, read_annotation

STRAY = "stray:"
"""Prefix of the group of pods that name a unit which does not exist; the unit's key follows."""

_Key = TypeVar("_Key", bound=str)

Group = str
"""Uid of a unit, `STRAY` + key, or "" for foreign."""


class PodFacts(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a living pod; amounts of zero are left out of `request`."""

    uid: Uid
    namespace: str
    unit_key: str
    owner: Uid
    created: Timestamp
    labels: dict[str, str]
    request: Amounts
    bound: bool


class UnitFacts(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a unit, to find its pods."""

    uid: Uid
    key: str
    owners: tuple[Uid, ...]
    created: Timestamp
    adopted: bool


class PodAccounting:
    """Groups living pods by unit, and reports which groups changed."""

    def __init__(self) -> None:
        self._pods: dict[str, PodFacts] = {}
        self._group_of: dict[str, Group] = {}
        self._members: dict[Group, dict[str, None]] = {}
        # Replaced, never changed in place: charges and plugins keep what they were given.
        self._living: dict[Group, Amounts] = {}
        self._by_unit_key: dict[str, dict[str, None]] = {}
        self._by_owner: dict[Uid, dict[str, None]] = {}
        self._units: dict[str, UnitFacts] = {}
        # Sorted tuples: nearly always of one, and a fork shares them.
        self._units_of_owner: dict[Uid, tuple[str, ...]] = {}
        self._changed_groups: dict[Group, None] = {}
        self._changed_foreign: dict[str, None] = {}

    # --- facts --------------------------------------------------------------------------------

    def on_unit(self, unit: QueueUnit) -> None:
        """Learn whose pods a unit's are; pods that came before it are found again."""
        facts = _facts_of_unit(unit)
        known = self._units.get(facts.key)
        if known == facts:
            return
        if known is not None:
            self._forget_owners(known)
        self._units[facts.key] = facts
        for owner in facts.owners:
            others = self._units_of_owner.get(owner, ())
            self._units_of_owner[owner] = tuple(sorted({*others, facts.key}))
        self._regroup_pods_of(facts)

    def on_unit_gone(self, key: str) -> None:
        """Forget a unit; its living pods keep the group of its uid until they are gone."""
        facts = self._units.pop(key, None)
        if facts is not None:
            self._forget_owners(facts)
            self._regroup_pods_of(facts)

    def on_pod(self, pod: Pod) -> str | None:
        """Take a new or changed pod; return what is newly wrong with its requests, if anything."""
        key = pod.metadata.key
        if not pod.is_living:
            self.on_pod_gone(pod)
            return None
        problem = None
        try:
            request = pod_requests(pod.spec)
        except QuantityError as error:
            request, problem = {}, str(error)
        facts = _facts_of_pod(pod, request)
        known = self._pods.get(key)
        if known == facts:
            return None
        before = ""
        if known is not None:
            before = self._group_of[key] if known.uid == facts.uid else ""
            self._forget_pod(key, known)
        self._pods[key] = facts
        if facts.unit_key:
            self._by_unit_key.setdefault(facts.unit_key, {})[key] = None
        if facts.owner:
            self._by_owner.setdefault(facts.owner, {})[key] = None
        self._join(key, _settled(before, self._find_group(facts)))
        return problem

    def on_pod_gone(self, pod: Pod) -> None:
        """Forget a pod that is gone or has ended; another one under its name stays."""
        key = pod.metadata.key
        facts = self._pods.get(key)
        if facts is not None and facts.uid == pod.metadata.uid:
            self._forget_pod(key, facts)

    # --- questions ----------------------------------------------------------------------------

    def living(self, group: Group) -> Amounts:
        """Return the sum of the requests of a group's living pods; zeros are left out."""
        return self._living.get(group, {})

    def has_living(self, group: Group) -> bool:
        """Say whether a pod of the group lives."""
        return group in self._members

    def labels_of(self, group: Group) -> tuple[str, dict[str, str]]:
        """Return (namespace, labels) of the pod of a living group that is first by name."""
        facts = self._pods[min(self._members[group])]
        return facts.namespace, facts.labels

    @property
    def has_changed(self) -> bool:
        """Say whether there is something to take."""
        return bool(self._changed_groups or self._changed_foreign)

    def take_changed_groups(self) -> list[Group]:
        """Return, once, the groups whose living pods changed."""
        changed = list(self._changed_groups)
        self._changed_groups.clear()
        return changed

    def take_changed_foreign(self) -> list[tuple[str, ForeignPod | None]]:
        """Return, once, the foreign pods that came, changed or went (None)."""
        changed = [(key, self._foreign(key)) for key in self._changed_foreign]
        self._changed_foreign.clear()
        return changed

    def fork(self) -> PodAccounting:
        """Return an independent copy that shares what is kept of pods and units."""
        twin = PodAccounting()
        twin._pods = dict(self._pods)
        twin._group_of = dict(self._group_of)
        twin._members = {group: dict(keys) for group, keys in self._members.items()}
        twin._living = dict(self._living)
        twin._by_unit_key = {key: dict(keys) for key, keys in self._by_unit_key.items()}
        twin._by_owner = {owner: dict(keys) for owner, keys in self._by_owner.items()}
        twin._units = dict(self._units)
        twin._units_of_owner = dict(self._units_of_owner)
        twin._changed_groups = dict(self._changed_groups)
        twin._changed_foreign = dict(self._changed_foreign)
        return twin

    def validate(self) -> None:
        """Raise AssertionError unless every pod is in exactly one group."""
        members = {key: group for group, keys in self._members.items() for key in keys}
        counted = {key: group for key, group in self._group_of.items() if group}
        assert members == counted, f"groups differ: {members} and {counted}"
        assert self._group_of.keys() == self._pods.keys(), "pods without a group"
        sums: dict[Group, Amounts] = {group: {} for group in self._members}
        for key, group in counted.items():
            sums[group] = add(sums[group], self._pods[key].request)
        assert sums == self._living, f"sums differ: {self._living}, should be {sums}"
        for key, group in self._group_of.items():
            found = self._find_group(self._pods[key])
            assert group == _settled(group, found), f"pod {key} is with {group}, not {found}"

    # --- inside -------------------------------------------------------------------------------

    def _find_group(self, facts: PodFacts) -> Group:
        if facts.unit_key:
            unit = self._units.get(facts.unit_key)
            if unit is not None and (unit.adopted or facts.created >= unit.created):
                return unit.uid
            return STRAY + facts.unit_key
        keys = self._units_of_owner.get(facts.owner) if facts.owner else None
        # Two units of one job are somebody's mistake; every process must pick the same.
        return self._units[keys[0]].uid if keys else ""

    def _regroup_pods_of(self, unit: UnitFacts) -> None:
        if not self._pods:
            return
        touched = dict(self._by_unit_key.get(unit.key, {}))
        for owner in unit.owners:
            touched.update(self._by_owner.get(owner, {}))
        for key in touched:
            self._regroup(key)

    def _regroup(self, key: str) -> None:
        facts = self._pods[key]
        group = self._group_of[key]
        found = _settled(group, self._find_group(facts))
        if found != group:
            self._leave(key, facts)
            self._join(key, found)

    def _join(self, key: str, group: Group) -> None:
        self._group_of[key] = group
        if group:
            self._members.setdefault(group, {})[key] = None
            self._living[group] = add(self._living.get(group, {}), self._pods[key].request)
            self._changed_groups[group] = None
        else:
            self._changed_foreign[key] = None

    def _leave(self, key: str, facts: PodFacts) -> None:
        group = self._group_of.pop(key)
        if not group:
            self._changed_foreign[key] = None
            return
        _discard(self._members, group, key)
        left = subtract(self._living.pop(group), facts.request)
        if group in self._members:
            self._living[group] = _without_zeros(left)
        self._changed_groups[group] = None

    def _forget_pod(self, key: str, facts: PodFacts) -> None:
        del self._pods[key]
        _discard(self._by_unit_key, facts.unit_key, key)
        _discard(self._by_owner, facts.owner, key)
        self._leave(key, facts)

    def _foreign(self, key: str) -> ForeignPod | None:
        facts = self._pods.get(key)
        if facts is None or self._group_of[key]:
            return None
        return ForeignPod(
            namespace=facts.namespace,
            labels=facts.labels,
            request=facts.request,
            bound=facts.bound,
        )

    def _forget_owners(self, facts: UnitFacts) -> None:
        for owner in facts.owners:
            others = tuple(key for key in self._units_of_owner[owner] if key != facts.key)
            if others:
                self._units_of_owner[owner] = others
            else:
                del self._units_of_owner[owner]


def _facts_of_pod(pod: Pod, request: Amounts) -> PodFacts:
    meta = pod.metadata
    owner = meta.controller_owner
    return PodFacts(
        uid=meta.uid,
        namespace=meta.namespace,
        unit_key=read_annotation(meta.annotations, RELATED_QUEUE_UNIT) or "",
        owner=owner.uid if owner else NO_UID,
        created=meta.creation_timestamp,
        labels=meta.labels,
        request=_without_zeros(request),
        bound=pod.is_bound,
    )


def _facts_of_unit(unit: QueueUnit) -> UnitFacts:
    consumer = unit.spec.consumer_ref
    own = (consumer.uid,) if consumer is not None and consumer.uid else ()
    return UnitFacts(
        uid=unit.metadata.uid,
        key=unit.metadata.key,
        owners=(*own, *unit.status.pod_owners),
        created=unit.metadata.creation_timestamp,
        adopted=is_adopted(unit),
    )


def is_stray(group: Group) -> bool:
    """Say whether a group is of pods that name a unit which does not exist."""
    return group.startswith(STRAY)


def _settled(before: Group, found: Group) -> Group:
    """Return the group of a pod: no pod goes from a unit, even one that is gone, to nobody."""
    is_unit = bool(found) and not is_stray(found)
    was_unit = bool(before) and not is_stray(before)
    return before if was_unit and not is_unit else found


def _without_zeros(amounts: Amounts) -> Amounts:
    return {resource: amount for resource, amount in amounts.items() if amount}


def _discard(index: dict[_Key, dict[str, None]], at: _Key, key: str) -> None:
    """Take `key` out of the set at `at`, and the set out of the index when it is empty."""
    members = index.get(at)
    if members is None:
        return
    members.pop(key, None)
    if not members:
        del index[at]
