"""The life of a QueueUnit: its phases, which program writes each move, and what is charged.

The phase is authoritative; conditions are derived from it in the same write, for readers of the
object. A unit is Enqueued from its creation (the CRD's default, without a write)::

                 +--------------------- evicted, or its wait is over ---------------------+
                 v                                                                         |
    (born) -> Enqueued -> Reserved -> Dequeued -> Running -> Succeed or Failed             |
                 |            |          |           |                                     |
                 |            +----------+-----------+--> TimeoutBackoff ------------------+
                 +--> SchedReady -> SchedSucceed -> Running
                          +-------> SchedFailed -> Enqueued, TimeoutBackoff

A job that ran before the queue knew of it is *adopted*: the controllers create its unit, which is
Enqueued like any other, and then move it straight to Running, from any phase before the start. The
same write grants what the job requests and sets the condition `Adopted=True`. The proof is the
status: a create and an ordinary patch cannot write it, nor can users who may only edit objects. An
annotation proves nothing. Between the two writes the living pods are charged.

Two programs write the same `status`, so each move has its writers, and each write is guarded by the
resourceVersion that its writer has seen. An eviction is visible before it happens: first the
condition `Evicted=True` is written (phase and admissions stay, the unit is still charged), then the
job is stopped, and only then Enqueued or TimeoutBackoff is written without admissions, which
releases the quota.

Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, StrEnum
from typing import Any, Final

import msgspec

from shared_api.objects.meta import Condition, Timestamp, find_condition, is_condition_true
from shared_api.objects.queue_unit import Admission, QueueUnit, SalvagedUnit
from shared_api.well_known_labels import MANAGED_BY, read_annotation


class Phase(StrEnum):
    """Values of `status.phase`; they are upstream's, including odd spellings."""

    ENQUEUED = "Enqueued"
    RESERVED = "Reserved"
    DEQUEUED = "Dequeued"
    RUNNING = "Running"
    SUCCEED = "Succeed"
    FAILED = "Failed"
    SCHED_READY = "SchedReady"
    SCHED_SUCCEED = "SchedSucceed"
    SCHED_FAILED = "SchedFailed"
    TIMEOUT_BACKOFF = "TimeoutBackoff"


_DEMAND_FIELDS: Final = frozenset({"podSet", "request", "resource"})


class Writer(Enum):
    """The program that writes a phase."""

    SCHEDULER = "scheduler"
    CONTROLLERS = "controllers"
    RESERVATIONS = "the program that reserves nodes in strict mode"


_E, _R, _D = Phase.ENQUEUED, Phase.RESERVED, Phase.DEQUEUED
_READY, _SUCCESS, _FAILURE = Phase.SCHED_READY, Phase.SCHED_SUCCEED, Phase.SCHED_FAILED
_RUN, _BACKOFF = Phase.RUNNING, Phase.TIMEOUT_BACKOFF
_SCHEDULER = frozenset({Writer.SCHEDULER})
_CONTROLLERS = frozenset({Writer.CONTROLLERS})
_RESERVATIONS = frozenset({Writer.RESERVATIONS})
_EITHER = _SCHEDULER | _CONTROLLERS

# A dict, because `Phase(...)` takes three times as long, and each decision needs it often.
_PHASES: Final[Mapping[str, Phase]] = {phase.value: phase for phase in Phase}

FINAL_PHASES: Final = frozenset({Phase.SUCCEED, Phase.FAILED})

