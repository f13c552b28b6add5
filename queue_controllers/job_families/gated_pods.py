"""Jobs that are only pods: one pod, or several that start together. Pure.

Such a job has no suspend field. It is held by the scheduling gate `koord-queue/admission` on each
pod, which can only be set when the pod is created; removing it releases the pod, and cannot be
undone: to stop a pod is to delete it. Its controller may create a new one.

There is no object for such a job, either. It is described by its existing pods: `PodGroup` is built
whenever it is read.
"""

from __future__ import annotations

import functools
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, final

import msgspec

from queue_controllers.jobframework.generic_job import (
    JobKind,
    JobPodSet,
    OtherObject,
    Outcome,
    PodStamp,
    PrioritySource,
    StatusFacts,
)
from queue_controllers.jobframework.pod_template import (
    ScheduledPod,
    ScheduledPodSpec,
    ScheduledPodTemplate,
    template_body,
)
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import ObjectMeta, OwnerReference, Timestamp, Uid
from shared_api.objects.pod import Pod, TemplateMeta
from shared_api.pod_requests import has_equal_requests, pod_requests
from shared_api.quantity import QuantityError
from shared_api.resource_list import fits
from shared_api.well_known_labels import (
    ADMISSION_GATE,
    PARKED_FROM,
    PARKED_IN,
    QUOTA_NAME,
    RELATED_POD_SET,
    RELATED_QUEUE_UNIT,
    RELEASED_AT,
    SCHEDULE_ADMISSION,
    STAMPED_PREEMPTIBLE,
    STAMPED_QUOTA,
    SUBMITTED_BY,
    read_queue_name,
    spellings,
)

_OWN_MARKS: Final = frozenset(
    key
    for mark in (
        *(RELATED_QUEUE_UNIT, RELATED_POD_SET, STAMPED_QUOTA, STAMPED_PREEMPTIBLE),
        *(PARKED_IN, PARKED_FROM),
    )
    for key in spellings(mark)
)
"""Annotations that a release or the gate puts on a pod: they do not come from its user."""

MAX_REMEMBERED: Final = 1024
"""Shapes and orders of names: pods of a group mostly are alike, and all of it is
needed at each reconcile."""

MAX_SPEC_BYTES: Final = 32 << 10
"""Longest spec whose shape is remembered, 32 MiB in all: the usual ones have some kB. Users may
write more than a MB."""

_DIGITS: Final = re.compile(r"([0-9]+)")


class PodGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of one job, in a fixed order, and metadata as if it were an object."""

    metadata: ObjectMeta
    """Labels and annotations are the first pod's; uid and creation time are the group's."""
    pods: tuple[ScheduledPod, ...]
    """Its pods: those that may yet run first, then by age, the oldest first."""
    other: Any = None
    """The object that says how many pods there will be, once it is read."""

    @property
    def first(self) -> ScheduledPod:
        """The pod that represents the group."""
        return self.pods[0]


class SizingKind(NamedTuple):
    """A kind whose objects say how many pods a job has.

    Attributes:
        group: Its API group.
        version: Its version.
        plural: Its resource.
        kind: Its name.
        object_type: What is read of such an object: `metadata`, and of its `spec` the size alone.
    """

    group: str
    version: str
    plural: str
    kind: str
    object_type: type[Any]


class Sizer(NamedTuple):
    """The object, in the namespace of a pod, that says how many pods its job has.

    Attributes:
        kind: Its kind, one of the adapter's `sizing_kinds`.
        name: Its name.
    """

    kind: SizingKind
    name: str


def is_held(pod: Pod) -> bool:
    """Return whether the queue holds a pod back."""
    return pod.has_gate(ADMISSION_GATE)


def is_opened(pod: Pod) -> bool:
    """Return whether a pod lives without its gate that the queue has not released."""
    is_on_its_way = pod.is_living and not pod.is_terminating and not is_held(pod)
    return is_on_its_way and RELEASED_AT not in pod.metadata.annotations


def is_parked(pod: Pod) -> bool:
    """Return whether a pod's quota label names the parking quota, and its own is noted.

    Once it is released the note says nothing: another program wrote it. Nor does it beside another
    label: that is the pod's own, set since.
    """
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    if PARKED_FROM not in annotations or not annotations.get(PARKED_IN):
        return False
    if annotations[PARKED_IN] != labels.get(QUOTA_NAME):
        return False
    return is_held(pod) or RELEASED_AT not in annotations


def unparking_patch(pod: Pod) -> dict[str, Any]:
    """Return the merge patch that gives a parked pod its own quota label back, and ends the note.

    Without a label of its own it has none afterwards, unless a stamp sets it. Any other pod keeps
    its label.
    """
    annotations = pod.metadata.annotations
    noted = annotations.keys() & {PARKED_IN, PARKED_FROM}
    metadata: dict[str, Any] = {"annotations": dict.fromkeys(sorted(noted))} if noted else {}
    if is_parked(pod):
        metadata["labels"] = {QUOTA_NAME: annotations[PARKED_FROM] or None}
    return {"metadata": metadata} if metadata else {}


def is_candidate(pod: Pod) -> bool:
    """Return whether a pod takes part in the queue: held, released, or by its queue's name.

    The quota's label alone does not count: it is koord-scheduler's, and on any pod.
    """
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    if is_held(pod) or RELEASED_AT in annotations:
        return True
    return bool(read_queue_name(labels, annotations))


class GatedPods(ABC):
    """A `GenericJob` whose jobs are only pods, held by the gate on each of them.

    A kind says which pods are a job, what they ask for and how they end. What is final here is the
    same for all of them. All patches are empty: `gated_pod_executor` writes pods one by one.
    """

    kind: ClassVar[JobKind]
    object_type: ClassVar[type[PodGroup]] = PodGroup
    sizing_kinds: ClassVar[tuple[SizingKind, ...]] = ()
    """Kinds of the objects that say how many pods a job has: watched where the kind is queued, so
    that a waiting job follows a change of its size."""

    @abstractmethod
    def group_of(self, pod: Pod) -> str:
        """Return the name of the job that the pod is part of, "" if there is none."""

    @abstractmethod
    def pod_set_of(self, pod: Pod) -> str:
        """Return the pod set's name: pods of one set are alike."""

    @abstractmethod
    def gather(self, name: str, pods: Sequence[ScheduledPod]) -> PodGroup:
        """Return the job of its pods, of which there is at least one."""

    @abstractmethod
    def status_of(self, job: PodGroup) -> StatusFacts:
        """Return what the pods say."""

    @abstractmethod
    def pod_sets(self, job: PodGroup) -> tuple[JobPodSet, ...]:
        """Return the pods that the job still needs."""

    def sizer_of(self, pod: Pod) -> Sizer | None:
        """Return the object that says how many pods the pod's job has; None: the pods say it."""
        return None

    @final
    def other_of(self, job: PodGroup) -> OtherObject | None:
        """Return the object that says how many pods the job has, None if the pods say it."""
        sizer = self.sizer_of(job.first)
        return None if sizer is None else object_above(sizer, self.whole_type(sizer), job)

    def whole_type(self, sizer: Sizer) -> type[Any]:
        """Return what is read of that object with the job: more than its size, where needed."""
        return sizer.kind.object_type

    @final
    def is_suspended(self, job: PodGroup) -> bool:
        """Return False: `gates.judge_gates` decides it by the pods."""
        return False

    @final
    def why_not_suspendable(self, job: PodGroup) -> str:
        """Return a pod that was created without its gate, if any; ungated ones do not count."""
        for pod in job.pods:
            if is_opened(pod):
                return f"pod {pod.metadata.name} came without the scheduling gate {ADMISSION_GATE}"
        return ""

    @final
    def priority_of(self, job: PodGroup) -> PrioritySource:
        """Return the first pod's priority: the API server has filled in the number of its class."""
        spec = job.first.spec
        return PrioritySource(class_name=spec.priority_class_name, value=spec.priority)

    @final
    def with_other(self, job: PodGroup, other: Any) -> PodGroup:  # noqa: ANN401 - what was read
        """Return the pods together with the object that says how many there will be."""
        return msgspec.structs.replace(job, other=other)

    @final
    def suspend_patch(self, job: PodGroup) -> dict[str, Any]:
        """Return an empty patch: its pods are deleted."""
        return {}

    @final
    def release_patch(self, job: PodGroup, stamps: Mapping[str, PodStamp]) -> dict[str, Any]:
        """Return an empty patch: gates are removed from its pods."""
        return {}

    @final
    def update_patch(self, job: PodGroup, updates: Mapping[str, TemplateUpdate]) -> dict[str, Any]:
        """Return an empty patch: pods take updates as their gates are removed."""
        return {}


