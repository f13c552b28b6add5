"""How long a page takes for kubectl with 100,000 units that wait, and what is kept for the next.

A page is asked over HTTP on loopback, as a Table, as kubectl asks. Control: as many units of one
queue of the debug API, in the same run.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, cast

import httpx
from starlette.applications import Starlette

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_insight.debug_api.forecast_routes import Forecasts
from queue_insight.forecast.all_units import Settings
from queue_insight.forecast.model_loading import load_run_time_model
from queue_insight.visibility.app import build_visibility_app
from queue_insight.visibility.openapi import BASE
from queue_insight.visibility.snapshots import KeptSnapshots
from queue_insight.visibility.sources import VisibilitySources
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.debug_api.state_answers import StateAnswers
from shared_api.debug_api.access import open_access
from shared_api.process.clock import SystemClock
from tests.benchmarks.engine_load import EngineLoad, flat_load
from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.process_usage import usage
from tests.queue_insight.visibility.visibility_kit import (
    EVERYBODY,
    EVERYWHERE,
    TABLE,
    Identify,
    Rights,
    units_path,
)
from tests.served_app import served

PENDING: Final = 100_000
QUEUES: Final = 100
PAGE: Final = 500
TIMES: Final = 20
FORKS: Final = 8
LIVES: Final = 5_000
"""Units that start and end while a state is kept: 40 a second for two minutes."""


def run(*, quick: bool = False) -> list[Figure]:
    """Measure pages and memory; `quick` with a tenth of the units."""
    load = flat_load(PENDING // 10 if quick else PENDING, QUEUES)
    pending = sum(queue.pending.length for queue in load.engine.queues)
    pages = _pages(load, f"{pending} pending in {QUEUES} queues, {PAGE} a page; control: debug API")
    return [*pages, *_memory(load, LIVES // 10 if quick else LIVES)]


def _pages(load: EngineLoad, note: str) -> list[Figure]:
    shared = SharedEngine(load.engine, lambda _: None)
    debug = build_whole_app(Answers(StateAnswers(shared, lambda: True)), open_access, (), "0.0.0")
    app = cast("Starlette", build_visibility_app(_sources(shared), Rights().judge))
    app.add_middleware(Identify, user=EVERYBODY)
    with served(debug) as client:
        path = f"/debug/queues/{load.queues[0]}"
        control = percentile([_time(client, path) for _ in range(TIMES)], 0.5)
    with served(app) as client:
        client.headers.update(TABLE)
        line = f"{BASE}/queues/{load.queues[QUEUES // 2]}/pendingunits"
        took = {
            "first": [_time(client, EVERYWHERE) for _ in range(TIMES)],
            "next": list(_walk(client)),
            "namespace": [_time(client, units_path("ns-7")) for _ in range(TIMES)],
            "queue": [_time(client, line) for _ in range(TIMES)],
        }
    return [
        Figure(
            name=f"visibility_{name}_page_ms",
            value=percentile(times, 0.5),
            unit="ms",
            control=control,
            note=f"median of {len(times)}, slowest {max(times):.0f} ms; {note}",
        )
        for name, times in took.items()
    ]


def _sources(shared: SharedEngine) -> VisibilitySources:
    clock = SystemClock()
    model, since = load_run_time_model()(), datetime.now(UTC)
    forecasts = Forecasts(lambda: None, clock, model, Settings(), since)
    return VisibilitySources(
        shared, lambda: None, lambda: True, clock, forecasts, KeptSnapshots(clock)
    )


def _time(client: httpx.Client, path: str, token: str = "") -> float:
    """Return how many milliseconds a page took."""
    return _ask(client, path, token)[0]


def _ask(client: httpx.Client, path: str, token: str = "") -> tuple[float, httpx.Response]:
    query = {"limit": str(PAGE), **({"continue": token} if token else {})}
    began = time.perf_counter()
    answer = client.get(path, params=query).raise_for_status()
    return 1e3 * (time.perf_counter() - began), answer


def _walk(client: httpx.Client) -> Iterator[float]:
    """Yield how long each page after the first took."""
    _, answer = _ask(client, EVERYWHERE)
    while token := answer.json()["metadata"].get("continue"):
        took, answer = _ask(client, EVERYWHERE, token)
        yield took


def _memory(load: EngineLoad, lives: int) -> list[Figure]:
    """Measure what a state takes when it is made, and when the engine has gone on."""
    load.run(load.lives + lives, at_most_seconds=600.0)
    begin = _rss_mb()
    load.run(load.lives + lives, at_most_seconds=600.0)
    without = _rss_mb() - begin
    begin = _rss_mb()
    forks = [load.engine.fork() for _ in range(FORKS)]
    made = (_rss_mb() - begin) / FORKS
    del forks[1:]
    begin = _rss_mb()
    load.run(load.lives + lives, at_most_seconds=600.0)
    gone_on = _rss_mb() - begin
    return [
        Figure(
            name="visibility_state_mb",
            value=made,
            unit="MB",
            note=f"resident, of a state that was just made; mean of {FORKS}",
        ),
        Figure(
            name="visibility_state_later_mb",
            value=made + gone_on,
            unit="MB",
            note=f"after {lives} units have started and ended; without a state that took"
            f" {without:.1f} MB",
        ),
    ]


def _rss_mb() -> float:
    gc.collect()
    return usage(os.getpid()).rss_mb