MOVES: Final[Mapping[tuple[Phase, Phase], frozenset[Writer]]] = {
    # The unit is admitted.
    (_E, _R): _SCHEDULER,
    (_E, _D): _SCHEDULER,
    (_E, _READY): _SCHEDULER,
    (_R, _D): _SCHEDULER,
    (_R, _READY): _SCHEDULER,
    # Strict mode: nodes are reserved before the job is released.
    (_READY, _SUCCESS): _RESERVATIONS,
    (_READY, _FAILURE): _RESERVATIONS,
    (_READY, _D): _SCHEDULER,
    # Its pods run.
    (_D, _RUN): _CONTROLLERS,
    (_SUCCESS, _RUN): _CONTROLLERS,
    # Its pods ran before it was admitted: only with `Adopted=True`, which `check_move` requires.
    (_E, _RUN): _CONTROLLERS,
    (_R, _RUN): _CONTROLLERS,
    (_READY, _RUN): _CONTROLLERS,
    (_FAILURE, _RUN): _CONTROLLERS,
    (_BACKOFF, _RUN): _CONTROLLERS,
    # Its quota is released by an eviction that has been carried out.
    (_R, _E): _EITHER,
    (_D, _E): _CONTROLLERS,
    (_RUN, _E): _CONTROLLERS,
    (_READY, _E): _EITHER,
    (_SUCCESS, _E): _CONTROLLERS,
    (_FAILURE, _E): _EITHER,
    (_R, _BACKOFF): _EITHER,
    (_D, _BACKOFF): _CONTROLLERS,
    (_RUN, _BACKOFF): _CONTROLLERS,
    (_READY, _BACKOFF): _EITHER,
    (_SUCCESS, _BACKOFF): _CONTROLLERS,
    (_FAILURE, _BACKOFF): _EITHER,
    # The backoff is over: always the scheduler, so that only one program measures it.
    (_BACKOFF, _E): _SCHEDULER,
    # The job ended, whatever the phase: a deadline may end a job that never ran.
    **{
        (phase, final): _CONTROLLERS
        for phase in Phase
        if phase not in FINAL_PHASES
        for final in sorted(FINAL_PHASES)
    },
}
"""(from, to) -> the programs that may write the move. A move that is missing here is illegal."""

CHARGED_PHASES: Final = frozenset({_R, _D, _RUN, _READY, _SUCCESS, _FAILURE})
"""Phases in which a unit is charged: from its admission until its end or the release of its quota.
SchedFailed is charged as well."""

RELEASED_PHASES: Final = frozenset({_D, _SUCCESS, _RUN})
"""Phases in which the job may be resumed."""

ADOPTED: Final = "Adopted"
"""Condition: the job ran before the queue knew of it. W: the controllers."""

ADOPTABLE_PHASES: Final = frozenset({_E, _R, _READY, _FAILURE, _BACKOFF})
"""Phases in which the job is not released yet: if it runs all the same, it can be adopted."""

QUOTA_RESERVED: Final = "QuotaReserved"
PODS_ELSEWHERE: Final = "PodsElsewhere"
"""Condition, and its reason: labels of living pods name another quota than the unit's. W: the
scheduler."""
NO_PODS_ELSEWHERE: Final = "NoPodsElsewhere"
"""The reason of that condition once it is over."""
NOTHING_REQUESTED: Final = "NothingRequested"
"""Reason of `QUOTA_RESERVED` for a unit whose pods request no resource that its quota limits."""
ADMITTED: Final = "Admitted"
PODS_READY: Final = "PodsReady"
FINISHED: Final = "Finished"
EVICTED: Final = "Evicted"

PREEMPTED: Final = "Preempted"
RECLAIMED: Final = "Reclaimed"
"""Reasons of evictions that the scheduler requests: in favor of a unit of higher rank in the queue,
and for a quota that reclaims what it has lent. The first is upstream's."""

MAKING_ROOM: Final = frozenset({PREEMPTED, RECLAIMED})

BACKOFF_LIMIT_REACHED: Final = "BackoffLimitReached"
MAXIMUM_EXECUTION_TIME_EXCEEDED: Final = "MaximumExecutionTimeExceeded"
POD_SET_UPDATES_CONFLICT: Final = "PodSetUpdatesConflict"
"""Conditions: why the controllers have deactivated the unit. False: it is active again. All but the
first are also the reasons of the evictions; the second is upstream's."""
DEACTIVATION_CONDITIONS: Final = (
    BACKOFF_LIMIT_REACHED,
    MAXIMUM_EXECUTION_TIME_EXCEEDED,
    POD_SET_UPDATES_CONFLICT,
)

SUSPEND_CONTESTED: Final = "SuspendContested"
"""Condition, written by the controllers: another client kept resuming the job, and since then the
unit is at the end of its queue. False: it has been admitted and has run since."""

PODS_BEYOND_GRANT: Final = "PodsBeyondGrant"
"""Condition, written by the controllers: pods of an admitted job wait at their gates, since they
ask for more than the unit was admitted with. False: none does any more."""

WAITED_FOR: Final = "WaitForPodsRunning"
"""Reason of PodsReady=False while the unit's queue starts no other unit until its pods run."""

