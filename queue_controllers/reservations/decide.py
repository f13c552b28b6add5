"""What to do about the reservations of one unit: takes all that is known, returns actions. Pure.

The unit's phase says which reservations there should be:

    SchedReady     one reservation per pod, of this attempt; their verdicts move the unit
    SchedSucceed   those that hold a node, until the pods have taken them
    SchedFailed    those that still wait: all others keep capacity that no pod will use
    Running        those that pods have not taken yet, until all pods run
    all others     none

So a crash between any two steps leaves objects from which the next reconcile continues, and
whatever ends an attempt (an eviction, the job's end, a deleted unit) has its reservations deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Final

import msgspec

from queue_controllers.decision.actions import (
    Action,
    EventType,
    PatchUnitStatus,
    RecordJobEvent,
    RecordUnitEvent,
)
from queue_controllers.decision.job_view import Moment
from queue_controllers.decision.unit_status_patches import set_condition
from queue_controllers.reservations.reservation_builder import PlannedReservation, is_of_attempt
from shared_api.objects.meta import Condition, find_condition, is_condition_true
from shared_api.objects.queue_unit import QueueUnit
from shared_api.objects.reservation import AVAILABLE, FAILED, PREEMPTED, SCHEDULED, Reservation
from shared_api.queue_unit_phases import (
    ADMITTED,
    Phase,
    Writer,
    is_being_evicted,
    phase_of,
    status_of_move,
    with_condition,
)
from shared_api.timestamps import read_time

NOT_SERVED: Final = "ReservationsNotServed"
"""Condition and event: the API server does not serve Reservations, so no nodes can be reserved."""

NO_NODES: Final = "NoNodes"
"""Event: koord-scheduler has no nodes for the job now."""

NOT_RESERVED: Final = "NotReserved"
"""Event: the job is released without reserved nodes."""

NOT_SERVED_SECONDS: Final = 60.0
"""How long a unit waits for Reservations to be served: CRDs are installed after their users, and
deleted and created again by upgrades."""

PER_LOOK: Final = 100
"""Reservations that are created or deleted before other units have their turn: a second or less."""


class CreateReservations(Action, frozen=True):
    """Create these; each is guarded by its name, which is unique to the attempt."""

    unit: QueueUnit
    planned: tuple[PlannedReservation, ...]


class DeleteReservations(Action, frozen=True):
    """Delete these; guarded by their uids."""

    reservations: tuple[Reservation, ...]


class ReservationView(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of one unit's reservations at one moment."""

    unit: QueueUnit | None
    reservations: tuple[Reservation, ...] = ()
    """All that name the unit, by its key or by its uid, of any attempt."""
    planned: tuple[PlannedReservation, ...] | None = None
    """The reservations that this attempt should have, or None while the job is not known."""
    why_none: str = ""
    """Why no nodes can be reserved for a job of this kind; "" if they can."""
    is_served: bool = True
    """The API server serves Reservations."""
    moment: Moment


class ReservationDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do now, and when to reconcile again without an event."""

    actions: tuple[Action, ...] = ()
    requeue_after_seconds: float | None = None


def decide_reservations(view: ReservationView) -> ReservationDecision:
    """Return what to do about the reservations of one unit."""
    unit = view.unit
    if unit is None or unit.metadata.deletion_timestamp is not None:
        return _delete(view.reservations)
    mine, others = _of_this_attempt(view.reservations, unit)
    if phase_of(unit) is not Phase.SCHED_READY and _is_marked_not_served(unit):
        over = Condition(type=NOT_SERVED, status="False", reason="Settled")
        return ReservationDecision(actions=(set_condition(unit, over, view.moment),))
    match phase_of(unit):
        case Phase.SCHED_READY if is_being_evicted(unit) or unit.spec.active is False:
            return ReservationDecision()  # freeing it ends the attempt
        case Phase.SCHED_READY:
            left_over = _delete(others)
            return left_over if left_over.actions else _reserve(view, unit, mine)
        case Phase.SCHED_SUCCEED:
            return _delete([*others, *_in_phase(mine, FAILED)])
        case Phase.SCHED_FAILED:
            return _delete([*others, *_in_phase(mine, FAILED, AVAILABLE)])
        case Phase.RUNNING if not _do_all_pods_run(unit):
            # Half of a job's pods may still be on their way to the nodes that were reserved for
            # them.
            kept = {each.metadata.uid for each in _in_phase(mine, AVAILABLE)}
            return _delete(r for r in view.reservations if r.metadata.uid not in kept)
        case _:
            return _delete(view.reservations)


def has_part(unit: QueueUnit | None) -> bool:
    """Return whether a unit needs a reconcile, for its phase or for another program's condition."""
    if unit is None:
        return False
    return phase_of(unit) in _PHASES_WITH_PART or _is_marked_not_served(unit)


