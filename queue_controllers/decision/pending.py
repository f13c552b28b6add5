"""What a job waits for: its turn, its pods, its owner, the operator that stops it. Pure.

A job that waits longer than expected gets an event once: otherwise it looks abandoned. A job that
is resumed before its turn is suspended again, and may lose its place in the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from queue_controllers.decision.actions import (
    MARK_REFUSED,
    Action,
    EventType,
    PatchUnitStatus,
    RecordJobEvent,
    SuspendJob,
)
from queue_controllers.decision.grants import plan_restoration
from queue_controllers.decision.job_annotations import how_to_activate
from queue_controllers.decision.job_state import JobState
from queue_controllers.decision.job_view import Decision, JobMemory, JobView, LostUnit, Moment
from queue_controllers.decision.unit_status_patches import set_condition
from queue_controllers.jobframework.generic_job import AWAITS_PREVIEW, JobFacts
from shared_api.objects.meta import Condition, find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import (
    DEACTIVATION_CONDITIONS,
    QUOTA_RESERVED,
    SUSPEND_CONTESTED,
    Phase,
    condition_body,
    contested_since,
    is_being_evicted,
    is_final,
    occupies_quota,
    phase_of,
    was_evicted,
)
from shared_api.timestamps import read_time
from shared_api.well_known_labels import ACTIVE, QUEUE_NAME, QUOTA_NAME, TREE_QUOTA_NAME

SILENT_SECONDS: Final = 60.0
"""How long an operator may take to confirm a suspension once no pod lives."""

UNKNOWN_SECONDS: Final = 5.0
"""How old a job is when an event reports that its pods are unknown."""

UNKNOWN_REQUEUE_SECONDS: Final = 30.0
"""How often the source of its pods is looked for, when nothing about the job itself changes."""

PROOF_SECONDS: Final = 10.0
"""How long an owner may take to name a job as its child. Operators write that before they create
the child; this program may receive the two events in the other order."""

FOLLOW_SECONDS: Final = 2.0
"""How long the children of a suspended job may take to be suspended as well."""

PROOF_REQUEUE_SECONDS: Final = 1.0
"""How often that is looked for."""

PREVIEW_REQUEUE_SECONDS: Final = 1.0
"""How often it is checked whether a preview has taken too long; its answer triggers a reconcile."""

OLD_PODS_SECONDS: Final = 60.0
"""How long pods of an earlier run may keep an admitted job from its release before that is
reported: twice the usual grace period."""

LATE_UNIT_SECONDS: Final = 5.0
"""A job must be this much older than its unit to get a place of its own in the queue. Under load a
unit is created seconds after its job, in the same order; one more write for each would slow all
of them down."""

REFUSED_REQUEUE_SECONDS: Final = 60.0
"""How often a job whose pods would be refused is reconciled without a change."""

QUEUED: Final = "Queued"
"""Event reason: the job waits, as which unit, and why."""

WAITING_PHASES: Final = frozenset({Phase.ENQUEUED, Phase.TIMEOUT_BACKOFF})
"""Phases of a unit that is not charged and has not ended."""


def with_event_once(
    view: JobView, reason: str, message: str, actions: tuple[Action, ...] = ()
) -> Decision:
    """Return the actions, with a warning on the job that one process records once."""
    memory = view.memory
    if reason not in memory.reported_events:
        actions = (*actions, RecordJobEvent(reason=reason, message=message, type=EventType.WARNING))
        memory = memory.with_reported(reason)
    return Decision(actions=actions, memory=memory)


def wait_for_demand(view: JobView, job: JobFacts, actions: tuple[Action, ...] = ()) -> Decision:
    """Return the actions, and wait until it is known which pods a job creates.

    What says so mostly arrives a moment after the job; if it does not, an event reports it.
    """
    if job.unknown_demand == AWAITS_PREVIEW:
        return Decision(
            actions=actions, memory=view.memory, requeue_after_seconds=PREVIEW_REQUEUE_SECONDS
        )
    created_at = read_time(job.metadata.creation_timestamp)
    age = UNKNOWN_SECONDS
    if created_at is not None:
        age = (view.moment.wall - created_at).total_seconds()
    if age < UNKNOWN_SECONDS:
        rest = UNKNOWN_SECONDS - age
        return Decision(actions=actions, memory=view.memory, requeue_after_seconds=rest)
    message = f"It is held until it is known which pods it makes: {job.unknown_demand}"
    decision = with_event_once(view, "DemandUnknown", message, actions)
    return msgspec.structs.replace(decision, requeue_after_seconds=UNKNOWN_REQUEUE_SECONDS)


def wait_until_stopped(view: JobView, state: JobState) -> Decision:
    """Reconcile again when the operator's time is over; events of pods and objects come sooner."""
    since = view.memory.quiet_since
    if not state.unclear or since is None:
        return Decision(memory=view.memory)
    rest = max(since + SILENT_SECONDS - view.moment.monotonic, 0.0)
    return Decision(memory=view.memory, requeue_after_seconds=rest)


