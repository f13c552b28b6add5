"""Metrics of the aggregated API."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge


class VisibilityMetrics:
    """Requests by status code, and how long the certificate is valid."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "koord_queue_visibility_requests",
            "Requests to the aggregated API by status code",
            ("code",),
            registry=registry,
        )
        self._seconds_left = Gauge(
            "koord_queue_visibility_certificate_seconds",
            "Seconds until the serving certificate of the aggregated API expires",
            registry=registry,
        )

    def show(self, seconds_left: Callable[[], float]) -> None:
        """Set the function that each scrape calls for the life of the certificate."""
        self._seconds_left.set_function(seconds_left)

    def on_answer(self, status: int) -> None:
        """Count one answer."""
        self._requests.labels(str(status)).inc()