_PHASES_WITH_PART: Final = frozenset({Phase.SCHED_READY, Phase.SCHED_SUCCEED, Phase.SCHED_FAILED})


# --- nodes are reserved -------------------------------------------------------------------------


def _reserve(
    view: ReservationView, unit: QueueUnit, mine: tuple[Reservation, ...]
) -> ReservationDecision:
    """Create what is missing, or follow the verdicts."""
    if view.why_none:
        return _succeed(view, unit, f"Released without reserved nodes: {view.why_none}")
    if view.planned is None:
        return ReservationDecision()
    if not view.is_served:
        return _wait_for_kind(view, unit)
    there = {each.metadata.name: each for each in mine}
    missing = tuple(each for each in view.planned if each.name not in there)
    if missing:
        batch = missing[:PER_LOOK]
        return ReservationDecision(actions=(CreateReservations(unit=unit, planned=batch),))
    requested = [there[each.name] for each in view.planned]
    verdict = judge_reservations(requested, unit.status.attempts)
    match verdict.answer:
        case Answer.OPEN:
            return ReservationDecision()
        case Answer.REFUSED:
            return _fail(view, unit, verdict.message)
        case Answer.GRANTED:
            moved = _move(
                view, unit, Phase.SCHED_SUCCEED, f"Nodes are reserved for {len(requested)} pods"
            )
            return ReservationDecision(actions=(moved,))


def _succeed(view: ReservationView, unit: QueueUnit, message: str) -> ReservationDecision:
    moved = _move(view, unit, Phase.SCHED_SUCCEED, message)
    event = RecordUnitEvent(unit=unit, reason=NOT_RESERVED, message=message)
    return ReservationDecision(actions=(moved, event))


def _fail(view: ReservationView, unit: QueueUnit, message: str) -> ReservationDecision:
    moved = fail_unit(view, unit, message)
    note = f"koord-scheduler has no nodes for all of its pods now, its turn comes again: {message}"
    event = RecordJobEvent(reason=NO_NODES, message=note, type=EventType.WARNING)
    return ReservationDecision(actions=(moved, event))


def _wait_for_kind(view: ReservationView, unit: QueueUnit) -> ReservationDecision:
    """Report that Reservations are not served, and requeue the unit when that lasts."""
    message = (
        "The API server has no Reservations (scheduling.koordinator.sh): no nodes can be asked for"
    )
    if not _is_marked_not_served(unit):
        missing = Condition(type=NOT_SERVED, status="True", reason="CrdMissing", message=message)
        noted = set_condition(unit, missing, view.moment, message=message)
        event = RecordUnitEvent(
            unit=unit, reason=NOT_SERVED, message=message, type=EventType.WARNING
        )
        heard = RecordJobEvent(reason=NOT_SERVED, message=message, type=EventType.WARNING)
        return ReservationDecision(
            actions=(noted, event, heard), requeue_after_seconds=NOT_SERVED_SECONDS
        )
    since = _not_served_since(unit)
    waited = 0.0 if since is None else (view.moment.wall - since).total_seconds()
    if since is not None and waited < NOT_SERVED_SECONDS:
        return ReservationDecision(requeue_after_seconds=NOT_SERVED_SECONDS - waited)
    return ReservationDecision(actions=(fail_unit(view, unit, message),))


def _not_served_since(unit: QueueUnit) -> datetime | None:
    """Return since when this attempt waits for the kind; None if that is not written yet.

    The condition may be left over from an earlier attempt: each one has its own minute.
    """
    conditions = (find_condition(unit.status.conditions, each) for each in (NOT_SERVED, ADMITTED))
    changed = [each.last_transition_time for each in conditions if each is not None]
    times = (read_time(each) for each in (*changed, unit.status.last_allocate_time))
    return max((time for time in times if time is not None), default=None)


def fail_unit(view: ReservationView, unit: QueueUnit, message: str) -> PatchUnitStatus:
    """Return the write that records that the unit gets no nodes in this attempt."""
    return _move(view, unit, Phase.SCHED_FAILED, message)


