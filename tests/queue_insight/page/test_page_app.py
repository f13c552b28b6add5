"""The routes of the page, over its real server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction

import httpx
import pytest

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.plugins.elastic_quota_tree import ElasticQuotaTreePlugin
from shared_api.testing.object_builders import tree_node
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_insight.page.page_kit import PATIENCE_SECONDS, PageWorld, browser, served_page
from tests.queue_scheduler.quota_source_kit import SourceEngine, cpus, tree
from tests.queue_scheduler.shell_kit import ShellKit

ANSWERS = (
    "/page/session",
    "/page/overview",
    "/page/unqueued",
    "/page/queues/team",
    "/page/units/default/a",
    "/page/units/default/a/changes",
    "/page/quotas/team",
    "/page/names",
)


@pytest.fixture
def world(kit: ShellKit) -> PageWorld:
    kit.add_unit("a")
    return PageWorld(kit.shared, kit.clock)


@pytest.fixture
def client(world: PageWorld) -> Iterator[httpx.Client]:
    with (
        served_page(world) as url,
        httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, trust_env=False) as client,
    ):
        yield client


@pytest.mark.parametrize("path", ANSWERS)
def test_every_route_answers(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), (
        answer.text
    )
    assert answer.headers["cache-control"] == "no-store"
    head = client.head(path)
    assert (head.status_code, head.content) == (200, b"")


def test_a_quota_whose_name_has_slashes_has_a_view() -> None:
    source = SourceEngine(ElasticQuotaTreePlugin(Fraction(1)))
    source.apply(tree(tree_node("team", tree_node("a", **cpus(2)), **cpus(4))))
    world = PageWorld(SharedEngine(source.engine, lambda _: None), VirtualClock())
    with browser(world) as client:
        got = client.get("/page/quotas/root%2Fteam%2Fa").json()
        assert (got["quota"]["name"], got["quota"]["max"]) == ("root/team/a", {"cpu": "2"})
        assert got["statedIn"]["kind"] == "ElasticQuotaTree"
        assert client.get("/page/quotas/root%2Fteam%2Fb").status_code == 404


def test_the_overview_lists_queues_and_quotas(client: httpx.Client) -> None:
    got = client.get("/page/overview").json()
    (queue,), (quota,) = got["queues"], got["quotas"]
    assert (queue["name"], queue["pending"], queue["head"]["name"]) == ("team", 1, "a")
    assert (quota["name"], quota["max"], quota["sumsHidden"]) == ("team", {"cpu": "4"}, False)
    assert (got["leader"], got["record"], got["forecast"]) == (True, None, None)


def test_the_rate_of_a_queue_is_that_of_now(client: httpx.Client, world: PageWorld) -> None:
    assert client.get("/page/queues/team").json()["queue"]["admissionsPerHour"] is None
    world.rates["team"] = 12.5
    (shown,) = client.get("/page/overview").json()["queues"]
    assert shown["admissionsPerHour"] == 12.5
    assert client.get("/page/queues/team").json()["queue"]["admissionsPerHour"] == 12.5
    at = datetime(2026, 1, 1, tzinfo=UTC)
    world.past[at] = SharedEngine(world.shared.fork(), lambda _: None)
    then = client.get("/page/queues/team?at=2026-01-01T00:00:00Z").json()
    assert then["queue"]["admissionsPerHour"] is None