NO_PODS: Final = "NoPods"
PODS_UNSCHEDULABLE: Final = "PodsUnschedulable"
"""Reasons of PodsReady that the controllers write: the job has no pods; some of its pods have had
no node for long. A unit in Running keeps the status True, by which its running time is counted."""
PODS_PENDING: Final = "PodsPending"
"""Reason of PodsReady=False while no pod runs yet: one of the reasons above no longer applies, or
the unit was adopted."""
PODS_RUNNING: Final = "PodsRunning"
RUN: Final = "Pods of the job run"
"""Reason and message of PodsReady=True."""


JOB_IS_DELETED: Final = "Failed: the job is deleted"
"""Message of a unit in Failed whose job has not ended by itself. W: the controllers."""


class IllegalMoveError(AssertionError):
    """A program tried a move that it may not write: a bug in the caller; the text has details."""


def phase_of(unit: QueueUnit) -> Phase:
    """Return the unit's phase; a missing or unknown one counts as Enqueued.

    A unit with a phase of another version (legacy `Preempted`) is therefore pending, which is the
    safe choice: its living pods are charged whatever its phase.
    """
    return _PHASES.get(unit.status.phase, Phase.ENQUEUED)


def is_final(unit: QueueUnit) -> bool:
    """Return whether the job of the unit has ended."""
    return phase_of(unit) in FINAL_PHASES


def is_adopted(unit: QueueUnit) -> bool:
    """Return whether the job ran before the queue knew of it, and has kept its quota since.

    The write that releases the quota sets the condition to False: then the unit is pending like any
    other.
    """
    return is_condition_true(unit.status.conditions, ADOPTED)


def was_evicted(unit: QueueUnit) -> bool:
    """Return whether an eviction was requested, whether or not it was carried out."""
    return find_condition(unit.status.conditions, EVICTED) is not None


def occupies_quota(unit: QueueUnit) -> bool:
    """Return whether the unit itself is charged, apart from its living pods."""
    return phase_of(unit) in CHARGED_PHASES


def salvage_unit(body: dict[str, Any], error: str) -> SalvagedUnit:
    """Return a unit without its demand, so that its other fields still count.

    The CRD has no schema for pod templates, so only they may fail to decode. The usage of a started
    unit is recorded in its admissions; its end, and its release by an eviction, must be noticed all
    the same. A pending unit is put on hold: without a demand it does not block others.

    Args:
        body: The decoded JSON of the unit.
        error: Why it cannot be decoded as it is.

    Raises:
        msgspec.ValidationError: Another field cannot be decoded.
    """
    spec = body.get("spec")
    if isinstance(spec, dict):  # it may be missing: the schema does not require it
        kept = {key: value for key, value in spec.items() if key not in _DEMAND_FIELDS}
        body = {**body, "spec": kept}
    return msgspec.convert({**body, "unreadable": error}, SalvagedUnit)


def is_being_evicted(unit: QueueUnit) -> bool:
    """Return whether an eviction was requested and is not completed yet."""
    conditions = unit.status.conditions
    return bool(conditions) and is_condition_true(conditions, EVICTED) and occupies_quota(unit)


def is_waited_for(unit: QueueUnit) -> bool:
    """Return whether the queue of an admitted unit waits until the unit's pods run."""
    condition = find_condition(unit.status.conditions, PODS_READY)
    return condition is not None and condition.reason == WAITED_FOR


def contested_since(unit: QueueUnit) -> str:
    """Return since when a contested unit is at the end of its queue (RFC 3339); "" if it is not.

    The condition is in the status, which users cannot write; it can only move a unit back.
    """
    contested = find_condition(unit.status.conditions, SUSPEND_CONTESTED)
    if contested is None or contested.status != "True":
        return ""
    return contested.last_transition_time or ""


def is_managed_by_controllers(unit: QueueUnit) -> bool:
    """Return whether the controllers manage the job; otherwise the scheduler does both parts."""
    return bool(read_annotation(unit.metadata.annotations, MANAGED_BY))


def check_move(unit: QueueUnit, to: Phase, writer: Writer) -> None:
    """Check that a program may write a move.

    Raises:
        IllegalMoveError: The move does not exist, or this program may not write it; the text has
            the history of the unit's conditions.
    """
    phase = phase_of(unit)
    writers = MOVES.get((phase, to), frozenset())
    if Writer.CONTROLLERS in writers and not is_managed_by_controllers(unit):
        writers |= _SCHEDULER
    if not writers:
        raise IllegalMoveError(f"no program moves a unit to {to}: {story_of(unit)}")
    if writer not in writers:
        raise IllegalMoveError(f"{writer.value} may not move to {to}: {story_of(unit)}")
    if to is Phase.RUNNING and phase in ADOPTABLE_PHASES and not is_adopted(unit):
        raise IllegalMoveError(f"{to} without an admission: {story_of(unit)}")


