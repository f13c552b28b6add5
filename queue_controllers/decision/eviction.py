"""Why an admitted unit must give its quota back, how it does, and what it waits for then. Pure.

An eviction is requested by the condition `Evicted=True` with a reason. The scheduler writes it (to
preempt, to drain, for an admission check), or the controllers do, by `why_evict`. Every eviction is
carried out in the same way: the job is suspended, its pods go, and then the unit is freed. The
event on the job has the name of the reason.

Read in this order: `follow_eviction`, which asks whether anything of this concerns a unit now; the
eviction; the write that frees the unit; `_follow_deactivation` for a unit that is not requeued; how
long the pods of a job have run.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from queue_controllers.decision.actions import (
    EventType,
    PatchUnit,
    PatchUnitStatus,
    RecordJobEvent,
    RecordUnitEvent,
    ResizeJob,
)
from queue_controllers.decision.grants import outgrows, plan_restoration, was_released_already
from queue_controllers.decision.job_annotations import how_to_activate, read_active
from queue_controllers.decision.job_ownership import ClusterContext, quota_of_job
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_state import JobState
from queue_controllers.decision.job_view import Decision, JobView, Moment
from queue_controllers.decision.pending import (
    SILENT_SECONDS,
    suspend_again,
    suspend_job,
    wait_until_stopped,
)
from queue_controllers.decision.queue_unit_builder import (
    annotations_of_unit,
    is_created_by_us,
    labels_of_unit,
)
from queue_controllers.decision.unit_status_patches import (
    OPERATOR_SILENT,
    last_past,
    move_unit,
    set_condition,
)
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.evictions import (
    BACKOFF_TIMEOUT,
    DEACTIVATED,
    backoffs_of,
    ends_in_backoff,
    eviction_reason,
    is_refused_by_checks,
    min_requeue_seconds,
)
from shared_api.objects.meta import Condition, find_condition, is_condition_true
from shared_api.objects.queue_unit import QueueUnit
from shared_api.placement import as_admitted
from shared_api.queue_unit_phases import (
    ADMITTED,
    BACKOFF_LIMIT_REACHED,
    DEACTIVATION_CONDITIONS,
    EVICTED,
    MAXIMUM_EXECUTION_TIME_EXCEEDED,
    POD_SET_UPDATES_CONFLICT,
    PODS_BEYOND_GRANT,
    PODS_READY,
    QUOTA_RESERVED,
    Phase,
    is_being_evicted,
    occupies_quota,
    phase_of,
)
from shared_api.timestamps import read_time
from shared_api.well_known_labels import (
    ACTIVE,
    DEACTIVATION_MARKS,
    LIMIT_REACHED,
    TIME_EXCEEDED,
    UPDATES_CONFLICT,
    read_queue_name,
    read_quota_name,
)

JOB_CHANGED: Final = "JobChanged"
PODS_REFUSED: Final = "PodsRefused"
"""Reasons of evictions, in addition to those of `shared_api.evictions`."""

DEACTIVATING: Final[Mapping[str, str]] = {
    MAXIMUM_EXECUTION_TIME_EXCEEDED: TIME_EXCEEDED,
    POD_SET_UPDATES_CONFLICT: UPDATES_CONFLICT,
}
"""Reasons of evictions after which a unit is inactive -> the mark on it that says so."""

TIME_IS_UP: Final = "Evicted because the maximum execution time was exceeded"
"""Upstream's message."""

MAX_REASON_CHARS: Final = 128
"""Limit of an event's reason: the API server refuses longer ones."""

MAX_JITTER: Final = 0.1
"""Share by which a backoff is longer or shorter at most, so that not all end together."""

CUT_OFF_SECONDS: Final = 2.0
"""How far apart two times in objects may be further for their truncated fractions."""

MAX_MARK_CHARS: Final = 16
"""How much is kept of the annotation's value: a truth value has at most five characters."""

MAX_SECONDS: Final = 2**31 - 1
"""Limit of the status field, an int32."""

