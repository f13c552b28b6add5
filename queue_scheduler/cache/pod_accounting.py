"""Which unit each living pod belongs to: each is counted exactly once, for a unit or as foreign.

A pod names a unit of its own namespace by its annotation `koord-queue/related-queueunit`, or
without one by its controller, if that is a unit itself. It belongs to the unit that it names. If it
names none, or if there is no such unit (a job's unit may be recreated under another name), it
belongs to a unit by its controller: the unit's consumer, or one of the unit's `podOwners`. Every
user who may create a pod may annotate it. So for a pod with another controller the annotation
counts only if the pod's labels name the quota of the unit: by its annotation alone, no pod is
charged to a quota that koord-scheduler does not charge.

A label on a living pod may be changed, and a webhook may have set another one. A pod of a unit
whose labels name another quota than the unit's is *elsewhere*: it is charged to the quota that it
names, by itself, as koord-scheduler charges it. The unit knows of it, and does not stand for it.

A unit occupies at least what its living pods ask for, even if its phase says that it occupies
nothing any longer: ended, evicted, deleted. A *stray* is a pod that names a unit that is not its
own, or does not exist, and belongs to no other: it is charged to the quota that it names, in every
mode, until it is gone. So is a pod whose unit has moved to another quota while it is pending. All
other pods are foreign.

Units are identified by uid. A unit that was recreated under its old name does not inherit pods that
are older, by whole seconds, than itself and its job, unless they are its own by the uid of their
controller: the clocks of API servers differ. Nor does an adopted unit, if it records when its job
was created. A pod of a unit stays with it when the unit is gone, until it is found to belong to
another. A pod that is held by the queue's gate is not here: see `held_pods`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from sys import intern
from typing import Final, NamedTuple, TypeVar

import msgspec

from queue_scheduler.cache.living_pods import LivingCounts, PodShape, sum_of
from queue_scheduler.cache.moved_pods import (
    Group,
    MovedPods,
    group_elsewhere,
    is_elsewhere,
    quotas_named_by,
    unit_of_group,
    words_of,
)
from queue_scheduler.cache.unit_demand import bounded
from queue_scheduler.cache.unit_owners import UnitOwners, owners_of_pods
from queue_scheduler.framework.queue_unit_info import Occupancy
from queue_scheduler.quota.quota_decision import PodStage
from shared_api.objects.meta import NO_UID, ObjectMeta, OwnerReference, Timestamp, Uid
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import API_VERSION, KIND, QueueUnit
from shared_api.pod_requests import pod_requests
from shared_api.quantity import QuantityError
from shared_api.queue_unit_phases import is_adopted, occupies_quota
from shared_api.resource_list import Amounts
from shared_api.well_known_labels import (
    ADMISSION_GATE,
    JOB_CREATED_AT,
    NOT_PREEMPTIBLE,
    PREEMPTIBLE,
    RELATED_POD_SET,
    RELATED_QUEUE_UNIT,
    read_annotation,
    read_quota_name,
    read_tree_quota_name,
)

STRAY = "stray:"
"""Prefix of the groups of strays. The key of the named unit follows, and the quotas and trees that
the pods name: units of one name may have had several, one after another."""

UNSCHEDULABLE: Final = "Unschedulable"
"""Reason of the condition PodScheduled where no node takes the pod."""

_Key = TypeVar("_Key", bound=str)


class PodFacts(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a living pod; amounts of zero are left out of `request`.

    `node` is the node that it is bound to; "": none. `is_tried`: a scheduler has tried to bind it.
    `pod_set` is the pod set that its release has marked it with; "": none. `ends`: whether it was
    deleted, and still has its grace period.
    """

    uid: Uid
    namespace: str
    unit_key: str
    owner: Uid
    created: Timestamp
    labels: dict[str, str]
    request: Amounts
    node: str
    stage: PodStage
    is_tried: bool
    pod_set: str = ""
    ends: bool = False

    @property
    def bound(self) -> bool:
        """Whether it is bound to a node."""
        return bool(self.node)