def story_of(unit: QueueUnit) -> str:
    """Return the changes of a unit's conditions in one line, the oldest first."""
    meta, status = unit.metadata, unit.status
    changes = sorted(status.conditions, key=lambda c: (c.last_transition_time or "", c.type))
    described = [f"{c.type}={c.status}/{c.reason} at {c.last_transition_time}" for c in changes]
    admitted = [f"{a.name}:{a.replicas} ({a.running} running)" for a in status.admissions]
    return (
        f"{meta.key} uid={meta.uid} rv={meta.resource_version} phase={status.phase!r}"
        f" managedBy={read_annotation(meta.annotations, MANAGED_BY)!r}"
        f" adopted={is_adopted(unit)} admissions=[{', '.join(admitted)}]"
        f" conditions=[{'; '.join(described)}] message={status.message!r}"
    )


# --- conditions --------------------------------------------------------------------------------

CHECKS_AWAITED: Final = "WaitingForAdmissionChecks"
CHECKS_OPEN: Final = "Admission checks are open"
"""Reason and message of `ADMITTED` in a reserved unit; the scheduler adds why they are open."""

_ALWAYS: Final = True
_IF_PRESENT: Final = False

_ADMITTED_CONDITIONS: Final = (
    (QUOTA_RESERVED, "True", "QuotaReserved", "Quota is reserved in the queue", _ALWAYS),
    (ADMITTED, "True", "Admitted", "The queue unit is admitted", _ALWAYS),
)

# phase -> (type, status, reason, message, whether the condition is added if it is missing)
_DERIVED: Final[Mapping[Phase, tuple[tuple[str, str, str, str, bool], ...]]] = {
    Phase.ENQUEUED: (
        (QUOTA_RESERVED, "False", "Pending", "The queue unit waits for quota", _ALWAYS),
        (ADMITTED, "False", "Pending", "The queue unit waits for admission", _ALWAYS),
        (PODS_READY, "False", "Pending", "The queue unit waits for admission", _IF_PRESENT),
        (EVICTED, "False", "Requeued", "The queue unit is in the queue again", _IF_PRESENT),
        (ADOPTED, "False", "Requeued", "The queue unit is in the queue again", _IF_PRESENT),
    ),
    Phase.RESERVED: (
        (QUOTA_RESERVED, "True", "QuotaReserved", "Quota is reserved in the queue", _ALWAYS),
        (ADMITTED, "False", CHECKS_AWAITED, CHECKS_OPEN, _ALWAYS),
    ),
    Phase.DEQUEUED: _ADMITTED_CONDITIONS,
    Phase.SCHED_READY: _ADMITTED_CONDITIONS,
    Phase.SCHED_SUCCEED: _ADMITTED_CONDITIONS,
    Phase.RUNNING: (
        *_ADMITTED_CONDITIONS,
        (PODS_READY, "True", PODS_RUNNING, RUN, _ALWAYS),
    ),
    # Upstream leaves the other three True after the end, as if the unit still held its quota.
    Phase.SUCCEED: (
        (QUOTA_RESERVED, "False", "Succeeded", "The job has finished", _IF_PRESENT),
        (ADMITTED, "False", "Succeeded", "The job has finished", _IF_PRESENT),
        (PODS_READY, "False", "Succeeded", "The job has finished", _IF_PRESENT),
        (FINISHED, "True", "Succeeded", "The job has succeeded", _ALWAYS),
    ),
    Phase.FAILED: (
        (QUOTA_RESERVED, "False", "Failed", "The job has finished", _IF_PRESENT),
        (ADMITTED, "False", "Failed", "The job has finished", _IF_PRESENT),
        (PODS_READY, "False", "Failed", "The job has finished", _IF_PRESENT),
        (FINISHED, "True", "Failed", "The job has failed", _ALWAYS),
    ),
    Phase.TIMEOUT_BACKOFF: (
        (QUOTA_RESERVED, "False", "BackoffTimeout", "The queue unit waits to try again", _ALWAYS),
        (ADMITTED, "False", "BackoffTimeout", "The queue unit waits to try again", _ALWAYS),
        (PODS_READY, "False", "BackoffTimeout", "The queue unit waits to try again", _IF_PRESENT),
        (ADOPTED, "False", "BackoffTimeout", "The queue unit waits to try again", _IF_PRESENT),
        (EVICTED, "True", "BackoffTimeout", "", _ALWAYS),
    ),
    Phase.SCHED_FAILED: ((ADMITTED, "False", "SchedulingFailed", "", _ALWAYS),),
}