_REASONS: Final = {mark: reason for reason, mark in DEACTIVATING.items()}
_COUNTED_ANEW: Final = {
    LIMIT_REACHED: ", and its backoffs are counted from zero",
    TIME_EXCEEDED: ", and the time that it runs is counted from zero",
}


def follow_eviction(
    view: JobView, job: JobFacts, unit: QueueUnit, state: JobState
) -> Decision | None:
    """Return what to do about a unit that is to be evicted, or deactivated; None for nothing."""
    if (decision := _follow_deactivation(view, job, unit)) is not None:
        return decision
    if (silence := note_silence(view, unit, state)) is not None:
        return Decision(actions=(silence,), memory=view.memory)
    if is_being_evicted(unit):
        return _carry_out(view, job, unit, state)
    if occupies_quota(unit) and (found := why_evict(view, job, unit, state)):
        return announce_eviction(view, unit, *found)
    return None


def is_silent(view: JobView, state: JobState) -> bool:
    """Return whether the job counts as stopped although its operator has not said so."""
    return state.stopped and view.memory.quiet_since is not None


def note_silence(view: JobView, unit: QueueUnit, state: JobState) -> PatchUnitStatus | None:
    """Return the write that records that the operator's time is over; None if there is none."""
    if not is_silent(view, state) or is_condition_true(unit.status.conditions, OPERATOR_SILENT):
        return None
    message = f"No pod lives, and the operator has not confirmed for {SILENT_SECONDS:g} s"
    silent = Condition(type=OPERATOR_SILENT, status="True", reason="NotConfirmed", message=message)
    return set_condition(unit, silent, view.moment)


def why_evict(
    view: JobView, job: JobFacts, unit: QueueUnit, state: JobState
) -> tuple[str, str] | None:
    """Return the reason and message for which an admitted unit must give its quota back."""
    if unit.spec.active is False:
        return DEACTIVATED, "Evicted because the queue unit is deactivated"
    left = seconds_left(unit, view.moment.wall)
    if left is not None and left <= 0:
        return MAXIMUM_EXECUTION_TIME_EXCEEDED, TIME_IS_UP
    if not state.stopped or job.unknown_demand:
        return None
    if moved := where_else(job, unit, view.context):
        # Released now, its pods would be charged to one quota while the unit is charged to another,
        # or it would run out of a queue that its user has taken it from.
        return JOB_CHANGED, f"Evicted because the job names another {moved} than it was admitted in"
    if outgrows(job, unit, was_released=was_released_already(job, unit)):
        # Released now, it would run with more than was admitted.
        return JOB_CHANGED, "Evicted because the job asks for more than it was admitted with"
    return None


def where_else(job: JobFacts, unit: QueueUnit, context: ClusterContext) -> str:
    """Return how the job's quota or queue now differs from its unit's, "" if it does not.

    The quota of a namespace is not a name that the job states: both programs look it up wherever it
    counts.
    """
    quota = quota_of_job(job, context)
    labels = labels_of_unit(job, quota)
    is_ours, unit = is_created_by_us(unit), as_admitted(unit)
    meta = unit.metadata
    if not is_ours:
        # A unit made by hand may name what its job does not. The mark of who made it can be edited.
        own_quota = read_quota_name(labels)
        return "quota" if own_quota and own_quota != read_quota_name(meta.labels) else ""
    if read_quota_name(labels) != read_quota_name(meta.labels):
        return "quota"
    named = read_queue_name(labels, annotations_of_unit(job))
    is_named_anew = named != read_queue_name(meta.labels, meta.annotations)
    return "queue" if is_named_anew and (named or quota) != unit.spec.queue else ""


def announce_eviction(view: JobView, unit: QueueUnit, reason: str, message: str) -> Decision:
    """Request an eviction in the unit's status; it is carried out by the next reconcile.

    Phase and admissions stay: until then the unit is charged.
    """
    requested = Condition(type=EVICTED, status="True", reason=reason, message=message)
    announced = set_condition(unit, requested, view.moment, message=message)
    event = RecordUnitEvent(unit=unit, reason="Evicted", message=message, type=EventType.WARNING)
    return Decision(actions=(announced, event), memory=view.memory)


