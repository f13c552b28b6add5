"""Writes the counts and the first positions of every queue into `Queue.status`.

It writes at most every five seconds per queue, only when something changed, in the low lane, since
writes are the main cost of a queue for the API server. The first change after a pause is written at
once. The list stops at 100 positions; the debug API has them all.

The status that the queue has is compared, not the one that was written last: so a status that was
cleared or overwritten is restored, at the same rate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import msgspec
import structlog

from queue_scheduler.cache.admission_check_rules import KnownChecks, lists_check
from queue_scheduler.cache.known_units import count_admitted, count_pending, pending_units
from queue_scheduler.cycles.dequeue_cycle import WritersCache
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Reason
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.queue_options import StopPolicy
from queue_scheduler.queueing.queue_rules import QueueRules
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.refusal_texts import queue_message
from shared_api.backoff import Backoff
from shared_api.client.errors import Conflict, NotFound
from shared_api.client.resource_types import QUEUES
from shared_api.client.writes import Outcome, Rejected, WriteSink, Written, status_report
from shared_api.objects.meta import Condition, Timestamp, find_condition
from shared_api.objects.queue import READY, Queue
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import condition_body, with_condition
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import DISABLE_SHOW_ITEMS, read_annotation
from shared_api.work_queue import log_failure

MAX_ITEMS: Final = 100
"""Keeps the object small: some kilobytes, whatever the length of the queue."""

MIN_INTERVAL_SECONDS: Final = 1.0
"""At most one write a second and queue, whatever the annotation says."""

QUEUES_PER_STEP: Final = 50
"""How many are looked at at a time, some 5 ms: with 500 queues, a look at all of them would hold up
for 50 ms what else the program does."""

RETRY_BACKOFF: Final = Backoff(base_seconds=1.0, cap_seconds=60.0)
"""The pauses after failed writes; one that keeps failing (no right) needs an administrator."""

ITEMS_KEY: Final = "active"
"""The key that upstream's clients read."""

log = structlog.get_logger("queue_status")


class QueueFigures(msgspec.Struct, frozen=True):
    """What the status of a queue shows.

    Attributes:
        pending: Number of units that are pending or on hold.
        admitted: Number of units that occupy quota.
        items: (name, namespace, priority) of the first positions, in order.
        policy: The policy in force; read at a start, where the queue names an unknown one.
        stop: The stop policy in force; read at a start, like the policy.
        ready: Status of the condition `Ready`.
        reason: Of the condition.
        message: Of the condition.
    """

    pending: int
    admitted: int
    items: tuple[tuple[str, str, int], ...]
    policy: str
    stop: str
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
    return _judge_checks(api_object, engine.units.checks) or (True, READY, _describe_order(rules))


def _describe_order(rules: QueueRules) -> str:
    order = "units are admitted in order"
    if not rules.options.backfill or rules.is_backfilling:
        return order
    return f"{order}; policy {rules.policy.name} does not backfill"


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
            "queueItemDetails": {ITEMS_KEY: items},
            "conditions": [condition_body(each) for each in conditions],
        },
    }


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
        and condition is not None
        and (condition.status == "True", condition.reason, condition.message)
        == (figures.ready, figures.reason, figures.message)
    )


_Wanted = tuple[str, QueueFigures]
"""A resourceVersion of a queue, and what its status is to show."""


class _Writing:
    """The state of writing one queue's status."""

    __slots__ = ("failures", "in_flight", "name", "not_before", "settled", "trouble")

    def __init__(self, name: str) -> None:
        self.name = name
        self.not_before = 0.0
        self.in_flight: _Wanted | None = None
        """What is in flight."""
        self.settled: _Wanted | None = None
        """What is shown, or was written and not kept by the server: it is not written again."""
        self.failures = 0
        self.trouble = ""
        """The message that was logged for these failures."""


