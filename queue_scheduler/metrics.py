"""What the scheduler counts. Upstream's names where it has one, `koord_queue_` otherwise.

Counters are raised where things happen; everything that is a state (pending units, quota use)
is read from the engine when a scrape asks, so that nothing is spent between scrapes and series
of gone objects vanish by themselves. No label ever holds the name of a job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from queue_scheduler.decision import Dequeue, Refused
from queue_scheduler.engine import Engine
from queue_scheduler.quota.quota_decision import QuotaView
from queue_scheduler.shared_engine import SharedEngine

_WAIT_BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 43200)
_ALGORITHM_BUCKETS_MS = tuple(0.01 * 2**power for power in range(15))
"""Upstream's: 0.01 ms, doubled, 15 buckets."""


class SchedulerMetrics:
    """Counters and histograms of decisions; a `DecisionObserver`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._attempts = Counter(
            "job_schedule_attempts",
            "Decisions by queue and result (upstream's name)",
            ("queue", "result"),
            registry=registry,
        )
        self._latency = Histogram(
            "job_scheduling_algorithm_latency",
            "Milliseconds that a decision took (upstream's name and unit)",
            buckets=_ALGORITHM_BUCKETS_MS,
            registry=registry,
        )
        self._refusals = Counter(
            "koord_queue_refusals",
            "Refused decisions by queue and reason",
            ("queue", "reason"),
            registry=registry,
        )
        self._admitted = Counter(
            "koord_queue_admitted_units", "Units admitted", ("queue",), registry=registry
        )
        self._wait = Histogram(
            "koord_queue_admission_wait_time_seconds",
            "Time from the unit's creation to its admission",
            ("queue",),
            buckets=_WAIT_BUCKETS,
            registry=registry,
        )
        # labels() costs three times as much as the increment: children are kept.
        self._children: dict[tuple[str, str], Counter] = {}

    def on_decision(self, queue: str, decision: Dequeue | Refused, seconds: float) -> None:
        """Count one decision."""
        self._latency.observe(seconds * 1000)
        if isinstance(decision, Dequeue):
            self._child(self._attempts, queue, "scheduled").inc()
        else:
            self._child(self._attempts, queue, "unschedulable").inc()
            self._child(self._refusals, queue, decision.refusal.reason.value).inc()

    def on_admitted(self, queue: str, waited_seconds: float) -> None:
        """Count a unit whose admission the server has confirmed."""
        self._admitted.labels(queue).inc()
        self._wait.labels(queue).observe(waited_seconds)

    def _child(self, counter: Counter, queue: str, value: str) -> Counter:
        # A result and a reason never have the same word, so one cache serves both counters.
        key = (queue, value)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = counter.labels(queue, value)
        return child


class QueueFigure(msgspec.Struct, frozen=True):
    """One queue at the moment of a scrape."""

    name: str
    pending: int
    admitted: int


class StateCollector(Collector):
    """Pending units, admitted units and quota use, read when a scrape asks."""

    def __init__(
        self, shared: SharedEngine, quota_views: Callable[[], Iterable[QuotaView]]
    ) -> None:
        self._shared = shared
        self._quota_views = quota_views

    def collect(self) -> Iterator[Metric]:
        """Return the families (prometheus calls this)."""
        yield from _queue_families(self._shared.ask(_read_queues))
        yield from _quota_families(self._quota_views())

    def describe(self) -> list[Metric]:
        """Nothing: names are known only at the scrape, and none is registered twice."""
        return []


def _read_queues(engine: Engine) -> list[QueueFigure]:
    units = engine.units
    return [
        QueueFigure(line.name, units.pending_count(line.name), units.admitted_count(line.name))
        for line in engine.queues
    ]


def _queue_families(figures: list[QueueFigure]) -> Iterator[Metric]:
    active = GaugeMetricFamily(
        "queueunits_in_active_queue", "Units that wait (upstream's name)", labels=["queue"]
    )
    admitted = GaugeMetricFamily(
        "koord_queue_admitted_units_current", "Units that occupy quota", labels=["queue"]
    )
    for figure in figures:
        active.add_metric([figure.name], figure.pending)
        admitted.add_metric([figure.name], figure.admitted)
    yield active
    yield admitted


def _quota_families(views: Iterable[QuotaView]) -> Iterator[Metric]:
    labels = ["quota", "resource"]
    usage = GaugeMetricFamily(
        "dequeued_quota_usage_by_quota",
        "Booked by units of the quota and its children; cpu in milli (upstream's name)",
        labels=labels,
    )
    shown = {
        "min": GaugeMetricFamily("koord_queue_quota_min", "spec.min, base units", labels=labels),
        "max": GaugeMetricFamily("koord_queue_quota_max", "spec.max, base units", labels=labels),
        "runtime": GaugeMetricFamily(
            "koord_queue_quota_runtime", "Runtime quota as computed, base units", labels=labels
        ),
    }
    for view in views:
        for resource, amount in view.used.items():
            usage.add_metric([view.name, resource], amount)
        for field, family in shown.items():
            for resource, amount in getattr(view, field).items():
                family.add_metric([view.name, resource], amount)
    yield usage
    yield from shown.values()
