"""What koord-scheduler says of the reservations of one attempt. Pure.

It says so in the condition `Scheduled`. Its reason may end in `/<attempt>`: then it counts for that
attempt alone; without a number it always counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from shared_api.objects.meta import Condition, is_condition_true
from shared_api.objects.reservation import FAILED, PREEMPTED, SCHEDULED, Reservation


class Answer(Enum):
    """What is known of the nodes."""

    OPEN = "open"
    """At least one reservation is not decided."""
    GRANTED = "granted"
    """Every pod has its node."""
    REFUSED = "refused"
    """All are decided, and not every pod has a node."""


class Verdict(msgspec.Struct, frozen=True):
    """The answer; if it is no, why, by one reservation."""

    answer: Answer
    message: str = ""


def judge_reservations(reservations: Iterable[Reservation], attempt: int) -> Verdict:
    """Return the combined verdict on all reservations of an attempt."""
    refused: list[str] = []
    is_open = False
    for reservation in sorted(reservations, key=lambda each: each.metadata.name):
        said = judge_reservation(reservation, attempt)
        if said is None:
            is_open = True
        elif said.status != "True":
            refused.append(f"{reservation.metadata.name}: {said.message or said.reason}")
    if is_open:
        return Verdict(Answer.OPEN)
    if refused:
        return Verdict(Answer.REFUSED, refused[0])
    return Verdict(Answer.GRANTED)


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
