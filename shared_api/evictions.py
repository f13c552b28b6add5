"""Why an admitted unit gives its quota back, and when it may be admitted again. Pure.

An eviction begins as a request: the condition `Evicted=True` with one of these reasons. It is
carried out by the controllers, or by the scheduler for units without controllers. Both must agree
on which evictions end in a backoff, and how long that lasts at least.
"""

from __future__ import annotations

from typing import Final

from shared_api.backoff import Backoff
from shared_api.objects.meta import find_condition
from shared_api.objects.queue_unit import AdmissionCheckState, QueueUnit
from shared_api.queue_unit_phases import (
    CHARGED_PHASES,
    EVICTED,
    is_being_evicted,
    is_managed_by_controllers,
    phase_of,
)

DEACTIVATED: Final = "Deactivated"
BACKOFF_TIMEOUT: Final = "BackoffTimeout"
"""Upstream's reasons; `BACKOFF_TIMEOUT` stands for any eviction that ends in TimeoutBackoff."""
ADMISSION_CHECK: Final = "AdmissionCheck"
"""A check withdrew its consent after the unit was admitted."""
SCHEDULING_FAILED: Final = "SchedulingFailed"
"""Koord-scheduler has no nodes for a unit of a strict queue: the unit is requeued at once, since no
job has to be stopped. Upstream uses it as a reason of the condition Admitted."""

REQUEUE_REQUESTED: Final = "RequeueRequested"
"""A user has asked for it (`koord-queue requeue`): the unit is pending again once it is free."""

BUDGET_SPENT: Final = "BudgetSpent"
"""A budget with `enforce: Stop` is spent, and its grace is over: the unit is pending again once it
is free."""

RESERVED_FOR: Final = "ReservedFor"
"""A window begins in which no unit must run: the unit is pending again once it is free."""

_BACKOFF_REASONS: Final = frozenset({BACKOFF_TIMEOUT, ADMISSION_CHECK})
"""After an eviction for one of these reasons, a unit backs off before it is pending again."""

BACKOFF: Final = Backoff(base_seconds=10.0, cap_seconds=900.0, jitter=0.1)
"""Backoff of units that the scheduler requeues; the controllers have settings for theirs."""

RUNNING_TIMEOUT_MESSAGE: Final = "Backoff due to running timeout"
"""The message of a unit whose pods did not run in time; upstream's text."""

RUNNING_TIMEOUT_SECONDS: Final = 600.0
"""The time within which pods must run if no timeout is set and other units of the queue wait for
them: a job without pods must not block the queue forever."""

MAX_BACKOFFS: Final = 2**31 - 2
"""Higher counts are read as this one: the next write adds one, and the field is an int32."""

REFUSED_STATES: Final = frozenset({"Retry", "Rejected"})
"""States of an admission check that evict the unit."""


def eviction_reason(unit: QueueUnit) -> str:
    """Return the reason of the requested eviction; "" if none was requested."""
    evicted = find_condition(unit.status.conditions, EVICTED)
    return evicted.reason if evicted is not None and evicted.status == "True" else ""


def ends_in_backoff(unit: QueueUnit) -> bool:
    """Return whether the unit backs off after the requested eviction."""
    return eviction_reason(unit) in _BACKOFF_REASONS


def is_given_back(unit: QueueUnit) -> bool:
    """Return whether the client that manages a unit without controllers has given its quota back.

    It does so by lowering every admission to 0 although the unit still requests pods. A unit that
    was asked to give replicas back and has not done so yet does not count.
    """
    admissions = unit.status.admissions
    if not admissions or any(each.replicas > 0 or each.reclaim_state for each in admissions):
        return False
    if is_managed_by_controllers(unit) or phase_of(unit) not in CHARGED_PHASES:
        return False
    return asks_for_pods(unit)


def is_losing_quota(unit: QueueUnit) -> bool:
    """Return whether an admitted unit gives its quota back, or has to: it may grow no more."""
    return (
        is_being_evicted(unit)
        or is_given_back(unit)
        or unit.spec.active is False
        or unit.metadata.deletion_timestamp is not None
    )


def asks_for_pods(unit: QueueUnit) -> bool:
    """Return whether a unit requests anything, by its pod sets or, without them, its request."""
    return not unit.spec.pod_set or any(each.count > 0 for each in unit.spec.pod_set)


def backoffs_of(unit: QueueUnit) -> int:
    """Return how often a unit was requeued since its pods last ran, up to `MAX_BACKOFFS`."""
    state = unit.status.requeue_state
    return 0 if state is None else min(max(0, state.count), MAX_BACKOFFS)


def refused_checks(unit: QueueUnit) -> tuple[AdmissionCheckState, ...]:
    """Return the states of the checks that are Retry or Rejected."""
    return tuple(each for each in unit.status.admission_checks if each.state in REFUSED_STATES)


def min_requeue_seconds(unit: QueueUnit) -> int:
    """Return the least seconds that refusing checks want a unit to wait; 0 if they set none."""
    return max((each.requeue_after_seconds or 0 for each in refused_checks(unit)), default=0)


def is_refused_by_checks(unit: QueueUnit) -> bool:
    """Return whether a unit that waits was requeued because a check refused or did not answer.

    A unit starts only when all its checks are Ready, so a unit that was requeued later has no check
    in another state. The states stay in the status until the unit is admitted again.
    """
    return any(each.state != "Ready" for each in unit.status.admission_checks)
