"""Carry out what `decide` returned for jobs that are pods: each pod is written by itself.

To release a pod is to take its gate off, in the same patch that names its unit and gives a parked
pod its own quota back; a pod that was ungated by others gets all but the first. To suspend a pod is
to delete it. Each of these writes may be repeated, and the next reconcile continues after a failure
halfway, so the pod's uid is the only guard.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Final, Protocol, cast

import msgspec

from queue_controllers.decision.actions import MarkPods, ReleaseJob, SuspendJob
from queue_controllers.job_families.gated_pods import PodGroup, is_held, is_opened, unparking_patch
from queue_controllers.jobframework.generic_job import GenericJob, pod_set_of_pod, updates_of_stamps
from queue_controllers.jobframework.list_patches import combine_patches
from queue_controllers.jobframework.pod_template import ScheduledPod
from queue_controllers.jobframework.template_updates import TemplateUpdate, update_body
from queue_controllers.reconcile.execute import EventSink, Executor, NotLeadingError, WrittenObjects
from shared_api.client.errors import NotFound
from shared_api.client.resource_client import PatchType, ResourceClient, ResourceType
from shared_api.client.resource_types import PODS
from shared_api.leader_election import Leadership
from shared_api.objects.meta import NO_UID, ObjectMeta, Uid, WireStruct
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import occupies_quota
from shared_api.well_known_labels import (
    ADMISSION_GATE,
    RELATED_POD_SET,
    RELEASED_AT,
    SCHEDULE_ADMISSION,
)

HELD_PODS: Final[ResourceType[ScheduledPod]] = ResourceType(
    PODS.group,
    PODS.version,
    PODS.plural,
    PODS.kind,
    namespaced=True,
    object_type=ScheduledPod,
)
"""Pods with all fields that affect their placement."""

_OPEN: Final = {"schedulingGates": [{"$patch": "delete", "name": ADMISSION_GATE}]}
_OPEN_BY_LABEL: Final = {"labels": {SCHEDULE_ADMISSION: "true"}}
_NO_UPDATE: Final = TemplateUpdate()
_NO_SET: Final = {"metadata": {"annotations": {RELATED_POD_SET: None}}}
"""Takes off the set that a pod names which was made of the manifest of another. Where a job has
several sets, the stamp names the pod's own."""


class _ObjectSpec(WireStruct, frozen=True):
    """`spec` of such an object."""

    replicas: int = 0


