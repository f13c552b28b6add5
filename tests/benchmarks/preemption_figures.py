"""The time to choose the units to evict among many running ones.

In the engine, under its lock: candidates are collected and sorted, and the filters evaluate the
result. 10,000 units of one GPU run in 40 quotas of one tree, in `runtime` mode; a unit of eight
GPUs is pending, and all others have a lower priority. Times are CPU times.
"""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from statistics import median
from typing import Final

from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaSettings
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import elastic_quota, node, queue, queue_unit
from tests.benchmarks.figures import Figure
from tests.properties.engine_kit import admitted

RUNNING: Final = 10_000
QUOTAS: Final = 40
PRIORITIES: Final = 5
TIMES: Final = 7
GPU: Final = "nvidia.com/gpu"
NOW: Final = datetime(2026, 11, 2, tzinfo=UTC)
ANNOTATIONS: Final = {
    "koord-queue/enable-queueunit-preemption": "true",
    "koord-queue/preempt-running-queueunits": "true",
    "koord-queue/available-quota-in-queue": "*",
}


def run(*, quick: bool = False) -> list[Figure]:
    """Measure a choice that finds victims, and one that does not."""
    count = RUNNING // 10 if quick else RUNNING
    engine = _full_engine(count)
    figures = []
    for name, gpus in (("preemption_choice_ms", 8), ("preemption_in_vain_ms", 2 * count)):
        unit = _unit(name, 0, gpus, priority=100)
        engine.on_queue_unit(unit)
        record, queue = engine.record(unit.metadata.key), engine.queues.find("all")
        assert record is not None
        assert record.info is not None
        assert queue is not None
        spent, victims = [], 0
        for _ in range(TIMES):
            began = time.process_time()
            found = engine.candidates.find(queue, record.info, (), NOW)
            spent.append(1000 * (time.process_time() - began))
            victims = len(found.victims)
        note = f"{count} units run in {QUOTAS} quotas; {victims} victims; median of {TIMES}"
        figures.append(Figure(name=name, value=median(spent), unit="ms", note=note))
        engine.on_queue_unit_gone(unit)
    return figures


def _full_engine(count: int) -> Engine:
    engine = Engine(PluginRunner([ElasticQuotaPlugin(QuotaSettings())]), BUILT_IN_POLICIES)
    engine.on_node(node("nodes", allocatable={"cpu": 8 * count, GPU: count}))
    whole = {"cpu": 8 * count, GPU: 2 * count}
    engine.on_quota(elastic_quota("org", min=whole, max=whole, is_parent=True))
    for number in range(QUOTAS):
        least = {"cpu": count // QUOTAS, GPU: count // QUOTAS}
        engine.on_quota(elastic_quota(f"q{number}", min=least, max=whole, parent="org"))
    engine.on_queue(queue("all", metadata={"annotations": dict(ANNOTATIONS)}))
    rng = random.Random(1)
    for number in range(count):
        unit = _unit(f"u{number}", number % QUOTAS, 1, priority=rng.randrange(PRIORITIES))
        engine.on_queue_unit(admitted(unit, number + 2, "Running"))
    return engine


def _unit(name: str, quota: int, gpus: int, *, priority: int) -> QueueUnit:
    return queue_unit(
        name,
        quota=f"q{quota}",
        queue="all",
        requests={"cpu": gpus, GPU: gpus},
        priority=priority,
        metadata={"uid": name},
    )
