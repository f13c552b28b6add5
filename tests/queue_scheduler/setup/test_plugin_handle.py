"""What a plugin gets at start-up: caches, events, quota names, queue status, debug routes."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from queue_scheduler.setup.plugin_handle import PluginHandle, StoreCaches
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import ELASTIC_QUOTAS, NODES, PODS, QUEUE_UNITS, QUEUES
from shared_api.informer.shared_informer import SharedInformer
from shared_api.objects.meta import Uid
from shared_api.testing.object_builders import queue, queue_unit
from tests.queue_scheduler.shell_kit import HeldWrites, SentEvents, ShellKit
from tests.served_app import served


def build_caches(kit: ShellKit) -> StoreCaches:
    """Return caches that nothing fills."""

    def informer(kind: ResourceType[Any]) -> SharedInformer[Any]:
        return SharedInformer(kit.client, kind, clock=kit.clock, rng=random.Random(1))

    return StoreCaches(
        informer(QUEUES),
        informer(QUEUE_UNITS),
        informer(ELASTIC_QUOTAS),
        informer(PODS),
        informer(NODES),
    )


class Plugin:
    """A kit with a handle, and where its effects go."""

    def __init__(self, kit: ShellKit) -> None:
        self.kit = kit
        self.events = SentEvents()
        self.writes = HeldWrites()
        self.caches = build_caches(kit)
        self.handle = PluginHandle(self.caches, Fraction(3, 2), self.events, self.writes)
        self.handle.attach(kit.shared)


@pytest.fixture
def plugin(kit: ShellKit) -> Plugin:
    return Plugin(kit)


def test_it_reads_caches_and_settings(plugin: Plugin) -> None:
    assert plugin.handle.caches is plugin.caches
    assert plugin.handle.caches.queue_units.list() == []
    assert plugin.handle.oversell_rate == Fraction(3, 2)


def test_it_records_events(plugin: Plugin) -> None:
    plugin.handle.record_event("Queue", "kq/q", Uid("1"), "Noted", "a note", warning=True)
    assert plugin.events.reported == [("Queue", "kq/q", "Noted")]
    assert plugin.events.warnings == [True]


def test_it_knows_the_quotas_of_a_unit_and_the_units_of_a_quota(plugin: Plugin) -> None:
    plugin.kit.add_quota("child", 2, parent="team")
    unit = plugin.kit.add_unit("a", quota="child")
    plugin.kit.add_unit("b")
    assert plugin.handle.quota_names_of(unit) == ("child", "team")
    assert plugin.handle.quota_names_of(queue_unit("x")) == ()
    assert [each.metadata.name for each in plugin.handle.units_of_quota("child")] == ["a"]
    assert plugin.handle.units_of_quota("nobody") == ()


def test_it_merges_into_the_status_of_a_queue_in_the_low_lane(plugin: Plugin) -> None:
    about = queue("team", metadata={"resourceVersion": "9"})
    plugin.handle.update_queue_status(about, {"pending": 3})
    (write,) = plugin.writes.writes
    assert (write.namespace, write.name, write.subresource) == ("koord-queue", "team", "status")
    assert write.lane.value == "low"
    assert write.body == {"metadata": {"resourceVersion": "9"}, "status": {"pending": 3}}


def test_its_routes_are_under_its_name_and_guarded(plugin: Plugin) -> None:
    def show(request: Request) -> Response:
        return PlainTextResponse(request.path_params["name"])

    def guard(request: Request) -> None:
        if "authorization" not in request.headers:
            raise HTTPException(401)

    plugin.handle.debug_group("mine").get("/units/:name", show)
    assert plugin.handle.debug_group("mine") is plugin.handle.debug_group("mine")
    path = "/debug/plugins/mine/units/a"
    with served(Starlette(routes=plugin.handle.debug_routes(guard))) as client:
        assert client.get(path).status_code == 401
        answer = client.get(path, headers={"authorization": "Bearer x"})
    assert (answer.status_code, answer.text) == (200, "a")


def test_a_query_before_the_engine_exists_says_so() -> None:
    kit = ShellKit()
    handle = PluginHandle(build_caches(kit), Fraction(1), SentEvents(), HeldWrites())
    with pytest.raises(AssertionError, match="before the engine was built"):
        handle.units_of_quota("team")
