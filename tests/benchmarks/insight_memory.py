"""The memory of the insight program, with record, forecasts, and states of earlier times."""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

import httpx

from queue_insight.insight_feed.messages import ANSWERS_SOCKET
from queue_insight.record.time_travel import MAX_KEPT
from queue_scheduler.cycles.call_log import CallLog
from queue_scheduler.engine.engine import Engine
from shared_api.process.clock import SystemClock
from tests.benchmarks.engine_load import flat_load
from tests.benchmarks.figures import Figure
from tests.benchmarks.insight_figures import FedEngine, feeding, insight_process
from tests.benchmarks.process_usage import Usage, usage
from tests.waiting import until

PENDING: Final = (10_000, 30_000)
QUEUES: Final = 100
LIVES: Final = 500
ANSWER_SECONDS: Final = 120.0
FORECAST_SECONDS: Final = 400.0
"""For the first forecast: it has a minute, and waits for a state."""


def run(*, quick: bool = False) -> list[Figure]:
    """Measure each size; `quick` a tenth of the first."""
    return [_figure(count) for count in ((PENDING[0] // 10,) if quick else PENDING)]


def _figure(pending: int) -> Figure:
    follows, forecasts, past = _measure(pending)
    return Figure(
        name=f"insight_rss_mb_{pending // 1000}k",
        value=past.peak_rss_mb,
        unit="MB",
        note=f"peak with {pending} pending units; {follows.rss_mb:.0f} MB when it follows, peak"
        f" {forecasts.peak_rss_mb:.0f} MB with the record and a renewal of forecasts, then"
        f" {MAX_KEPT} states of earlier times",
    )


def _measure(pending: int) -> tuple[Usage, Usage, Usage]:
    """Return what it takes when it follows, after a forecast, and with earlier states."""
    calls, load = CallLog(SystemClock().now), flat_load(pending, QUEUES)
    got = FedEngine(load.engine, calls)
    load.engine = cast("Engine", got)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        with (
            insight_process(path, f"--record-dir={folder}") as pid,
            feeding(path, got.shared, calls) as feed,
            _asking(path) as client,
        ):
            until(
                lambda: feed.is_connected and _get(client, "/debug/insight") is not None,
                FORECAST_SECONDS,
            )
            follows = usage(pid)
            times = []
            for _ in range(MAX_KEPT):
                load.run(load.lives + LIVES // MAX_KEPT, at_most_seconds=60.0)
                times.append(datetime.now(UTC))
                time.sleep(1.0)
            forecast = f"/debug/queues/{load.queues[0]}/forecast"
            until(lambda: _get(client, forecast), FORECAST_SECONDS)
            forecasts = usage(pid)
            for moment in times:
                at = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                assert _get(client, f"/debug/queues?at={at}") is not None, at
            return follows, forecasts, usage(pid)


def _asking(folder: Path) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=str(folder / ANSWERS_SOCKET))
    return httpx.Client(transport=transport, base_url="http://insight", timeout=ANSWER_SECONDS)


def _get(client: httpx.Client, path: str) -> object | None:
    """Return an answer, None if there is none yet."""
    try:
        answer = client.get(path)
    except httpx.TransportError:
        return None
    return answer.json() if answer.is_success else None
