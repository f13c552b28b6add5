"""The objects that queues and quotas are stated in, by the engine's copy; here none is read."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from queue_scheduler.engine.engine import Engine
from queue_scheduler.quota_plugin import quota_plugins
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import (
    ELASTIC_QUOTA_TREES,
    ELASTIC_QUOTAS,
    QUEUES,
    QUOTA_POLICIES,
    RESOURCE_QUOTAS,
)
from shared_api.debug_api.views import View

_OF_QUOTAS: Final[tuple[ResourceType[Any], ...]] = (
    ELASTIC_QUOTAS,
    ELASTIC_QUOTA_TREES,
    RESOURCE_QUOTAS,
)


class ObjectName(View):
    """Which object of the cluster something is stated in."""

    api_version: str
    kind: str
    namespace: str
    name: str


class StatedObject(NamedTuple):
    """An object that states a queue or a quota, or settings of one.

    Attributes:
        kind: Its kind, and where that is served.
        namespace: Its namespace.
        name: Its name.
    """

    kind: ResourceType[Any]
    namespace: str
    name: str

    def view(self) -> ObjectName:
        """Return what a visitor is told of it."""
        return ObjectName(
            api_version=self.kind.api_version,
            kind=self.kind.kind,
            namespace=self.namespace,
            name=self.name,
        )


def find_queue_object(engine: Engine, queue: str) -> StatedObject | None:
    """Return the Queue of a name; None: there is none."""
    found = engine.queues.queue(queue)
    if found is None:
        return None
    return StatedObject(QUEUES, found.metadata.namespace, found.metadata.name)


def find_quota_object(engine: Engine, quota: str) -> StatedObject | None:
    """Return the object that a quota is stated in; None: it is unknown, or a plugin's own.

    The quotas of an ElasticQuotaTree are stated in one object.
    """
    for plugin in quota_plugins(engine.plugins):
        if not plugin.knows_quota(quota):
            continue
        # Of several ElasticQuotas of one name it is the one that counts.
        spec = plugin.quotas.stated.oldest(quota)
        return _find_quota_of(engine, spec.namespace, spec.uid)
    return None


def find_policy_object(engine: Engine, quota: str) -> StatedObject | None:
    """Return the QuotaPolicy that counts for a quota; None: none does."""
    name = engine.policies.policy_of(quota)
    return StatedObject(QUOTA_POLICIES, engine.policies.namespace, name) if name else None


def _find_quota_of(engine: Engine, namespace: str, uid: str) -> StatedObject | None:
    """Return the object of a quota by its namespace and uid; None: the engine was told none."""
    stating = (
        (kind, each.metadata)
        for kind in _OF_QUOTAS
        for each in engine.objects.of_kind(kind.object_type)
    )
    for kind, metadata in stating:
        if (metadata.namespace, metadata.uid) == (namespace, uid):
            return StatedObject(kind, metadata.namespace, metadata.name)
    return None
