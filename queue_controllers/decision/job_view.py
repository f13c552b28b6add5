"""What `decide` looks at, and what it hands back."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from queue_controllers.decision.actions import Action
from queue_controllers.decision.job_ownership import ClusterContext, Ownership
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_state import NO_PODS, JobState, PodFacts
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import QueueUnit
from shared_api.timestamps import rfc3339, rfc3339_micro


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """When a decision is made: by the clock that only moves on, and by the one people read."""

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
    """What one process remembers of a job between two looks; all of it may be lost.

    Losing it costs a minute of patience or an event told twice, never a wrong release: what a
    release rests on stands in the objects, or was seen since the release that they name.
    """

    arrived: bool = False
    """Seen for the first time by a watch, and not yet found to be another's: a new job, which is
    suspended even if it has pods already. All others with living pods are adopted."""
    nested: bool = False
    """Came like that, and was left to its owner: should that one not count any more, it is no job
    that ran before the queue knew of it, and is suspended."""
    unproved_since: float | None = None
    """Since when only its owner's word is missing for a job that is not looked at before."""
    adopting: bool = False
    """This process has just made the unit of a job that ran before; its status does not say yet."""
    held: bool = False
    """This process has suspended the job as it made its unit: pods that are older than the unit are
    no sign that it ran before the queue knew of it, should somebody resume it while they go."""
    place_kept: bool = False
    """This process has written when the job was created; a CRD of an older version drops it."""
    unsuspended_at: tuple[float, ...] = ()
    """When somebody turned the switch off against the queue (monotonic), newest last."""
    contest_told_at: float | None = None
    """When people were last told of that (monotonic)."""
    displaced_at: float | None = None
    """When its unit was last put at the end of its line for that (monotonic)."""
    evicting: bool = False
    """This process has turned the switch on to carry out the eviction that is under way."""
    quiet_since: float | None = None
    """Since when only the operator's word is missing for "stopped"."""
    let_go_of: datetime | None = None
    """The release after which the operator was seen to say that it holds the job back no more: what
    it says of a suspension after that one is of the next. Only where this was not seen is that read
    off the time, which some tell not at all, some by another clock, and all in whole seconds."""
    old_pods_since: float | None = None
    """Since when only what is left of an earlier run keeps the admitted job from its release."""
    short_since: float | None = None
    """Since when an admitted job is not released, as it was granted fewer pods than it needs."""
    refused_since: float | None = None
    """Since when an admitted job is not released, as its pods would be refused."""
    first_release: datetime | None = None
    """When the job was first released in this admission (wall time), until its pods are seen to
    run: somebody else may suspend it over and over, and have it released each time."""
    has_seen_pods: bool = False
    """At the last look there were pods of the job, and none of them ran yet."""
    without_pods_since: datetime | None = None
    """Since when a released job has no pod, as far as this process can know (wall time)."""
    asked_why_at: datetime | None = None
    """When its events were read, in this attempt, for why it has no pods."""
    why: str = ""
    """What they said."""
    suspended_at: tuple[float, ...] = ()
    """When somebody was found to have suspended a released job (monotonic), newest last."""
    running_since: float | None = None
    """When a pod was first seen to run since the release, while the unit does not say so."""
    counted_at: float | None = None
    """When counts of pods were last written."""
    miscounted_since: float | None = None
    """Since when the counts that are written differ from the pods."""
    stamp_refused: bool = False
    """The API server has refused a stamped release of this job: the next is tried without."""
    told: frozenset[str] = frozenset()
    """Reasons of events that are told once; of ignored annotations the whole message."""
    obstacle: str = ""
    """What the job was last told is in the way of its start, until that is gone."""


class LostUnit(msgspec.Struct, frozen=True, kw_only=True):
    """What a unit said that was deleted while its job was there, as far as it counts against it.

    Whoever may delete units must gain nothing by it: the next unit stands where this one stood.
    """

    waited: bool = False
    """Nobody had decided about it: what its job runs, somebody has let go out of turn."""
    contested: Condition | None = None
    """Its `SuspendContested`, where it stood at the end of its line for that."""


NOTHING_KNOWN = JobMemory()
LEFT_TO_ITS_OWNER = JobMemory(nested=True)
"""One for all: there may be very many children."""


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known of one job at one moment."""

    job: JobFacts | None
    unit: QueueUnit | None = None
    pods: PodFacts = NO_PODS
    ownership: Ownership = Ownership(managed=True, reason="")
    around: ClusterContext = ClusterContext()
    settings: JobSettings = JobSettings()
    memory: JobMemory = NOTHING_KNOWN
    lost: LostUnit | None = None
    """The job's unit before this one, where that was deleted and anything of it still counts."""
    has_queued_neighbors: bool = False
    """Other jobs of the namespace are queued; only where the setting asks for it."""
    name_is_taken: bool = False
    """The unit's ordinary name belongs to another job's unit."""
    jitter: float = 0.0
    """Up to `unit_status.MAX_JITTER`, more or less: spreads the ends of backoffs."""
    moment: Moment


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do now, and when to look again without having been asked to."""

    actions: tuple[Action, ...] = ()
    memory: JobMemory = NOTHING_KNOWN
    look_again_seconds: float | None = None
    state: JobState | None = None
    """None where the job is not the queue's business."""
    asks_why: bool = False
    """The job's events are to be read for why it has no pods; what they say is remembered."""
    settled: bool = False
    """Once these actions are done there is nothing more to do until somebody else does something:
    what the watch then says of our own writes need not be looked at."""
