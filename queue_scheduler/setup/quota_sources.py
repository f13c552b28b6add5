"""Where quotas come from: the kinds that are watched, and the caches of the plugins that have them.

ElasticQuotas are always watched, since third-party plugins may read them. The other kinds are
watched only if a configured plugin needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from queue_scheduler.configuration import Flags
from queue_scheduler.plugins.default_group import NAME as DEFAULT_GROUP
from queue_scheduler.plugins.elastic_quota import NAME as ELASTIC_QUOTA
from queue_scheduler.plugins.elastic_quota_tree import NAME as ELASTIC_QUOTA_TREE
from queue_scheduler.plugins.resource_quota import NAME as RESOURCE_QUOTA
from queue_scheduler.queue_objects.queue_reconciler import QueueSource
from queue_scheduler.queue_objects.tree_queues import DefaultQueue, TreeQueues
from shared_api.client.discovery import KindProbe
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import (
    ELASTIC_QUOTA_TREES,
    ELASTIC_QUOTAS,
    NAMESPACES,
    RESOURCE_QUOTAS,
)
from shared_api.informer.shared_informer import InformerSettings, SharedInformer
from shared_api.local_program import Check
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.queue import Queue
from shared_api.well_known_labels import DEFAULT_QUEUE

NO_QUOTAS: Final = "every unit waits with reason NoQuota until then"
"""What follows while the CRD of the only quotas is missing."""

SOME_QUOTAS: Final = "units of such quotas wait with reason NoQuota until then"
"""The same where other plugins keep quotas, too."""

NOT_NEEDED: Final = "no built-in plugin of this configuration needs it"

_KEEPERS: Final = {ELASTIC_QUOTA, ELASTIC_QUOTA_TREE, RESOURCE_QUOTA}


class QuotaSources:
    """The informers of these kinds, and what depends on which of them are watched.

    Args:
        plugins: Names of the plugins, as configured.
        flags: The command line.
        checks_namespaces: Whether quota or namespace must list the other.
        make_informer: Makes an informer for a kind, with these settings.
        make_probe: Makes a function that returns whether a kind is served.

    Attributes:
        informers: The informers of the kinds other than ElasticQuotas.
        are_elastic: Whether a built-in plugin uses ElasticQuotas.
    """

    def __init__(
        self,
        plugins: Collection[str],
        flags: Flags,
        make_informer: Callable[[ResourceType[Any], InformerSettings], SharedInformer[Any]],
        make_probe: Callable[[ResourceType[Any]], KindProbe],
        *,
        checks_namespaces: bool = False,
    ) -> None:
        self._plugins = frozenset(plugins)
        self._node_queue_policy = flags.node_queue_policy
        self._make_probe = make_probe
        self.are_elastic = ELASTIC_QUOTA in self._plugins
        self.informers: dict[ResourceType[Any], SharedInformer[Any]] = {
            kind: make_informer(kind, self.settings_of(kind))
            for kind in self._kinds(of_trees=flags.checks_available_quota, of_all=checks_namespaces)
        }

    def _kinds(self, *, of_trees: bool, of_all: bool) -> Iterator[ResourceType[Any]]:
        """Return the kinds to watch; `of_trees`, `of_all`: whose namespaces are checked."""
        has_trees = ELASTIC_QUOTA_TREE in self._plugins
        if has_trees:
            yield ELASTIC_QUOTA_TREES
        if (has_trees and of_trees) or (of_all and (has_trees or self.are_elastic)):
            yield NAMESPACES
        if RESOURCE_QUOTA in self._plugins:
            yield RESOURCE_QUOTAS

    def settings_of(self, kind: ResourceType[Any]) -> InformerSettings:
        """Return the settings of a kind's informer, also for ElasticQuotas."""
        return InformerSettings(if_missing=self._missing_note(kind))

    def checks(self, quotas: SharedInformer[ElasticQuota]) -> dict[str, Check]:
        """Return the checks for `/readyz` of these kinds and of ElasticQuotas.

        Without the kind there is nothing to wait for.
        """
        followed = {ELASTIC_QUOTAS: quotas, **self.informers}
        return {
            f"{kind.plural}-synced": self._build_check(kind, informer)
            for kind, informer in followed.items()
        }

    def _build_check(self, kind: ResourceType[Any], informer: SharedInformer[Any]) -> Check:
        probe = self._make_probe(kind)

        def check() -> tuple[bool, str]:
            ok, detail = informer.check_synced()
            if ok or probe.may_be_served():
                return ok, detail
            return True, f"{kind.kind} is not served here; {self._missing_note(kind)}"

        return check

    def _missing_note(self, kind: ResourceType[Any]) -> str:
        if kind is ELASTIC_QUOTAS and not self.are_elastic:
            return NOT_NEEDED
        return NO_QUOTAS if len(_KEEPERS & self._plugins) == 1 else SOME_QUOTAS

    def build_queue_sources(
        self, queues: SharedInformer[Queue], namespace: str, reconcile: Callable[[str], None]
    ) -> list[QueueSource]:
        """Return the sources of queues other than ElasticQuotas.

        Args:
            queues: The cache of queues.
            namespace: The namespace of the queues.
            reconcile: Called with the names of queues that may have to be created or changed.
        """
        found: list[QueueSource] = []
        trees = self.informers.get(ELASTIC_QUOTA_TREES)
        if trees is not None:
            of_nodes = TreeQueues(
                trees.store,
                trees.has_synced,
                lambda name: queues.store.get(f"{namespace}/{name}"),
                self._node_queue_policy,
            )
            trees.add_handler(of_nodes.on_tree(reconcile))
            queues.add_handler(of_nodes.on_queue(reconcile))
            found.append(of_nodes)
        if {DEFAULT_GROUP, RESOURCE_QUOTA} & self._plugins:
            found.append(DefaultQueue())
            reconcile(DEFAULT_QUEUE)
        return found
