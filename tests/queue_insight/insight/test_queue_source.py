"""Which quota a queue follows; the reconciler of queues goes by the same."""

from __future__ import annotations

import pytest

from queue_insight.insight.queue_source import find_source
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.extension_points import Plugin
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.plugins.default_group import DefaultGroupPlugin
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.priority import Priority
from queue_scheduler.queueing.queue_policies import BUILT_IN_POLICIES
from queue_scheduler.quota.quota_settings import QuotaSettings
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.testing.object_builders import elastic_quota, queue
from shared_api.well_known_labels import CREATED_BY_KOORD_QUEUE, DEFAULT_QUEUE, QUOTA_FULLNAME

MANAGED = {"labels": {CREATED_BY_KOORD_QUEUE: "true"}}
OF_NODE = {**MANAGED, "annotations": {QUOTA_FULLNAME: "root/team"}}


def engine(*more: Plugin, elastic: bool = True) -> Engine:
    """Return an engine with a plugin for ElasticQuotas, and these."""
    first: list[Plugin] = [ElasticQuotaPlugin(QuotaSettings())] if elastic else []
    return Engine(PluginRunner([*first, *more, Priority()]), BUILT_IN_POLICIES)


def made(name: str, namespace: str, second: int) -> ElasticQuota:
    stamp = {"creationTimestamp": f"2026-11-01T10:00:{second:02}Z"}
    return elastic_quota(name, namespace=namespace, metadata=stamp)


def test_it_is_the_oldest_of_the_queues_name() -> None:
    found = engine()
    for quota in (made("other", "a", 1), made("team", "b", 9), made("team", "c", 3)):
        found.on_quota(quota)
    assert find_source(found, queue("team", metadata=MANAGED)) == made("team", "c", 3)
    assert find_source(found, queue("alone", metadata=MANAGED)) is None


@pytest.mark.parametrize(
    ("name", "metadata"),
    [
        pytest.param("team", {}, id="made by a user"),
        pytest.param("team", OF_NODE, id="of a node"),
        pytest.param("koordinator-root-quota", MANAGED, id="of a special quota"),
    ],
)
def test_other_queues_follow_none(name: str, metadata: dict[str, dict[str, str]]) -> None:
    found = engine()
    found.on_quota(made(name, "a", 1))
    assert find_source(found, queue(name, metadata=metadata)) is None


def test_the_default_queue_follows_its_quota_unless_a_plugin_needs_it() -> None:
    default = queue(DEFAULT_QUEUE, metadata=MANAGED)
    for found, follows in ((engine(), True), (engine(DefaultGroupPlugin()), False)):
        found.on_quota(made(DEFAULT_QUEUE, "a", 1))
        assert (find_source(found, default) is not None) is follows


def test_without_the_plugin_no_queue_follows() -> None:
    found = engine(elastic=False)
    found.on_quota(made("team", "a", 1))
    assert find_source(found, queue("team", metadata=MANAGED)) is None
