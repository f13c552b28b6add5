"""Carry out what `decide` returned: one method per action, each one guarded request.

A write is sent only if this process certainly leads until it ends. The server's answer goes into
the caches at once, so the next reconcile does not decide from an older state. Nothing is judged
here: whatever the server refuses is raised to the reconciler.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

import structlog

from queue_controllers.decision.actions import (
    Action,
    CreateUnit,
    DeleteUnit,
    MarkJob,
    MarkPods,
    PatchUnit,
    PatchUnitStatus,
    RecordJobEvent,
    RecordUnitEvent,
    ReleaseJob,
    ResizeJob,
    SuspendJob,
    TouchJob,
)
from queue_controllers.decision.pod_admission import overlay_body
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    GivesFullTemplates,
    JobKind,
    JobT,
    ListsTemplates,
    LocksTemplates,
    RunsWithFewerPods,
    TakesTemplateUpdates,
)
from queue_controllers.jobframework.list_patches import combine_patches, fill_all
from queue_controllers.jobframework.partial_parallelism import Resize
from queue_controllers.jobframework.template_updates import NOTHING_ADDED, read_added, take_off_body
from shared_api.client.errors import Forbidden, NotFound
from shared_api.client.event_recorder import Event, EventType, ObjectReference
from shared_api.client.flow_control import Lane
from shared_api.client.resource_client import WRITE_SECONDS, ResourceClient, ResourceType
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.response_decoding import read_whole
from shared_api.leader_election import Leadership
from shared_api.objects.meta import NO_UID, ObjectMeta, Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import (
    GRANTED_COUNT,
    MARKED_UID,
    POD_SET_UPDATES,
    RELEASED_AT,
    RELEASED_PARALLELISM,
    SUSPEND,
    TOUCHED_AT,
)

_ObjectT_contra = TypeVar("_ObjectT_contra", contravariant=True)

log = structlog.get_logger("job_actions")


class NotLeadingError(Exception):
    """A write was not sent, because this process may stop leading before it ends."""


class WrittenObjects(Protocol[_ObjectT_contra]):
    """The cache that receives this process's own writes."""

    def note_written(self, written: _ObjectT_contra) -> bool:
        """Store the object that the API server returned: the next reconcile reads it there."""


class EventSink(Protocol):
    """A sink for events; never blocks, never raises."""

    def record(self, event: Event) -> None:
        """Record an event on an object."""


def job_type_of(adapter: GenericJob[JobT]) -> ResourceType[JobT]:
    """Return how the jobs of a kind are read from the API server."""
    kind = adapter.kind
    return ResourceType(
        kind.group,
        kind.version,
        kind.plural,
        kind.kind,
        namespaced=True,
        object_type=adapter.object_type,
    )