def _carry_out(view: JobView, job: JobFacts, unit: QueueUnit, state: JobState) -> Decision:
    """Stop the job, and free its unit when it is stopped."""
    mark = DEACTIVATING.get(_eviction_of(unit).reason)
    if mark is not None and not _mark_of(unit):
        return _deactivate(view, job, unit, mark)  # so that the unit is never free and active
    if not job.suspended:
        if view.memory.evicting:
            return suspend_again(view, job, unit)
        if job.status.is_ending:
            return Decision(memory=view.memory)  # the watch event of its end triggers a reconcile
        memory = msgspec.structs.replace(view.memory, evicting=True)
        return Decision(
            actions=(suspend_job(view, job), _eviction_event(view, job, unit)), memory=memory
        )
    if not state.stopped:
        return wait_until_stopped(view, state)
    if (decision := _reach_limit_when_freed(view, job, unit)) is not None:
        return decision
    silent = is_silent(view, state)
    freed = _complete(unit, view.settings, view.moment, jitter=view.jitter, silent=silent)
    # A job that was suspended when its eviction was requested has no event about it yet.
    events = () if view.memory.evicting else (_eviction_event(view, job, unit),)
    # Nor has it got the pods back that its release did not let run.
    resize = plan_restoration(job)
    restored = () if resize is None else (ResizeJob(resize=resize),)
    return Decision(actions=(*restored, freed, *events), memory=view.memory)


def _eviction_event(view: JobView, job: JobFacts, unit: QueueUnit) -> RecordJobEvent:
    """Return the event that says why the job is stopped, and how it continues."""
    evicted = _eviction_of(unit)
    it = "It" if job.suspended else "It keeps its quota until its pods are gone, then it"
    if unit.spec.active is False:
        then = f"It stays suspended. To have it wait in the queue again, {how_to_activate(unit)}"
    elif job.kind.held_by_gates:
        then = "Its pods are deleted; those that are made in their stead wait in the queue again"
    elif _reaches_limit(view, unit):
        then = f"{it} stays suspended: that was its last try, by its backoff limit"
    elif _ends_in_backoff(unit):
        when = f"from the time that its queue unit {unit.metadata.name} names"
        then = f"{it} waits in the queue again, {when}"
    else:
        then = f"{it} waits in the queue again"
    why = evicted.message or evicted.reason
    text = why if why.startswith("Evicted") else f"Evicted: {why}"
    reason = evicted.reason[:MAX_REASON_CHARS] or "Evicted"
    return RecordJobEvent(reason=reason, message=f"{text}. {then}", type=EventType.WARNING)


def requeue_at_time_limit(view: JobView, unit: QueueUnit, decision: Decision) -> Decision:
    """Return the decision with a reconcile at the moment when the job's time is used up."""
    left = seconds_left(unit, view.moment.wall)
    if left is None or is_being_evicted(unit):
        return decision
    rests = [each for each in (left, decision.requeue_after_seconds) if each is not None]
    return msgspec.structs.replace(decision, requeue_after_seconds=max(min(rests), 0.0))


# --- the write that frees a unit ------------------------------------------------------------------


def _complete(
    unit: QueueUnit, settings: JobSettings, moment: Moment, *, jitter: float, silent: bool
) -> PatchUnitStatus:
    """Return the write that ends an eviction: the unit is no longer charged.

    It is pending again at once, or after a backoff, or inactive: the eviction's reason decides.
    """
    # That it was resumed against the queue stays true until it runs when admitted: it is its place
    # in the queue.
    cleared = (PODS_BEYOND_GRANT,) if silent else (PODS_BEYOND_GRANT, OPERATOR_SILENT)
    extra, noted = _execution_time_status(unit, moment), _why_inactive(unit)
    if noted:
        to, message = Phase.ENQUEUED, noted[0].message
        if _ends_in_backoff(unit):
            extra["requeueState"] = {"count": backoffs_of(unit) + 1, "requeueAt": None}
    elif _ends_in_backoff(unit):
        to, message = Phase.TIMEOUT_BACKOFF, _eviction_of(unit).message or "Backoff"
        extra |= _backoff_status(unit, settings, moment, jitter)
    else:
        to, message = Phase.ENQUEUED, f"Enqueued after eviction: {_eviction_of(unit).reason}"
    return move_unit(unit, to, moment, message=message, cleared=cleared, noted=noted, extra=extra)