class CountedPod(NamedTuple):
    """What is counted under the name of a pod.

    Attributes:
        facts: What is kept of it, or None if it is not counted.
        group: The group that it is in.
        right_group: The group that it belongs to.
        unit_key: The key of the unit of `right_group`; "": that is gone, or there is none.
    """

    facts: PodFacts | None
    group: Group
    right_group: Group
    unit_key: str


FindUnit = Callable[[str], QueueUnit | None]
"""Returns the newest known unit by `namespace/name`."""


class PodAccounting:
    """Groups living pods by unit, and reports which groups changed.

    Args:
        find_unit: Finds known units; one that `on_unit` is just being called for may be missing.

    Attributes:
        counts: How many living pods of each shape a group has.
        moved: The pods of units that are elsewhere.
    """

    def __init__(self, find_unit: FindUnit) -> None:
        self._find_unit = find_unit
        self._arriving: QueueUnit | None = None
        self._pods: dict[str, PodFacts] = {}
        self._group_of: dict[str, Group] = {}
        self._members: dict[Group, dict[str, None]] = {}
        self.counts = LivingCounts()
        self.moved = MovedPods()
        self._by_unit_key: dict[str, dict[str, None]] = {}
        self._by_owner: dict[Uid, dict[str, None]] = {}
        # Of groups with members, or a change that is not taken yet; the unit may be gone.
        self._unit_key_of: dict[Group, str] = {}
        self.owners = UnitOwners()
        self._changed_groups: dict[Group, None] = {}
        self._changed_foreign: dict[str, None] = {}

    # --- facts --------------------------------------------------------------------------------

    def on_unit(self, unit: QueueUnit, before: QueueUnit | None) -> None:
        """Take a new or changed unit; pods that arrived before it are grouped again.

        Args:
            unit: The unit as it is now.
            before: Its previous object, or None if it is new.
        """
        if before is None or not _has_same_owners(before, unit):
            if before is not None:
                self.owners.forget(before)
            self.owners.put(unit)
        elif not self._pods or _has_same_pods(before, unit):
            return
        self._arriving = unit
        self._regroup_pods_of(unit)
        self._arriving = None

    def on_unit_gone(self, unit: QueueUnit) -> None:
        """Forget a deleted unit; its living pods keep the group of its uid."""
        self.moved.forget_unit(unit.metadata.key)
        self.owners.forget(unit)
        self._regroup_pods_of(unit)

    def on_pod(self, pod: Pod, of: Uid = NO_UID) -> str | None:
        """Take a new or changed pod; return what is newly wrong with its requests, if anything.

        Args:
            pod: The pod.
            of: The unit that a new pod belonged to before that unit was gone, or NO_UID.
        """
        key = pod.metadata.key
        facts, problem = read_counted(pod)
        if facts is None:
            self.on_pod_gone(pod)
            return None
        known = self._pods.get(key)
        if known == facts:
            return None
        before: Group = of
        if known is not None:
            before = self._group_of[key] if known.uid == facts.uid else ""
            before = _moved(before, known, facts)
            self._forget_pod(key, known)
        self._pods[key] = facts
        if facts.unit_key:
            self._by_unit_key.setdefault(facts.unit_key, {})[key] = None
        if facts.owner:
            self._by_owner.setdefault(facts.owner, {})[key] = None
        current, unit_key = self._find_group(facts)
        group = self._settled(facts, before, current)
        self._join(key, group, unit_key if group == current else "")
        return problem

    def on_pod_gone(self, pod: Pod) -> None:
        """Forget a pod that is gone or has ended; another one under its name stays."""
        key = pod.metadata.key
        facts = self._pods.get(key)
        if facts is not None and facts.uid == pod.metadata.uid:
            self._forget_pod(key, facts)

    # --- questions ----------------------------------------------------------------------------

    def living(self, group: Group) -> Occupancy:
        """Return what a group's living pods ask for together; amounts of zero are left out."""
        return sum_of(self.counts.of(group))

    def has_living(self, group: Group) -> bool:
        """Return whether a pod of the group lives."""
        return group in self._members

    def pods_of(self, group: Group) -> list[tuple[str, Uid]]:
        """Return the living pods of a group, as (`namespace/name`, uid); a unit's are all of it."""
        groups = (group, *self.moved.groups_of(group))
        keys = [key for each in groups for key in self._members.get(each, ())]
        return [(key, self._pods[key].uid) for key in keys]

    def pods_on(self, node: str) -> list[tuple[str, str]]:
        """Return the living pods on a node, as (`namespace/name`, the key of its unit or "")."""
        return [
            (key, self._unit_key_of.get(self._group_of[key], ""))
            for key, facts in self._pods.items()
            if facts.node == node
        ]

    def labels_of(self, group: Group) -> tuple[str, dict[str, str]]:
        """Return (namespace, labels) of the pod of a living group that is first by name."""
        facts = self._pods[min(self._members[group])]
        return facts.namespace, facts.labels

    def __iter__(self) -> Iterator[str]:
        return iter(self._pods)

    def find(self, key: str, fresh: PodFacts | None) -> CountedPod:
        """Return what is counted under `namespace/name`, and where a pod of that name belongs.

        `fresh`: what should be counted by the pod's newest object, or None for what is counted.
        """
        counted, group = self._pods.get(key), self._group_of.get(key, "")
        facts = counted if fresh is None else fresh
        if facts is None:
            return CountedPod(None, "", "", "")
        current, unit_key = self._find_group(facts)
        is_same = counted is not None and counted.uid == facts.uid
        right = self._settled(facts, group if is_same else "", current)
        if right != current:
            unit_key = self._unit_key_of.get(right, "")
        return CountedPod(counted, group, right, unit_key)

    @property
    def has_changed(self) -> bool:
        """Return whether there is something to take."""
        return bool(self._changed_groups or self._changed_foreign)

    def groups(self) -> list[tuple[Group, str]]:
        """Return the groups that have living pods, with the keys of their units ("": none)."""
        return [(group, self._unit_key_of.get(group, "")) for group in self._members]

    def take_changed_groups(self) -> list[tuple[Group, str]]:
        """Return, once, the groups whose living pods changed, with the keys of their units."""
        changed = [(group, self._unit_key_of.get(group, "")) for group in self._changed_groups]
        for group in self._changed_groups:
            if group not in self._members:
                self._unit_key_of.pop(group, None)
        self._changed_groups.clear()
        return changed

    def take_changed_foreign(self) -> list[tuple[str, PodFacts | None]]:
        """Return, once, the foreign pods that came, changed or went (None)."""
        changed = [(key, self._foreign(key)) for key in self._changed_foreign]
        self._changed_foreign.clear()
        return changed

    def fork(self, find_unit: FindUnit) -> PodAccounting:
        """Return an independent copy that shares what is kept of pods."""
        twin = PodAccounting(find_unit)
        twin._pods = dict(self._pods)
        twin._group_of = dict(self._group_of)
        twin._members = {group: dict(keys) for group, keys in self._members.items()}
        twin.counts = self.counts.fork()
        twin.moved = self.moved.fork()
        twin._by_unit_key = {key: dict(keys) for key, keys in self._by_unit_key.items()}
        twin._by_owner = {owner: dict(keys) for owner, keys in self._by_owner.items()}
        twin._unit_key_of = dict(self._unit_key_of)
        twin.owners = self.owners.fork()
        twin._changed_groups = dict(self._changed_groups)
        twin._changed_foreign = dict(self._changed_foreign)
        return twin

    def validate(self) -> None:
        """Raise AssertionError unless every pod is in exactly one group."""
        members = {key: group for group, keys in self._members.items() for key in keys}
        counted = {key: group for key, group in self._group_of.items() if group}
        assert members == counted, f"groups differ: {members} and {counted}"
        assert self._group_of.keys() == self._pods.keys(), "pods without a group"
        shapes: dict[Group, dict[PodShape, int]] = {group: {} for group in self._members}
        for key, group in counted.items():
            shape = _shape_of(self._pods[key])
            shapes[group][shape] = shapes[group].get(shape, 0) + 1
        self.counts.validate(shapes)
        self.moved.validate(self._members)
        for key in self._group_of:
            pod = self.find(key, None)
            is_right = pod.group == pod.right_group
            assert is_right, f"pod {key} is with {pod.group}, not {pod.right_group}"

    # --- inside -------------------------------------------------------------------------------

    def _unit(self, key: str) -> QueueUnit | None:
        arriving = self._arriving
        if arriving is not None and arriving.metadata.key == key:
            return arriving
        return self._find_unit(key)

    def _find_unit_of(self, facts: PodFacts) -> QueueUnit | None:
        """Return the unit that a pod is of, whichever quota it names, or None."""
        unit = self._unit(facts.unit_key) if facts.unit_key else None
        if unit is not None:
            return unit if _is_own(facts, unit) else None
        keys = self.owners.units_of(facts.owner) if facts.owner else ()
        units = [each for key in keys if (each := self._unit_beside(facts, key)) is not None]
        if len(units) > 1:
            # A mistake, or a trick: every process must choose the same one, the likeliest.
            units.sort(key=lambda unit: _rank(facts, unit))
        return units[0] if units else None

    def _unit_beside(self, facts: PodFacts, key: str) -> QueueUnit | None:
        """Return a unit if it is in the pod's namespace: others must not affect the pod."""
        return self._unit(key) if key.startswith(f"{facts.namespace}/") else None

    def _find_group(self, facts: PodFacts) -> tuple[Group, str]:
        """Return the group that a pod is of, and the key of the unit that it is of ("": none)."""
        unit = self._find_unit_of(facts)
        if unit is not None:
            return _group_in(unit, facts), unit.metadata.key
        return group_of_strays(facts.unit_key, facts.labels) if facts.unit_key else "", ""

    def _settled(self, facts: PodFacts, before: Group, current: Group) -> Group:
        """Return the group of a pod that was in `before`, and is in `current` by its object.

        A pod of a unit, even of one that is gone, does not become foreign. But if its unit is in
        another quota by now, it is charged where its own labels say, as after a restart.
        """
        is_unit = bool(current) and not is_stray(current)
        was_unit = bool(before) and not is_stray(before)
        if not was_unit or is_unit:
            return current
        if is_elsewhere(before):
            return current or group_elsewhere(unit_of_group(before), facts.labels)
        named = self._unit(facts.unit_key) if facts.unit_key else None
        return current if named is not None and named.metadata.uid == before else before

    def _regroup_pods_of(self, unit: QueueUnit) -> None:
        if not self._pods:
            return
        touched = dict(self._by_unit_key.get(unit.metadata.key, {}))
        for owner in owners_of_pods(unit):
            touched.update(self._by_owner.get(owner, {}))
        for key in touched:
            self._regroup(key)

    def _regroup(self, key: str) -> None:
        facts = self._pods[key]
        group = self._group_of[key]
        current, unit_key = self._find_group(facts)
        settled = self._settled(facts, group, current)
        if settled != group:
            self._leave(key, facts)
            self._join(key, settled, unit_key if settled == current else "")

    def _join(self, key: str, group: Group, unit_key: str) -> None:
        """Add a pod to a group; `unit_key` is the key of the group's unit, "" if it is gone."""
        self._group_of[key] = group
        if group:
            if unit_key:
                self._unit_key_of[group] = unit_key
            self._members.setdefault(group, {})[key] = None
            self.counts.add(group, _shape_of(self._pods[key]), 1)
            self._changed_groups[group] = None
            if is_elsewhere(group):
                self.moved.join(group, unit_key)
        else:
            self._changed_foreign[key] = None

    def _leave(self, key: str, facts: PodFacts) -> None:
        group = self._group_of.pop(key)
        if not group:
            self._changed_foreign[key] = None
            return
        _discard(self._members, group, key)
        self.counts.add(group, _shape_of(facts), -1)
        self._changed_groups[group] = None
        if is_elsewhere(group) and group not in self._members:
            self.moved.leave(group, self._unit_key_of.get(group, ""))

    def _forget_pod(self, key: str, facts: PodFacts) -> None:
        del self._pods[key]
        _discard(self._by_unit_key, facts.unit_key, key)
        _discard(self._by_owner, facts.owner, key)
        self._leave(key, facts)

    def _foreign(self, key: str) -> PodFacts | None:
        facts = self._pods.get(key)
        return None if facts is None or self._group_of[key] else facts


