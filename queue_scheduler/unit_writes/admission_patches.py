"""The status writes that admit a unit."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from queue_scheduler.cache.admission_check_rules import GoOn, entries_of, fresh_entries
from queue_scheduler.decision import Dequeue
from queue_scheduler.engine.check_facts import CheckFacts
from queue_scheduler.queueing.strict_mode import ASKED_FOR_NODES, request_nodes
from queue_scheduler.required_requests import join_with_or
from shared_api.objects.meta import Condition, Timestamp
from shared_api.objects.queue_unit import QueueUnit
from shared_api.placement import placement_body
from shared_api.queue_unit_phases import (
    NOTHING_REQUESTED,
    PODS_READY,
    QUOTA_RESERVED,
    WAITED_FOR,
    Phase,
    Writer,
    status_of_move,
    with_condition,
)
from shared_api.resource_list import format_amounts
from shared_api.timestamps import rfc3339

ALL_READY: Final = "all admission checks success"
"""Upstream's message."""


def build_dequeue_patch(unit: QueueUnit, decision: Dequeue, now: Timestamp) -> dict[str, Any]:
    """Return the merge patch that admits a unit.

    Guarded by the version that the decision was made on. The list of admissions is written whole:
    the scheduler is its only writer at this move. Entries of an earlier run are removed: what it
    gave back would be subtracted from this admission, and what checks said was not about it.
    """
    if decision.is_waited_for:
        unit = note_awaited(unit, decision.queue, now)
    if decision.unrequested:
        unit = note_nothing_requested(unit, decision, now)
    message = _admission_message(decision)
    status = status_of_move(unit, decision.to, writer=Writer.SCHEDULER, now=now, message=message)
    if decision.to is Phase.SCHED_READY:
        status |= request_nodes(unit)
    status["lastAllocateTime"] = now
    status["placement"] = placement_body(unit, decision.quota)
    if unit.status.reclaimable_pods:
        status["reclaimablePods"] = []
    if decision.checks or unit.status.admission_checks:
        status["admissionChecks"] = fresh_entries(decision.checks, now)
    status["admissions"] = [
        {
            "name": grant.name,
            "replicas": grant.replicas,
            "running": 0,
            "resources": format_amounts(grant.amounts),
        }
        for grant in decision.grants
    ]
    return {
        "metadata": {"resourceVersion": decision.resource_version},
        "status": status,
    }


def note_awaited(unit: QueueUnit, queue: str, now: Timestamp) -> QueueUnit:
    """Return a unit whose conditions say that its queue waits until its pods run.

    The controllers do not read queues: by this condition they end a start that takes too long.
    """
    waits = f"queue {queue} waits until its pods run"
    awaited = Condition(type=PODS_READY, status="False", reason=WAITED_FOR, message=waits)
    conditions = with_condition(unit.status.conditions, awaited, now=now)
    return replace(unit, status=replace(unit.status, conditions=conditions))


def note_nothing_requested(unit: QueueUnit, decision: Dequeue, now: Timestamp) -> QueueUnit:
    """Return a unit whose conditions say that its admission takes nothing of its quota.

    The controllers do not know what quotas govern: by this condition they write the job's event.
    """
    message = (
        f"It requests no {join_with_or(decision.unrequested)}, which quota {decision.quota}"
        " governs: nothing of the quota is reserved for it"
    )
    free = Condition(type=QUOTA_RESERVED, status="True", reason=NOTHING_REQUESTED, message=message)
    conditions = with_condition(unit.status.conditions, free, now=now)
    return replace(unit, status=replace(unit.status, conditions=conditions))


def _admission_message(decision: Dequeue) -> str:
    place = f"through queue {decision.queue}, charged to quota {decision.quota}"
    if decision.to is Phase.SCHED_READY:
        return ASKED_FOR_NODES
    if not decision.checks:
        return f"admitted {place}"
    return f"reserved {place}; waits for admission checks {', '.join(decision.checks)}"


def build_admission(facts: CheckFacts, verdict: GoOn, now: datetime) -> dict[str, Any]:
    """Return the status of a unit whose checks are all Ready, to be merged.

    The time within which its pods must run counts from here on. Entries of checks that the queue no
    longer lists are removed: they would be taken for checks that have not answered.
    """
    unit, stamp = facts.unit, rfc3339(now)
    if facts.options.waits_for_pods:
        unit = note_awaited(unit, facts.queue_name, stamp)
    status = status_of_move(unit, verdict.to, writer=Writer.SCHEDULER, now=stamp, message=ALL_READY)
    status["lastAllocateTime"] = stamp
    if verdict.to is Phase.SCHED_READY:
        status |= request_nodes(unit)
    if len(unit.status.admission_checks) != len(verdict.checks):
        status["admissionChecks"] = entries_of(unit, verdict.checks, stamp)
    return status
