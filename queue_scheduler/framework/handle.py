"""What a plugin gets at start-up: caches to read, and effects such as events and routes.

A plugin must not use it inside Filter, Reserve and the other points that the engine calls under
its lock (`extension_points`): questions to a fork would then have effects in the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import Uid
from shared_api.objects.node import Node
from shared_api.objects.pod import Pod
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit

if TYPE_CHECKING:  # a replay runs where no server is installed
    from starlette.requests import Request
    from starlette.responses import Response


class Caches(Protocol):
    """The informers' stores; for reading, from any thread."""

    @property
    def queues(self) -> IndexedStore[Queue]:
        """All queues."""
        ...

    @property
    def queue_units(self) -> IndexedStore[QueueUnit]:
        """All units."""
        ...

    @property
    def quotas(self) -> IndexedStore[ElasticQuota]:
        """All elastic quotas."""
        ...

    @property
    def pods(self) -> IndexedStore[Pod]:
        """All pods."""
        ...

    @property
    def nodes(self) -> IndexedStore[Node]:
        """All nodes."""
        ...


class RouteGroup(Protocol):
    """A group of debug routes."""

    def get(self, path: str, handler: Callable[[Request], Response]) -> None:
        """Serve GET under the group; `:name` in the path is a parameter.

        The handler is a plain function, called on a worker thread, after the caller was authorized.
        """
        ...


class Handle(Protocol):
    """The plugin's view of the program. All methods may be called from any thread."""

    @property
    def caches(self) -> Caches:
        """The caches of the informers."""
        ...

    @property
    def oversell_rate(self) -> Fraction:
        """The factor on quota limits (`--oversellrate`)."""
        ...

    def record_event(
        self, kind: str, key: str, uid: Uid, reason: str, note: str, *, warning: bool = False
    ) -> None:
        """Record an event on a QueueUnit, Queue or ElasticQuota; aggregated and rate-limited."""
        ...

    def quota_names_of(self, unit: QueueUnit) -> tuple[str, ...]:
        """Return the quotas that the unit is charged to, nearest first."""
        ...

    def units_of_quota(self, quota: str) -> tuple[QueueUnit, ...]:
        """Return the units that are charged to the quota, or are pending or on hold for it."""
        ...

    def update_queue_status(self, queue: Queue, status: Mapping[str, Any]) -> None:
        """Merge fields into a queue's status; the write is sent later, with low priority."""
        ...

    def debug_group(self, plugin: str) -> RouteGroup:
        """Return the debug routes under `/debug/plugins/<plugin>/`; only callable at start-up."""
        ...


PluginFactory = Callable[[Mapping[str, Any], Handle], object]
"""(arguments from the configuration file, handle) -> plugin."""