# --- the job of some pods -----------------------------------------------------------------------


def gather_pods(
    name: str, pods: Iterable[ScheduledPod], uid: Uid, deleted_at: Timestamp | None = None
) -> PodGroup:
    """Return the job of its pods.

    Args:
        name: Name of the job.
        pods: At least one, in any order.
        uid: Uid of the job.
        deleted_at: When it was deleted; None for a job that outlives its pods.
    """
    ordered = in_order(pods)
    meta = ordered[0].metadata
    annotations = {k: v for k, v in meta.annotations.items() if k not in _OWN_MARKS}
    if len({pod.metadata.annotations.get(SUBMITTED_BY) for pod in ordered}) > 1:
        # Whoever may create pods may add one to a group of another: then nobody has submitted it.
        annotations.pop(SUBMITTED_BY, None)
    return PodGroup(
        metadata=ObjectMeta(
            name=name,
            namespace=meta.namespace,
            uid=uid,
            generation=len(ordered),
            creation_timestamp=min(pod.metadata.creation_timestamp for pod in ordered),
            deletion_timestamp=deleted_at,
            labels=_own_labels(ordered[0]),
            annotations=annotations,
            owner_references=meta.owner_references,
        ),
        pods=ordered,
    )


def pod_to_admit(pods: Sequence[ScheduledPod]) -> ScheduledPod:
    """Return the pod whose requests those of its set are admitted with.

    What is held is what waits to be admitted. A rollout makes pods of other sizes, one after the
    other, so it is one that no other held pod exceeds: admitted with less, that would wait again.
    Without held pods it is the first.

    Args:
        pods: Those of one set, in their order; at least one.
    """
    held = [pod for pod in pods if is_held(pod) and not pod.is_terminating]
    if not held:
        return pods[0]
    most, *others = held
    for pod in others:
        if not has_equal_requests(most.spec, pod.spec) and _exceeds(pod, most):
            most = pod
    return most


def _exceeds(pod: ScheduledPod, other: ScheduledPod) -> bool:
    """Return whether a pod requests as much of every resource as another, and more of some."""
    try:
        own_requests, others = pod_requests(pod.spec), pod_requests(other.spec)
    except QuantityError:
        return False
    return fits(others, own_requests) and not fits(own_requests, others)


def read_group_status(job: PodGroup, outcome: Outcome | None = None) -> StatusFacts:
    """Return what the pods say; `outcome` is how the job has ended, None if it has not."""
    runs = any(pod.status.phase == "Running" for pod in job.pods)
    return StatusFacts(running=runs, outcome=outcome)


