"""The metrics of the feed, on the scheduler's side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

OVERRUN: Final = "overrun"
LOST: Final = "lost"
DIGEST: Final = "digest"
_REASONS: Final = (OVERRUN, LOST, DIGEST)


class FeedMetrics:
    """Counts what the feed sends; registered only where there is a feed."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._connected = Gauge(
            "koord_queue_insight_feed_connected",
            "1 while the insight program is connected and has a copy of the engine",
            registry=registry,
        )
        self._lag = Gauge(
            "koord_queue_insight_feed_lag_calls",
            "Calls of the engine that are not sent yet",
            registry=registry,
        )
        self._age = Gauge(
            "koord_queue_insight_feed_age_seconds",
            "Time since all calls of the engine were sent, in seconds; NaN before the first time",
            registry=registry,
        )
        self._calls = Counter(
            "koord_queue_insight_feed_calls", "Calls of the engine sent", registry=registry
        )
        self._checkpoints = Counter(
            "koord_queue_insight_feed_checkpoints",
            "Whole copies of the engine sent: one at each beginning",
            registry=registry,
        )
        self._restarts = Counter(
            "koord_queue_insight_feed_restarts",
            "Times that the feed began again: calls were not sent in time (overrun), the connection"
            " was lost (lost), or the other program's state differed (digest)",
            ("reason",),
            registry=registry,
        )
        for reason in _REASONS:
            self._restarts.labels(reason)

    def show(
        self,
        *,
        connected: Callable[[], float],
        lag: Callable[[], float],
        age: Callable[[], float],
    ) -> None:
        """Set the functions that each scrape calls."""
        self._connected.set_function(connected)
        self._lag.set_function(lag)
        self._age.set_function(age)

    def on_sent(self, calls: int) -> None:
        """Count calls that were sent."""
        self._calls.inc(calls)

    def on_checkpoint(self) -> None:
        """Count a copy of the engine that was sent."""
        self._checkpoints.inc()

    def on_restart(self, reason: str) -> None:
        """Count a new beginning."""
        self._restarts.labels(reason).inc()