class QueueStatusWriter:
    """The step that keeps all queues' status current: it goes round them once a second."""

    def __init__(
        self,
        shared: SharedEngine,
        writes: WriteSink,
        cache: WritersCache[Queue],
        may_write: Callable[[], bool],
        clock: Clock,
        on_error: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_error = on_error  # counts exceptions about single queues
        self._shared = shared
        self._writes = writes
        self._cache = cache
        self._may_write = may_write
        self._clock = clock
        # Their fields are also changed by writers, on the outcome of what is in flight.
        self._writings: dict[str, _Writing] = {}
        # The engine's changes up to which all queues are shown as they are; None: not all are.
        self._shown_until: int | None = None
        # The round: what is left of it, the engine's changes at its start, whether all queues so
        # far are shown as they are, and the pause between its steps.
        self._left: deque[str] = deque()
        self._changes = 0
        self._are_shown = True
        self._pause = MIN_INTERVAL_SECONDS

    def step(self) -> float:
        """Write the status of the next queues that differ; return how many seconds to rest."""
        if not self._may_write():
            self._left.clear()
            return MIN_INTERVAL_SECONDS
        if not self._left:
            changes = self._shared.changes  # before the figures: what changes later is looked at
            if changes == self._shown_until:
                return MIN_INTERVAL_SECONDS
            self._begin_round(changes)
        for _ in range(min(QUEUES_PER_STEP, len(self._left))):
            self._are_shown &= self._try(self._left.popleft())
        if not self._left:
            self._shown_until = self._changes if self._are_shown else None
        return self._pause

    def _begin_round(self, changes: int) -> None:
        names = self._shared.ask(lambda engine: [queue.name for queue in engine.queues])
        for name in self._writings.keys() - set(names):
            del self._writings[name]
        self._left.extend(names)
        self._changes, self._are_shown = changes, True
        self._pause = MIN_INTERVAL_SECONDS / max(-(-len(names) // QUEUES_PER_STEP), 1)

    def _try(self, name: str) -> bool:
        try:
            return self._update(name)
        except Exception as error:  # noqa: BLE001 - it costs this queue a pause, and no other
            log_failure(name, error)
            self._on_error()
            writing = self._writings[name]
            writing.in_flight = None
            writing.not_before = self._clock.monotonic() + RETRY_BACKOFF.seconds(writing.failures)
            writing.failures += 1
            return False

    def _update(self, name: str) -> bool:
        """Write a queue's status unless it is shown; return whether it is."""
        writing = self._writings.get(name)
        if writing is None:
            writing = self._writings[name] = _Writing(name)
        now = self._clock.monotonic()
        if now < writing.not_before:
            return False
        known = self._shared.ask(_read_queue, name)
        if known is None or not self._cache.is_readable(known[0].metadata.key):
            return False  # the cached object is old: a write would only meet a conflict
        queue, interval = known
        hidden = read_annotation(queue.metadata.annotations, DISABLE_SHOW_ITEMS) is not None
        figures = self._shared.ask(read_figures, name, max_items=0 if hidden else MAX_ITEMS)
        if figures is None:
            return False
        wanted = (queue.metadata.resource_version, figures)
        if wanted in (writing.settled, writing.in_flight):
            return wanted == writing.settled
        if is_shown(queue, figures):
            writing.settled = wanted
            return True
        body = build_status_patch(queue, figures, rfc3339(self._clock.now()))
        writing.in_flight = wanted
        writing.not_before = now + max(MIN_INTERVAL_SECONDS, interval)
        write = status_report(QUEUES, queue.metadata.namespace, name, body)
        self._writes.submit(write, lambda outcome: self._on_outcome(writing, wanted, outcome))
        return False

    def _on_outcome(self, writing: _Writing, wanted: _Wanted, outcome: Outcome[Any]) -> None:
        is_latest = writing.in_flight is wanted
        if is_latest:
            writing.in_flight = None
        now = self._clock.monotonic()
        if isinstance(outcome, Written):
            queue = outcome.object
            self._cache.note_written(queue)
            writing.settled = (queue.metadata.resource_version, wanted[1])
            writing.failures, writing.trouble = 0, ""
            # The engine gets it by the watch.
            writing.not_before = max(writing.not_before, now + MIN_INTERVAL_SECONDS)
        elif is_latest:
            writing.not_before = now + RETRY_BACKOFF.seconds(writing.failures)
            writing.failures += 1
            _log_once(writing, outcome)


def _log_once(writing: _Writing, outcome: Outcome[Any]) -> None:
    """Log a failure unless the same was logged last."""
    match outcome:
        case Rejected(error=NotFound() | Conflict()):
            return  # the watch will report what exists
        case Rejected(error=error):
            trouble = str(error.status)
        case _:
            trouble = type(outcome).__name__
    if trouble != writing.trouble:
        writing.trouble = trouble
        log.warning("status of a queue is not written", queue=writing.name, outcome=str(outcome))


def _read_queue(engine: Engine, name: str) -> tuple[Queue, float] | None:
    """Return a queue, and the fewest seconds between two writes of its status; None: it is gone."""
    queue = engine.queues.find(name)
    if queue is None:
        return None
    return queue.rules.api_object, queue.rules.options.status_interval_seconds