def object_above(sizer: Sizer, object_type: type[Any], job: PodGroup) -> OtherObject:
    """Return the object above a job's pods that says how many there will be.

    Args:
        sizer: Which one.
        object_type: The struct that it is decoded into.
        job: What is known of it with the job.
    """
    kind = sizer.kind
    known = ObjectMeta() if job.other is None else job.other.metadata
    return OtherObject(
        group=kind.group,
        version=kind.version,
        plural=kind.plural,
        kind=kind.kind,
        name=sizer.name,
        object_type=object_type,
        is_child=False,
        uid=known.uid,
        generation=known.generation,
    )


def in_order(pods: Iterable[ScheduledPod]) -> tuple[ScheduledPod, ...]:
    """Return pods in the order in which they represent their group."""
    return tuple(sorted(pods, key=_rank))


def _rank(pod: ScheduledPod) -> tuple[bool, str, tuple[tuple[int, str], ...]]:
    meta = pod.metadata
    is_over = pod.is_terminating or not pod.is_living
    return is_over, meta.creation_timestamp, _natural(meta.name)


@functools.lru_cache(maxsize=MAX_REMEMBERED)
def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Return what sorts w-2 before w-10."""
    parts = _DIGITS.split(name)
    return tuple([(int(part), "") if part.isdecimal() else (0, part) for part in parts])


def _own_labels(pod: ScheduledPod) -> dict[str, str]:
    """Return the labels without the quota that a release has written, and the gate's labels.

    Those describe the gate, and are not from the user: a reservation by the template of a unit that
    carried them would be held, or parked.
    """
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    own = dict(labels) if is_parked(pod) else labels
    if own is not labels:
        own.pop(QUOTA_NAME)
        if quota := annotations[PARKED_FROM]:
            own[QUOTA_NAME] = quota
    is_stamped = STAMPED_QUOTA in annotations
    if not is_stamped and SCHEDULE_ADMISSION not in labels:
        return own
    marks = {SCHEDULE_ADMISSION, QUOTA_NAME} if is_stamped else {SCHEDULE_ADMISSION}
    return {key: value for key, value in own.items() if key not in marks}


def template_of_pod(pod: ScheduledPod) -> ScheduledPodTemplate:
    """Return the template that would create such a pod again."""
    annotations = {k: v for k, v in pod.metadata.annotations.items() if k not in _OWN_MARKS}
    annotations.pop(RELEASED_AT, None)
    meta = TemplateMeta(labels=_own_labels(pod), annotations=annotations)
    return ScheduledPodTemplate(metadata=meta, spec=_spec_of_template(pod.spec))


def _spec_of_template(spec: ScheduledPodSpec) -> ScheduledPodSpec:
    gates = tuple(each for each in spec.scheduling_gates if each.name != ADMISSION_GATE)
    return msgspec.structs.replace(spec, scheduling_gates=gates, node_name="", priority=None)


def shape_of(pod: ScheduledPod) -> str:
    """Return a short name that is equal for pods with equal requests and placement.

    Without names of claims: each pod of a set may have its own.
    """
    spec = msgspec.structs.replace(_spec_of_template(pod.spec), volumes=())
    text = msgspec.json.encode(spec)
    return (_shape_of_text if len(text) <= MAX_SPEC_BYTES else _shape_of_text.__wrapped__)(text)


@functools.lru_cache(maxsize=MAX_REMEMBERED)
def _shape_of_text(text: bytes) -> str:
    """Return the name of the shape of a template with this spec."""
    spec = msgspec.json.decode(text, type=ScheduledPodSpec)
    body = template_body(ScheduledPodTemplate(spec=spec))
    for container in (*body["spec"].get("containers", ()), *body["spec"].get("initContainers", ())):
        container.pop("image", None)
    ordered = msgspec.json.encode(body, order="sorted")
    return f"pods-{hashlib.sha256(ordered).hexdigest()[:6]}"


def controller_of(pod: Pod, group: str, kind: str) -> OwnerReference | None:
    """Return the pod's controller if it is of this group and kind."""
    owner = pod.metadata.controller_owner
    if owner is None or owner.kind != kind:
        return None
    return owner if owner.api_version.partition("/")[0] == group else None
