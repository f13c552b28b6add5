"""What the page counts of itself."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import httpx
import pytest
from prometheus_client import CollectorRegistry
from starlette.types import Message, Receive, Scope, Send

from queue_insight.page.login import BURST
from queue_insight.page.page_metrics import CountedRequests, PageMetrics, view_of
from shared_api.fake_api_server.faults import Match
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_insight.page.page_kit import ROOT, TENANT, Browser, LoginWorld, browser
from tests.queue_scheduler.shell_kit import ShellKit
from tests.waiting import until

PREFIX = "koord_queue_page_"


@pytest.fixture
def world(kit: ShellKit) -> LoginWorld:
    kit.add_unit("a")
    return LoginWorld(kit)


@pytest.fixture
def client(world: LoginWorld) -> Iterator[Browser]:
    with browser(world) as client:
        yield client


def metric(world: LoginWorld, name: str, **labels: str) -> float:
    return world.registry.get_sample_value(PREFIX + name, labels) or 0.0


def becomes(world: LoginWorld, name: str, want: float, **labels: str) -> None:
    """Wait until a metric has a value: an answer is counted after it has been sent."""
    until(lambda: metric(world, name, **labels) == want)


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/", "window"),
        ("/queues/x", "window"),
        ("/login", "window"),
        ("/assets/app/main.js", "file"),
        ("/page/session", "session"),
        ("/page/overview", "overview"),
        ("/page/queues/x", "queue"),
        ("/page/queues/x.csv", "table"),
        ("/page/units/a/b", "unit"),
        ("/page/units/a/changes", "unit"),
        ("/page/units/a/b/changes", "changes"),
        ("/page/units/a/b/pods", "unit-objects"),
        ("/page/units/a/b/events", "unit-objects"),
        ("/page/units/a/b/manifests/job", "unit-objects"),
        ("/page/units/a/b/c", "other"),
        ("/page/quotas/x", "quota"),
        ("/page/manifests/queue/x", "manifest"),
        ("/page/what-if", "what-if"),
        ("/page/events", "events"),
        ("/page/secret", "other"),
        ("/page", "other"),
        ("/.env", "other"),
        ("", "other"),
        ("*", "other"),
    ],
)
def test_a_path_is_one_of_a_few_views(path: str, want: str) -> None:
    assert view_of(path) == want


def test_requests_are_counted_by_view_and_code(client: Browser, world: LoginWorld) -> None:
    client.get("/page/overview")
    client.log_in(ROOT)
    for path in ("overview", "queues/team", "queues/team.csv", "queues/none", "nothing"):
        client.get(f"/page/{path}")
    for view, code in (
        ("overview", "401"),
        ("overview", "200"),
        ("session", "200"),
        ("queue", "200"),
        ("queue", "404"),
        ("table", "200"),
        ("other", "404"),
    ):
        becomes(world, "requests_total", 1.0, view=view, code=code)
    becomes(world, "request_duration_seconds_count", 2.0, view="overview")


def test_sessions_are_counted_while_they_last(client: Browser, world: LoginWorld) -> None:
    client.log_in(TENANT)
    assert metric(world, "sessions") == 1.0
    client.delete("/page/session")
    assert metric(world, "sessions") == 0.0


def test_streams_are_counted_while_they_are_open(client: Browser, world: LoginWorld) -> None:
    client.log_in(TENANT)
    with client.stream("GET", "/page/events") as answer:
        lines = answer.iter_lines()  # the answer is closed with it
        next(lines)
        assert metric(world, "event_streams") == 1.0
    becomes(world, "event_streams", 0.0)
    becomes(world, "requests_total", 1.0, view="events", code="200")
    assert metric(world, "request_duration_seconds_count", view="events") == 0.0


def test_refused_logins_are_counted_by_reason(
    client: Browser, world: LoginWorld, kit: ShellKit
) -> None:
    client.log_in("wrong")
    kit.server.faults.fail(500, match=Match(plural="tokenreviews"), times=50)
    client.log_in("other")
    assert metric(world, "refused_logins_total", reason="token") == 1.0
    assert metric(world, "refused_logins_total", reason="unavailable") == 1.0
    answers = [client.log_in("many") for _ in range(int(BURST))]
    late = [each for each in answers if each.status_code == httpx.codes.TOO_MANY_REQUESTS]
    assert late
    assert metric(world, "refused_logins_total", reason="rate") == len(late)


def test_what_is_done_after_an_answer_is_not_its_time() -> None:
    clock, registry = VirtualClock(), CollectorRegistry()

    async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        clock.advance(1.0)
        await send({"type": "http.response.body", "body": b""})
        clock.advance(60.0)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def take(_: Message) -> None: ...

    async def ask() -> None:
        counted = CountedRequests(answer, PageMetrics(registry), clock)
        await counted({"path": "/page/overview"}, receive, take)

    anyio.run(ask)
    seconds = registry.get_sample_value(
        f"{PREFIX}request_duration_seconds_sum", {"view": "overview"}
    )
    assert seconds == 1.0
