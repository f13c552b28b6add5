r"""Requeues units of strict queues that get no nodes, so that others have their quota meanwhile.

The controllers, which reserve nodes, move a unit from SchedReady to SchedSucceed, and its job is
released; or to SchedFailed: then its quota is released here, and it waits, each time twice as long,
before it is tried again. The same happens if there is no answer in time. In a stopped queue no unit
starts, so a unit that waits for nodes is pending again before it has its answer::

    SchedReady  --> reconciled -> in time: reconciled again when that is over
                          |  \--> too late ----\
    SchedFailed --> reconciled -----------------+--> TimeoutBackoff, an event, the queue goes on
                          |
                          \--> asks, and its queue is stopped --> Enqueued

All of this is read from the objects. An eviction that was requested is carried out by the job's
side (the controllers, or `eviction`), and ends the attempt as well.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from queue_scheduler.decision import Notice
from queue_scheduler.engine.deadlines import is_due, nodes_end_at
from queue_scheduler.engine.engine import Engine
from queue_scheduler.reporting.metrics import REFUSED, UNANSWERED
from queue_scheduler.unit_controllers.unit_reconciler import (
    Result,
    SendStatus,
    UnitAccess,
    UnitReconciler,
    requeue_at,
)
from queue_scheduler.unit_writes.eviction_patches import (
    backoff_of,
    build_backoff_status,
    build_withdrawal,
)
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.evictions import SCHEDULING_FAILED
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import Phase, is_being_evicted, phase_of
from shared_api.well_known_labels import STOP_POLICY, read_annotation

LONGEST_REST_SECONDS: Final = 30.0
"""Times in objects are wall times, and rests are measured by the monotonic clock."""

_ASKING: Final = frozenset({Phase.SCHED_READY, Phase.SCHED_FAILED})


class NodeTimeouts:
    """Requeues units that wait for nodes too long, or are refused them.

    Args:
        access: How units are read and written.
        count: Called for each requeued unit, with one of `metrics.VERDICTS`.
        timeout_seconds: How long a unit waits for an answer.
        rng: Spreads the ends of backoffs.
    """

    def __init__(
        self,
        access: UnitAccess,
        count: Callable[[str], None],
        clock: Clock,
        rng: random.Random,
        *,
        timeout_seconds: float,
    ) -> None:
        self._shared = access.shared
        self._report = access.report
        self._count = count
        self._clock = clock
        self._rng = rng
        self._timeout_seconds = timeout_seconds
        self._reconciler = UnitReconciler(access, self._reconcile, _find_asking)
        self.step = self._reconciler.step

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Reconcile a unit that was added or changed; the engine must have it already."""
        if new is not None and phase_of(new) in _ASKING:
            self._reconciler.add(new.metadata.key)

    def on_queue(self, old: Queue | None, new: Queue | None) -> None:
        """Reconcile all units when a queue stops or continues; the engine must know already."""
        if _stop_policy_of(old) != _stop_policy_of(new):
            self._reconciler.add_all()

    def _reconcile(self, key: str) -> Result:
        asking = self._shared.ask(_find_unit, key)
        if asking is None:
            return None
        unit, stopped_queue = asking
        now = self._clock.now()
        why, verdict = unit.status.message or "no nodes", REFUSED
        if phase_of(unit) is Phase.SCHED_READY:
            if stopped_queue is not None:
                return SendStatus(unit, build_withdrawal(unit, stopped_queue, now), frees=True)
            until = nodes_end_at(unit, self._timeout_seconds, now)
            if not is_due(until, now):
                return requeue_at(until, now, LONGEST_REST_SECONDS)
            why = f"no answer for {self._timeout_seconds:g} s"
            verdict = UNANSWERED
        status = build_backoff_status(unit, why, now, self._rng)

        def on_written(written: QueueUnit) -> None:
            self._count(verdict)
            self._report(build_notice(written, why))

        return SendStatus(unit, status, on_written, known_by=backoff_of, frees=True)


def _find_asking(engine: Engine) -> list[str]:
    return [record.key for record in engine.units if phase_of(record.unit) in _ASKING]


def _find_unit(engine: Engine, key: str) -> tuple[QueueUnit, str | None] | None:
    """Return a unit that waits for nodes or was refused them, and its queue if that is stopped."""
    record = engine.record(key)
    if record is None or phase_of(record.unit) not in _ASKING or is_being_evicted(record.unit):
        return None
    queue = None if record.info is None else record.info.queue
    is_stopped = queue is not None and not engine.queues.may_start(queue)
    return record.unit, queue if is_stopped else None


def _stop_policy_of(queue: Queue | None) -> str | None:
    return None if queue is None else read_annotation(queue.metadata.annotations, STOP_POLICY)


def build_notice(unit: QueueUnit, why: str) -> Notice:
    """Return the event for a unit that was put into backoff."""
    state = unit.status.requeue_state
    until = "" if state is None else f" It is tried again from {state.requeue_at} on"
    return Notice(
        kind=QUEUE_UNITS.kind,
        key=unit.metadata.key,
        uid=unit.metadata.uid,
        reason=SCHEDULING_FAILED,
        note=f"It gets no nodes, and gives its quota back: {why}.{until}",
    )
