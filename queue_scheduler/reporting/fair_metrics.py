"""How many accounts the queues with the policy Fair have, and how often there were too many."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine


class FairMetrics(Collector):
    """Reads the accounts of queues at each scrape; without such queues there are no series.

    Args:
        shared: The engine.
    """

    def __init__(self, shared: SharedEngine) -> None:
        self._shared = shared

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        accounts = GaugeMetricFamily(
            "koord_queue_fair_accounts",
            "Accounts with use in a queue with the policy Fair, groups included",
            labels=["queue"],
        )
        folded = CounterMetricFamily(
            "koord_queue_fair_accounts_folded",
            "Starts that were counted for a namespace, since the queue has too many accounts",
            labels=["queue"],
        )
        for name, count, folds in self._shared.ask(_read):
            accounts.add_metric([name], count)
            folded.add_metric([name], folds)
        yield accounts
        yield folded


def _read(engine: Engine) -> list[tuple[str, int, int]]:
    fair = engine.usage.fair
    if not fair.is_on:
        return []
    found = ((queue.name, fair.of_queue(queue.name)) for queue in engine.queues)
    return [(name, len(use), use.folds) for name, use in found if use is not None]