def _eviction_of(unit: QueueUnit) -> Condition:
    """Return the eviction in progress, or the last one; without a reason if there is none."""
    none = Condition(type=EVICTED, status="False")
    return find_condition(unit.status.conditions, EVICTED) or none


def _ends_in_backoff(unit: QueueUnit) -> bool:
    """Return whether the eviction in progress ends in a backoff."""
    return ends_in_backoff(unit) and phase_of(unit) is not Phase.RESERVED


def _why_inactive(unit: QueueUnit) -> tuple[Condition, ...]:
    """Return the condition of a unit that is freed and that the controllers have deactivated."""
    reason = _eviction_of(unit).reason
    if reason in DEACTIVATING:
        return (_deactivated_condition(unit, reason),)
    if _ends_in_backoff(unit) and LIMIT_REACHED in unit.metadata.annotations:
        return (_limit_condition(unit, backoffs_of(unit) + 1),)
    return ()


def _backoff_status(
    unit: QueueUnit, settings: JobSettings, moment: Moment, jitter: float
) -> dict[str, object]:
    """Return the part of a status that says until when a unit backs off."""
    count = backoffs_of(unit) + 1
    seconds = settings.backoff.seconds(max(count - 1, 0)) * (1 + jitter)
    seconds = max(seconds, float(min_requeue_seconds(unit)))
    return {"requeueState": {"count": count, "requeueAt": moment.after(seconds).stamp}}


def _execution_time_status(unit: QueueUnit, moment: Moment) -> dict[str, object]:
    """Return the part of a status that keeps how long the job has run until now.

    If its time is used up, it restarts at zero, should the job be activated again.
    """
    banked = unit.status.accumulated_past_execution_time_seconds
    seconds: int | None = seconds_to_bank(unit, moment.wall)
    if eviction_reason(unit) == MAXIMUM_EXECUTION_TIME_EXCEEDED:
        seconds = None
    if (seconds or None) == banked:
        return {}
    return {"accumulatedPastExecutionTimeSeconds": seconds}


def move_backoff_end(
    unit: QueueUnit, settings: JobSettings, moment: Moment, jitter: float
) -> PatchUnitStatus | None:
    """Return the write that moves the end of a backoff to where the settings have it, None: it is.

    `requeueAt` stands for a wait of `backoff`, give or take the jitter, since the unit lost its
    quota. A unit that was requeued by others for another reason may have another wait.
    """
    state, since = unit.status.requeue_state, _backs_off_since(unit, moment)
    until = None if state is None else read_time(state.requeue_at)
    if state is None or since is None or until is None:
        return None
    wanted = settings.backoff.seconds(max(state.count - 1, 0))
    if abs((until - since).total_seconds() - wanted) <= MAX_JITTER * wanted + CUT_OFF_SECONDS:
        return None
    begun = Moment(monotonic=0.0, wall=since)
    requeue = {"count": state.count, "requeueAt": begun.after(wanted * (1 + jitter)).stamp}
    return PatchUnitStatus(unit=unit, status={"requeueState": requeue})