def wait_for_old_pods(view: JobView, state: JobState) -> Decision:
    """Wait until nothing is left of an earlier run; the event of its last pod triggers a reconcile.

    Most pods go within their grace period. A pod whose node is lost stays.
    """
    pods, now = view.pods, view.moment.monotonic
    if not (pods.living or pods.terminating):
        return wait_until_stopped(view, state)
    since = now if view.memory.old_pods_since is None else view.memory.old_pods_since
    memory = msgspec.structs.replace(view.memory, old_pods_since=since)
    view = msgspec.structs.replace(view, memory=memory)
    if now - since < OLD_PODS_SECONDS:
        return Decision(memory=memory, requeue_after_seconds=since + OLD_PODS_SECONDS - now)
    message = (
        "It is admitted, and resumed when the pods of its earlier run are gone:"
        f" {pods.living} of them live, {pods.terminating} are being deleted."
        " One whose node is lost must be deleted by force"
    )
    return with_event_once(view, "OldPodsLeft", message)


def wait_in_queue(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> Decision:
    """Return what a job's user should know of its wait, and when to reconcile it again."""
    blocking = find_blocking_reason(unit)
    if blocking is not None and blocking.message != view.memory.blocking_message:
        event = RecordJobEvent(
            reason=blocking.reason, message=blocking.message, type=EventType.WARNING
        )
        memory = msgspec.structs.replace(view.memory, blocking_message=blocking.message)
        return Decision(actions=(event,), memory=memory)
    waits = wait_until_stopped(view, state)
    if job.pods_refused and waits.requeue_after_seconds is None:
        # What blocks it triggers a reconcile when it changes, except a right to read it that is
        # revoked.
        return msgspec.structs.replace(waits, requeue_after_seconds=REFUSED_REQUEUE_SECONDS)
    return waits if blocking is not None else _announce_queued(unit, waits)


def _announce_queued(unit: QueueUnit, decision: Decision) -> Decision:
    """Return the decision with an event that names the unit of a job that waits for the first time.

    A job that just waits shows nothing by itself. It is recorded when the scheduler has written why
    the unit waits, so that a job that starts at once costs no event. An evicted job has an event
    already.
    """
    waits = find_condition(unit.status.conditions, QUOTA_RESERVED)
    if waits is None or waits.status != "False" or QUEUED in decision.memory.reported_events:
        return decision
    if phase_of(unit) is not Phase.ENQUEUED or was_evicted(unit):
        return decision
    queue = f" in queue {unit.spec.queue}" if unit.spec.queue else ""
    message = f"Queue unit {unit.metadata.name} waits{queue}: {waits.message}"
    return msgspec.structs.replace(
        decision,
        actions=(RecordJobEvent(reason=QUEUED, message=message),),
        memory=decision.memory.with_reported(QUEUED),
        is_complete=True,
    )


def hold_with_owner(view: JobView, suspend: Action) -> Decision:
    """Suspend a child that runs though its owner is held; its operator has a moment to do it."""
    now, since = view.moment.monotonic, view.memory.unproved_since
    since = now if since is None else since
    memory = msgspec.structs.replace(view.memory, unproved_since=since)
    if (rest := since + FOLLOW_SECONDS - now) > 0:
        return Decision(memory=memory, requeue_after_seconds=rest)
    view = msgspec.structs.replace(view, memory=memory)
    message = f"{view.ownership.reason}: it is suspended until that is released"
    return with_event_once(view, "OwnerIsHeld", message, (suspend,))


def wait_for_owner(view: JobView) -> Decision | None:
    """Leave a job alone whose owner may still name it as its child; None if it is queued now."""
    if not view.ownership.may_be_nested:
        return None
    now, since = view.moment.monotonic, view.memory.unproved_since
    if since is not None and now - since >= PROOF_SECONDS:
        return None
    memory = msgspec.structs.replace(view.memory, unproved_since=now if since is None else since)
    return Decision(memory=memory, requeue_after_seconds=PROOF_REQUEUE_SECONDS)


# --- why a job cannot start without a correction --------------------------------------------------
# Why a pending job will not start until a person acts, for its user.
#
# The scheduler writes into the unit's condition `QuotaReserved` why a unit waits; most reasons pass
# by themselves. Those that do not are reported on the job as well, in the same words and with the
# way out. For a unit that the controllers deactivated, that is the condition that says why:
# "Inactive" alone would be half of the answer.

_OR_CREATE: Final = "or ask an administrator to create it"
_OF_NAMESPACE: Final = "Or ask an administrator to give the namespace a quota"
WAYS_OUT: Final[Mapping[str, str]] = {
    "NoQuota": f"Name one that exists in the job's label {QUOTA_NAME}, {_OR_CREATE}",
    "NoQueue": f"Name one that exists in the job's label {QUEUE_NAME}, {_OR_CREATE}",
    "AmbiguousQuota": f"Or name another in the job's label {TREE_QUOTA_NAME}",
    "QuotaNotInNamespace": "Or name one in the job's label that its namespace may use",
    "QuotaNotInQueue": f"Or take {QUEUE_NAME} off the job: it then waits in the queue of its quota",
    "ExceedsQuota": "Recreate the job with smaller requests, or have the quota raised",
    "InvalidDemand": "Recreate the job with requests that can be parsed",
    "PodsRefused": "It is set aside, and queued again by itself once they would be accepted",
    "RequestsMissing": "Recreate the job with them in resources.requests of its containers",
    "Inactive": f'To have it wait in the queue, annotate the job {ACTIVE}: "true"',
    "StoppedQueue": "An administrator of the queue must resume it; or name another queue",
    "BrokenChain": "An administrator of the quotas must correct them",
    "AdmissionCheckInactive": "An administrator of the queue's admission checks must repair it",
}
"""Keyed by the condition's reason, as the scheduler writes it: one for each of
`shared_api.waiting_reasons.NEEDS_ACTION`. A reason that is not written yet is not among them."""


class BlockingReason(msgspec.Struct, frozen=True):
    """A blocking reason, as an event reports it."""

    reason: str
    message: str


def find_blocking_reason(unit: QueueUnit) -> BlockingReason | None:
    """Return what blocks a pending unit until a person acts; None for what passes by itself."""
    for condition_type in DEACTIVATION_CONDITIONS:
        why = find_condition(unit.status.conditions, condition_type)
        if why is not None and why.status == "True":
            return BlockingReason(why.reason, why.message)
    waits = find_condition(unit.status.conditions, QUOTA_RESERVED)
    if waits is None or waits.status != "False" or waits.reason not in WAYS_OUT:
        return None
    way_out = WAYS_OUT[waits.reason]
    if waits.reason == "NoQuota" and QUOTA_NAME in waits.message:
        way_out = _OF_NAMESPACE  # the scheduler says to set the label, since there is none
    message = f"It cannot start: {waits.message}. {way_out}"
    return BlockingReason(waits.reason, message)


# --- jobs that are resumed against the queue ------------------------------------------------------
# A job is resumed against the queue: it is suspended again, for as long as that goes on.
#
# The queue never yields. It writes at most once a second per job, and records an event once a
# minute. The third time within a minute the unit moves to the end of its queue, at most once a
# minute, by a condition whose time the scheduler orders by, so that it survives a restart. What the
# job runs in the meantime is charged: its living pods count, whatever its unit's phase.

MIN_PAUSE_SECONDS: Final = 1.0
"""Pause between two suspensions of a job: a tool that resumes it at once costs a write a second."""

CONTEST_SECONDS: Final = 60.0
MAX_RESUMES: Final = 3
"""A unit whose job is resumed `MAX_RESUMES` times within `CONTEST_SECONDS` moves to the end of its
queue. An event reports a conflict that continues once per `CONTEST_SECONDS`."""

OUT_OF_TURN: Final = "UnsuspendedByOthers"
AGAINST_EVICTION: Final = "EvictionContested"
"""Reasons of the condition `SuspendContested`: resumed before admission, or despite an eviction."""


def suspend_job(view: JobView, job: JobFacts) -> SuspendJob:
    """Return the action that suspends the job."""
    by_annotation = view.settings.suspends_by_annotation(job.kind)
    # Where annotations are refused (a user may fill all room that there is for them) the job must
    # stop as well.
    has_no_room = MARK_REFUSED in view.memory.reported_events
    annotate = by_annotation or (bool(job.suspend_annotation) and not has_no_room)
    # A child whose owner is held is not the queue's, and its operator resumes it.
    mark = view.ownership.managed and (job.marked or not has_no_room)
    return SuspendJob(annotate=annotate, resize=plan_restoration(job), mark=mark)


def suspend_again(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision:
    """Suspend a job that was resumed against the queue; too often, and its unit loses its place."""
    memory, now = view.memory, view.moment.monotonic
    if memory.unsuspended_at:
        rest = memory.unsuspended_at[-1] + MIN_PAUSE_SECONDS - now
        if rest > 0:
            return Decision(memory=memory, requeue_after_seconds=rest)
    recent = tuple(at for at in memory.unsuspended_at if now - at < CONTEST_SECONDS)
    memory = msgspec.structs.replace(memory, unsuspended_at=(*recent, now)[-MAX_RESUMES:])
    if len(recent) + 1 >= MAX_RESUMES and not _is_recent(memory.displaced_at, now):
        return _displace(view, job, unit, memory)
    if _is_recent(memory.contest_event_at, now):
        return Decision(actions=(suspend_job(view, job),), memory=memory)
    message = f"Suspended again: {_why_not(unit)}"
    event = RecordJobEvent(reason="SuspendedAgain", message=message, type=EventType.WARNING)
    memory = msgspec.structs.replace(memory, contest_event_at=now)
    return Decision(actions=(suspend_job(view, job), event), memory=memory)


def _is_recent(at: float | None, now: float) -> bool:
    return at is not None and now - at < CONTEST_SECONDS


def _why_not(unit: QueueUnit) -> str:
    """Return why the job may not run, and what makes it run."""
    if unit.spec.active is False:
        return f"its queue unit is not active. To have it run, {how_to_activate(unit)}"
    queue = f"queue {unit.spec.queue}" if unit.spec.queue else "the queue"
    why = "it is being evicted" if is_being_evicted(unit) else f"{queue} has not admitted it yet"
    return f"{why}. When it is its turn, the queue resumes it"


def _displace(view: JobView, job: JobFacts, unit: QueueUnit, memory: JobMemory) -> Decision:
    """Suspend it, and move its unit to the end of its queue."""
    reason, where = OUT_OF_TURN, "it has gone to the end of its queue"
    if is_being_evicted(unit):
        reason, where = AGAINST_EVICTION, "once it has stopped it waits at the end of its queue"
    message = (
        f"Resumed {MAX_RESUMES} times within {CONTEST_SECONDS:g} s by others: it is"
        f" suspended again each time, and {where}. What applies it must leave its suspend"
        " field to the queue"
    )
    contested = Condition(type=SUSPEND_CONTESTED, status="True", reason=reason, message=message)
    event = RecordJobEvent(reason=SUSPEND_CONTESTED, message=message, type=EventType.WARNING)
    now = view.moment.monotonic
    return Decision(
        # First what stops the job: a status write that is refused, or meets a newer version, is
        # repeated by the next reconcile, since only a successful write is remembered.
        actions=(suspend_job(view, job), to_the_end(unit, contested, view.moment), event),
        memory=msgspec.structs.replace(memory, displaced_at=now, contest_event_at=now),
    )


# --- its place in the queue -----------------------------------------------------------------------


def keep_place(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Keep the queue position of a job whose unit was deleted or came late; None if it has it.

    A unit comes late if it was deleted and created again, or no controllers ran when the job was
    created.
    """
    if (restored := _restore_contest(view, unit)) is not None:
        # First of all: until then it has the position of its creation, which is further back.
        return Decision(actions=(restored,), memory=view.memory)
    if phase_of(unit) not in WAITING_PHASES or view.memory.place_kept:
        return None
    made = read_time(unit.metadata.creation_timestamp)
    if unit.status.job_creation_timestamp is not None or made is None or not comes_late(job, made):
        return None
    created = job.metadata.creation_timestamp
    write = PatchUnitStatus(unit=unit, status={"jobCreationTimestamp": created})
    memory = msgspec.structs.replace(view.memory, place_kept=True)
    return Decision(actions=(write,), memory=memory)


def comes_late(job: JobFacts, made: datetime) -> bool:
    """Return whether a unit created at `made` is too late to share its job's queue position."""
    created = read_time(job.metadata.creation_timestamp)
    return created is not None and (made - created).total_seconds() >= LATE_UNIT_SECONDS


def to_the_end(unit: QueueUnit, contested: Condition, moment: Moment) -> PatchUnitStatus:
    """Return the write that moves a unit to the end of its queue.

    The condition's time is that of the last such move, so it changes though the status stays True.
    """
    others = tuple(each for each in unit.status.conditions if each.type != SUSPEND_CONTESTED)
    status = msgspec.structs.replace(unit.status, conditions=others)
    without = msgspec.structs.replace(unit, status=status)
    return set_condition(without, contested, moment)


def read_lost(unit: QueueUnit) -> LostUnit | None:
    """Return what of a deleted unit counts against its job's next one, None: nothing."""
    if is_final(unit):
        return None
    contested_condition = find_condition(unit.status.conditions, SUSPEND_CONTESTED)
    contested = contested_condition if contested_since(unit) else None
    lost = LostUnit(waited=not occupies_quota(unit), contested=contested)
    return None if lost == LostUnit() else lost


def _restore_contest(view: JobView, unit: QueueUnit) -> PatchUnitStatus | None:
    """Return the write that puts a unit where the one before it stood, None if it may stay.

    That one was at the end of its queue, and was deleted.
    """
    contested = None if view.lost is None else view.lost.contested
    conditions = unit.status.conditions
    if contested is None or find_condition(conditions, SUSPEND_CONTESTED) is not None:
        return None
    status = {
        "conditions": [condition_body(each) for each in (*conditions, contested)],
        "lastUpdateTime": view.moment.stamp,
    }
    return PatchUnitStatus(unit=unit, status=status)
