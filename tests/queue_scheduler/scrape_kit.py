"""Counts for queues, for tests and benchmarks of a scrape."""

from __future__ import annotations

from collections.abc import Iterable

from queue_scheduler.decision import Dequeue, Reason, Refusal, Refused
from queue_scheduler.reporting.metrics import SchedulerMetrics
from shared_api.objects.meta import NO_UID


def dequeue_of(queue: str) -> Dequeue:
    """Return a decision to start a unit."""
    return Dequeue(
        unit="default/a", uid=NO_UID, resource_version="5", queue=queue, quota=queue, grants=()
    )


def refused_in(queue: str) -> Refused:
    """Return a decision against a unit."""
    refusal = Refusal(reason=Reason.OVER_QUOTA_MAX, quota=queue)
    return Refused(unit="default/a", queue=queue, refusal=refusal)


def count_everything(metrics: SchedulerMetrics, queues: Iterable[str]) -> None:
    """Count each kind of thing once for each queue."""
    for queue in queues:
        metrics.on_decision(queue, dequeue_of(queue), 0.001)
        metrics.on_decision(queue, refused_in(queue), 0.001)
        metrics.on_admitted(queue, 1.0)
        metrics.on_run_ended(queue, 1.0)