def _backs_off_since(unit: QueueUnit, moment: Moment) -> datetime | None:
    """Return since when a unit backs off; None if it does not, or if that is unknown."""
    conditions = unit.status.conditions
    evicted = find_condition(conditions, EVICTED)
    if phase_of(unit) is not Phase.TIMEOUT_BACKOFF or evicted is None:
        return None
    if evicted.reason != BACKOFF_TIMEOUT or is_refused_by_checks(unit):
        return None
    lost = (find_condition(conditions, each) for each in (QUOTA_RESERVED, ADMITTED))
    moments = (read_time(each.last_transition_time) for each in lost if each is not None)
    return last_past(moments, moment)


# --- deactivation ---------------------------------------------------------------------------------
# Units that the controllers have made inactive, and how they become active again.
#
# A unit is deactivated for one of three reasons: it reached its backoff limit, its pods have run
# for as long as they may, or its admission checks contradict each other (`release`). The reason
# stands in the status, `active` in the spec, so each way takes two writes. The process may end
# between them; what the first has written makes the next reconcile do the second:
#
#     inactive:  the mark and `active: false`  ->  the condition, with which it is freed
#     active:    count and condition go        ->  the mark goes, and `active: true`
#
# The mark is an annotation on the unit, one for each reason. Its value is what the job's `active`
# annotation was then: "true" may have stood there all the time, and would undo the deactivation at
# the next reconcile. So only a later change of it counts. Setting `active` on the unit works, too.
# `pending` reports the condition on the job.


