"""What plugins get in a replay instead of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from queue_scheduler.framework.handle import Caches, RouteGroup
from shared_api.objects.meta import Uid
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.program_flags import ConfigurationError

NO_CLUSTER: Final = "this plugin asks for caches or routes of a cluster, and a replay has none"


class OfflineHandle:
    """Implements `framework.handle.Handle`: effects are dropped, and nothing can be looked up."""

    @property
    def caches(self) -> Caches:
        """Raise ConfigurationError."""
        raise ConfigurationError(NO_CLUSTER)

    @property
    def oversell_rate(self) -> Fraction:
        """Return 1."""
        return Fraction(1)

    def record_event(
        self, kind: str, key: str, uid: Uid, reason: str, note: str, *, warning: bool = False
    ) -> None:
        """Drop the event."""

    def quota_names_of(self, _unit: QueueUnit) -> tuple[str, ...]:
        """Raise ConfigurationError."""
        raise ConfigurationError(NO_CLUSTER)

    def units_of_quota(self, _quota: str) -> tuple[QueueUnit, ...]:
        """Raise ConfigurationError."""
        raise ConfigurationError(NO_CLUSTER)

    def update_queue_status(self, queue: Queue, status: Mapping[str, Any]) -> None:
        """Drop the status."""

    def debug_group(self, _plugin: str) -> RouteGroup:
        """Raise ConfigurationError."""
        raise ConfigurationError(NO_CLUSTER)
