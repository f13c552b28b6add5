"""What can be said about a unit by an admission check, and what that makes of its status. Pure.

A unit is *asked about* from the moment it is Reserved until it is Dequeued, evicted or ended: its
quota is charged, its job is held. It is *admitted* from then on. What a state leads to is the
scheduler's: all Ready, and the unit starts; Retry and Rejected take its quota back, and it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from shared_api.objects.field_schema import MESSAGE_LENGTH
from shared_api.objects.meta import Timestamp
from shared_api.objects.queue_unit import (
    MAX_POD_SETS,
    AdmissionCheckState,
    PodSetUpdate,
    QueueUnit,
)
from shared_api.queue_unit_phases import BOOKED_PHASES, Phase, is_being_evicted, phase_of

MAX_SECONDS: Final = 2**31 - 1
"""Of `requeueAfterSeconds`, an int32."""


class CheckState(StrEnum):
    """`state` of a check of a unit."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


OPEN_STATES: Final = frozenset({CheckState.PENDING.value, CheckState.READY.value})
"""States in which the check's controller has the say. What follows Retry and Rejected is the
scheduler's: when the unit is Reserved again the check is Pending, with an entry of its own."""


class Verdict(msgspec.Struct, frozen=True):
    """What a check says about a unit.

    Attributes:
        state: Pending: not known yet. Ready: it may start. Retry: not now, its quota goes back for
            a while. Rejected: not in the foreseeable future.
        message: For people. Where it alone changes it is written once a minute at most.
        pod_set_updates: With Ready: what the pods need to have; the controllers put it into the
            job's pod templates when they release it.
        requeue_after_seconds: With Retry: how long the unit waits at least.
        look_again_seconds: When the unit is to be judged again though nothing has changed; None:
            a slow resync aside, never.
    """

    state: CheckState
    message: str = ""
    pod_set_updates: tuple[PodSetUpdate, ...] = ()
    requeue_after_seconds: int | None = None
    look_again_seconds: float | None = None


def is_asked_about(unit: QueueUnit) -> bool:
    """Return whether the unit waits for its checks."""
    waits = phase_of(unit) is Phase.RESERVED and not is_being_evicted(unit)
    return waits and unit.metadata.deletion_timestamp is None


def is_admitted(unit: QueueUnit) -> bool:
    """Return whether the unit's checks have let it go on, and it has not ended or lost its place.

    In strict mode its job is not released yet, and nodes are looked for.
    """
    goes_on = phase_of(unit) in BOOKED_PHASES - {Phase.RESERVED} and not is_being_evicted(unit)
    return goes_on and unit.metadata.deletion_timestamp is None


def find_state(unit: QueueUnit, check: str) -> AdmissionCheckState | None:
    """Return the state of the check of this name, or None; of two with one name the first."""
    for state in unit.status.admission_checks:
        if state.name == check:
            return state
    return None


def state_after(
    before: AdmissionCheckState, verdict: Verdict, now: Timestamp
) -> AdmissionCheckState:
    """Return the state of a check once a verdict is written.

    `retryCount` counts on with each Retry and stays with all other states. The scheduler resets it
    with each reservation; `shared_api.evictions.backoffs_of` is how often the unit was put
    back.
    """
    moved = before.state != verdict.state
    retried = verdict.state is CheckState.RETRY
    seconds = verdict.requeue_after_seconds if retried else None
    return AdmissionCheckState(
        name=before.name,
        state=verdict.state.value,
        last_transition_time=now if moved else before.last_transition_time or now,
        message=verdict.message[:MESSAGE_LENGTH],
        requeue_after_seconds=None if seconds is None else min(max(seconds, 0), MAX_SECONDS),
        retry_count=(before.retry_count or 0) + 1 if moved and retried else before.retry_count,
        pod_set_updates=(
            verdict.pod_set_updates[:MAX_POD_SETS] if verdict.state is CheckState.READY else ()
        ),
    )


def differs_in_words_only(before: AdmissionCheckState, after: AdmissionCheckState) -> bool:
    """Return whether nothing but the message is another."""
    return before != after and msgspec.structs.replace(before, message=after.message) == after


def state_body(state: AdmissionCheckState) -> dict[str, Any]:
    """Return a check's state as JSON; upstream's schema wants the first four, empty or not."""
    body: dict[str, Any] = {
        "name": state.name,
        "state": state.state,
        "message": state.message,
        "lastTransitionTime": state.last_transition_time,
    }
    if state.requeue_after_seconds is not None:
        body["requeueAfterSeconds"] = state.requeue_after_seconds
    if state.retry_count is not None:
        body["retryCount"] = state.retry_count
    if state.pod_set_updates:
        body["podSetUpdates"] = msgspec.to_builtins(state.pod_set_updates)
    return body


def checks_patch(unit: QueueUnit, after: Mapping[str, AdmissionCheckState]) -> dict[str, Any]:
    """Return the merge patch of the unit's status that writes some states, by name.

    A merge patch replaces the list, so the states of other controllers go along as they are, and
    the version that they were read at guards them.
    """
    states: dict[str, AdmissionCheckState] = {}
    for state in unit.status.admission_checks:
        states.setdefault(state.name, after.get(state.name, state))
    return {
        "metadata": {"resourceVersion": unit.metadata.resource_version},
        "status": {"admissionChecks": [state_body(state) for state in states.values()]},
    }