def _move(view: ReservationView, unit: QueueUnit, to: Phase, message: str) -> PatchUnitStatus:
    conditions = unit.status.conditions
    if _is_marked_not_served(unit):
        over = Condition(type=NOT_SERVED, status="False", reason="Settled")
        conditions = with_condition(conditions, over, now=view.moment.stamp)
    changed = msgspec.structs.replace(
        unit, status=msgspec.structs.replace(unit.status, conditions=conditions)
    )
    status: Mapping[str, Any] = status_of_move(
        changed, to, writer=Writer.RESERVATIONS, now=view.moment.stamp, message=message
    )
    return PatchUnitStatus(unit=unit, status=dict(status))


def _is_marked_not_served(unit: QueueUnit) -> bool:
    return is_condition_true(unit.status.conditions, NOT_SERVED)


# --- existing reservations ----------------------------------------------------------------------


def _of_this_attempt(
    reservations: tuple[Reservation, ...], unit: QueueUnit
) -> tuple[tuple[Reservation, ...], tuple[Reservation, ...]]:
    """Return (those of the unit's present attempt, all others)."""
    mine: list[Reservation] = []
    others: list[Reservation] = []
    for each in reservations:
        (mine if is_of_attempt(each, unit) else others).append(each)
    return tuple(mine), tuple(others)


def _in_phase(reservations: Iterable[Reservation], *phases: str) -> list[Reservation]:
    return [each for each in reservations if each.status.phase in phases]


def _do_all_pods_run(unit: QueueUnit) -> bool:
    return all(each.running >= each.replicas for each in unit.status.admissions)


def _delete(reservations: Iterable[Reservation]) -> ReservationDecision:
    """Return the deletion of those that are not being deleted already."""
    left = tuple(each for each in reservations if each.metadata.deletion_timestamp is None)
    if not left:
        return ReservationDecision()
    return ReservationDecision(actions=(DeleteReservations(reservations=left[:PER_LOOK]),))


# --- what koord-scheduler says of an attempt ------------------------------------------------------
# What koord-scheduler says of the reservations of one attempt.
#
# It says so in the condition `Scheduled`. Its reason may end in `/<attempt>`: then it counts for
# that attempt alone; without a number it always counts.


class Answer(Enum):
    """What is known of the nodes."""

    OPEN = "open"
    """At least one reservation is not decided."""
    GRANTED = "granted"
    """Every pod has its node."""
    REFUSED = "refused"
    """All are decided, and not every pod has a node."""


class ReservationResult(msgspec.Struct, frozen=True):
    """The answer; if it is no, why, by one reservation."""

    answer: Answer
    message: str = ""


def judge_reservations(reservations: Iterable[Reservation], attempt: int) -> ReservationResult:
    """Return the combined verdict on all reservations of an attempt."""
    refused: list[str] = []
    is_open = False
    for reservation in sorted(reservations, key=lambda each: each.metadata.name):
        verdict = judge_reservation(reservation, attempt)
        if verdict is None:
            is_open = True
        elif verdict.status != "True":
            refused.append(f"{reservation.metadata.name}: {verdict.message or verdict.reason}")
    if is_open:
        return ReservationResult(Answer.OPEN)
    if refused:
        return ReservationResult(Answer.REFUSED, refused[0])
    return ReservationResult(Answer.GRANTED)


def judge_reservation(reservation: Reservation, attempt: int) -> Condition | None:
    """Return the condition that decides about a reservation; None while it is undecided."""
    if reservation.status.phase == FAILED:
        # Whatever was said before: no capacity is reserved any more.
        return Condition(type=SCHEDULED, status="False", reason="Expired", message="it is over")
    conditions = reservation.status.conditions
    counting = [
        each for each in conditions if each.type == SCHEDULED and _counts_for(each, attempt)
    ]
    refusals = [each for each in counting if each.status == "False"]
    if refusals:
        return None if is_condition_true(conditions, PREEMPTED) else refusals[-1]
    granted = [each for each in counting if each.status == "True"]
    return granted[-1] if granted else None


def _counts_for(condition: Condition, attempt: int) -> bool:
    _, slash, number = condition.reason.rpartition("/")
    if not (slash and number.isascii() and number.isdecimal()):
        return True
    return int(number[:20]) == attempt