def read_stage(pod: Pod) -> PodStage:
    """Return how far a living pod is, by its own object."""
    if pod.spec.node_name:
        return PodStage.BOUND
    if pod.has_gate(ADMISSION_GATE):
        return PodStage.HELD
    scheduled = pod.scheduled
    is_refused = scheduled is not None and scheduled.reason == UNSCHEDULABLE
    return PodStage.STUCK if is_refused or pod.spec.scheduling_gates else PodStage.PENDING


def read_counted(pod: Pod) -> tuple[PodFacts | None, str | None]:
    """Return what is counted of a pod, or None, and what is wrong with its requests.

    A pod that has ended is not counted, nor one that is held by the queue's gate (`held_pods`).
    Requests that cannot be read count as none.
    """
    if not pod.is_living or pod.has_gate(ADMISSION_GATE):
        return None, None
    try:
        return _facts_of_pod(pod, bounded(pod_requests(pod.spec))), None
    except QuantityError as error:
        return _facts_of_pod(pod, {}), str(error)


def _facts_of_pod(pod: Pod, request: Amounts) -> PodFacts:
    meta = pod.metadata
    owner = meta.controller_owner
    return PodFacts(
        uid=meta.uid,
        namespace=meta.namespace,
        unit_key=_named_unit(meta, owner),
        owner=owner.uid if owner else NO_UID,
        created=meta.creation_timestamp,
        labels=meta.labels,
        request=_without_zeros(request),
        node=intern(pod.spec.node_name),
        stage=read_stage(pod),
        is_tried=pod.scheduled is not None,
        pod_set=intern(read_annotation(meta.annotations, RELATED_POD_SET) or ""),
        ends=pod.is_terminating,
    )


