"""What `decide` says and `execute` does: one frozen value per action."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from queue_controllers.jobframework.generic_job import PodStamp
from queue_controllers.jobframework.partial_parallelism import Resize
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.objects.meta import Timestamp
from shared_api.objects.queue_unit import QueueUnit


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be done to a job, to its unit, or to be told."""


class SuspendJob(Action, frozen=True):
    """Turn the job's switch on; guarded by its uid, since any version of it must stop."""

    annotate: bool = False
    """Write the suspend annotation as well."""
    resize: Resize | None = None
    """Give back the pods that a release has not let run."""


class ReleaseJob(Action, frozen=True):
    """Turn the switch off and stamp the templates, in one patch.

    Guarded by the job's resourceVersion: a release that comes late must not resume a job that has
    been evicted meanwhile.
    """

    released_at: Timestamp
    stamps: dict[str, PodStamp] = {}
    updates: dict[str, TemplateUpdate] = {}
    """What else changes in the templates, by pod set: it must, or the job is not released."""
    updates_note: str | None = None
    resize: Resize | None = None
    """How many pods may run at a time; None leaves that as it is."""
    room: dict[str, int] = {}
    """Of a job that is held by gates: how many held pods of each set are let go."""
    annotation: str | None = None
    """What the annotations about that, and the suspend annotation, become: "" to remove them, None
    to leave them alone."""


class MarkPods(Action, frozen=True):
    """Write whose they are on pods that somebody else let go: without it they are charged twice."""

    released_at: Timestamp
    stamps: dict[str, PodStamp] = {}


class ResizeJob(Action, frozen=True):
    """Let another number of pods run at a time; guarded by the job's resourceVersion."""

    resize: Resize


class TouchJob(Action, frozen=True):
    """Change nothing but an annotation, so that the job's operator looks; guarded by its uid."""

    touched_at: Timestamp


class CreateUnit(Action, frozen=True):
    """Create the job's unit."""

    body: dict[str, Any]


class PatchUnit(Action, frozen=True):
    """Change metadata and spec of the unit; guarded by its resourceVersion."""

    unit: QueueUnit
    body: dict[str, Any]
    is_urgent: bool = True
    """Else it goes through the low lane: a look before the release sees to it, too."""


class PatchUnitStatus(Action, frozen=True):
    """Change the unit's status; guarded by its resourceVersion."""

    unit: QueueUnit
    status: dict[str, Any]


class DeleteUnit(Action, frozen=True):
    """Delete a unit whose job is gone or somebody else's; guarded by its uid."""

    unit: QueueUnit


class EventType(StrEnum):
    """How loud an event is."""

    NORMAL = "Normal"
    WARNING = "Warning"


class RecordJobEvent(Action, frozen=True):
    """An event on the job: what a person looking at it should know."""

    reason: str
    message: str
    type: EventType = EventType.NORMAL


class RecordUnitEvent(Action, frozen=True):
    """An event on the unit."""

    unit: QueueUnit
    reason: str
    message: str
    type: EventType = EventType.NORMAL


RELEASE_REFUSED: Final = "ReleaseRefused"
"""Reason of the event that the API server does not let a job be resumed."""

MARK_REFUSED: Final = "MarkRefused"
"""Reason of the event that pods do not take the marks of their unit; they go on without."""

REFUSALS: Final[Mapping[type[Action], tuple[str, str]]] = {
    SuspendJob: ("SuspendRefused", "It cannot be suspended"),
    ReleaseJob: (RELEASE_REFUSED, "It is admitted, and cannot be resumed"),
    MarkPods: (MARK_REFUSED, "Its pods, let go by somebody else, cannot be marked as its own"),
    ResizeJob: ("ResizeRefused", "How many of its pods may run cannot be changed"),
    CreateUnit: ("UnitRefused", "Its queue unit is refused"),
    PatchUnit: ("UnitRefused", "Its queue unit cannot be changed"),
    PatchUnitStatus: ("UnitRefused", "The status of its queue unit cannot be changed"),
}
"""Reason and words of the events about writes that the server refuses."""
