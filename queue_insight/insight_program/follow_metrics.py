"""The metrics of the insight program's engine. No label has the name of an object."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge


class FollowMetrics:
    """What was received, and the state of the parts that are switched on (`show_*`)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.connected = Gauge(
            "koord_queue_insight_connected", "1 while a scheduler is connected", registry=registry
        )
        self.age = Gauge(
            "koord_queue_insight_state_age_seconds",
            "Age of the state that answers are computed from, in seconds; NaN before the first",
            registry=registry,
        )
        self.calls = Counter(
            "koord_queue_insight_calls", "Calls of the scheduler's engine played", registry=registry
        )
        self.checkpoints = Counter(
            "koord_queue_insight_checkpoints",
            "Whole engines taken over from a scheduler",
            registry=registry,
        )
        self.digests_compared = Counter(
            "koord_queue_insight_digests_compared",
            "Times that the state was compared with the scheduler's and found the same",
            registry=registry,
        )
        self.digest_mismatches = Counter(
            "koord_queue_insight_digest_mismatches",
            "Times that the state differed from the scheduler's, and was replaced by a new copy",
            registry=registry,
        )

    def show_record(
        self,
        *,
        age: Callable[[], float],
        failures: Callable[[], float],
        stopped: Callable[[], float],
        size: Callable[[], float],
        limit_bytes: int,
    ) -> None:
        """Add the metrics of the record; each scrape calls the functions."""
        Gauge(
            "koord_queue_insight_record_age_seconds",
            "Time since the record was written, in seconds; NaN before the first time",
            registry=self._registry,
        ).set_function(age)
        Gauge(
            "koord_queue_insight_record_failures",
            "Times that recording has stopped: a full disk, or a broken file",
            registry=self._registry,
        ).set_function(failures)
        Gauge(
            "koord_queue_insight_record_stopped",
            "1 while nothing is recorded, because of an error",
            registry=self._registry,
        ).set_function(stopped)
        Gauge(
            "koord_queue_insight_record_bytes",
            "Size of all files of the record; NaN if it is not known",
            registry=self._registry,
        ).set_function(size)
        Gauge(
            "koord_queue_insight_record_limit_bytes",
            "Size that all files of the record have at most",
            registry=self._registry,
        ).set_function(lambda: float(limit_bytes))

    def show_fitting(self, *, count: Callable[[], float], seconds: Callable[[], float]) -> None:
        """Add the metrics of units that wait without a reason; each scrape calls the functions."""
        Gauge(
            "koord_queue_insight_fitting_units",
            "Pending units that nothing keeps from starting; at most one is counted of units that"
            " request the same",
            registry=self._registry,
        ).set_function(count)
        Gauge(
            "koord_queue_insight_fitting_seconds",
            "How long the first of them has waited like this, in seconds; 0 without one",
            registry=self._registry,
        ).set_function(seconds)
