"""The scheduler's metrics, with upstream's names where it has one, `koord_queue_` otherwise.

Decisions and arrivals are counted where they happen; everything that is a state (pending units,
quota use) is read from the engine at each scrape, a queue or some quotas at a time. Series follow
the objects: what is counted for a queue is shown while the engine has the queue, and forgotten at
the first scrape that finds it gone, even if it was counted after that. No label has the name of a
job.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import accumulate
from typing import Final

import msgspec
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from queue_scheduler.cache.admission_check_rules import Shortfall
from queue_scheduler.cache.known_units import count_admitted, count_held
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Dequeue, Preempt, Reason, Refused
from queue_scheduler.engine.audit import Kind
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_questions import list_quotas, view_quota
from queue_scheduler.queueing.queue_questions import count_by_reason
from queue_scheduler.quota.quota_view import QuotaView
from shared_api.metrics import CounterOfObjects
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock
from shared_api.queue_unit_phases import occupies_quota, phase_of
from shared_api.resource_list import Amounts, add
from shared_api.well_known_kinds import KNOWN_JOB_KINDS

WAIT_SECONDS: Final = (1.0, 10.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 604_800.0)
"""Buckets of the wait, from a second to a week. Each is a line per queue, and lines are half of the
cost of a scrape."""

RUN_SECONDS: Final = (10.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 604_800.0)
"""Buckets of the run time; a run of seconds is as short as one of none."""

LATENCY_MILLISECONDS: Final = tuple(0.01 * 2**power for power in range(15))
"""Upstream's: 0.01 ms, doubled, 15 buckets."""

PER_QUESTION: Final = 25
"""Quotas or charges that are read in one hold of the engine's lock: a quarter of a millisecond."""

QUIET_SECONDS: Final = 3600.0
"""How long after its last unit the arrivals of an existing namespace are shown: a counter that
ended with every short job could not be read."""

MAX_OTHER_KINDS: Final = 20
"""Unknown kinds of jobs that are shown by name: the client that creates a unit may name any kind.
Together with the known kinds, this is some forty series per namespace."""

OTHER_KIND: Final = "other"

MAX_CHECK_NAMES: Final = 100
"""Admission checks that are shown by name: a client that writes a unit's status may name any."""

REFUSED: Final = "refused"
UNANSWERED: Final = "unanswered"
VERDICTS: Final = (REFUSED, UNANSWERED)
"""Why a unit of a strict queue gets no nodes."""

_RESULTS: Final = ("scheduled", "unschedulable")


class QueueCounts(msgspec.Struct):
    """What was counted for one queue.

    Attributes:
        scheduled: Decisions to start a unit.
        refused: Decisions against it, by reason.
        waits: Admissions by the bucket of `WAIT_SECONDS` that their wait falls in, one more for
            what is longer than all.
        waited_seconds: Sum of the waits.
        runs: Runs that ended by themselves, in the same way by the buckets of `RUN_SECONDS`.
        ran_seconds: Sum of their times.
        rounds: Rounds of evictions for units of the queue, by reason.
        victims: Units evicted in them, by reason.
    """

    scheduled: int = 0
    refused: dict[Reason, int] = {}
    waits: list[int] = msgspec.field(default_factory=lambda: [0] * (len(WAIT_SECONDS) + 1))
    waited_seconds: float = 0.0
    runs: list[int] = msgspec.field(default_factory=lambda: [0] * (len(RUN_SECONDS) + 1))
    ran_seconds: float = 0.0
    rounds: dict[str, int] = {}
    victims: dict[str, int] = {}

    def copy(self) -> QueueCounts:
        """Return an independent copy."""
        return replace(
            self,
            refused=dict(self.refused),
            waits=self.waits[:],
            runs=self.runs[:],
            rounds=dict(self.rounds),
            victims=dict(self.victims),
        )


