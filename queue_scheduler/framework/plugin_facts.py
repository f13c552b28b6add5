"""The facts that plugins are told, and the notices that they give."""

from __future__ import annotations

from collections.abc import Sequence

from queue_scheduler.decision import Notice
from queue_scheduler.framework import extension_points as points
from queue_scheduler.framework.taking_part import takes_part
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.node import Node
from shared_api.objects.queue import Queue


class PluginFacts:
    """Passes facts on to the plugins that take them; it has no state."""

    def __init__(self, plugins: Sequence[points.Plugin]) -> None:
        self._facts = [p for p in plugins if takes_part(p, points.ClusterFacts)]
        self._of_queues = [p for p in plugins if takes_part(p, points.QueueFacts)]
        self._of_sources = [p for p in plugins if takes_part(p, points.QuotaSourceFacts)]

    def on_quota(self, quota: ElasticQuota | points.QuotaSource) -> set[str]:
        """Pass on a quota; return the `waits_for` names that it may answer."""
        if isinstance(quota, ElasticQuota):
            return {name for plugin in self._facts for name in plugin.on_quota(quota)}
        return {name for plugin in self._of_sources for name in plugin.on_quota_source(quota)}

    def on_quota_gone(self, quota: ElasticQuota | points.QuotaSource) -> set[str]:
        """Pass on a deleted quota; return the `waits_for` names that it may answer."""
        if isinstance(quota, ElasticQuota):
            return {name for plugin in self._facts for name in plugin.on_quota_gone(quota)}
        return {name for plugin in self._of_sources for name in plugin.on_quota_source_gone(quota)}

    def on_queue(self, queue: Queue) -> set[str]:
        """Pass on a queue; return the `waits_for` names that it may answer."""
        return {name for plugin in self._of_queues for name in plugin.on_queue(queue)}

    def on_queue_gone(self, queue: str) -> set[str]:
        """Pass on a deleted queue; return the `waits_for` names that it may answer."""
        return {name for plugin in self._of_queues for name in plugin.on_queue_gone(queue)}

    def on_node(self, node: Node) -> None:
        """Pass on a node."""
        for plugin in self._facts:
            plugin.on_node(node)

    def on_node_gone(self, name: str) -> None:
        """Pass on a deleted node."""
        for plugin in self._facts:
            plugin.on_node_gone(name)

    def on_foreign_pod(self, key: str, pod: points.ForeignPod | None) -> None:
        """Pass on a pod without a unit."""
        for plugin in self._facts:
            plugin.on_foreign_pod(key, pod)

    def take_notices(self) -> list[Notice]:
        """Return, once, what users are to see as events."""
        return [notice for plugin in self._facts for notice in plugin.take_notices()]
