"""What `decide` takes, and what it returns."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from queue_controllers.decision.actions import Action
from queue_controllers.decision.job_ownership import ClusterContext, Ownership
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_state import NO_PODS, JobState, PodCounts
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import QueueUnit
from shared_api.timestamps import rfc3339, rfc3339_micro


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """When a decision is made: by the monotonic clock, and by the wall clock."""

    monotonic: float
    wall: datetime

    @property
    def stamp(self) -> Timestamp:
        """The wall time as a `metav1.Time`."""
        return rfc3339(self.wall)

    @property
    def exact_stamp(self) -> Timestamp:
        """The wall time as a `metav1.MicroTime`."""
        return rfc3339_micro(self.wall)

    def after(self, seconds: float) -> Moment:
        """Return a later moment."""
        later = self.wall + timedelta(seconds=seconds)
        return Moment(monotonic=self.monotonic + seconds, wall=later)


class JobMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What one process remembers of a job between two reconciles; all of it may be lost.

    Losing it costs a minute of waiting or a repeated event, never a wrong release: what a release
    depends on stands in the objects, or was seen since the release that they name.
    """

    arrived: bool = False
    """Its creation was watched, it was the queue's by its labels at that time, and was not found to
    be another's since: a new job, which is suspended even if it has pods already. All other jobs
    with living pods are adopted: those that are relabeled, and those that are seen late."""
    nested: bool = False
    """First seen like that, and left to its owner: if that one stops counting, the job did not run
    before the queue knew of it, and is suspended."""
    unproved_since: float | None = None
    """Since when only its owner's proof is missing (monotonic); the job is not decided before."""
    adopting: bool = False
    """This process has just created the unit of a job that ran before; its status does not say so
    yet."""
    held: bool = False
    """When this process created the unit, the job had pods and was suspended by this process or
    another queue. Should it be resumed while these go, pods that are older than the unit are no
    sign that it ran before the queue knew of it."""
    place_kept: bool = False
    """This process has written when the job was created; a CRD of an older version drops it."""
    unsuspended_at: tuple[float, ...] = ()
    """When the job was resumed against the queue (monotonic), newest last."""
    contest_event_at: float | None = None
    """When that was last reported by an event (monotonic)."""
    displaced_at: float | None = None
    """When its unit was last moved to the end of its queue for that (monotonic)."""
    evicting: bool = False
    """This process has suspended the job to carry out the eviction in progress."""
    quiet_since: float | None = None
    """Since when only the operator's confirmation is missing for "stopped" (monotonic)."""
    acknowledged_release: datetime | None = None
    """The release after which the operator was seen to report that it no longer holds the job back:
    what it reports of a suspension after that belongs to the next one. Timestamps are compared
    only where this was not seen: some operators set none, some use another clock, and all have
    whole seconds."""
    old_pods_since: float | None = None
    """Since when only pods of an earlier run keep the admitted job from its release (monotonic)."""
    short_since: float | None = None
    """Since when an admitted job is not released for too few granted pods (monotonic)."""
    refused_since: float | None = None
    """Since when an admitted job is not released, as its pods would be refused (monotonic)."""
    beyond_since: float | None = None
    """Since when pods wait at their gates that go beyond the grant of the job (monotonic)."""
    first_release: datetime | None = None
    """When the job was first released in this admission (wall time), until its pods are seen to
    run: something else may suspend it again and again, and have it released each time."""
    has_seen_pods: bool = False
    """At the last reconcile there were pods of the job, and none of them ran yet."""
    without_pods_since: datetime | None = None
    """Since when a released job has no pod, as far as this process can know (wall time)."""
    events_read_at: datetime | None = None
    """When its events were read, in this attempt, for why it has no pods."""
    why: str = ""
    """Why it has no pods, by these events."""
    suspended_at: tuple[float, ...] = ()
    """When a released job was found suspended by others (monotonic), newest last."""
    reported_refusal: str = ""
    """What the last event said of pods without a node, "" once they have one: the unit may drop it
    for a moment, as its first pod runs."""
    running_since: float | None = None
    """When a pod was first seen to run since the release, while the unit is not Running yet."""
    counted_at: float | None = None
    """When counts of pods were last written."""
    miscounted_since: float | None = None
    """Since when the written counts differ from the pods."""
    stamp_refused: bool = False
    """The API server refused a release of this job with labels: the next is tried without."""
    reported_events: frozenset[str] = frozenset()
    """Reasons of events that are recorded once; for ignored annotations the whole message."""
    blocking_message: str = ""
    """The message of the `BlockingReason` last reported on the job; "" once nothing blocks it."""

    def with_reported(self, reason: str) -> JobMemory:
        """Return the memory with an event of this reason recorded."""
        return msgspec.structs.replace(self, reported_events=self.reported_events | {reason})


class LostUnit(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's deleted unit passes on to its next one, against the job.

    A user who may delete units must gain nothing by it: the next unit takes its queue position.
    """

    waited: bool = False
    """The unit was never admitted: what its job runs was resumed against the queue."""
    contested: Condition | None = None
    """Its `SuspendContested`, if that put it at the end of its queue."""


NOTHING_KNOWN = JobMemory()
LEFT_TO_ITS_OWNER = JobMemory(nested=True)
"""One instance for all: there may be very many children."""


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one job at one moment."""

    job: JobFacts | None
    unit: QueueUnit | None = None
    pods: PodCounts = NO_PODS
    ownership: Ownership = Ownership(managed=True, reason="")
    context: ClusterContext = ClusterContext()
    settings: JobSettings = JobSettings()
    memory: JobMemory = NOTHING_KNOWN
    lost: LostUnit | None = None
    """The job's previous unit, if it was deleted and anything of it still counts."""
    has_queued_neighbors: bool = False
    """Other jobs of the namespace are queued; only where the setting asks for it."""
    name_is_taken: bool = False
    """The unit's ordinary name belongs to another job's unit."""
    jitter: float = 0.0
    """Up to `eviction.MAX_JITTER`, more or less: spreads the ends of backoffs."""
    moment: Moment


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do now, and when to reconcile again without an event."""

    actions: tuple[Action, ...] = ()
    memory: JobMemory = NOTHING_KNOWN
    requeue_after_seconds: float | None = None
    state: JobState | None = None
    """None if the queue does not manage the job."""
    needs_events: bool = False
    """The job's events are to be read for why it has no pods; the answer is remembered."""
    is_complete: bool = False
    """Once these actions are done there is nothing more to do until something else changes: the
    watch events of our own writes need no reconcile."""
