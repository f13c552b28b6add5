"""How the quotas of an engine are read, whichever plugin has them."""

from __future__ import annotations

from typing import Final

from queue_scheduler.debug_api.snapshots import QuotaReaders
from queue_scheduler.engine.engine import Engine
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.elastic_quota_tree import ElasticQuotaTreePlugin
from queue_scheduler.plugins.resource_quota import ResourceQuotaPlugin
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from queue_scheduler.quota_cache.quota_views import QuotaView


def find_quotas(engine: Engine) -> list[QuotaCache]:
    """Return the quota caches of the plugins that have quotas."""
    keepers = (ElasticQuotaPlugin, ElasticQuotaTreePlugin, ResourceQuotaPlugin)
    return [each.quotas for each in engine.plugins.plugins if isinstance(each, keepers)]


def read_quota_views(engine: Engine) -> list[QuotaView]:
    """Return the quotas of an engine, in the order of the plugins that have them."""
    views = (quotas.view(name) for quotas in find_quotas(engine) for name in quotas.names())
    return [view for view in views if view is not None]


def read_quota_names(engine: Engine) -> tuple[str, ...]:
    """Return the names of the quotas of an engine; far cheaper than their numbers."""
    return tuple(name for quotas in find_quotas(engine) for name in quotas.names())


QUOTA_READERS: Final = QuotaReaders(read_quota_names, read_quota_views)
"""How the debug API reads quotas."""