class SchedulerMetrics:
    """Counts decisions, admissions and admission checks; the observer of all cycles."""

    def __init__(
        self, registry: CollectorRegistry, *, has_check: Callable[[str], bool] = lambda _: True
    ) -> None:
        """Register the metrics; `has_check`: whether an AdmissionCheck of a name exists."""
        counter = partial(Counter, registry=registry)
        self._latency = Histogram(
            "job_scheduling_algorithm_latency",
            "Time that a decision took, in milliseconds (upstream's name and unit)",
            buckets=LATENCY_MILLISECONDS,
            registry=registry,
        )
        self._put_back = counter(
            "koord_queue_units_without_nodes",
            "Times that a unit of a strict queue gave its quota back, since its nodes were refused"
            " or no answer came",
            ("verdict",),
        )
        for verdict in VERDICTS:
            self._put_back.labels(verdict)
        self._differences = counter(
            "koord_queue_audit_differences",
            "Differences between the scheduler's state and the objects, found by two rounds in a"
            " row of the self-audit",
            ("kind",),
        )
        for kind in Kind:
            self._differences.labels(kind)
        self._audit_age = Gauge(
            "koord_queue_audit_age_seconds",
            "Time since the last full round of the self-audit, in seconds",
            registry=registry,
        )
        self._check_failures = CounterOfObjects(
            "koord_queue_admission_check_failures",
            "Units that lost their place by an admission check: retry, rejected or timeout",
            ("check", "result"),
            is_there=has_check,
            most=MAX_CHECK_NAMES,
        )
        registry.register(self._check_failures)
        self._lock = threading.Lock()  # guards the counts, of all queues
        self._counts: dict[str, QueueCounts] = {}

    def on_decision(
        self, queue: str, decision: Dequeue | Refused | Preempt, seconds: float
    ) -> None:
        """Count one decision."""
        self._latency.observe(seconds * 1000)
        with self._lock:
            counts = self._counts_of(queue)
            if isinstance(decision, Dequeue):
                counts.scheduled += 1
            else:
                reason = decision.refusal.reason
                counts.refused[reason] = counts.refused.get(reason, 0) + 1

    def on_admitted(self, queue: str, waited_seconds: float) -> None:
        """Count a unit whose admission the server has confirmed."""
        with self._lock:
            counts = self._counts_of(queue)
            counts.waits[bisect_left(WAIT_SECONDS, waited_seconds)] += 1
            counts.waited_seconds += waited_seconds

    def on_run_ended(self, queue: str, seconds: float) -> None:
        """Count a run that ended by itself, with the time that its pods ran."""
        with self._lock:
            counts = self._counts_of(queue)
            counts.runs[bisect_left(RUN_SECONDS, seconds)] += 1
            counts.ran_seconds += seconds

    def on_check_failed(self, check: str, why: Shortfall) -> None:
        """Count a unit that lost its reservation or admission by an admission check."""
        self._check_failures.inc(check, why.value)

    def on_without_nodes(self, verdict: str) -> None:
        """Count a unit that got no nodes; `verdict` is one of `VERDICTS`."""
        self._put_back.labels(verdict).inc()

    def on_audit_difference(self, kind: Kind) -> None:
        """Count a difference that two rounds of the self-audit have found."""
        self._differences.labels(kind).inc()

    def show_audit_age(self, age: Callable[[], float]) -> None:
        """Set the function that each scrape calls for the age of the last round."""
        self._audit_age.set_function(age)

    def on_preempted(self, queue: str, reason: str, victims: int) -> None:
        """Count a round of evictions for a unit of the queue."""
        with self._lock:
            counts = self._counts_of(queue)
            counts.rounds[reason] = counts.rounds.get(reason, 0) + 1
            counts.victims[reason] = counts.victims.get(reason, 0) + victims

    def counted(self) -> dict[str, QueueCounts]:
        """Return copies of the counts, by queue."""
        with self._lock:
            return {queue: counts.copy() for queue, counts in self._counts.items()}

    def forget(self, queues: Iterable[str]) -> None:
        """Drop what was counted for queues that are gone."""
        with self._lock:
            for queue in queues:
                self._counts.pop(queue, None)

    def _counts_of(self, queue: str) -> QueueCounts:
        counts = self._counts.get(queue)
        if counts is None:
            counts = self._counts[queue] = QueueCounts()
        return counts


