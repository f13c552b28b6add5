"""The scheduler's cost of a scrape with 500 queues: CPU and bytes.

Each queue has a quota of three resources, running and pending units, and every kind of count; the
units are in fifty namespaces.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.reporting.metrics import SchedulerMetrics, StateCollector, UnitMetrics
from queue_scheduler.reporting.queue_heads import QueueHeads
from queue_scheduler.reporting.unit_progress import UnitProgress
from shared_api.metrics import SharedMetrics
from shared_api.process.clock import SystemClock
from tests.benchmarks.engine_load import flat_load
from tests.benchmarks.figures import Figure
from tests.properties.engine_kit import admitted
from tests.queue_scheduler.scrape_kit import count_everything

QUEUES: Final = 500
PENDING: Final = 10_000
TRIES: Final = 5


def run(*, quick: bool = False) -> list[Figure]:
    """Measure; `quick` has a tenth of the units."""
    pending = PENDING // 10 if quick else PENDING
    metrics = build_scrape(pending, QUEUES)
    text = metrics.exposition()[0]
    lines = len(text.splitlines())
    return [
        Figure(
            name="scrape_ms",
            value=_cpu_ms(metrics.exposition),
            unit="ms",
            note=f"CPU, best of {TRIES}; {QUEUES} queues, {pending} pending, {lines} lines",
        ),
        Figure(name="scrape_kb", value=len(text) / 1000, unit="kB"),
    ]


def build_scrape(pending: int, queues: int) -> SharedMetrics:
    """Return the scheduler's metrics for this many full queues."""
    load = flat_load(pending, queues)
    shared = SharedEngine(load.engine, lambda _: None)
    shown = SharedMetrics(component="benchmark", version="0", python_version="3")
    metrics = SchedulerMetrics(shown.registry)
    shown.registry.register(StateCollector(shared, metrics))
    units = UnitMetrics(shared, lambda: True, SystemClock())
    progress = UnitProgress(shared, metrics.on_run_ended, SystemClock())
    for each in (units, progress, QueueHeads(shared, SystemClock())):
        shown.registry.register(each)
    for record in load.engine.units.records.values():
        runs = record.occupies
        unit = admitted(record.unit, record.version) if runs else record.unit
        units.on_queue_unit(None, unit)
        progress.on_queue_unit(None, unit)
    count_everything(metrics, load.queues)
    return shown


def _cpu_ms(scrape: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(TRIES):
        began = time.process_time()
        scrape()
        best = min(best, time.process_time() - began)
    return 1000 * best
