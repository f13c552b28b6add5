"""The metrics of both programs, and their registry.

There is no module state: a program's ``wiring`` makes one ``SharedMetrics`` and passes its parts to
the code that counts. Metrics that are common in Kubernetes (``workqueue_*``, ``rest_client_*``)
keep their names, so that existing dashboards work; all others begin with ``koord_queue_``. The
values of every label are bounded: the name of a job is never one.

The parts implement the protocols of the counting code (``WorkQueueObserver``,
``InformerObserver``), which does not know this module.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from typing import Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

QUEUE_SECONDS: Final = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
"""Buckets of the work queues in seconds; component-base starts at 10 ns, Python needs fewer."""

FORBIDDEN: Final = "forbidden"
INVALID: Final = "invalid"
FAILED: Final = "failed"
REFUSALS: Final = (FORBIDDEN, INVALID, FAILED)
"""Why a write was refused: by a right, a webhook or a policy (403); by what is in it (another 4xx);
or the server could not (5xx, or no answer)."""

_TOO_MANY: Final = "429"
_NO_REFUSALS: Final = frozenset({"404", "409", "410", _TOO_MANY})
"""Codes by which the world has moved on, or that ask for patience."""

_WRITES: Final = frozenset({"create", "patch", "delete"})

REQUEST_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
"""Buckets of ``rest_client_request_duration_seconds``, as in component-base."""


class WorkQueueMetrics:
    """``workqueue_*``, by the name of the queue; names and meanings as in client-go.

    The two of exceptions and of keys that fail are not client-go's.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        name = ("name",)
        gauge = partial(Gauge, registry=registry)
        counter = partial(Counter, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.depth = gauge("workqueue_depth", "Keys that wait for a worker", name)
        self.adds = counter("workqueue_adds", "Keys that asked for work, repeats left out", name)
        self.retries = counter("workqueue_retries", "Keys added again after a failure", name)
        self.queue_duration = histogram(
            "workqueue_queue_duration_seconds",
            "How long a key waited for a worker, in seconds",
            name,
            buckets=QUEUE_SECONDS,
        )
        self.work_duration = histogram(
            "workqueue_work_duration_seconds",
            "How long a worker took for a key, in seconds",
            name,
            buckets=QUEUE_SECONDS,
        )

        self.exceptions = counter(
            "koord_queue_key_errors",
            "Exceptions while a key was processed; the key is tried again after a pause",
            name,
        )
        self.failing = gauge(
            "koord_queue_failing_keys",
            "Keys that have failed again and again, for whatever reason, and are still tried",
            name,
        )
        # Read by the probe of readiness, written while a program is built.
        self._failing: dict[str, Callable[[], float]] = {}

    def of_queue(self, name: str) -> OneWorkQueueMetrics:
        """Return the observer for the queue of this name."""
        return OneWorkQueueMetrics(self, name)

    def count_errors(self, name: str) -> Callable[[], None]:
        """Return what counts exceptions about single objects in a loop without a work queue."""
        return self.exceptions.labels(name).inc

    def note_failing(self, name: str, failing: Callable[[], float]) -> None:
        """Take the function that returns how many keys of a queue fail."""
        self.failing.labels(name).set_function(failing)
        self._failing[name] = failing

    def check_failing(self) -> tuple[bool, str]:
        """Return for ``/readyz`` (True, which queues have keys that fail again and again).

        Always True: one bad object must not take a whole program out of service. The keys
        themselves are in the log, since the port answers everyone.
        """
        counts = {name: int(failing()) for name, failing in self._failing.items()}
        parts = [f"{name}: {count}" for name, count in sorted(counts.items()) if count]
        return True, f"fail again and again: {', '.join(parts)}" if parts else "none fails"


class OneWorkQueueMetrics:
    """A ``WorkQueueObserver``; it looks the series up once, not for each key."""

    def __init__(self, metrics: WorkQueueMetrics, name: str) -> None:
        self._metrics = metrics
        self._name = name
        self._depth = metrics.depth.labels(name)
        self.on_add = metrics.adds.labels(name).inc
        self.on_get = metrics.queue_duration.labels(name).observe
        self.on_done = metrics.work_duration.labels(name).observe
        self.on_retry = metrics.retries.labels(name).inc
        self.on_exception = metrics.exceptions.labels(name).inc

    def show(self, *, depth: Callable[[], float], failing: Callable[[], float]) -> None:
        """Set the functions that each scrape calls: keys that are ready, and keys that fail."""
        self._depth.set_function(depth)
        self._metrics.note_failing(self._name, failing)


class RestClientMetrics:
    """``rest_client_*``: requests to the API server; names and labels as in client-go."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self.duration = Histogram(
            "rest_client_request_duration_seconds",
            "Time from sending a request to having its answer (of a watch: its head), in seconds",
            ("verb", "host"),
            registry=registry,
            buckets=REQUEST_SECONDS,
        )
        self.requests = counter(
            "rest_client_requests",
            "Requests by status code, or <error> without an answer",
            ("code", "method", "host"),
        )
        self.refused = counter(
            "koord_queue_writes_refused",
            "Writes that the API server did not carry out: forbidden (403), invalid (another 4xx),"
            " or failed (5xx, or no answer); conflicts and dry runs are left out",
            ("reason",),
        )
        for reason in REFUSALS:
            self.refused.labels(reason)
        self.throttled = counter(
            "koord_queue_throttled_requests",
            "Requests that the API server answered with 429 Too Many Requests",
        )
        self.waited = counter(
            "koord_queue_throttled_seconds",
            "Time for which requests waited before they were sent, in seconds: for the program's"
            " own rate limit, or since the server had asked for a pause",
        )
        # Looking up the child of a metric by its labels costs more than counting. Filled on first
        # use; two threads at once find the same child.
        self._children: dict[tuple[str, ...], tuple[Histogram, tuple[Counter, ...]]] = {}

    def on_request(self, *, verb: str, method: str, host: str, code: str, seconds: float) -> None:
        """Observe one request.

        Args:
            verb: Get, list, watch, create, dry-run, patch, delete.
            method: GET, POST, PATCH, DELETE.
            host: Host and port of the API server.
            code: The status code as text; "<error>" if there was no answer.
            seconds: Duration of the request.
        """
        key = (verb, method, host, code)
        children = self._children.get(key)
        if children is None:
            counted = self.requests.labels(code, method, host), *self._more_counts(verb, code)
            children = self._children[key] = self.duration.labels(verb, host), counted
        children[0].observe(seconds)
        for each in children[1]:
            each.inc()

    def on_wait(self, seconds: float) -> None:
        """Count the time for which a request waited before it was sent."""
        self.waited.inc(seconds)

    def _more_counts(self, verb: str, code: str) -> Iterator[Counter]:
        """Yield what a request with this answer is counted in as well."""
        if code == _TOO_MANY:
            yield self.throttled
        if verb not in _WRITES or code in _NO_REFUSALS or code[:1] in {"1", "2", "3"}:
            return
        if code == "403":
            yield self.refused.labels(FORBIDDEN)
        else:
            yield self.refused.labels(INVALID if code[:1] == "4" else FAILED)


OTHER: Final = "other"
"""Label value for all objects beyond those that a `CounterOfObjects` shows by name."""


class CounterOfObjects(Collector):
    """A counter whose first label is the name of an object, shown while the object exists.

    A child of an ordinary counter stays as long as the program runs, even if its object is gone.
    Here each scrape checks, so that a late count does no harm.

    Args:
        name: Name of the metric, without "_total".
        documentation: Help text of the metric.
        labels: Names of its two labels; the first is the object's name.
        is_there: Returns whether there is an object of this name.
        most: Most names that are shown; the others are counted together, as `OTHER`.
    """

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: tuple[str, str],
        *,
        is_there: Callable[[str], bool],
        most: int,
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = labels
        self._is_there = is_there
        self._most = most
        self._lock = threading.Lock()  # guards the counts
        self._counts: dict[str, dict[str, int]] = {}

    def inc(self, name: str, value: str) -> None:
        """Increment the count of an object and a value of the second label; from any thread."""
        with self._lock:
            is_known = name in self._counts or len(self._counts.keys() - {OTHER}) < self._most
            counts = self._counts.setdefault(name if is_known else OTHER, {})
            counts[value] = counts.get(value, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """Return the family, without objects that are gone (prometheus_client calls this)."""
        with self._lock:
            names = list(self._counts)
        gone = {name for name in names if name != OTHER and not self._is_there(name)}
        family = CounterMetricFamily(self._name, self._documentation, labels=self._labels)
        with self._lock:
            for name in gone:
                self._counts.pop(name, None)
            for name in sorted(self._counts):
                for value, count in sorted(self._counts[name].items()):
                    family.add_metric([name, value], count)
        yield family

    def describe(self) -> list[Metric]:
        """Return the family without samples: the registry checks names by it."""
        return [CounterMetricFamily(self._name, self._documentation, labels=self._labels)]


class InformerMetrics:
    """Metrics of the caches, by the plural name of the resource."""

    def __init__(self, registry: CollectorRegistry) -> None:
        resource = ("resource",)
        gauge = partial(Gauge, registry=registry)
        counter = partial(Counter, registry=registry)
        self.objects = gauge("koord_queue_informer_objects", "Objects in a cache", resource)
        self.synced = gauge(
            "koord_queue_informer_synced",
            "1 when every handler has seen the whole first list",
            resource,
        )
        self.undecodable = gauge(
            "koord_queue_informer_undecodable_objects",
            "Objects whose newest version could not be read (the last good one counts)",
            resource,
        )
        self.watch_age = gauge(
            "koord_queue_informer_watch_age_seconds",
            "Seconds since a watch last brought anything (bookmarks come about every minute)",
            resource,
        )
        self.lists = counter("koord_queue_informer_lists", "Complete lists", resource)
        self.watch_ends = counter(
            "koord_queue_informer_watch_ends", "Watches that ended, by how", ("resource", "reason")
        )
        self.decode_failures = counter(
            "koord_queue_informer_decode_failures",
            "Versions of objects that could not be read",
            resource,
        )
        self.handler_errors = counter(
            "koord_queue_informer_handler_errors",
            "Exceptions out of handlers; each is in the log",
            resource,
        )

        self.findings = counter(
            "koord_queue_informer_findings",
            "Objects that a later list found new, changed or gone without a report of the watch",
            resource,
        )

    def of_resource(self, plural: str) -> OneInformerMetrics:
        """Return the observer for the informer of this resource."""
        return OneInformerMetrics(self, plural)

    def forget(self, plural: str) -> None:
        """Drop all series of a resource that is not followed any more."""
        for metric in (
            self.objects,
            self.synced,
            self.undecodable,
            self.watch_age,
            self.lists,
            self.watch_ends,
            self.decode_failures,
            self.handler_errors,
            self.findings,
        ):
            metric.remove_by_labels({"resource": plural})


class OneInformerMetrics:
    """An ``InformerObserver``."""

    def __init__(self, metrics: InformerMetrics, plural: str) -> None:
        self._metrics = metrics
        self._plural = plural
        self._is_over = False
        self.on_list = metrics.lists.labels(plural).inc
        self.on_decode_failure = metrics.decode_failures.labels(plural).inc
        self.on_handler_error = metrics.handler_errors.labels(plural).inc
        self.on_finding = metrics.findings.labels(plural).inc

    def on_watch_end(self, reason: str) -> None:
        """Count the end of a watch."""
        if self._is_over:
            return  # the last watch may end after its informer has stopped
        self._metrics.watch_ends.labels(self._plural, reason).inc()

    def on_stop(self) -> None:
        """Drop the series: the informer has stopped, since its kind is gone."""
        self._is_over = True
        self._metrics.forget(self._plural)

    def show(
        self,
        *,
        objects: Callable[[], float],
        synced: Callable[[], float],
        undecodable: Callable[[], float],
        watch_age: Callable[[], float],
    ) -> None:
        """Set the functions that each scrape calls, so that nothing is computed between scrapes."""
        self._metrics.objects.labels(self._plural).set_function(objects)
        self._metrics.synced.labels(self._plural).set_function(synced)
        self._metrics.undecodable.labels(self._plural).set_function(undecodable)
        self._metrics.watch_age.labels(self._plural).set_function(watch_age)


class ProcessMetrics:
    """Metrics of the program as a whole."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self.build_info = gauge(
            "koord_queue_build_info",
            "Always 1; the labels say what runs",
            ("component", "version", "python_version"),
        )
        self.leader = gauge("koord_queue_leader", "1 on the replica that holds the lease")
        self.takeover = gauge(
            "koord_queue_takeover_seconds",
            "Seconds that it took this replica to take over: lease (since the last renewal of the"
            " leader before), settle (waited for that leader's last write), preparing (until the"
            " caches were up to date); missing until then",
            ("part",),
        )
        self.loop_errors = Counter(
            "koord_queue_loop_errors",
            "Exceptions out of a thread's step; each is in the log, the step is repeated. Threads"
            " of one kind count together",
            ("thread",),
            registry=registry,
        )

    def on_thread(self, thread: str) -> None:
        """Begin the count of a thread at 0, so that its first error is seen as an increase."""
        self.loop_errors.labels(thread.partition("/")[0])

    def on_loop_error(self, thread: str, error: Exception) -> None:
        """Count an exception of a step; a thread named `kind/object` counts under its kind."""
        self.loop_errors.labels(thread.partition("/")[0]).inc()

    def on_leading(self, *, leading: bool) -> None:
        """Set whether this replica leads."""
        self.leader.set(1 if leading else 0)

    def on_takeover(self, *, lease: float, settle: float) -> None:
        """Set how many seconds the lease took, and how many the settle time takes."""
        self.takeover.labels("lease").set(lease)
        self.takeover.labels("settle").set(settle)

    def on_prepared(self, seconds: float) -> None:
        """Set how many seconds after that the caches were up to date."""
        self.takeover.labels("preparing").set(seconds)