def _shape_of(facts: PodFacts) -> PodShape:
    is_firm = facts.labels.get(PREEMPTIBLE) == NOT_PREEMPTIBLE
    return PodShape(tuple(facts.request.items()), facts.pod_set, facts.ends, is_firm)


def _named_unit(meta: ObjectMeta, owner: OwnerReference | None) -> str:
    """Return the key of the unit that a pod names in its own namespace, or ""; `owner` controls it.

    The annotation comes first. Whoever makes pods for a unit made by hand may have the unit control
    them, and annotate nothing. The controllers, which make no such pods, know the annotation only.
    """
    key = read_annotation(meta.annotations, RELATED_QUEUE_UNIT) or ""
    if key.startswith(f"{meta.namespace}/"):
        return key
    if owner is not None and (owner.api_version, owner.kind) == (API_VERSION, KIND):
        return f"{meta.namespace}/{owner.name}"
    return ""


def _is_own(facts: PodFacts, unit: QueueUnit) -> bool:
    """Return whether a pod that names a unit of its namespace belongs to it.

    It does if its controller is the unit, or one of the unit's: a uid needs no clock. Otherwise its
    labels must name a quota, and it must not belong to an earlier unit of that name. If they name
    another quota than the unit's, it is elsewhere (`_group_in`). Pods that are queued themselves
    are older than their unit, and not older than their job. So are the pods of a job that ran
    before it had a unit; a unit that was made by hand does not record when that job was created.
    """
    if facts.owner != NO_UID and facts.owner in (unit.metadata.uid, *owners_of_pods(unit)):
        return True
    if not (_names_quota_of(unit, facts.labels) or _names_any_quota(facts.labels)):
        return False
    meta = unit.metadata
    job_created = meta.annotations.get(JOB_CREATED_AT, "")
    if facts.created >= min(job_created or "~", meta.creation_timestamp):
        return True
    return not job_created and is_adopted(unit)


