"""What plugins get instead of a cluster: in a replay, and in an engine of the record."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from queue_scheduler.framework.handle import Caches, RouteGroup
from shared_api.objects.meta import Uid
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.program_flags import ConfigurationError

NO_CLUSTER: Final = "this plugin asks for caches or routes of a cluster, and there is none here"


class OfflineHandle:
    """Implements `framework.handle.Handle`: effects are dropped, and nothing can be looked up.

    Args:
        oversell_rate: The factor on quota limits.
    """

    def __init__(self, oversell_rate: Fraction = Fraction(1)) -> None:
        self._oversell_rate = oversell_rate

    @property
    def caches(self) -> Caches:
        """Raise ConfigurationError."""
        raise ConfigurationError(NO_CLUSTER)

    @property
    def oversell_rate(self) -> Fraction:
        """The factor on quota limits."""
        return self._oversell_rate

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
