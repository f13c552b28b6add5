"""Routes that ask the API server: with the visitor's own token, and of nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from queue_insight.page.api_routes import LIMITS
from queue_scheduler.engine.engine import Engine
from shared_api.client.resource_types import PODS
from shared_api.client.transport import Request, Response
from shared_api.fake_api_server.faults import Match
from shared_api.testing.object_builders import job_body, pod_body, queue_unit_body
from tests.queue_insight.page.page_kit import TENANT, Browser, LoginWorld, browser
from tests.queue_insight.page.visitor_kit import PlayedApi
from tests.queue_scheduler.shell_kit import ShellKit
from tests.waiting import until

UNIT: Final = "/page/units/default/a"
ROUTES: Final = ("pods", "events", "manifests/unit", "manifests/job")


class AskedApi:
    """Passes on to the fake API server what is asked for visitors.

    Attributes:
        asked: The requests, in order.
    """

    def __init__(self, kit: ShellKit) -> None:
        self._server = kit.server
        self.asked: list[Request] = []

    def send(self, request: Request, timeout_seconds: float) -> Response:
        self.asked.append(request)
        return self._server.send(request, timeout_seconds)

    stream = PlayedApi.stream
    close = PlayedApi.close


class ApiWorld(LoginWorld):
    """A world whose unit `a` has a job and a pod on node `n1`."""

    def __init__(self, kit: ShellKit) -> None:
        super().__init__(kit)
        self.api = AskedApi(kit)
        assert self.login is not None
        self.login = self.login._replace(transport=self.api)


@pytest.fixture
def world(kit: ShellKit) -> ApiWorld:
    kit.direct.create(job_body("train"))
    job = kit.direct.get("jobs", "train", "default")
    reference = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "default", "name": "train"}
    kit.add_unit("a", consumerRef=reference | {"uid": job["metadata"]["uid"]})
    named = {
        "annotations": {"koord-queue/related-queueunit": "default/a"},
        "labels": {"batch.kubernetes.io/controller-uid": job["metadata"]["uid"]},
    }
    kit.direct.create(pod_body("a-0", metadata=named, quota="team", nodeName="n1"))
    kit.shared.apply(Engine.on_pod, kit.client.get(PODS, "default", "a-0"))
    return ApiWorld(kit)


@pytest.fixture
def ann(world: ApiWorld) -> Iterator[Browser]:
    with browser(world, TENANT) as client:
        yield client


@pytest.mark.parametrize("route", ROUTES)
def test_what_is_asked_has_the_visitors_token(world: ApiWorld, ann: Browser, route: str) -> None:
    answer = ann.get(f"{UNIT}/{route}")
    assert (answer.status_code, answer.json()["problem"]) == (200, "")
    tokens = {dict(each.headers)["Authorization"] for each in world.api.asked}
    assert tokens == {f"Bearer {TENANT}"}
    assert {each.method for each in world.api.asked} == {"GET"}
    assert TENANT not in answer.text


def test_the_objects_of_a_unit_are_read(world: ApiWorld, ann: Browser) -> None:
    manifests = [ann.get(f"{UNIT}/manifests/{of}").json()["manifest"] for of in ("unit", "job")]
    names = [(each["kind"], each["metadata"]["name"]) for each in manifests]
    assert names == [("QueueUnit", "a"), ("Job", "train")]
    (pod,) = ann.get(f"{UNIT}/pods").json()["pods"]
    assert (pod["name"], pod["node"]) == ("a-0", "n1")
    assert world.api.asked
    # What the copy knows of pods is not told to who may list units, and pods perhaps not.
    known = ann.get(UNIT).json()
    assert (known["pods"], known["podCount"]) == ([], 1)


@pytest.mark.parametrize("route", ROUTES)
def test_who_may_not_read_a_namespace_is_asked_for_nothing(
    kit: ShellKit, world: ApiWorld, ann: Browser, route: str
) -> None:
    kit.direct.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    kit.direct.create(queue_unit_body("secret", namespace="other", quota="team"))
    for name in ("secret", "none"):
        answer = ann.get(f"/page/units/other/{name}/{route}")
        words = "you may not list the units of namespace 'other'"
        assert (answer.status_code, answer.json()) == (403, {"detail": words})
    assert world.api.asked == []


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", ["none", "%2e%2e", "a%2f..%2fb", "a%3fx", "a%00"])
def test_a_unit_that_is_unknown_is_not_asked_about(
    world: ApiWorld, ann: Browser, route: str, name: str
) -> None:
    assert ann.get(f"/page/units/default/{name}/{route}").status_code == 404
    assert world.api.asked == []


def test_only_a_unit_and_its_job_have_a_manifest(world: ApiWorld, ann: Browser) -> None:
    assert ann.get(f"{UNIT}/manifests/secret").status_code == 422
    assert ann.get(f"{UNIT}/pods?at=2026-01-01T00:00:00Z").status_code == 422
    assert world.api.asked == []


@pytest.mark.parametrize("route", ROUTES)
def test_without_a_login_nothing_is_asked(world: ApiWorld, route: str) -> None:
    with browser(world) as client:
        assert client.get(f"{UNIT}/{route}").status_code == 401
    world.login = None
    with browser(world) as client:
        assert client.get(f"{UNIT}/{route}").status_code == 404
        assert client.get(UNIT).json()["pods"] == [{"name": "a-0", "node": "n1"}]
    assert world.api.asked == []


def test_a_token_that_is_refused_does_not_end_the_page(
    kit: ShellKit, world: ApiWorld, ann: Browser
) -> None:
    kit.server.faults.fail(401, match=Match(plural="pods"), times=9)
    answer = ann.get(f"{UNIT}/pods")
    assert answer.status_code == 200
    assert "Log in again" in answer.json()["problem"]
    assert ann.get(UNIT).status_code == 200
    assert world.api.asked


class SlowApi(PlayedApi):
    """Answers when the test lets it.

    Attributes:
        most: How many were asked at once.
    """

    def __init__(self) -> None:
        super().__init__({})
        self.go_on = threading.Event()
        self.most = self._now = 0

    def send(self, request: Request, timeout_seconds: float) -> Response:
        self._now += 1
        self.most = max(self.most, self._now)
        assert self.go_on.wait(60.0)
        self._now -= 1
        return super().send(request, timeout_seconds)


def test_a_slow_api_server_holds_up_nothing_else(world: ApiWorld) -> None:
    slow = SlowApi()
    assert world.login is not None
    world.login = world.login._replace(transport=slow)
    with browser(world, TENANT) as client, ThreadPoolExecutor(6) as threads:
        flood = [threads.submit(client.get, f"{UNIT}/manifests/unit") for _ in range(6)]
        until(lambda: slow.most == LIMITS.own_places)
        assert client.get(UNIT).status_code == 200
        assert slow.most == LIMITS.own_places
        slow.go_on.set()
        assert {each.result().status_code for each in flood} <= {200, 429}
