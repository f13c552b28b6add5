"""The actions that `decide` returns and `execute` carries out: one frozen value per action."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from queue_controllers.jobframework.generic_job import PodStamp
from queue_controllers.jobframework.partial_parallelism import Resize
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import NO_UID, Timestamp, Uid
from shared_api.objects.queue_unit import QueueUnit


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """Something to do to a job or its unit, or to report about them."""


class SuspendJob(Action, frozen=True):
    """Suspend the job; guarded by its uid only, since every version of it must stop."""

    annotate: bool = False
    """Write the suspend annotation as well."""
    resize: Resize | None = None
    """Takes back the pods that a release did not let run."""
    mark: bool = True
    """Mark it as the queue's, whatever its labels say; False: an owner holds it, whose operator
    must be able to resume it, or the mark was refused."""


class ReleaseJob(Action, frozen=True):
    """Resume the job and update its templates, in one patch.

    Guarded by the job's resourceVersion: a late release must not resume a job that has been evicted
    in the meantime.
    """

    released_at: Timestamp
    stamps: dict[str, PodStamp] = {}
    updates: dict[str, TemplateUpdate] = {}
    """Further changes of the templates, by pod set. Without them the job is not released."""
    updates_note: str | None = None
    resize: Resize | None = None
    """How many pods may run at a time; None leaves the number unchanged."""
    granted: int | None = None
    """How many pods its mark says were granted; None: no single field counts them."""
    pods: dict[Uid, str] = {}
    """For a job that is held by gates: the gated pods to release, and the pod set of each."""
    annotation: str | None = None
    """New value of the suspend annotation and of those that belong to it: "" removes them, None
    leaves them unchanged."""


class MarkPods(Action, frozen=True):
    """Mark pods that were ungated by others with their unit: without it they are charged twice."""

    released_at: Timestamp
    stamps: dict[str, PodStamp] = {}


class ResizeJob(Action, frozen=True):
    """Change how many pods may run at a time; guarded by the job's resourceVersion."""

    resize: Resize
    granted: int | None = None
    """See `ReleaseJob.granted`."""


class MarkJob(Action, frozen=True):
    """Mark the job as the queue's, or take the mark off; guarded by its uid.

    Suspension and release do the first themselves.
    """

    marked: bool
    granted: int | None = None
    """See `ReleaseJob.granted`."""


class TouchJob(Action, frozen=True):
    """Change only an annotation, so that the job's operator reconciles it; guarded by its uid."""

    touched_at: Timestamp


JOB_WRITES: Final = (SuspendJob, ReleaseJob, ResizeJob, MarkJob, TouchJob)
"""The actions that write the job itself."""


class CreateUnit(Action, frozen=True):
    """Create the job's unit."""

    body: dict[str, Any]


class PatchUnit(Action, frozen=True):
    """Change metadata and spec of the unit; guarded by its resourceVersion."""

    unit: QueueUnit
    body: dict[str, Any]
    is_urgent: bool = True
    """False sends it at low priority: the job is reconciled again before its release, and that
    applies it as well."""


class PatchUnitStatus(Action, frozen=True):
    """Change the unit's status; guarded by its resourceVersion."""

    unit: QueueUnit
    status: dict[str, Any]


class DeleteUnit(Action, frozen=True):
    """Delete a unit whose job is gone or no longer managed by the queue; guarded by its uid."""

    unit: QueueUnit


class EventType(StrEnum):
    """The type of an event, as Kubernetes has it."""

    NORMAL = "Normal"
    WARNING = "Warning"


class RecordJobEvent(Action, frozen=True):
    """Record an event on the job, for its user."""

    reason: str
    message: str
    type: EventType = EventType.NORMAL
    pod: Uid = NO_UID
    """For a job that is only pods: the pod to record it on, instead of the first."""


class RecordUnitEvent(Action, frozen=True):
    """Record an event on the unit."""

    unit: QueueUnit
    reason: str
    message: str
    type: EventType = EventType.NORMAL


RELEASE_REFUSED: Final = "ReleaseRefused"
"""Event reason: the API server refuses to let a job be resumed."""

MARK_REFUSED: Final = "MarkRefused"
"""Event reason: pods cannot be marked with their unit, or a job as the queue's; they continue
without the marks."""

REFUSAL_EVENTS: Final[Mapping[type[Action], tuple[str, str]]] = {
    SuspendJob: ("SuspendRefused", "It cannot be suspended"),
    ReleaseJob: (RELEASE_REFUSED, "It is admitted, and cannot be resumed"),
    MarkPods: (MARK_REFUSED, "Its pods, whose gates others removed, cannot be marked as its own"),
    MarkJob: (MARK_REFUSED, "It cannot be marked as the queue's, so others may resume it"),
    ResizeJob: ("ResizeRefused", "How many of its pods may run cannot be changed"),
    CreateUnit: ("UnitRefused", "Its queue unit is refused"),
    PatchUnit: ("UnitRefused", "Its queue unit cannot be changed"),
    PatchUnitStatus: ("UnitRefused", "The status of its queue unit cannot be changed"),
}
"""Reasons and texts of the events about writes that the server refuses."""
