"""What all quota plugins share: how a refusal is reported, and what waits after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from queue_scheduler.decision import Reason, Refusal, RuntimeBasis
from queue_scheduler.framework.extension_points import Plugin
from queue_scheduler.plugins.elastic_quota import ElasticQuotaPlugin
from queue_scheduler.plugins.resource_quota import ResourceQuotaPlugin
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.quota_cache import quota_cache
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from queue_scheduler.quota_plugin import put_for_users
from shared_api.testing.object_builders import elastic_quota, node, resource_quota, tree_node
from tests.queue_scheduler.quota_source_kit import (
    MAX_JOBS,
    SourceEngine,
    cpus,
    tree,
    tree_plugin,
)

BASIS = RuntimeBasis(
    scope="", parent="", asker="a", more=1, subject="a", had=0, has=1,
    unseeded=False, unrefreshed=False,
)  # fmt: skip


def elastic(mode: QuotaMode) -> ElasticQuotaPlugin:
    plugin = ElasticQuotaPlugin(QuotaSettings(mode=mode))
    plugin.on_quota(elastic_quota("root-a", max={"cpu": 4}, min={"cpu": 4}, namespace="ns"))
    plugin.on_node(node("n"))
    return plugin


def room_of(plugin: Plugin, *sources: Any) -> SourceEngine:
    room = SourceEngine(plugin)
    for source in sources:
        room.apply(source)
    room.add_queues("root-a")
    return room


def count_checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the growing list of quotas that are asked about from now on."""
    asked: list[str] = []
    check = QuotaCache.check

    def counted(quotas: QuotaCache, quota: str, demand: Any) -> Refusal | None:
        asked.append(quota)
        return check(quotas, quota, demand)

    monkeypatch.setattr(QuotaCache, "check", counted)
    return asked


def room_of_namespace() -> SourceEngine:
    return room_of(ResourceQuotaPlugin(), resource_quota("rq", namespace="ns", hard={"cpu": 4}))


Room = Callable[[], SourceEngine]

KINDS = pytest.mark.parametrize(
    ("new_room", "unit", "reason"),
    [
        pytest.param(
            lambda: room_of(tree_plugin(), tree(tree_node("a", **cpus(4)))),
            {"node": "a"},
            Reason.OVER_QUOTA_MAX,
            id="a tree",
        ),
        pytest.param(
            lambda: room_of(tree_plugin(), tree(tree_node("a", **cpus(9, jobs=1)))),
            {"node": "a"},
            Reason.OVER_MAX_JOBS,
            id="jobs of a tree",
        ),
        pytest.param(
            room_of_namespace, {"queue": "root-a"}, Reason.OVER_QUOTA_MAX, id="ResourceQuota"
        ),
        pytest.param(
            lambda: room_of(elastic(QuotaMode.MAX)),
            {"quota": "root-a"},
            Reason.OVER_QUOTA_MAX,
            id="ElasticQuota, max",
        ),
        pytest.param(
            lambda: room_of(elastic(QuotaMode.RUNTIME)),
            {"quota": "root-a"},
            Reason.OVER_QUOTA_MAX,
            id="ElasticQuota, runtime",
        ),
    ],
)
"""How the engine is built, how its units name their quota, and why the second one is refused."""


def with_two(new_room: Room, unit: dict[str, Any]) -> SourceEngine:
    """Return an engine with two units, of which only one fits at a time."""
    room = new_room()
    room.add("runs", cpu=3, **unit)
    room.add("waits", cpu=2, **unit)
    return room


@KINDS
def test_a_refused_unit_is_not_checked_again_to_wait(
    new_room: Room, unit: dict[str, Any], reason: Reason, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = with_two(new_room, unit)
    asked = count_checks(monkeypatch)
    assert room.start("root-a") == ["runs"]
    assert room.reason("waits") is reason
    assert len(asked) == 2, "one question for each of the two"
    room.finish("runs")
    assert room.start("root-a") == ["waits"], "it has waited for the right limit"


@KINDS
def test_the_first_query_of_a_fork_builds_no_tree(
    new_room: Room, unit: dict[str, Any], reason: Reason, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = with_two(new_room, unit)
    assert room.start("root-a") == ["runs"]
    monkeypatch.delattr(quota_cache, "build_usage_trees")
    twin = room.engine.fork()
    record = twin.record("ns/waits")
    assert record is not None
    assert record.info is not None
    refusal = twin.admission.why_refused(record.info)
    assert refusal == room.refusal("waits")
    assert refusal is not None
    assert refusal.reason is reason


@pytest.mark.parametrize(
    ("kind", "more", "reason"),
    [
        (Reason.OVER_QUOTA_MAX, {"limit": 4, "used": 3, "requested": 2}, None),
        (Reason.OVER_QUOTA_MAX, {"limit": 4, "requested": 5}, Reason.EXCEEDS_QUOTA),
        (Reason.OVER_PARENT_MAX, {"limit": 4, "requested": 5}, Reason.EXCEEDS_QUOTA),
        (Reason.OVER_RUNTIME, {"limit": 4, "requested": 5, "basis": BASIS}, None),
        (Reason.OVER_PARENT_MAX, {"limit": 1, "used": 1, "requested": 1, "resource": MAX_JOBS},
         Reason.OVER_MAX_JOBS),
    ],
)  # fmt: skip
def test_users_get_their_own_reason_and_nothing_is_lost(
    kind: Reason, more: dict[str, Any], reason: Reason | None
) -> None:
    refusal = Refusal(reason=kind, quota="a", **{"resource": "cpu", **more})
    got = put_for_users(refusal, "kube-system")
    assert got.reason is (reason or kind)
    assert got.kind is kind
    assert (got.quota_namespace, got.basis) == ("kube-system", refusal.basis)


def test_a_refusal_that_users_get_unchanged_stays_one_object() -> None:
    refusal = Refusal(reason=Reason.OVER_RUNTIME, quota="a", resource="cpu")
    assert put_for_users(refusal) is refusal