class PortMetrics:
    """Metrics of connections to the program's ports."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.connections = Counter(
            "koord_queue_port_connections",
            "Connections to a port that have ended: answered, late (no complete request in time, or"
            " its answer not read), evicted (the same, and others needed the place), broken (ended"
            " by the client, or TLS failed), refused (every place was being answered)",
            ("port", "outcome"),
            registry=registry,
        )

    def of_port(self, port: str) -> Callable[[Enum], None]:
        """Return the observer that counts connections of a port (health, metrics, debug)."""

        def observe(outcome: Enum) -> None:
            self.connections.labels(port, outcome.value).inc()

        return observe


class SharedMetrics:
    """A registry with all metrics that both programs have.

    Args:
        component: Name of the program, for ``koord_queue_build_info``.
        version: Version of the program.
        python_version: Version of the interpreter.
    """

    def __init__(self, *, component: str, version: str, python_version: str) -> None:
        # Without this every counter and histogram has a second series with its creation time: half
        # of a scrape, which is not used. It is a switch of the library, not of a registry.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call] # untyped there
        self.registry = CollectorRegistry(auto_describe=True)
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.PlatformCollector(registry=self.registry)
        prometheus_client.GCCollector(registry=self.registry)
        self.work_queues = WorkQueueMetrics(self.registry)
        self.rest_client = RestClientMetrics(self.registry)
        self.informers = InformerMetrics(self.registry)
        self.process = ProcessMetrics(self.registry)
        self.ports = PortMetrics(self.registry)
        self.process.build_info.labels(component, version, python_version).set(1)

    def exposition(self) -> tuple[bytes, str]:
        """Return the body of ``/metrics`` and its content type."""
        return prometheus_client.generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4
