"""Writes the counts and the first positions of every queue into `Queue.status`.

It writes at most every five seconds per queue. The list stops at 100 positions; the debug API has
them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from queue_scheduler.cache.admission_check_rules import KnownChecks, lists_check
from queue_scheduler.cache.known_units import count_admitted, count_pending, pending_units
from queue_scheduler.decision import Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.fair_settings import Level, fair_share_patch
from queue_scheduler.queueing.queue_options import StopPolicy
from queue_scheduler.queueing.queue_rules import QueueRules
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.refusal_texts import queue_message
from shared_api.client.resource_types import QUEUES
from shared_api.objects.meta import Condition, Timestamp, find_condition
from shared_api.objects.queue import READY, FairShare, Queue
from shared_api.queue_unit_phases import condition_body, with_condition
from shared_api.submitters import NAMES_NOT_PROVED
from shared_api.well_known_labels import DISABLE_SHOW_ITEMS, read_annotation

MAX_ITEMS: Final = 100
"""Keeps the object small: some kilobytes, whatever the length of the queue."""

ITEMS_KEY: Final = "active"
"""The key that upstream's clients read."""


class QueueFigures(msgspec.Struct, frozen=True):
    """What the status of a queue shows.

    Attributes:
        pending: Number of units that are pending or on hold.
        admitted: Number of units that occupy quota.
        items: (name, namespace, priority) of the first positions, in order.
        policy: The policy in force; read at a start, where the queue names an unknown one.
        stop: The stop policy in force; read at a start, like the policy.
        fair_share: The `fairShare` in force; read at a start, like the policy. None: the defaults.
        ready: Status of the condition `Ready`.
        reason: The reason of the condition.
        message: The message of the condition.
    """

    pending: int
    admitted: int
    items: tuple[tuple[str, str, int], ...]
    policy: str
    stop: str
    fair_share: FairShare | None
    ready: bool
    reason: str
    message: str


def read_figures(engine: Engine, name: str, *, max_items: int) -> QueueFigures | None:
    """Return what the status of a queue is to show, or None if the queue is gone."""
    queue = engine.queues.find(name)
    if queue is None:
        return None
    items = tuple(
        (record.unit.metadata.name, record.unit.metadata.namespace, record.priority)
        for record in islice(pending_units(engine.units, name), max_items)
    )
    ready, reason, message = judge_queue(engine, queue)
    return QueueFigures(
        pending=count_pending(engine.units, name),
        admitted=count_admitted(engine.units, name),
        items=items,
        policy=queue.rules.policy.name,
        stop=queue.rules.options.stop.value,
        fair_share=queue.rules.options.fair.stated,
        ready=ready,
        reason=reason,
        message=message,
    )


def judge_queue(engine: Engine, queue: SchedulingQueue) -> tuple[bool, str, str]:
    """Return the status, reason and message of a queue's condition `Ready`."""
    rules = queue.rules
    api_object, options = rules.api_object, rules.options
    policy = api_object.spec.queue_policy
    if options.is_stopped:
        message = "; ".join((_STOPPED[options.stop], *options.problems))
        return False, "Stopped", message
    # Before what lets some units through.
    refusal = engine.placing.why_not_ready(api_object)
    if refusal is not None:
        return False, refusal.reason.value, queue_message(refusal)
    if policy and policy != rules.policy.name:
        message = f"policy {policy!r} is unknown; {rules.policy.name} stays in force"
        return False, "UnknownPolicy", message
    if options.problems:
        return False, "UnreadableAnnotation", "; ".join(options.problems)
    if options.fair_problem:
        return False, "UnreadableFairShare", options.fair_problem
    order = "; ".join(("units are admitted in order", *_describe_order(engine, rules)))
    return _judge_checks(api_object, engine.units.checks) or (True, READY, order)


def _describe_order(engine: Engine, rules: QueueRules) -> Iterator[str]:
    """Yield what a queue asks for that it does not get, or only in part."""
    if rules.options.backfill and not rules.is_backfilling:
        yield f"policy {rules.policy.name} does not backfill"
    if rules.fair is None:
        if rules.api_object.spec.fair_share is not None:
            yield f"policy {rules.policy.name} does not use fairShare"
        return
    if engine.usage.ledger is None:
        yield "a restart of the scheduler forgets who has used how much (accounts.enabled keeps it)"
    if not engine.usage.are_names_proved and Level.NAMESPACE not in rules.fair.levels:
        yield NAMES_NOT_PROVED


