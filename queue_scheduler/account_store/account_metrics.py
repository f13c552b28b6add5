"""How many accounts there are, and how many users count as their namespace."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine


class AccountMetrics(Collector):
    """Reads the ledger at each scrape.

    Args:
        shared: Its engine keeps accounts.
    """

    def __init__(self, shared: SharedEngine) -> None:
        self._shared = shared

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        count, folds = self._shared.ask(_count)
        accounts = GaugeMetricFamily(
            "koord_queue_accounts", "Accounts (quota, queue, namespace, group, user) with use"
        )
        accounts.add_metric((), count)
        yield accounts
        folded = CounterMetricFamily(
            "koord_queue_accounts_folded",
            "Charges that were counted for a namespace, since there are too many users",
        )
        folded.add_metric((), folds)
        yield folded


def _count(engine: Engine) -> tuple[int, int]:
    ledger = engine.usage.ledger
    return (0, 0) if ledger is None else (len(ledger), ledger.folds)
