"""The metrics of the shadow mode."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge


class ShadowMetrics:
    """Counts what the shadow sees and would do.

    Args:
        registry: Where they are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self.starts = Counter(
            "koord_queue_shadow_starts",
            "Jobs that would have started",
            registry=registry,
        )
        self._waiting = gauge(
            "koord_queue_shadow_waiting_jobs",
            "Jobs that wait, in reality (real) and by the decisions of the shadow (shadow)",
            ("side",),
        )
        self._size = gauge("koord_queue_shadow_record_bytes", "Size of the record, in bytes")
        self._full = gauge(
            "koord_queue_shadow_record_full",
            "1 if nothing is recorded any more: the record is as large as it may be, or the disk"
            " is full",
        )

    def show(
        self,
        *,
        real: Callable[[], float],
        shadow: Callable[[], float],
        size: Callable[[], float],
        full: Callable[[], float],
    ) -> None:
        """Receive functions that return the state, callable from any thread."""
        self._waiting.labels("real").set_function(real)
        self._waiting.labels("shadow").set_function(shadow)
        self._size.set_function(size)
        self._full.set_function(full)
