"""The `Handle` that plugins get: the program's caches and effects, narrowed."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from starlette.routing import Route

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.framework.offline_handle import OfflineHandle
from queue_scheduler.reporting.events import NoticeSink
from shared_api.client.resource_types import QUEUES
from shared_api.client.writes import Outcome, WriteSink, status_report
from shared_api.debug_api.router_group import Guard, RouterGroup
from shared_api.informer.indexed_store import IndexedStore
from shared_api.informer.shared_informer import SharedInformer
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import Uid
from shared_api.objects.node import Node
from shared_api.objects.pod import Pod
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit


class StoreCaches:
    """The stores of the informers; for reading, from any thread."""

    def __init__(
        self,
        queues: SharedInformer[Queue],
        queue_units: SharedInformer[QueueUnit],
        quotas: SharedInformer[ElasticQuota],
        pods: SharedInformer[Pod],
        nodes: SharedInformer[Node],
    ) -> None:
        self.queues: IndexedStore[Queue] = queues.store
        self.queue_units: IndexedStore[QueueUnit] = queue_units.store
        self.quotas: IndexedStore[ElasticQuota] = quotas.store
        self.pods: IndexedStore[Pod] = pods.store
        self.nodes: IndexedStore[Node] = nodes.store


class PluginHandle:
    """Implements `framework.handle.Handle`."""

    def __init__(
        self, caches: StoreCaches, oversell_rate: Fraction, events: NoticeSink, writes: WriteSink
    ) -> None:
        self._caches = caches
        self._oversell_rate = oversell_rate
        self._events = events
        self._writes = writes
        self._shared: SharedEngine | None = None
        self._groups: dict[str, RouterGroup] = {}

    def __reduce__(self) -> tuple[type[OfflineHandle], tuple[Fraction]]:
        """Let an engine's checkpoint have an offline handle instead: no cache, no write."""
        return OfflineHandle, (self._oversell_rate,)

    def attach(self, shared: SharedEngine) -> None:
        """Connect the engine, which is built after the plugins."""
        self._shared = shared

    @property
    def caches(self) -> StoreCaches:
        """The caches of the informers."""
        return self._caches

    @property
    def oversell_rate(self) -> Fraction:
        """The factor on quota limits."""
        return self._oversell_rate

    def record_event(
        self, kind: str, key: str, uid: Uid, reason: str, note: str, *, warning: bool = False
    ) -> None:
        """Record an event on an object."""
        self._events.record(kind, key, uid, reason, note, warning=warning)

    def quota_names_of(self, unit: QueueUnit) -> tuple[str, ...]:
        """Return the quotas that the unit is charged to, nearest first."""
        return self._engine().ask(lambda engine: engine.placing.quota_names(unit))

    def units_of_quota(self, quota: str) -> tuple[QueueUnit, ...]:
        """Return the units that are charged to the quota, or are pending or on hold for it."""
        records = self._engine().copy_records()
        return tuple(r.unit for r in records if r.info is not None and r.info.quota == quota)

    def update_queue_status(self, queue: Queue, status: Mapping[str, Any]) -> None:
        """Merge fields into a queue's status; the write is sent later.

        It is guarded by the version of `queue`. A write that fails is not retried.
        """
        meta = queue.metadata
        body = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": dict(status),
        }
        write = status_report(QUEUES, meta.namespace, meta.name, body)
        self._writes.submit(write, _ignore)

    def debug_group(self, plugin: str) -> RouterGroup:
        """Return the plugin's group of debug routes."""
        return self._groups.setdefault(plugin, RouterGroup(f"/debug/plugins/{plugin}"))

    def debug_routes(self, access: Guard) -> list[Route]:
        """Return the routes of all plugins, each behind the guard."""
        return [route for group in self._groups.values() for route in group.routes([access])]

    def _engine(self) -> SharedEngine:
        assert self._shared is not None, "a plugin asked before the engine was built"
        return self._shared


def _ignore(outcome: Outcome[Any]) -> None:
    """A status that was not written is written with the next change."""
