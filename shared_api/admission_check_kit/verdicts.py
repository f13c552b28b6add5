"""The verdicts of an admission check, and the status of a unit that follows from them. Pure.

A unit is *asked about* from the moment it is Reserved until it is Dequeued, evicted or ended: its
quota is charged, its job is suspended. Once it is Dequeued it is *admitted*. The scheduler acts on
the states: if all are Ready, the unit starts; Retry and Rejected take its quota back, and it is
pending again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from shared_api.objects.field_schema import MESSAGE_LENGTH
from shared_api.objects.meta import Timestamp
from shared_api.objects.queue_unit import MAX_POD_SETS, AdmissionCheckState, PodSetUpdate, QueueUnit
from shared_api.queue_unit_phases import CHARGED_PHASES, Phase, is_being_evicted, phase_of

MAX_SECONDS: Final = 2**31 - 1
"""The largest `requeueAfterSeconds`, an int32."""


class CheckState(StrEnum):
    """Values of `state` of a unit's check."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


OPEN_STATES: Final = frozenset({CheckState.PENDING.value, CheckState.READY.value})
"""States in which the check's controller decides. After Retry and Rejected the scheduler acts: when
the unit is Reserved again, it adds a new entry for the check, which is Pending."""


class CheckVerdict(msgspec.Struct, frozen=True):
    """The decision of a check about a unit.

    Attributes:
        state: Pending: not known yet. Ready: it may start. Retry: not now, its quota is released
            for a while. Rejected: not in the foreseeable future.
        message: For users. A change of the message alone is written at most once a minute.
        pod_set_updates: With Ready: what the pods need; the controllers put it into the job's pod
            templates when they release it.
        requeue_after_seconds: With Retry: the least time that the unit waits.
        recheck_seconds: After how long the unit is judged again even if nothing has changed;
            None: only by the periodic resync.
    """

    state: CheckState
    message: str = ""
    pod_set_updates: tuple[PodSetUpdate, ...] = ()
    requeue_after_seconds: int | None = None
    recheck_seconds: float | None = None


def is_asked_about(unit: QueueUnit) -> bool:
    """Return whether the unit is waiting for its checks."""
    waits = phase_of(unit) is Phase.RESERVED and not is_being_evicted(unit)
    return waits and unit.metadata.deletion_timestamp is None


def has_passed_checks(unit: QueueUnit) -> bool:
    """Return whether the unit's checks have let it start, and it has not ended or been evicted.

    In strict mode its job may not be released yet, while nodes are sought for it.
    """
    goes_on = phase_of(unit) in CHARGED_PHASES - {Phase.RESERVED} and not is_being_evicted(unit)
    return goes_on and unit.metadata.deletion_timestamp is None


def find_state(unit: QueueUnit, check: str) -> AdmissionCheckState | None:
    """Return the state of the check of this name, the first if there are two; None without one."""
    for state in unit.status.admission_checks:
        if state.name == check:
            return state
    return None


def state_after(
    before: AdmissionCheckState, verdict: CheckVerdict, now: Timestamp
) -> AdmissionCheckState:
    """Return the state of a check with a verdict applied.

    `retryCount` is incremented by each Retry and kept by all other states. The scheduler resets it
    with each reservation; `shared_api.evictions.backoffs_of` counts how often the unit was
    requeued.
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
    """Return whether only the message differs."""
    return before != after and msgspec.structs.replace(before, message=after.message) == after


def state_body(state: AdmissionCheckState) -> dict[str, Any]:
    """Return a check's state as JSON; upstream's schema requires the first four, even if empty."""
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
    """Return the merge patch of the unit's status that writes these states, by name of the check.

    A merge patch replaces the list, so it repeats the states of other controllers, guarded by the
    version at which they were read.
    """
    states: dict[str, AdmissionCheckState] = {}
    for state in unit.status.admission_checks:
        states.setdefault(state.name, after.get(state.name, state))
    return {
        "metadata": {"resourceVersion": unit.metadata.resource_version},
        "status": {"admissionChecks": [state_body(state) for state in states.values()]},
    }
