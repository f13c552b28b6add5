"""Assigns every living pod to exactly one unit, or counts it as foreign.

A pod belongs to a unit of its own namespace, by its annotation `koord-queue/related-queueunit`. If
it has none, or names a unit that does not exist (a job's unit may be recreated under another name),
it belongs to a unit by its controller: the unit's consumer, or one of the unit's `podOwners`. Any
user who may create a pod may annotate it: if the pod has another controller, the annotation counts
only if the pod's labels name the same quota as its unit, so that no pod is charged to a quota to
which koord-scheduler does not charge it.

A unit is charged at least what its living pods request, even if its phase says that it uses nothing
any more: ended, evicted, deleted. A pod that names a unit to which it does not belong, or which
does not exist, and belongs to no other unit, is a *stray*: it is charged to the quota that it
names, in every mode, until it is gone. So is a pod whose unit has moved to another quota while it
is pending. All other pods are foreign.

Units are identified by uid. A unit that is recreated under its old name does not inherit pods that
are older, by whole seconds, than itself and its job, unless they belong to its job by the job's
uid: the clocks of API servers differ. Nor does a unit that was made for a job that already ran
(adopted), if it states when that job was created. A pod that once belonged to a unit stays with it
when the unit is gone, until it is found to belong to another. A pod with the queue's scheduling
gate belongs to no unit: its unit's demand already includes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from queue_scheduler.framework.extension_points import ForeignPod
from queue_scheduler.framework.queue_unit_info import Occupancy
from shared_api.objects.meta import NO_UID, ObjectMeta, Timestamp, Uid
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from shared_api.pod_requests import pod_requests
from shared_api.quantity import QuantityError
from shared_api.queue_unit_phases import is_adopted, is_booked
from shared_api.resource_list import Amounts, add, subtract
from shared_api.well_known_labels import (
    ADMISSION_GATE,
    JOB_CREATED_AT,
    RELATED_QUEUE_UNIT,
    read_annotation,
    read_quota_name,
    read_tree_quota_name,
)

STRAY = "stray:"
"""Prefix of the group of pods that name a unit to which they do not belong; the unit's key follows,
and the quotas and trees that they name: successive units of one name may have had different ones.
"""

_Key = TypeVar("_Key", bound=str)

_NOTHING: Final = Occupancy({}, 0)

Group = str
"""Uid of a unit, `STRAY` + key and quotas, or "" for foreign."""


class PodFacts(msgspec.Struct, frozen=True, gc=False):
    """The stored fields of a living pod; amounts of zero are left out of `request`."""

    uid: Uid
    namespace: str
    unit_key: str
    owner: Uid
    created: Timestamp
    labels: dict[str, str]
    request: Amounts
    bound: bool


FindUnit = Callable[[str], QueueUnit | None]
"""Returns the unit of a key (`namespace/name`) as last seen, or None."""


class PodAccounting:
    """Groups living pods by unit, and reports which groups changed.

    Args:
        find_unit: Returns known units. The unit that `on_unit` is just called with may be missing.
    """

    def __init__(self, find_unit: FindUnit) -> None:
        self._find_unit = find_unit
        self._arriving: QueueUnit | None = None
        self._pods: dict[str, PodFacts] = {}
        self._group_of: dict[str, Group] = {}
        self._members: dict[Group, dict[str, None]] = {}
        # Replaced, never modified in place: charges and plugins keep references to the values.
        self._living: dict[Group, Occupancy] = {}
        self._by_unit_key: dict[str, dict[str, None]] = {}
        self._by_owner: dict[Uid, dict[str, None]] = {}
        # Groups with pods, or with a change that was not taken yet; the unit may be gone.
        self._unit_key_of: dict[Group, str] = {}
        # Sorted tuples, nearly always with one element, so that forks can share them.
        self._units_of_owner: dict[Uid, tuple[str, ...]] = {}
        self._changed_groups: dict[Group, None] = {}
        self._changed_foreign: dict[str, None] = {}

    # --- changes ------------------------------------------------------------------------------

    def on_unit(self, unit: QueueUnit, before: QueueUnit | None) -> None:
        """Handle a new or changed unit; pods that are older than this call are regrouped.

        Args:
            unit: The current unit.
            before: The unit of the last call; None: it is new.
        """
        if before is None or not _has_same_owners(before, unit):
            if before is not None:
                self._forget_owners(before)
            for owner in _owners_of_pods(unit):
                others = self._units_of_owner.get(owner, ())
                self._units_of_owner[owner] = tuple(sorted({*others, unit.metadata.key}))
        elif not self._pods or _has_same_pods(before, unit):
            return
        self._arriving = unit
        self._regroup_pods_of(unit)
        self._arriving = None

    def on_unit_gone(self, unit: QueueUnit) -> None:
        """Handle that a unit no longer exists; its living pods keep the group of its uid."""
        self._forget_owners(unit)
        self._regroup_pods_of(unit)

    def on_pod(self, pod: Pod) -> str | None:
        """Handle a new or changed pod; return a new error in its requests, or None."""
        key = pod.metadata.key
        # A pod with the queue's scheduling gate does not count: its unit's demand includes it.
        if not pod.is_living or pod.has_gate(ADMISSION_GATE):
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
        found, unit_key = self._find_group(facts)
        group = self._settled(facts, before, found)
        self._join(key, group, unit_key if group == found else "")
        return problem

    def on_pod_gone(self, pod: Pod) -> None:
        """Handle that a pod is gone or has ended; another pod of the same name stays."""
        key = pod.metadata.key
        facts = self._pods.get(key)
        if facts is not None and facts.uid == pod.metadata.uid:
            self._forget_pod(key, facts)

    # --- queries ------------------------------------------------------------------------------

    def living(self, group: Group) -> Occupancy:
        """Return what a group's living pods request together, without amounts of zero."""
        return self._living.get(group, _NOTHING)

    def has_living(self, group: Group) -> bool:
        """Return whether the group has a living pod."""
        return group in self._members

    def labels_of(self, group: Group) -> tuple[str, dict[str, str]]:
        """Return (namespace, labels) of the first living pod of a group, by name."""
        facts = self._pods[min(self._members[group])]
        return facts.namespace, facts.labels

    @property
    def has_changed(self) -> bool:
        """Return whether there are changes to take."""
        return bool(self._changed_groups or self._changed_foreign)

    def groups(self) -> list[tuple[Group, str]]:
        """Return the groups with living pods, and the keys of their units ("": none)."""
        return [(group, self._unit_key_of.get(group, "")) for group in self._members]

    def take_changed_groups(self) -> list[tuple[Group, str]]:
        """Return, once, the groups whose living pods changed, and the keys of their units."""
        changed = [(group, self._unit_key_of.get(group, "")) for group in self._changed_groups]
        for group in self._changed_groups:
            if group not in self._members:
                self._unit_key_of.pop(group, None)
        self._changed_groups.clear()
        return changed

    def take_changed_foreign(self) -> list[tuple[str, ForeignPod | None]]:
        """Return, once, the foreign pods that were added, changed or removed (None)."""
        changed = [(key, self._foreign(key)) for key in self._changed_foreign]
        self._changed_foreign.clear()
        return changed

    def fork(self, find_unit: FindUnit) -> PodAccounting:
        """Return an independent copy that shares the immutable data of pods."""
        twin = PodAccounting(find_unit)
        twin._pods = dict(self._pods)
        twin._group_of = dict(self._group_of)
        twin._members = {group: dict(keys) for group, keys in self._members.items()}
        twin._living = dict(self._living)
        twin._by_unit_key = {key: dict(keys) for key, keys in self._by_unit_key.items()}
        twin._by_owner = {owner: dict(keys) for owner, keys in self._by_owner.items()}
        twin._unit_key_of = dict(self._unit_key_of)
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
        sums = {group: Occupancy({}, len(keys)) for group, keys in self._members.items()}
        for key, group in counted.items():
            amounts = add(sums[group].amounts, self._pods[key].request)
            sums[group] = Occupancy(amounts, sums[group].pods)
        assert sums == self._living, f"sums differ: {self._living}, should be {sums}"
        for key, group in self._group_of.items():
            found, _ = self._find_group(self._pods[key])
            settled = self._settled(self._pods[key], group, found)
            assert group == settled, f"pod {key} is with {group}, not {found}"

    # --- internals ----------------------------------------------------------------------------

    def _unit(self, key: str) -> QueueUnit | None:
        arriving = self._arriving
        if arriving is not None and arriving.metadata.key == key:
            return arriving
        return self._find_unit(key)

    def _find_unit_of(self, facts: PodFacts) -> QueueUnit | None:
        unit = self._unit(facts.unit_key) if facts.unit_key else None
        if unit is not None:
            return unit if _is_own(facts, unit) else None
        keys = self._units_of_owner.get(facts.owner, ()) if facts.owner else ()
        units = [each for key in keys if (each := self._unit_beside(facts, key)) is not None]
        if len(units) > 1:
            # A mistake, or deliberate; every process must choose the same unit, the likeliest.
            units.sort(key=lambda unit: _rank(facts, unit))
        return units[0] if units else None

    def _unit_beside(self, facts: PodFacts, key: str) -> QueueUnit | None:
        """Return a unit if it is in the pod's namespace; units of other namespaces do not count."""
        return self._unit(key) if key.startswith(f"{facts.namespace}/") else None

    def _find_group(self, facts: PodFacts) -> tuple[Group, str]:
        """Return the group of a pod, and the key of the unit that it belongs to ("": none)."""
        unit = self._find_unit_of(facts)
        if unit is not None:
            return unit.metadata.uid, unit.metadata.key
        return group_of_strays(facts.unit_key, facts.labels) if facts.unit_key else "", ""

    def _settled(self, facts: PodFacts, before: Group, found: Group) -> Group:
        """Return the group of a pod that was in `before`, if its current data leads to `found`.

        No pod becomes foreign after it belonged to a unit, even one that is gone. But a pod that
        names a unit which has moved to another quota is charged by its own labels, as after a
        restart.
        """
        is_unit = bool(found) and not is_stray(found)
        was_unit = bool(before) and not is_stray(before)
        if not was_unit or is_unit:
            return found
        named = self._unit(facts.unit_key) if facts.unit_key else None
        return found if named is not None and named.metadata.uid == before else before

    def _regroup_pods_of(self, unit: QueueUnit) -> None:
        if not self._pods:
            return
        touched = dict(self._by_unit_key.get(unit.metadata.key, {}))
        for owner in _owners_of_pods(unit):
            touched.update(self._by_owner.get(owner, {}))
        for key in touched:
            self._regroup(key)

    def _regroup(self, key: str) -> None:
        facts = self._pods[key]
        group = self._group_of[key]
        found, unit_key = self._find_group(facts)
        if self._settled(facts, group, found) != group:
            self._leave(key, facts)
            self._join(key, found, unit_key)

    def _join(self, key: str, group: Group, unit_key: str) -> None:
        """Put a pod into a group; `unit_key` is the key of the group's unit, "" if it is gone."""
        self._group_of[key] = group
        if group:
            if unit_key:
                self._unit_key_of[group] = unit_key
            self._members.setdefault(group, {})[key] = None
            before = self._living.get(group, _NOTHING)
            amounts = add(before.amounts, self._pods[key].request)
            self._living[group] = Occupancy(amounts, before.pods + 1)
            self._changed_groups[group] = None
        else:
            self._changed_foreign[key] = None

    def _leave(self, key: str, facts: PodFacts) -> None:
        group = self._group_of.pop(key)
        if not group:
            self._changed_foreign[key] = None
            return
        _discard(self._members, group, key)
        before = self._living.pop(group)
        if group in self._members:
            left = _without_zeros(subtract(before.amounts, facts.request))
            self._living[group] = Occupancy(left, before.pods - 1)
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

    def _forget_owners(self, unit: QueueUnit) -> None:
        for owner in _owners_of_pods(unit):
            others = tuple(k for k in self._units_of_owner[owner] if k != unit.metadata.key)
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
        unit_key=_named_unit(meta),
        owner=owner.uid if owner else NO_UID,
        created=meta.creation_timestamp,
        labels=meta.labels,
        request=_without_zeros(request),
        bound=pod.is_bound,
    )