class Executor(Generic[JobT]):
    """Sends the writes of one extension. Used from all of its workers."""

    def __init__(
        self,
        adapter: GenericJob[JobT],
        client: ResourceClient,
        leadership: Leadership,
        events: EventSink,
        *,
        jobs: WrittenObjects[JobT],
        units: WrittenObjects[QueueUnit],
        full_pod_templates: bool = False,
    ) -> None:
        self._adapter = adapter
        self._client = client
        self._leadership = leadership
        self._events = events
        self._jobs = jobs
        self._units = units
        self._full_pod_templates = full_pod_templates
        # Once: an isinstance check of a runtime protocol takes as long as a write does here.
        self._list_keys = adapter.list_keys if isinstance(adapter, ListsTemplates) else None
        self._template_lock = adapter if isinstance(adapter, LocksTemplates) else None
        self.job_type = job_type_of(adapter)

    def may_write(self) -> bool:
        """Return whether a write that begins now ends while this process leads."""
        return self._leadership.writable_seconds() >= WRITE_SECONDS

    def execute(self, action: Action, job: JobT) -> ObjectMeta | None:
        """Carry out one action; return the metadata of the written object, None if there is none.

        Raises:
            NotLeadingError: It was not sent.
            ApiFailure: The server refused, or did not answer.
        """
        match action:
            case RecordJobEvent():
                record_event(self._events, action, *self._about(job, action.pod))
                if EventType(action.type.value) is EventType.WARNING:
                    self._log(action, job.metadata)
            case RecordUnitEvent():
                record_event(self._events, action, QUEUE_UNITS, action.unit.metadata)
            case _:
                if not self.may_write():
                    raise NotLeadingError
                return self._write(action, job)
        return None

    def _about(self, job: JobT, _pod: Uid = NO_UID, /) -> tuple[ResourceType[Any], ObjectMeta]:
        """Return the object that events about a job, or about a pod of it, are recorded on."""
        return self.job_type, job.metadata

    def _write(self, action: Action, job: JobT) -> ObjectMeta | None:
        match action:
            case SuspendJob():
                return self._suspend(action, job)
            case ReleaseJob():
                return self._release(action, job)
            case MarkPods():
                self._mark(action, job)
                return None
            case ResizeJob():
                return self._resize(action, job)
            case MarkJob() | TouchJob():
                return self._annotate(action, job)
            case CreateUnit():
                return self._create(action, job)
            case PatchUnit():
                return self._patch(action, job)
            case PatchUnitStatus():
                return self._patch_status(action)
            case DeleteUnit():
                self.delete_unit(action)
                return None
            case _:
                raise AssertionError(f"unknown action {action!r}")

    # --- the job ----------------------------------------------------------------------------

    def _suspend(self, action: SuspendJob, job: JobT) -> ObjectMeta | None:
        annotations: dict[str, str | None] = {SUSPEND: "true"} if action.annotate else {}
        body = self._switch(suspend=True, job=job)
        if action.resize is not None:
            body = combine_patches(body, self._resized(action.resize, job, annotations))
        if action.mark:
            annotations |= _mark(job.metadata, None)
        elif MARKED_UID in job.metadata.annotations:
            annotations |= NO_MARK
        # By the uid alone: an edit in between must not keep the job running.
        metadata: dict[str, Any] = {"uid": job.metadata.uid}
        if annotations:
            metadata["annotations"] = annotations
        return self._patch_job(job, {**body, "metadata": metadata})

    def _mark(self, action: MarkPods, job: JobT) -> None:
        raise AssertionError(f"{job.metadata.key} is held by its own switch, not by its pods")

    def _release(self, action: ReleaseJob, job: JobT) -> ObjectMeta | None:
        annotations = {RELEASED_AT: action.released_at, **_mark(job.metadata, action.granted)}
        if action.annotation is not None:
            annotations[SUSPEND] = action.annotation or None
        if action.updates_note is not None:
            annotations[POD_SET_UPDATES] = action.updates_note or None
        patches = [self._adapter.release_patch(job, action.stamps)]
        if action.updates:
            assert isinstance(self._adapter, TakesTemplateUpdates), "decided for another kind"
            patches.append(self._adapter.update_patch(job, action.updates))
        if action.resize is not None:
            patches.append(self._resized(action.resize, job, annotations))
        changes_templates = bool(action.stamps or action.updates)
        meta = self._unlock_templates(job) if changes_templates else job.metadata
        # By the version as well: a job that was edited since may ask for more than was granted.
        metadata = {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "annotations": annotations,
        }
        if changes_templates and self._list_keys is not None:
            # If it is read at another version than the job was decided at, the write meets a
            # conflict.
            body = fill_all(patches, self._read_whole(meta), self._list_keys)
        else:
            body = functools.reduce(combine_patches, patches)
        return self._patch_job(job, {**body, "metadata": metadata})

    def _unlock_templates(self, job: JobT) -> ObjectMeta:
        """Clear what keeps the job's templates from changing; return its metadata after that.

        The release that follows names the version that this write made: if others write in between,
        it meets a conflict. If it is never sent, the job is suspended as before.

        Raises:
            NotLeadingError: Writing took longer than the lease lasts.
            ApiFailure: The server refused, or did not answer.
        """
        meta = job.metadata
        if self._template_lock is None or not (status := self._template_lock.status_to_clear(job)):
            return meta
        guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        body = {"metadata": guard, "status": status}
        try:
            written = self._client.patch(
                self.job_type, meta.namespace, meta.name, body, subresource="status"
            )
        except Forbidden as failure:
            # The right is not in every role. Without it the server judges the release as it is.
            log.warning("a job's status cannot be cleared", job=meta.key, error=str(failure))
            return meta
        if not self.may_write():
            raise NotLeadingError
        return written.metadata

    def _read_whole(self, job: ObjectMeta) -> dict[str, Any]:
        """Return a job with all its fields: they are not kept in memory.

        Raises:
            NotLeadingError: Reading took longer than the lease lasts.
            ApiFailure: The server refused, or did not answer.
        """
        raw = self._client.get_raw(self.job_type.path(job.namespace, job.name))
        if not self.may_write():
            raise NotLeadingError
        return read_whole(raw)

    def _resize(self, action: ResizeJob, job: JobT) -> ObjectMeta:
        meta = job.metadata
        annotations = _mark(meta, action.granted)
        body = self._resized(action.resize, job, annotations)
        guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        return self._patch_job(job, {**body, "metadata": {**guard, "annotations": annotations}})

    def _annotate(self, action: MarkJob | TouchJob, job: JobT) -> ObjectMeta:
        meta = job.metadata
        annotations: Mapping[str, str | None] = NO_MARK
        if isinstance(action, TouchJob):
            annotations = {TOUCHED_AT: action.touched_at}
        elif action.marked:
            annotations = _mark(meta, action.granted)
        return self._patch_job(job, {"metadata": {"uid": meta.uid, "annotations": annotations}})

    def _resized(
        self, resize: Resize, job: JobT, annotations: dict[str, str | None]
    ) -> dict[str, Any]:
        """Return the patch of the counts, and add the note of it to the annotations."""
        assert isinstance(self._adapter, RunsWithFewerPods), "decided for another kind"
        annotations[RELEASED_PARALLELISM] = resize.note or None
        return self._adapter.resize_patch(job, resize.counts)

    def _switch(self, *, suspend: bool, job: JobT) -> dict[str, Any]:
        if not self._adapter.kind.has_suspend_field:
            return {}
        return self._adapter.suspend_patch(job) if suspend else {}

    def _patch_job(self, job: JobT, body: Mapping[str, Any]) -> ObjectMeta:
        meta = job.metadata
        written = self._client.patch(self.job_type, meta.namespace, meta.name, body)
        self._jobs.note_written(written)
        return written.metadata

    def read_job(self, namespace: str, name: str) -> JobT | None:
        """Read a job from the server, past the cache; None if it does not exist."""
        try:
            found = self._client.get(self.job_type, namespace, name)
        except NotFound:
            return None
        self._jobs.note_written(found)
        return found

    # --- its unit ---------------------------------------------------------------------------

    def _create(self, action: CreateUnit, job: JobT) -> ObjectMeta:
        namespace = action.body["metadata"]["namespace"]
        body = self._with_full_templates(action.body, job)
        created = self._client.create(QUEUE_UNITS, namespace, body)
        self._units.note_written(created)
        return created.metadata

    def _patch(self, action: PatchUnit, job: JobT) -> ObjectMeta:
        body = self._with_full_templates(action.body, job)
        metadata = {**body.get("metadata", {}), **_guard(action.unit)}
        lane = Lane.NORMAL if action.is_urgent else Lane.LOW
        return self._patch_unit(action.unit, {**body, "metadata": metadata}, "", lane)

    def _with_full_templates(self, body: dict[str, Any], job: JobT) -> dict[str, Any]:
        """Replace reduced pod templates by whole ones, if the settings ask for it."""
        pod_sets = body.get("spec", {}).get("podSet")
        adapter = self._adapter
        if not (self._full_pod_templates and pod_sets and isinstance(adapter, GivesFullTemplates)):
            return body
        meta = job.metadata
        templates = adapter.full_templates(self._read_whole(meta))
        added = read_added(meta.annotations)
        whole = [
            {**each, "template": overlay_body(template, each["template"])}
            for each in pod_sets
            for name in (each["name"],)
            for template in (take_off_body(templates[name], added.get(name, NOTHING_ADDED)),)
        ]
        return {**body, "spec": {**body["spec"], "podSet": whole}}

    def _patch_status(self, action: PatchUnitStatus) -> ObjectMeta:
        body = {"metadata": _guard(action.unit), "status": action.status}
        return self._patch_unit(action.unit, body, "status")

    def _patch_unit(
        self,
        unit: QueueUnit,
        body: Mapping[str, Any],
        subresource: str,
        lane: Lane = Lane.NORMAL,
    ) -> ObjectMeta:
        meta = unit.metadata
        written = self._client.patch(
            QUEUE_UNITS, meta.namespace, meta.name, body, subresource=subresource, lane=lane
        )
        self._units.note_written(written)
        return written.metadata

    def delete_unit(self, action: DeleteUnit) -> None:
        """Delete a unit whose job is not managed by the queue any more.

        Raises:
            NotLeadingError: It was not sent.
            ApiFailure: The server refused, or did not answer.
        """
        if not self.may_write():
            raise NotLeadingError
        meta = action.unit.metadata
        self._client.delete(QUEUE_UNITS, meta.namespace, meta.name, uid=meta.uid)

    def delete_second(self, own: QueueUnit, unit: QueueUnit) -> bool:
        """Delete a further unit of a job, if the job's own exists, and this one is unchanged.

        Returns whether it was deleted.

        Raises:
            NotLeadingError: It was not sent.
            ApiFailure: The server refused, or did not answer.
        """
        if not self.may_write():
            raise NotLeadingError
        meta, namespace = unit.metadata, own.metadata.namespace
        if meta.deletion_timestamp is not None:
            return False
        there = self.read_unit(namespace, own.metadata.name)
        if there is None or there.metadata.uid != own.metadata.uid:
            return False  # the cache is behind, and its watch event will come
        guard = meta.resource_version  # if it was admitted meanwhile, it is the one that counts
        try:
            self._client.delete(QUEUE_UNITS, namespace, meta.name, uid=meta.uid, version=guard)
        except NotFound:
            return False
        return True

    def read_unit(self, namespace: str, name: str) -> QueueUnit | None:
        """Read a unit from the server, past the cache; None if it does not exist."""
        try:
            found = self._client.get(QUEUE_UNITS, namespace, name)
        except NotFound:
            return None
        self._units.note_written(found)
        return found

    def awaits_pods(self, unit: QueueUnit) -> bool:
        """Return whether a unit without a job waits for pods to be created: only for jobs of pods.

        Raises:
            ApiFailure: The server refused, or did not answer.
        """
        return False

    # --- events -----------------------------------------------------------------------------

    def _log(self, warning: RecordJobEvent, about: ObjectMeta) -> None:
        log.warning(
            "job needs attention",
            extension=self._adapter.kind.key,
            job=about.key,
            reason=warning.reason,
            note=warning.message,
        )


NO_MARK: Final[Mapping[str, None]] = {MARKED_UID: None, GRANTED_COUNT: None}
"""The annotations that take the mark of the queue off a job."""


def _mark(job: ObjectMeta, granted: int | None) -> dict[str, str | None]:
    """Return the annotations that mark a job as the queue's; None removes one."""
    return {MARKED_UID: job.uid, GRANTED_COUNT: None if granted is None else str(granted)}


def record_event(
    events: EventSink,
    action: RecordJobEvent | RecordUnitEvent,
    kind: JobKind | ResourceType[Any],
    about: ObjectMeta,
) -> None:
    """Record an event on an object of a kind."""
    events.record(
        Event(
            regarding=ObjectReference(
                kind.api_version, kind.kind, about.name, about.namespace, about.uid
            ),
            type=EventType(action.type.value),
            reason=action.reason,
            action=action.reason,
            note=action.message,
        )
    )


def _guard(unit: QueueUnit) -> dict[str, str]:
    """Return the metadata that makes a patch apply to this very version or fail."""
    return {"uid": unit.metadata.uid, "resourceVersion": unit.metadata.resource_version}
