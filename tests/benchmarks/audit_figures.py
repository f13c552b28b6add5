"""What a round of the self-audit costs, and how long it holds the engine's lock at once.

Half of the units run, each with two pods; the rest wait. Nothing differs. The times are CPU times
of the auditing thread, since another program on the machine would otherwise be measured.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, Final

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.unit_controllers.self_audit import (
    KEYS_PER_SLICE,
    REST_SECONDS,
    ROUND_SECONDS,
    SelfAudit,
    Stores,
)
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.virtual_clock import VirtualClock
from tests.benchmarks.figures import Figure, percentile
from tests.properties.engine_kit import admitted, build_pod, build_queue, build_quota, build_unit
from tests.properties.real_quotas import new_engine

UNITS: Final = 10_000
QUEUES: Final = 100
PODS_EACH: Final = 2
ROUNDS: Final = 5


class _TimedEngine(SharedEngine):
    """Measures each question, that is, each hold of the lock, in milliseconds of CPU."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, lambda _queues: None)
        self.held: list[float] = []

    def ask(self, question: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Ask, and note how long that took."""

        def timed(engine: Engine) -> Any:
            began = time.thread_time()
            answer = question(engine, *args, **kwargs)
            self.held.append(1e3 * (time.thread_time() - began))
            return answer

        return super().ask(timed)


def run(*, quick: bool = False) -> list[Figure]:
    """Measure some rounds; `quick` a single one."""
    clock, stores = VirtualClock(), Stores(IndexedStore[QueueUnit](), IndexedStore[Pod]())
    shared = _TimedEngine(_fill(stores))
    audit = SelfAudit(shared, stores, lambda: True, lambda _: None, _Failing(), clock, repairs=True)
    gc.collect()
    gc.freeze()
    took = [_run_round(audit, clock) for _ in range(1 if quick else ROUNDS)]
    gc.unfreeze()
    pods = UNITS // 2 * PODS_EACH
    return [
        Figure(
            name="audit_slice_ms",
            value=max(shared.held),
            unit="ms",
            note=f"the longest of {len(shared.held)} holds of the lock; {KEYS_PER_SLICE} keys in"
            f" each; median {percentile(shared.held, 0.5):.2f}, p99"
            f" {percentile(shared.held, 0.99):.2f} ms",
        ),
        Figure(
            name="audit_round_ms",
            value=percentile(took, 0.5),
            unit="ms",
            note=f"CPU of a round, {UNITS} units and {pods} pods; median of {len(took)}",
        ),
    ]


class _Failing:
    """An observer of an audit that must find nothing."""

    def on_audit_difference(self, kind: str) -> None:
        raise AssertionError(f"nothing differs, and {kind} was found")


def _fill(stores: Stores) -> Engine:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    for number in range(QUEUES):
        engine.on_quota(build_quota(f"q{number}", cpu=UNITS))
        engine.on_queue(build_queue(f"q{number}"))
    for number in range(UNITS):
        quota = f"q{number % QUEUES}"
        unit = build_unit(f"u{number}", quota, cpu=2, version=number + 1)
        if number % 2:
            unit = admitted(unit, number + 1, "Running")
            for index in range(PODS_EACH):
                pod = build_pod(f"u{number}-{index}", unit=unit.metadata.key, quota=quota)
                stores.pods.put_observed(pod, force=True)
                engine.on_pod(pod)
        stores.units.put_observed(unit)
        engine.on_queue_unit(unit)
    return engine


def _run_round(audit: SelfAudit, clock: VirtualClock) -> float:
    """Return the CPU time of a round in milliseconds."""
    clock.advance(ROUND_SECONDS)
    began = time.thread_time()
    while audit.step() <= REST_SECONDS:
        pass
    return 1e3 * (time.thread_time() - began)
