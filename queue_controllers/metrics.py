"""The controllers' metrics, in addition to those of both programs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

RESERVATIONS: Final = "reservations"
"""Label value in place of an extension's key."""


class ControllersMetrics:
    """``koord_queue_job*``, and controller-runtime's errors; a ``ReconcilerObserver``.

    How long a reconcile takes is ``workqueue_work_duration_seconds``, by the same name.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        self.actions = counter(
            "koord_queue_job_actions",
            "What was done to jobs, their units and reservations, by outcome (done, or the kind of"
            " the error)",
            ("extension", "action", "outcome"),
        )
        self.errors = counter(
            "controller_runtime_reconcile_errors",
            "Reconciles that failed and are retried; write conflicts are not counted",
            ("controller",),
        )
        self.served = gauge(
            "koord_queue_job_kind_served",
            "1 when the kind is served and its jobs are acted on, 0 while its CRD is missing",
            ("extension",),
        )
        self.jobs = gauge("koord_queue_jobs", "Jobs in the cache, managed or not", ("extension",))

    def on_action(self, extension: str, action: str, outcome: str) -> None:
        """Count an action."""
        self.actions.labels(extension, action, outcome).inc()

    def on_error(self, extension: str) -> None:
        """Count a reconcile that failed."""
        self.errors.labels(extension).inc()

    def show(
        self, extension: str, *, served: Callable[[], float], jobs: Callable[[], float]
    ) -> None:
        """Register an extension whose state scrapes read; its errors begin at 0."""
        self.errors.labels(extension)
        self.served.labels(extension).set_function(served)
        self.jobs.labels(extension).set_function(jobs)

    def show_reservations(self, reservations: Callable[[], float]) -> None:
        """Register the number of reservations that scrapes read; strict mode only."""
        gauge = Gauge(
            "koord_queue_reservations",
            "Reservations of nodes that were made for units and are not deleted yet",
            registry=self._registry,
        )
        gauge.set_function(reservations)
        self.errors.labels(RESERVATIONS)
