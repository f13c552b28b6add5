"""Which quota a queue follows, or is made for, in a copy of the engine. Pure."""

from __future__ import annotations

from queue_scheduler.engine.engine import Engine
from queue_scheduler.plugins import (
    default_group,
    elastic_quota,
    elastic_quota_tree,
    resource_quota,
)
from queue_scheduler.queueing.managed_queues import follows_policies, is_managed, is_of_node, oldest
from queue_scheduler.quota.tree_queue_names import named_node
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.queue import Queue
from shared_api.quota_names import is_parking
from shared_api.well_known_labels import DEFAULT_QUEUE, SPECIAL_QUOTAS


def find_source(engine: Engine, queue: Queue) -> ElasticQuota | None:
    """Return the quota that a queue follows (`queueing.managed_queues`); None if it follows none.

    The reconciler of queues goes by the same: it follows ElasticQuotas where a plugin uses them,
    and leaves the queue `default` alone where a plugin needs it.
    """
    name = queue.metadata.name
    plugins = {each.name for each in engine.plugins}
    if elastic_quota.NAME not in plugins or name in SPECIAL_QUOTAS:
        return None
    if name == DEFAULT_QUEUE and plugins & {default_group.NAME, resource_quota.NAME}:
        return None
    if not is_managed(queue) or is_of_node(queue):
        return None
    return _find_quota(engine, name)


def _find_quota(engine: Engine, name: str) -> ElasticQuota | None:
    quotas = engine.objects.of_kind(ElasticQuota)
    own = oldest(quota for quota in quotas if quota.metadata.name == name)
    return None if own is not None and is_parking(own) else own


def find_made_for(engine: Engine, queue: Queue) -> str:
    """Return the quota that the scheduler made a queue for; "": it made it for none."""
    if is_of_node(queue):
        has_trees = any(each.name == elastic_quota_tree.NAME for each in engine.plugins)
        return named_node(queue) if has_trees else ""
    if is_managed(queue):
        source = find_source(engine, queue)
    else:
        source = _find_quota(engine, queue.metadata.name) if follows_policies(queue) else None
    return "" if source is None else source.metadata.name
