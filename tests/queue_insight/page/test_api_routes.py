"""Routes that ask the API server: with the visitor's own token, and of nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from queue_insight.page.api_routes import LIMITS
from queue_scheduler.engine.engine import Engine
from shared_api.client.resource_types import PODS, QUOTA_POLICIES
from shared_api.client.transport import Request, Response
from shared_api.fake_api_server.faults import Match
from shared_api.testing.object_builders import job_body, pod_body, queue_unit_body
from tests.queue_insight.page.page_kit import ROOT, TENANT, Browser, LoginWorld, browser
from tests.queue_insight.page.visitor_kit import PlayedApi
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, ShellKit
from tests.simulation.limit_actions import policy_body
from tests.waiting import until

UNIT: Final = "/page/units/default/a"
ROUTES: Final = ("pods", "events", "manifests/unit", "manifests/job")
STATED: Final = ("queue", "quota", "policy")


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


# --- what queues and quotas are stated in --------------------------------------------------------


@pytest.fixture
def root(kit: ShellKit, world: ApiWorld) -> Iterator[Browser]:
    """Somebody who may read all, in a cluster where `team` has a policy."""
    limits = [{"users": ["eve"], "running": 4}]
    kit.direct.create(policy_body("of-team", {"quotas": ["team"], "userLimits": limits}))
    policy = kit.client.get(QUOTA_POLICIES, QUEUE_NAMESPACE, "of-team")
    kit.shared.apply(Engine.on_quota_policy, policy)
    with browser(world, ROOT) as client:
        yield client


def test_queues_quotas_and_policies_are_read(world: ApiWorld, root: Browser) -> None:
    manifests = [root.get(f"/page/manifests/{of}/team").json()["manifest"] for of in STATED]
    named = [(each["kind"], each["metadata"]["name"]) for each in manifests]
    assert named == [("Queue", "team"), ("ElasticQuota", "team"), ("QuotaPolicy", "of-team")]
    assert all("managedFields" not in each["metadata"] for each in manifests)
    tokens = {dict(each.headers)["Authorization"] for each in world.api.asked}
    assert (tokens, len(world.api.asked)) == ({f"Bearer {ROOT}"}, 3)


def test_the_views_name_what_can_be_read(root: Browser) -> None:
    queue = root.get("/page/queues/team").json()["statedIn"]
    assert (queue["kind"], queue["namespace"], queue["name"]) == ("Queue", "koord-queue", "team")
    quota = root.get("/page/quotas/team").json()
    names = [(quota[each]["kind"], quota[each]["name"]) for each in ("statedIn", "policy")]
    assert names == [("ElasticQuota", "team"), ("QuotaPolicy", "of-team")]


def test_a_tenant_reads_no_policy_and_learns_of_none(
    world: ApiWorld, root: Browser, ann: Browser
) -> None:
    del root
    assert ann.get("/page/quotas/team").json()["policy"] is None
    refused = [ann.get(f"/page/manifests/policy/{name}") for name in ("team", "none")]
    words = "you may not list the units of all namespaces, and a QuotaPolicy names users"
    assert {(each.status_code, each.json()["detail"]) for each in refused} == {(403, words)}
    assert world.api.asked == []
    answer = ann.get("/page/manifests/queue/team").json()
    assert answer["manifest"]["metadata"]["name"] == "team"
    assert {dict(each.headers)["Authorization"] for each in world.api.asked} == {f"Bearer {TENANT}"}


def test_a_refusal_of_the_api_server_is_said(kit: ShellKit, world: ApiWorld, ann: Browser) -> None:
    kit.server.faults.fail(403, match=Match(plural="elasticquotas"), times=1)
    answer = ann.get("/page/manifests/quota/team")
    assert (answer.status_code, answer.json()["manifest"]) == (200, None)
    assert "does not let you read this" in answer.json()["problem"]
    assert world.api.asked


@pytest.mark.parametrize("of", STATED)
@pytest.mark.parametrize("name", ["none", "%2e%2e", "a%2f..%2fb", "root/a", "a%3fx", "a%00"])
def test_nothing_is_asked_about_what_is_unknown(
    world: ApiWorld, root: Browser, of: str, name: str
) -> None:
    assert root.get(f"/page/manifests/{of}/{name}").status_code == 404
    assert world.api.asked == []


def test_no_other_object_is_read_by_its_name(world: ApiWorld, root: Browser) -> None:
    assert root.get("/page/manifests/secrets/team").status_code == 422
    assert root.get("/page/manifests/queue/team?at=2026-01-01T00:00:00Z").status_code == 422
    assert root.get(f"/page/manifests/quota/{'a' * 1025}").status_code == 422
    assert world.api.asked == []


def test_without_a_login_no_object_of_a_queue_is_asked_for(world: ApiWorld) -> None:
    with browser(world) as client:
        assert client.get("/page/manifests/queue/team").status_code == 401
    world.login = None
    with browser(world) as client:
        assert client.get("/page/manifests/queue/team").status_code == 404
        assert client.get("/page/quotas/team").json()["statedIn"]["kind"] == "ElasticQuota"
    assert world.api.asked == []


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
        paths = [f"{UNIT}/manifests/unit", "/page/manifests/queue/team"] * 3
        flood = [threads.submit(client.get, path) for path in paths]
        until(lambda: slow.most == LIMITS.own_places)
        assert client.get(UNIT).status_code == 200
        assert slow.most == LIMITS.own_places
        slow.go_on.set()
        assert {each.result().status_code for each in flood} <= {200, 429}
