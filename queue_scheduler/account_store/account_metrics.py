"""How many accounts there are, and what is left of budgets."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine


class AccountMetrics(Collector):
    """Reads the ledger and the budgets at each scrape.

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
        yield from self._collect_budgets()

    def _collect_budgets(self) -> Iterator[Metric]:
        labels = ("quota", "resource", "period", "policy", "index")
        left = GaugeMetricFamily(
            "koord_queue_budget_left",
            "What new units may use of a budget",
            labels=labels,
        )
        spent = GaugeMetricFamily(
            "koord_queue_budget_spent", "What is used of a budget in its period", labels=labels
        )
        for values, spent_hours, left_hours in self._shared.ask(_read_budgets):
            spent.add_metric(values, spent_hours)
            left.add_metric(values, left_hours)
        yield left
        yield spent


def _read_budgets(engine: Engine) -> list[tuple[tuple[str, ...], float, float]]:
    """Return, of each budget, the labels, what is spent, and what is left."""
    accounts = engine.usage.budgets.accounts
    found: list[tuple[tuple[str, ...], float, float]] = []
    for key, _ in accounts:
        account, now = accounts.account(key), accounts.second
        rule, spent = account.rule, account.spent(now)
        left = account.left(now) - account.committed(now)
        labels = (key.quota, key.name, key.period, rule.policy, str(rule.index))
        found.append((labels, spent / rule.scale, left / rule.scale))
    return found


def _count(engine: Engine) -> tuple[int, int]:
    ledger = engine.usage.ledger
    return (0, 0) if ledger is None else (len(ledger), ledger.folds)
