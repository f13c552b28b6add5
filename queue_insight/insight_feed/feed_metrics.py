"""The metrics of the feed, on the scheduler's side."""

from __future__ import annotations

from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

OVERRUN: Final = "overrun"
LOST: Final = "lost"
DIGEST: Final = "digest"
_REASONS: Final = (OVERRUN, LOST, DIGEST)


class FeedMetrics:
    """What the feed sends; registered only where there is a feed."""

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        counter = partial(Counter, registry=registry)
        self.connected = gauge(
            "koord_queue_insight_feed_connected",
            "1 while the insight program is connected and has a copy of the engine",
        )
        self.lag = gauge(
            "koord_queue_insight_feed_lag_calls", "Calls of the engine that are not sent yet"
        )
        self.age = gauge(
            "koord_queue_insight_feed_age_seconds",
            "Time since all calls of the engine were sent, in seconds; NaN before the first time",
        )
        self.calls = counter("koord_queue_insight_feed_calls", "Calls of the engine sent")
        self.checkpoints = counter(
            "koord_queue_insight_feed_checkpoints",
            "Whole copies of the engine sent: one at each beginning",
        )
        self.restarts = counter(
            "koord_queue_insight_feed_restarts",
            "Times that the feed began again: calls were not sent in time (overrun), the connection"
            " was lost (lost), or the other program's state differed (digest)",
            ("reason",),
        )
        for reason in _REASONS:
            self.restarts.labels(reason)