def _follow_deactivation(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Return what to do about a unit that is deactivated, or to be; None for nothing."""
    mark = _mark_of(unit)
    if not mark:
        return _reach_limit(view, job, unit)
    if is_being_evicted(unit):
        return None  # return to this when it is free
    before, after = unit.metadata.annotations[mark], _active_mark(job)
    if unit.spec.active is not False or (after != before and read_active(job)):
        return _activate(view, unit, mark)
    if after != before:
        noted = {"metadata": {"annotations": {mark: after}}}
        return Decision(actions=(PatchUnit(unit=unit, body=noted),), memory=view.memory)
    if occupies_quota(unit) or _conditions_of(unit):
        return None
    wanted = _limit_condition(unit, backoffs_of(unit))
    if (reason := _REASONS.get(mark)) is not None:
        wanted = _deactivated_condition(unit, reason)
    write = set_condition(unit, wanted, view.moment, message=wanted.message)
    return Decision(actions=(write,), memory=view.memory)


def _reach_limit(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Deactivate a pending unit whose limit was lowered to its count of requeues; else None."""
    if occupies_quota(unit) or not _is_limit(view, backoffs_of(unit)):
        return None
    return _deactivate(view, job, unit, LIMIT_REACHED)


def _reach_limit_when_freed(view: JobView, job: JobFacts, unit: QueueUnit) -> Decision | None:
    """Deactivate a unit whose eviction would requeue it once too often; None if it would not.

    This comes before the unit is freed, so that it is never free and active.
    """
    is_new = not _mark_of(unit) and _reaches_limit(view, unit)
    return _deactivate(view, job, unit, LIMIT_REACHED) if is_new else None


def _reaches_limit(view: JobView, unit: QueueUnit) -> bool:
    """Return whether the eviction in progress brings the unit to its backoff limit."""
    return _ends_in_backoff(unit) and _is_limit(view, backoffs_of(unit) + 1)


def _is_limit(view: JobView, count: int) -> bool:
    limit = view.settings.backoff_limit
    return limit > 0 and count >= limit


def _deactivate(view: JobView, job: JobFacts, unit: QueueUnit, mark: str) -> Decision:
    """Make a unit inactive for the reason that the mark names."""
    body = {"metadata": {"annotations": {mark: _active_mark(job)}}, "spec": {"active": False}}
    return Decision(actions=(PatchUnit(unit=unit, body=body),), memory=view.memory)


def _mark_of(unit: QueueUnit) -> str:
    """Return the annotation that says why the controllers deactivated the unit, or ""."""
    annotations = unit.metadata.annotations
    return next((each for each in DEACTIVATION_MARKS if each in annotations), "")


def _conditions_of(unit: QueueUnit) -> list[str]:
    conditions = unit.status.conditions
    return [each for each in DEACTIVATION_CONDITIONS if is_condition_true(conditions, each)]


def _activate(view: JobView, unit: QueueUnit, mark: str) -> Decision:
    status: dict[str, object] = {}
    for condition_type in _conditions_of(unit):  # at most one: a unit has one mark
        over = Condition(type=condition_type, status="False", reason="Activated")
        status |= set_condition(unit, over, view.moment).status
    if unit.status.requeue_state is not None:
        status["requeueState"] = None
    if status:
        write = PatchUnitStatus(unit=unit, status=status)
        return Decision(actions=(write,), memory=view.memory)
    body = {"metadata": {"annotations": {mark: None}}, "spec": {"active": True}}
    message = f"Active again: it waits for its turn{_COUNTED_ANEW.get(mark, '')}"
    event = RecordJobEvent(reason="Activated", message=message)
    return Decision(actions=(PatchUnit(unit=unit, body=body), event), memory=view.memory)


def _active_mark(job: JobFacts) -> str:
    return job.metadata.annotations.get(ACTIVE, "")[:MAX_MARK_CHARS]


def _limit_condition(unit: QueueUnit, count: int) -> Condition:
    """Return the condition that says why a unit at its backoff limit is inactive."""
    times = "once" if count == 1 else f"{count} times"
    message = (
        f"Deactivated at its backoff limit: put back {times}, since its pods did not run in"
        " time, others kept suspending it, or its admission checks did not let it."
        f" To have it tried again, {how_to_activate(unit)}"
    )
    return Condition(
        type=BACKOFF_LIMIT_REACHED, status="True", reason=BACKOFF_LIMIT_REACHED, message=message
    )


def _deactivated_condition(unit: QueueUnit, reason: str) -> Condition:
    """Return the condition that says why a unit is inactive that was evicted for this reason."""
    if reason == MAXIMUM_EXECUTION_TIME_EXCEEDED:
        why, again = "its pods have run for as long as they may", "run again for as long"
    else:
        condition = _eviction_of(unit)
        requested_why = condition.message if condition.status == "True" else ""
        why, again = requested_why or "admission checks contradict each other", "tried again"
    message = f"Deactivated: {why}. To have it {again}, {how_to_activate(unit)}"
    return Condition(type=reason, status="True", reason=reason, message=message)


# --- how long the pods of a job have run ----------------------------------------------------------
# In all its runs, and how long they still may.
#
# The clock is in the unit: it runs while the condition `PodsReady` is True, from its transition
# time, and starts at what earlier runs have used (`status.accumulatedPastExecutionTimeSeconds`).
# The write that frees an evicted unit stops the clock and adds the run, so a job that is evicted
# again and again does not run forever. When the time is used up the count restarts at zero: to
# activate the job again grants it its whole time.
#
# For a job that is suspended by others and resumed in the same admission the clock continues: its
# unit stays Running all the while.


def _seconds_executed(unit: QueueUnit, now: datetime) -> float:
    """Return how many seconds the job's pods have run until now, earlier runs included."""
    banked = unit.status.accumulated_past_execution_time_seconds or 0
    ready = find_condition(unit.status.conditions, PODS_READY)
    if ready is None or ready.status != "True":
        return banked
    since = read_time(ready.last_transition_time)
    if since is None:
        return banked
    return banked + max((now - since).total_seconds(), 0.0)


def seconds_to_bank(unit: QueueUnit, now: datetime) -> int:
    """Return `accumulatedPastExecutionTimeSeconds` for a run that ends now."""
    return min(int(_seconds_executed(unit, now)), MAX_SECONDS)


def seconds_left(unit: QueueUnit, now: datetime) -> float | None:
    """Return how many seconds the job may still run; 0 or less: none. None where no clock runs."""
    allowed = unit.spec.maximum_execution_time_seconds
    ready = find_condition(unit.status.conditions, PODS_READY)
    if allowed is None or ready is None or ready.status != "True":
        return None
    return allowed - _seconds_executed(unit, now)
