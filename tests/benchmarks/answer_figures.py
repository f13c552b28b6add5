"""How long an explanation takes, alone and while another thread decides as fast as it can.

An answer is asked as the debug API asks it, and built as its JSON. The units are pending ones of
all queues, in turns, with a pause between two. The lock is the engine's own, as in the program.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import cycle, islice
from typing import Any, Final, cast

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.debug_api.snapshots import Snapshots
from queue_scheduler.debug_api.views import view_explanation
from queue_scheduler.engine.engine import Engine
from queue_scheduler.setup.quota_sources import QUOTA_READERS
from tests.benchmarks.engine_load import EngineLoad, flat_load
from tests.benchmarks.figures import Figure, percentile

PENDING: Final = 10_000
QUEUES: Final = 100
ANSWERS: Final = 1_000
PAUSE_SECONDS: Final = 0.002
"""Before each question: so it comes while the other thread runs, which must give way."""


class _LockedEngine:
    """The methods of an engine that a load calls, each under the lock of a SharedEngine."""

    def __init__(self, engine: Engine) -> None:
        self.shared = SharedEngine(engine, lambda _queues: None)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(Engine, name)

        def call(*args: Any) -> Any:
            return self.shared.ask(method, *args)

        return call


def run(*, quick: bool = False) -> list[Figure]:
    """Measure both; `quick` asks a quarter of the questions."""
    answers = ANSWERS // 4 if quick else ANSWERS
    load = flat_load(PENDING, QUEUES)
    first = [r.key for name in load.queues for r in islice(load.engine.waiting(name), 5)]
    keys = list(islice(cycle(first), answers))
    engine = _LockedEngine(load.engine)
    alone = _ask(engine.shared, keys)
    load.engine = cast("Engine", engine)
    stop = threading.Event()
    worker = threading.Thread(target=_decide, args=(load, stop))
    worker.start()
    busy = _ask(engine.shared, keys)
    stop.set()
    worker.join()
    note = f"{PENDING} pending in {QUEUES} queues, {len(keys)} answers; control: alone"
    return [
        Figure(name="explain_ms", value=percentile(alone, 0.5), unit="ms", note="alone; median"),
        Figure(
            name="explain_p99_ms",
            value=percentile(busy, 0.99),
            unit="ms",
            control=percentile(alone, 0.99),
            note=f"while a thread decides; {load.lives} lives meanwhile; {note}",
        ),
    ]


def _decide(load: EngineLoad, stop: threading.Event) -> None:
    while not stop.is_set():
        load.run(load.lives + 50, at_most_seconds=1e9)


def _ask(shared: SharedEngine, keys: list[str]) -> list[float]:
    """Return how long each answer took, in milliseconds."""
    took = []
    snapshots = Snapshots(shared, QUOTA_READERS, lambda: datetime(2026, 11, 1, tzinfo=UTC))
    for key in keys:
        time.sleep(PAUSE_SECONDS)
        began = time.perf_counter()
        told = snapshots.explain(key)
        if told is not None:
            view_explanation(told, leader=True).model_dump_json()
        took.append(1e3 * (time.perf_counter() - began))
    return took