def _group_in(unit: QueueUnit, facts: PodFacts) -> Group:
    """Return the group of a pod of a unit: the unit's own, unless it names another quota.

    A pod whose label was removed stays: it names no quota, and many never had a label.
    """
    uid = unit.metadata.uid
    if _names_quota_of(unit, facts.labels) or not _names_any_quota(facts.labels):
        return uid
    return group_elsewhere(uid, facts.labels)


def _names_any_quota(labels: Mapping[str, str]) -> bool:
    return bool(read_quota_name(labels))


def _moved(before: Group, known: PodFacts, facts: PodFacts) -> Group:
    """Return the group in which a pod was, if its labels still name the quota that they named.

    Otherwise it is elsewhere from now on, unless its unit is known and says that it is its own.
    """
    if not before or known.labels == facts.labels or is_stray(before):
        return before
    if quotas_named_by(known.labels) == quotas_named_by(facts.labels):
        return before
    return group_elsewhere(unit_of_group(before), facts.labels)


def _names_quota_of(unit: QueueUnit, labels: Mapping[str, str]) -> bool:
    """Return whether labels of a pod name the quota that a unit is charged to.

    A unit without a label is charged to its namespace's quota, and so is a pod without one. A
    released pod has the label; then the unit's placement names the same quota.
    """
    own = unit.metadata.labels
    of_unit, of_pod = read_quota_name(own), read_quota_name(labels)
    if of_unit == of_pod:
        # In an ElasticQuotaTree another label may name the node.
        nodes = {read_tree_quota_name(own), read_tree_quota_name(labels)} - {""}
        return len(nodes) <= 1
    if of_unit:
        return False
    placement = unit.status.placement
    if placement is not None:
        return placement.quota == of_pod
    return occupies_quota(unit)  # by an older version, which wrote no placement


def _rank(facts: PodFacts, unit: QueueUnit) -> tuple[bool, bool, str]:
    return (not _names_quota_of(unit, facts.labels), not occupies_quota(unit), unit.metadata.key)


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
        and old.annotations == new.annotations  # since when
        and old.labels == new.labels  # of which quota
        and was.placement == now.placement
        and (was.phase == now.phase or occupies_quota(before) == occupies_quota(after))
        and (was.conditions == now.conditions or is_adopted(before) == is_adopted(after))
    )


def has_pods(pods: PodAccounting, uid: Uid) -> bool:
    """Return whether a pod of a unit lives, charged to its quota or elsewhere."""
    return pods.has_living(uid) or bool(pods.moved.groups_of(uid))


def is_stray(group: Group) -> bool:
    """Return whether a group is of pods that name a unit which is not theirs."""
    return group.startswith(STRAY)


def is_charged_by_labels(group: Group) -> bool:
    """Return whether pods of a group are charged to the quota that their own labels name."""
    return is_stray(group) or is_elsewhere(group)


def group_of_strays(unit_key: str, labels: Mapping[str, str]) -> Group:
    """Return the group of pods that name a unit, by what plugins read off their labels."""
    return f"{STRAY}{unit_key}{words_of(labels)}"


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
