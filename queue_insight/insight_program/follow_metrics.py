"""The metrics of the insight program's engine. No label has the name of an object."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge


class FollowMetrics:
    """What was received, and the state of the parts that are switched on (`show_*`)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        gauge = partial(Gauge, registry=registry)
        counter = partial(Counter, registry=registry)
        self.connected = gauge("koord_queue_insight_connected", "1 while a scheduler is connected")
        self.age = gauge(
            "koord_queue_insight_state_age_seconds",
            "Age of the state that answers are computed from, in seconds; NaN before the first",
        )
        self.calls = counter("koord_queue_insight_calls", "Calls of the scheduler's engine played")
        self.checkpoints = counter(
            "koord_queue_insight_checkpoints", "Whole engines taken over from a scheduler"
        )
        self.digests_compared = counter(
            "koord_queue_insight_digests_compared",
            "Times that the state was compared with the scheduler's and found the same",
        )
        self.digest_mismatches = counter(
            "koord_queue_insight_digest_mismatches",
            "Times that the state differed from the scheduler's, and was replaced by a new copy",
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
        gauge = partial(Gauge, registry=self._registry)
        gauge(
            "koord_queue_insight_record_age_seconds",
            "Time since the record was written, in seconds; NaN before the first time",
        ).set_function(age)
        gauge(
            "koord_queue_insight_record_failures",
            "Times that recording has stopped: a full disk, or a broken file",
        ).set_function(failures)
        gauge(
            "koord_queue_insight_record_stopped", "1 while nothing is recorded, because of an error"
        ).set_function(stopped)
        gauge(
            "koord_queue_insight_record_bytes",
            "Size of all files of the record; NaN if it is not known",
        ).set_function(size)
        gauge(
            "koord_queue_insight_record_limit_bytes",
            "Size that all files of the record have at most",
        ).set_function(lambda: float(limit_bytes))

    def show_fitting(self, *, count: Callable[[], float], seconds: Callable[[], float]) -> None:
        """Add the metrics of units that wait without a reason; each scrape calls the functions."""
        gauge = partial(Gauge, registry=self._registry)
        gauge(
            "koord_queue_insight_fitting_units",
            "Pending units that nothing keeps from starting; at most one is counted of units that"
            " request the same",
        ).set_function(count)
        gauge(
            "koord_queue_insight_fitting_seconds",
            "How long the first of them has waited like this, in seconds; 0 without one",
        ).set_function(seconds)