def _judge_checks(queue: Queue, checks: KnownChecks) -> tuple[bool, str, str] | None:
    """Return what is wrong with the checks that a queue lists; None: nothing.

    Only an inactive check holds units. A check that does not exist may still be answered.
    """
    if not queue.spec.admission_checks:
        return None
    inactive = sorted(name for name in checks.inactive if lists_check(queue, name))
    if inactive:
        listed = "; ".join(f"{name} ({checks.inactive[name]})" for name in inactive)
        message = f"admission checks are not active, units that need them wait: {listed}"
        return False, Reason.ADMISSION_CHECK_INACTIVE.value, message
    waits = "units are reserved, and wait until its controller writes a verdict into their status"
    if checks.are_served is False:
        message = f"the cluster has no AdmissionChecks (CRD of kueue.x-k8s.io); {waits}"
        return True, "AdmissionChecksNotServed", message
    if checks.are_served and (missing := checks.missing(queue)):
        message = f"admission checks do not exist: {', '.join(missing)}; {waits}"
        return True, "AdmissionCheckMissing", message
    return None


_STOPPED: Final = {
    StopPolicy.HOLD: "stopped by the stop policy Hold: units wait, and admitted units continue",
    StopPolicy.HOLD_AND_DRAIN: (
        "stopped by the stop policy HoldAndDrain: units wait, and admitted units are evicted"
    ),
}


def build_status_patch(queue: Queue, figures: QueueFigures, now: Timestamp) -> dict[str, Any]:
    """Return the merge patch of a queue's status.

    Guarded by the version: a uid in a patch of a custom resource's status guards nothing (the
    API server ignores it there), and the queue may have been created again under its name.
    """
    condition = Condition(
        type=READY,
        status="True" if figures.ready else "False",
        reason=figures.reason,
        message=figures.message,
        observed_generation=queue.metadata.generation,
    )
    conditions = with_condition(queue.status.conditions, condition, now=now)
    items = [
        {"name": name, "namespace": namespace, "priority": priority, "position": position}
        for position, (name, namespace, priority) in enumerate(figures.items, start=1)
    ]
    return {
        "metadata": {"resourceVersion": queue.metadata.resource_version},
        "status": {
            "pending": figures.pending,
            "admitted": figures.admitted,
            "policyInForce": figures.policy,
            "stopPolicyInForce": figures.stop,
            **_fair_share_patch(queue.status.fair_share_in_force, figures.fair_share),
            "queueItemDetails": {ITEMS_KEY: items},
            "conditions": [condition_body(each) for each in conditions],
        },
    }


def _fair_share_patch(shown: FairShare | None, in_force: FairShare | None) -> dict[str, Any]:
    """Return the part of a merge patch."""
    if shown == in_force:
        return {}
    if in_force is None:
        return {"fairShareInForce": None}
    return {"fairShareInForce": fair_share_patch(shown, in_force)}


def is_shown(queue: Queue, figures: QueueFigures) -> bool:
    """Return whether the status shows this already, so that a restart writes nothing."""
    status = queue.status
    items = tuple(
        (item.name, item.namespace, item.priority)
        for item in status.queue_item_details.get(ITEMS_KEY, ())
    )
    condition = find_condition(status.conditions, READY)
    return (
        (status.pending, status.admitted, items)
        == (figures.pending, figures.admitted, figures.items)
        and (status.policy_in_force, status.stop_policy_in_force) == (figures.policy, figures.stop)
        and status.fair_share_in_force == figures.fair_share
        and condition is not None
        and (condition.status == "True", condition.reason, condition.message)
        == (figures.ready, figures.reason, figures.message)
    )


class QueueStatuses:
    """The statuses of queues (`StatusKind`)."""

    resource_type: Final = QUEUES

    def names(self, engine: Engine) -> list[str]:
        """Return the names of all queues."""
        return [queue.name for queue in engine.queues]

    def find(self, engine: Engine, name: str) -> tuple[Queue, float] | None:
        """Return a queue, and the fewest seconds between two writes; None: it is gone."""
        queue = engine.queues.find(name)
        if queue is None:
            return None
        return queue.rules.api_object, queue.rules.options.status_interval_seconds

    def read(self, engine: Engine, name: str) -> QueueFigures | None:
        """Return what the status of a queue is to show; None: it is gone."""
        queue = engine.queues.queue(name)
        if queue is None:
            return None
        hidden = read_annotation(queue.metadata.annotations, DISABLE_SHOW_ITEMS) is not None
        return read_figures(engine, name, max_items=0 if hidden else MAX_ITEMS)

    def is_shown(self, queue: Queue, figures: QueueFigures) -> bool:
        """Return whether the status shows this already."""
        return is_shown(queue, figures)

    def build_patch(self, queue: Queue, figures: QueueFigures, now: Timestamp) -> dict[str, Any]:
        """Return the merge patch of a queue's status."""
        return build_status_patch(queue, figures, now)
