"""The metrics of the feed, on the scheduler's side."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

OVERRUN: Final = "overrun"
LOST: Final = "lost"
DIGEST: Final = "digest"
_REASONS: Final = (OVERRUN, LOST, DIGEST)


class FeedMetrics:
    """What the feed sends; registered only where there is a feed."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.connected = Gauge(
            "koord_queue_insight_feed_connected",
            "1 while the insight program is connected and has a copy of the engine",
            registry=registry,
        )
        self.lag = Gauge(
            "koord_queue_insight_feed_lag_calls",
            "Calls of the engine that are not sent yet",
            registry=registry,
        )
        self.age = Gauge(
            "koord_queue_insight_feed_age_seconds",
            "Time since all calls of the engine were sent, in seconds; NaN before the first time",
            registry=registry,
        )
        self.calls = Counter(
            "koord_queue_insight_feed_calls", "Calls of the engine sent", registry=registry
        )
        self.checkpoints = Counter(
            "koord_queue_insight_feed_checkpoints",
            "Whole copies of the engine sent: one at each beginning",
            registry=registry,
        )
        self.restarts = Counter(
            "koord_queue_insight_feed_restarts",
            "Times that the feed began again: calls were not sent in time (overrun), the connection"
            " was lost (lost), or the other program's state differed (digest)",
            ("reason",),
            registry=registry,
        )
        for reason in _REASONS:
            self.restarts.labels(reason)