class _Object(WireStruct, frozen=True):
    """The object of a job, as far as it is read."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _ObjectSpec = _ObjectSpec()


class PodGroups(Protocol):
    """The cache of jobs that are made of pods."""

    def get(self, key: str) -> PodGroup | None:
        """Return the job with this key (`namespace/name`), built from its existing pods."""

    def note_written(self, written: ScheduledPod) -> bool:
        """Store a pod that the API server returned."""

    def note_deleted(self, pod: ScheduledPod) -> None:
        """Note that this process has deleted a pod."""


class GatedPodExecutor(Executor[PodGroup]):
    """Sends the writes of one extension whose jobs are pods.

    Args:
        adapter: The facts of the kind.
        client: Sends the writes.
        leadership: Whether this process may write.
        events: Records events for users.
        groups: The cache of jobs.
        units: The cache of units.
        labels_opened: Whether an ungated pod is labeled "may be scheduled", too.
    """

    def __init__(
        self,
        adapter: GenericJob[PodGroup],
        client: ResourceClient,
        leadership: Leadership,
        events: EventSink,
        *,
        groups: PodGroups,
        units: WrittenObjects[QueueUnit],
        labels_opened: bool = False,
    ) -> None:
        super().__init__(adapter, client, leadership, events, jobs=_Nothing(), units=units)
        self._groups = groups
        self._opened_metadata: dict[str, Any] = _OPEN_BY_LABEL if labels_opened else {}
        self._object_type = cast(
            "ResourceType[_Object]", msgspec.structs.replace(self.job_type, object_type=_Object)
        )

    def _about(self, job: PodGroup, pod: Uid = NO_UID, /) -> tuple[ResourceType[Any], ObjectMeta]:
        """Return the object of the job, or this pod, or else the first, if it has none."""
        if self._adapter.kind.has_object:
            return super()._about(job)
        named = (each.metadata for each in job.pods if each.metadata.uid == pod)
        return HELD_PODS, next(named, job.first.metadata)

    def _suspend(self, action: SuspendJob, job: PodGroup) -> None:
        for pod in job.pods:
            if is_held(pod) or pod.is_terminating or not pod.is_living:
                continue
            self._check_lead()
            meta = pod.metadata
            with contextlib.suppress(NotFound):  # its watch event will come
                self._client.delete(HELD_PODS, meta.namespace, meta.name, uid=meta.uid)
            self._groups.note_deleted(pod)

    def _release(self, action: ReleaseJob, job: PodGroup) -> None:
        stamps = updates_of_stamps(action.stamps)
        metadata = {**self._opened_metadata, "annotations": {RELEASED_AT: action.released_at}}
        for pod in job.pods:
            name = action.pods.get(pod.metadata.uid)
            if name is None:
                continue
            self._check_lead()
            self._patch_pod(
                pod,
                _NO_SET,
                update_body(stamps.get(name, _NO_UPDATE)),
                update_body(action.updates.get(name, _NO_UPDATE)),
                {"metadata": metadata, "spec": _OPEN},
            )

    def _mark(self, action: MarkPods, job: PodGroup) -> None:
        stamps = updates_of_stamps(action.stamps)
        marks = {"metadata": {"annotations": {RELEASED_AT: action.released_at}}}
        for pod in filter(is_opened, job.pods):
            self._check_lead()
            name = pod_set_of_pod(self._adapter, pod, tuple(stamps))
            self._patch_pod(pod, update_body(stamps.get(name, _NO_UPDATE)), marks)

    def _patch_pod(self, pod: ScheduledPod, *patches: dict[str, Any]) -> None:
        meta = pod.metadata
        patches = (unparking_patch(pod), *patches, {"metadata": {"uid": meta.uid}})
        body = functools.reduce(combine_patches, patches)
        written = self._client.patch(
            HELD_PODS, meta.namespace, meta.name, body, patch_type=PatchType.STRATEGIC
        )
        self._groups.note_written(written)

    def _check_lead(self) -> None:
        """Raise NotLeadingError unless a write that begins now ends while this process leads.

        Called before each pod: the writes of a large job may take longer than the lease lasts.
        """
        if not self.may_write():
            raise NotLeadingError

    def read_job(self, namespace: str, name: str) -> PodGroup | None:
        """Read the first pod of a job from the server; None if no pod of it exists.

        None, too, if the owner of the pods is gone or being deleted: they may outlive it for as
        long as they take to stop, and a unit that is created for them would be garbage-collected at
        once.
        """
        group = self._groups.get(f"{namespace}/{name}")
        if group is None or not self._has_maker(group):
            return None
        meta = group.first.metadata
        try:
            found = self._client.get(HELD_PODS, meta.namespace, meta.name)
        except NotFound:
            return group if len(group.pods) > 1 else None
        self._groups.note_written(found)
        return self._groups.get(f"{namespace}/{name}")

    def _has_maker(self, job: PodGroup) -> bool:
        """Return whether the object that creates the pods stays, if that is the job's own."""
        meta = job.metadata
        if not self._adapter.kind.has_object or meta.uid == job.first.metadata.uid:
            return True
        return self._read_object(meta.namespace, meta.name, meta.uid) is not None

    def awaits_pods(self, unit: QueueUnit) -> bool:
        """Return whether an uncharged unit belongs to an object that creates pods again.

        Between the last pod and the next there is nothing to build the job from. What was decided
        about it (deactivated, backing off, its priority) stands on the unit.
        """
        consumer = unit.spec.consumer_ref
        if not self._adapter.kind.has_object or consumer is None or occupies_quota(unit):
            return False
        found = self._read_object(unit.metadata.namespace, consumer.name, consumer.uid)
        return found is not None and found.spec.replicas > 0

    def _read_object(self, namespace: str, name: str, uid: Uid) -> _Object | None:
        """Read the object of a job from the server; None if it is gone or being deleted."""
        try:
            found = self._client.get(self._object_type, namespace, name)
        except NotFound:
            return None
        stays = found.metadata.uid == uid and found.metadata.deletion_timestamp is None
        return found if stays else None


class _Nothing:
    """A cache of job objects for jobs that have none."""

    def note_written(self, written: PodGroup) -> bool:
        """Store nothing."""
        return False