class QueueFigure(msgspec.Struct, frozen=True):
    """One queue at the moment of a scrape; `pending` by reason."""

    name: str
    pending: Mapping[Reason, int]
    admitted: int


class StateCollector(Collector):
    """Reads queues and quotas at each scrape, and what was counted for existing queues.

    Args:
        shared: The engine.
        metrics: What was counted.
    """

    def __init__(self, shared: SharedEngine, metrics: SchedulerMetrics) -> None:
        self._shared = shared
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Return the families (prometheus calls this)."""
        # Counts first: a queue that is missing afterwards is then surely gone.
        counted = self._metrics.counted()
        names = self._shared.ask(lambda engine: [queue.name for queue in engine.queues])
        read = (self._shared.ask(_read_queue, name) for name in names)
        figures = [figure for figure in read if figure is not None]
        self._metrics.forget(counted.keys() - names)
        nowhere = self._shared.ask(lambda engine: dict(count_held(engine.units, "")))
        yield from _queue_families(figures, nowhere)
        present = {figure.name for figure in figures} & counted.keys()
        yield from _count_families({queue: counted[queue] for queue in sorted(present)})
        yield from _quota_families(self._read_quotas())

    def describe(self) -> list[Metric]:
        """Nothing: names are known only at the scrape, and none is registered twice."""
        return []

    def _read_quotas(self) -> Iterator[QuotaView]:
        names = self._shared.ask(lambda engine: list_quotas(engine.plugins))
        for start in range(0, len(names), PER_QUESTION):
            yield from self._shared.ask(_view_quotas, names[start : start + PER_QUESTION])


def _view_quotas(engine: Engine, names: Iterable[str]) -> list[QuotaView]:
    views = (view_quota(engine.plugins, name) for name in names)
    return [view for view in views if view is not None]


def _read_queue(engine: Engine, name: str) -> QueueFigure | None:
    queue = engine.queues.find(name)
    if queue is None:
        return None
    pending = Tally(count_by_reason(queue))
    pending.update(count_held(engine.units, name))
    return QueueFigure(name, pending, count_admitted(engine.units, name))


def _queue_families(figures: list[QueueFigure], nowhere: Mapping[Reason, int]) -> Iterator[Metric]:
    queue = ["queue"]
    active = GaugeMetricFamily(
        "queueunits_in_active_queue",
        "Units that wait, without those in backoff (upstream's name)",
        labels=queue,
    )
    backoff = GaugeMetricFamily(
        "queueunits_in_backoff_queue",
        "Units that wait for the end of their backoff (upstream's name)",
        labels=queue,
    )
    pending = GaugeMetricFamily(
        "koord_queue_pending_units",
        'Units that wait, by reason; queue="" has those that belong to no queue',
        labels=["queue", "reason"],
    )
    admitted = GaugeMetricFamily(
        "koord_queue_admitted_units_current", "Units that occupy quota", labels=queue
    )
    for figure in figures:
        in_backoff = figure.pending.get(Reason.IN_BACKOFF, 0)
        active.add_metric([figure.name], sum(figure.pending.values()) - in_backoff)
        backoff.add_metric([figure.name], in_backoff)
        admitted.add_metric([figure.name], figure.admitted)
        _add_reasons(pending, figure.name, figure.pending)
    _add_reasons(pending, "", nowhere)
    yield from (active, backoff, pending, admitted)


def _count_families(counted: Mapping[str, QueueCounts]) -> Iterator[Metric]:
    attempts_help = "Decisions by queue and result, scheduled or unschedulable"
    labels = ["queue", "result"]
    attempts = CounterMetricFamily("job_schedule_attempts", attempts_help, labels=labels)
    # The library adds a suffix to counters; upstream's dashboard reads the name without it.
    bare = Metric("job_schedule_attempts", f"{attempts_help} (upstream's name)", "unknown")
    refusals = CounterMetricFamily(
        "koord_queue_refusals", "Refused decisions by queue and reason", labels=["queue", "reason"]
    )
    admitted = CounterMetricFamily("koord_queue_admitted_units", "Units admitted", labels=["queue"])
    wait = HistogramMetricFamily(
        "koord_queue_admission_wait_time_seconds",
        "Time from the unit's creation to its admission, in seconds",
        labels=["queue"],
    )
    run = HistogramMetricFamily(
        "koord_queue_run_time_seconds",
        "Time for which the pods of a job ran until it ended by itself, in seconds",
        labels=["queue"],
    )
    by_reason = ["queue", "reason"]
    rounds = CounterMetricFamily(
        "koord_queue_preemptions",
        "Rounds of evictions, by the queue of the unit that needs room, and by reason",
        labels=by_reason,
    )
    victims = CounterMetricFamily(
        "koord_queue_preempted_units", "Units evicted in these rounds", labels=by_reason
    )
    for queue, counts in counted.items():
        results = (counts.scheduled, sum(counts.refused.values()))
        for result, count in zip(_RESULTS, results, strict=True):
            attempts.add_metric([queue, result], count)
            bare.add_sample(bare.name, {"queue": queue, "result": result}, count)
        _add_reasons(refusals, queue, counts.refused)
        admitted.add_metric([queue], sum(counts.waits))
        wait.add_metric([queue], _buckets(WAIT_SECONDS, counts.waits), counts.waited_seconds)
        run.add_metric([queue], _buckets(RUN_SECONDS, counts.runs), counts.ran_seconds)
        _add_reasons(rounds, queue, counts.rounds)
        _add_reasons(victims, queue, counts.victims)
    yield from (attempts, bare, refusals, admitted, wait, run, rounds, victims)


def _buckets(bounds: tuple[float, ...], counts: list[int]) -> list[tuple[str, int]]:
    """Return the buckets of a histogram as a scrape has them; `counts` has one more than bounds."""
    return list(zip((*map(str, bounds), "+Inf"), accumulate(counts), strict=True))


def _add_reasons(
    family: GaugeMetricFamily | CounterMetricFamily,
    queue: str,
    counts: Mapping[Reason, int] | Mapping[str, int],
) -> None:
    for reason, count in counts.items():
        family.add_metric([queue, str(reason)], count)


def _quota_families(views: Iterable[QuotaView]) -> Iterator[Metric]:
    labels = ["quota", "resource"]
    unit = "cpu in milli, all else in its own unit"
    usage = GaugeMetricFamily(
        "dequeued_quota_usage_by_quota",
        f"Charged by units of the quota and its children; {unit} (upstream's name)",
        labels=labels,
    )
    shown = {
        "min": GaugeMetricFamily("koord_queue_quota_min", f"spec.min; {unit}", labels=labels),
        "max": GaugeMetricFamily("koord_queue_quota_max", f"spec.max; {unit}", labels=labels),
        "runtime": GaugeMetricFamily(
            "koord_queue_quota_runtime", f"Runtime quota as computed; {unit}", labels=labels
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


class UnitMetrics(Collector):
    """Units by namespace and kind of job, as upstream counts them.

    It follows the objects, so that a scrape reads only the admitted units. Written by the thread of
    the informer; scrapes read copies.

    Args:
        shared: The engine, which has the charges.
        is_synced: False while the first list comes in: its units are not arrivals.
        has_namespace: Returns whether the cache has a namespace of this name.
        clock: The time of arrivals.
    """

    def __init__(
        self,
        shared: SharedEngine,
        is_synced: Callable[[], bool],
        clock: Clock,
        has_namespace: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._shared = shared
        self._is_synced = is_synced
        self._has_namespace = has_namespace
        self._clock = clock
        self._units: dict[tuple[str, str], int] = {}
        self._admitted: dict[str, Uid] = {}
        # How many of this namespace, kind and phase, and when the last of them came.
        self._arrived: dict[tuple[str, str, str], tuple[int, float]] = {}
        # Names are never removed: a unit that is counted under a name must be found under it.
        self._other_kinds: set[str] = set()

    def on_queue_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Take a unit that was added, changed or deleted (an informer's handler)."""
        before = None if old is None else self._kind_of(old)
        after = None if new is None else self._kind_of(new)
        if before != after:
            if before is not None:
                self._count(before, -1)
            if after is not None:
                self._count(after, 1)
        if new is None:
            if old is not None:
                self._admitted.pop(old.metadata.key, None)
            return
        if occupies_quota(new):
            self._admitted[new.metadata.key] = new.metadata.uid
        else:
            self._admitted.pop(new.metadata.key, None)
        if old is None and self._is_synced():
            key = (*self._kind_of(new), phase_of(new).value)
            count = self._arrived.get(key, (0, 0.0))[0]
            self._arrived[key] = (count + 1, self._clock.monotonic())

    def collect(self) -> Iterator[Metric]:
        """Return the families (prometheus calls this)."""
        units = GaugeMetricFamily(
            "queueunits_by_job_type",
            "Units by namespace and kind of job (upstream's name)",
            labels=["namespace", "type"],
        )
        for (namespace, kind), count in self._units.copy().items():
            units.add_metric([namespace, kind], count)
        yield units
        arrived = Metric(
            "queueunits_coming_rate_by_job_type",
            "Units that came, by namespace, kind of job and phase they came in (upstream's name)",
            "unknown",
        )
        for (namespace, kind, phase), count in self._read_arrived():
            labels = {"namespace": namespace, "type": kind, "status": phase}
            arrived.add_sample(arrived.name, labels, count)
        yield arrived
        usage = GaugeMetricFamily(
            "dequeued_quota_usage_by_namespace",
            "Charged by units of the namespace; cpu in milli, all else in its own unit"
            " (upstream's name)",
            labels=["namespace", "resource"],
        )
        for namespace, amounts in self._read_usage().items():
            for resource, amount in amounts.items():
                usage.add_metric([namespace, resource], amount)
        yield usage

    def describe(self) -> list[Metric]:
        """Nothing: as `StateCollector`."""
        return []

    def _kind_of(self, unit: QueueUnit) -> tuple[str, str]:
        """Return the labels of a unit: its namespace, and its kind of job as it is shown."""
        consumer = unit.spec.consumer_ref
        kind = "" if consumer is None else consumer.kind
        if kind and kind not in KNOWN_JOB_KINDS and kind not in self._other_kinds:
            if len(self._other_kinds) >= MAX_OTHER_KINDS:
                kind = OTHER_KIND
            else:
                self._other_kinds.add(kind)
        return unit.metadata.namespace, kind

    def _count(self, kind: tuple[str, str], by: int) -> None:
        count = self._units.get(kind, 0) + by
        if count:
            self._units[kind] = count
        else:
            del self._units[kind]

    def _read_arrived(self) -> Iterator[tuple[tuple[str, str, str], int]]:
        quiet_since = self._clock.monotonic() - QUIET_SECONDS
        for key, (count, last) in self._arrived.copy().items():
            is_over = last < quiet_since or not self._has_namespace(key[0])
            if is_over and key[:2] not in self._units:
                self._arrived.pop(key, None)
            else:
                yield key, count

    def _read_usage(self) -> dict[str, Amounts]:
        usage: dict[str, Amounts] = {}
        admitted = list(self._admitted.copy().items())
        for start in range(0, len(admitted), PER_QUESTION):
            batch = admitted[start : start + PER_QUESTION]
            charges = self._shared.ask(_read_charges, [uid for _, uid in batch])
            for (key, _), amounts in zip(batch, charges, strict=True):
                namespace = key.partition("/")[0]
                usage[namespace] = add(usage.get(namespace, {}), amounts)
        return usage


def _read_charges(engine: Engine, uids: Iterable[Uid]) -> list[Amounts]:
    charges = (engine.usage.charge_of(uid) for uid in uids)
    return [{} if charge is None else charge.amounts for charge in charges]