def conditions_of(
    phase: Phase, before: Iterable[Condition], *, now: Timestamp, message: str = ""
) -> tuple[Condition, ...]:
    """Return all conditions of a unit that moves to `phase`, including those of other writers.

    `message` is the status message; it is also the message of the two conditions that have none of
    their own (backed off, scheduling failed).
    """
    after = tuple(before)
    for condition_type, status, reason, text, added in _DERIVED[phase]:
        if not added and find_condition(after, condition_type) is None:
            continue
        if phase is Phase.TIMEOUT_BACKOFF and condition_type == EVICTED:
            # The reason that the request of the eviction has set is kept.
            asked = find_condition(after, EVICTED)
            if asked is not None and asked.status == "True":
                continue
        if condition_type == QUOTA_RESERVED and status == "True" and has_nothing_requested(after):
            continue  # set at its admission, and kept until that ends
        condition = Condition(
            type=condition_type, status=status, reason=reason, message=text or message
        )
        after = with_condition(after, condition, now=now)
    return after


def has_nothing_requested(conditions: tuple[Condition, ...]) -> bool:
    """Return whether conditions say that a unit was admitted and uses nothing of its quota."""
    reserved = find_condition(conditions, QUOTA_RESERVED)
    if reserved is None:
        return False
    return (reserved.status, reserved.reason) == ("True", NOTHING_REQUESTED)


def with_condition(
    before: Iterable[Condition], condition: Condition, *, now: Timestamp
) -> tuple[Condition, ...]:
    """Return the conditions with one set; `lastTransitionTime` changes only with its status."""
    after: list[Condition] = []
    found = False
    for old in before:
        if old.type != condition.type:
            after.append(old)
            continue
        found = True
        flipped = old.status != condition.status
        after.append(_at(condition, now if flipped else old.last_transition_time or now))
    if not found:
        after.append(_at(condition, now))
    return tuple(after)


def condition_body(condition: Condition) -> dict[str, object]:
    """Return a condition as JSON; the schema requires `reason` and `message`, even if empty."""
    body: dict[str, object] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
    if condition.observed_generation is not None:
        body["observedGeneration"] = condition.observed_generation
    return body


def admission_body(admission: Admission) -> dict[str, Any]:
    """Return an admission as JSON; the schema requires some fields even if they are zero."""
    body: dict[str, Any] = msgspec.to_builtins(admission)
    required = {
        "name": admission.name,
        "replicas": admission.replicas,
        "running": admission.running,
    }
    return {**body, **required}


def status_of_move(
    unit: QueueUnit, to: Phase, *, writer: Writer, now: Timestamp, message: str = ""
) -> dict[str, object]:
    """Return the `status` part of the merge patch that moves a unit, as far as all moves share it.

    It sets phase, message, time and conditions. It empties admissions, placement, reclaimable pods
    and counts of pods when the unit ends or is released (the next run counts from the job's own
    numbers again), and clears the requeue state when its pods run. The caller adds what is specific
    to its move (admissions at the dequeue, requeueState at a backoff), and the guard.

    Raises:
        IllegalMoveError: As `check_move`.
    """
    check_move(unit, to, writer)
    conditions = conditions_of(to, unit.status.conditions, now=now, message=message)
    status: dict[str, object] = {
        "phase": to.value,
        "message": message,
        "lastUpdateTime": now,
        "conditions": [condition_body(condition) for condition in conditions],
    }
    if to not in CHARGED_PHASES:
        if unit.status.admissions:
            status["admissions"] = []
        if unit.status.reclaimable_pods:
            status["reclaimablePods"] = []
        if unit.status.placement is not None:
            status["placement"] = None
        if unit.status.pod_state is not None:
            status["podState"] = None
    if to is Phase.RUNNING and unit.status.requeue_state is not None:
        status["requeueState"] = None
    return status


def _at(condition: Condition, time: Timestamp) -> Condition:
    return Condition(
        type=condition.type,
        status=condition.status,
        reason=condition.reason,
        message=condition.message,
        observed_generation=condition.observed_generation,
        last_transition_time=time,
    )