def _named_unit(meta: ObjectMeta) -> str:
    """Return the key of the unit that a pod names in its own namespace, or ""."""
    key = read_annotation(meta.annotations, RELATED_QUEUE_UNIT) or ""
    return key if key.startswith(f"{meta.namespace}/") else ""


def _is_own(facts: PodFacts, unit: QueueUnit) -> bool:
    """Return whether a pod that names a unit of its namespace belongs to the unit.

    It does by its controller. Otherwise its labels must name the unit's quota, and it must not
    belong to an earlier unit of that name. Pods that are queued themselves are older than their
    unit, but not older than their job; so are pods of a job that ran before it had a unit. A unit
    that was made by hand does not state when the job was created.
    """
    if facts.owner != NO_UID and facts.owner in _owners_of_pods(unit):
        return True
    if not _names_quota_of(unit, facts.labels):
        return False
    meta = unit.metadata
    job_created = meta.annotations.get(JOB_CREATED_AT, "")
    if facts.created >= min(job_created or "~", meta.creation_timestamp):
        return True
    return not job_created and is_adopted(unit)


def _names_quota_of(unit: QueueUnit, labels: Mapping[str, str]) -> bool:
    """Return whether labels of a pod name the quota that a unit is charged to.

    A unit without a label is charged to its namespace's quota, and so is a pod without one; a
    released pod has the name of the quota, which the unit's placement has as well.
    """
    own = unit.metadata.labels
    of_unit, of_pod = read_quota_name(own), read_quota_name(labels)
    if of_unit == of_pod:
        # For an ElasticQuotaTree another label may name the node.
        nodes = {read_tree_quota_name(own), read_tree_quota_name(labels)} - {""}
        return len(nodes) <= 1
    if of_unit:
        return False
    placement = unit.status.placement
    if placement is not None:
        return placement.quota == of_pod
    return is_booked(unit)  # admitted by an older version, which wrote no placement


