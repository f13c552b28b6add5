"""For how long the head of each queue has been there, and which labels of queues are shown.

Both are read from the engine at a scrape. A label is shown if the command line lists it: a series
for each queue, to join with others, and none of what users may put on their objects besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from queue_scheduler.cache.known_units import unit_at
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.queue_questions import queue_head
from queue_scheduler.reporting.metrics import PER_QUESTION
from shared_api.objects.meta import NO_UID, Uid
from shared_api.process.clock import Clock


class _Found(NamedTuple):
    """A queue at the moment of a scrape; `head` is `NO_UID` if no unit is pending."""

    name: str
    head: Uid
    labels: Mapping[str, str]


class QueueHeads(Collector):
    """Shows heads and labels of queues.

    Args:
        shared: The engine.
        clock: Measures how long a unit has been the head: since the first scrape that found it so.
        labels: From the key of a label to the name under which it is shown.
    """

    def __init__(
        self, shared: SharedEngine, clock: Clock, labels: Mapping[str, str] | None = None
    ) -> None:
        self._shared = shared
        self._clock = clock
        self._labels = labels or {}
        # Replaced as a whole, since two scrapes may run at once.
        self._since: Mapping[str, tuple[Uid, float]] = {}

    def collect(self) -> Iterator[Metric]:
        """Return the families (prometheus calls this)."""
        found = list(self._read())
        yield self._heads_of(found)
        if self._labels:
            yield self._labels_of(found)

    def describe(self) -> list[Metric]:
        """Nothing: names are known only at the scrape, and none is registered twice."""
        return []

    def _read(self) -> Iterator[_Found]:
        names = self._shared.ask(lambda engine: [queue.name for queue in engine.queues])
        for start in range(0, len(names), PER_QUESTION):
            yield from self._shared.ask(_read_queues, names[start : start + PER_QUESTION])

    def _heads_of(self, found: Iterable[_Found]) -> Metric:
        family = GaugeMetricFamily(
            "koord_queue_head_age_seconds",
            "How long the unit at the head of the queue has been there, in seconds, since the first"
            " scrape that found it there; 0 without one",
            labels=["queue"],
        )
        now, before = self._clock.monotonic(), self._since
        since: dict[str, tuple[Uid, float]] = {}
        for each in found:
            head, began = before.get(each.name, (NO_UID, now))
            if head != each.head or each.head == NO_UID:
                began = now
            since[each.name] = each.head, began
            family.add_metric([each.name], now - began)
        self._since = since
        return family

    def _labels_of(self, found: Iterable[_Found]) -> Metric:
        family = GaugeMetricFamily(
            "koord_queue_labels",
            "Always 1; the labels of the queue that --metrics-queue-labels lists",
            labels=["queue", *self._labels.values()],
        )
        for each in found:
            shown = (each.labels.get(key, "") for key in self._labels)
            family.add_metric([each.name, *shown], 1)
        return family


def _read_queues(engine: Engine, names: Iterable[str]) -> list[_Found]:
    return [found for name in names if (found := _read_queue(engine, name)) is not None]


def _read_queue(engine: Engine, name: str) -> _Found | None:
    queue = engine.queues.find(name)
    if queue is None:
        return None
    place = queue_head(queue)
    head = NO_UID if place is None else unit_at(engine.units, place).uid
    return _Found(name, head, queue.rules.api_object.metadata.labels)