def _rank(facts: PodFacts, unit: QueueUnit) -> tuple[bool, bool, str]:
    return (not _names_quota_of(unit, facts.labels), not is_booked(unit), unit.metadata.key)


def _owners_of_pods(unit: QueueUnit) -> tuple[Uid, ...]:
    """Return the uids of the controllers of its pods, each once, even if the job is listed too."""
    consumer = unit.spec.consumer_ref
    own = (consumer.uid,) if consumer is not None and consumer.uid else ()
    return tuple(dict.fromkeys((*own, *unit.status.pod_owners)))


def _has_same_owners(before: QueueUnit, after: QueueUnit) -> bool:
    """Return whether the pods of two versions of a unit have the same controllers."""
    return (
        before.spec.consumer_ref == after.spec.consumer_ref
        and before.status.pod_owners == after.status.pod_owners
    )


def _has_same_pods(before: QueueUnit, after: QueueUnit) -> bool:
    """Return whether two versions of a unit with the same owners have the same pods."""
    old, new, was, now = before.metadata, after.metadata, before.status, after.status
    return (
        old.uid == new.uid
        and old.annotations == new.annotations  # when the job was created
        and old.labels == new.labels  # which quota
        and was.placement == now.placement
        and (was.phase == now.phase or is_booked(before) == is_booked(after))
        and (was.conditions == now.conditions or is_adopted(before) == is_adopted(after))
    )


def is_stray(group: Group) -> bool:
    """Return whether a group is of pods that name a unit to which they do not belong."""
    return group.startswith(STRAY)


def group_of_strays(unit_key: str, labels: Mapping[str, str]) -> Group:
    """Return the group of strays that name a unit, by the labels that plugins read."""
    quota, node = read_quota_name(labels), read_tree_quota_name(labels)
    in_quota, at_node = f" in quota {quota}" if quota else "", f" at node {node}" if node else ""
    return f"{STRAY}{unit_key}{in_quota}{at_node}"


def _without_zeros(amounts: Amounts) -> Amounts:
    return {resource: amount for resource, amount in amounts.items() if amount}


def _discard(index: dict[_Key, dict[str, None]], at: _Key, key: str) -> None:
    """Remove `key` from the set at `at`, and the set from the index when it is empty."""
    members = index.get(at)
    if members is None:
        return
    members.pop(key, None)
    if not members:
        del index[at]
