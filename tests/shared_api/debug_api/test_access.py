"""Except on loopback addresses, every request needs a token, and the right for what it requests."""

from __future__ import annotations

import random
from http import HTTPStatus
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from shared_api.authorization.authorizer import Authorizer
from shared_api.authorization.rights import Right, TokenOnly
from shared_api.debug_api.access import (
    MAX_NAMESPACES,
    LocalAccess,
    ReviewedAccess,
    may_read_for,
    open_access,
)
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.program import READERS
from shared_api.testing.virtual_clock import VirtualClock
from tests.client_kit import client_to


def says_of_host(access: LocalAccess, host: str | None) -> str:
    """Return the error for a header Host, "" for none."""
    try:
        access(request("/debug/queues", {} if host is None else {"host": host}))
    except HTTPException as refused:
        return f"{refused.status_code} {refused.detail}"
    return ""


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:19876",
        "LocalHost:1",
        "127.0.0.1",
        "127.0.0.1:80",
        "[::1]",
        "[::1]:9",
    ],
)
def test_the_names_of_this_machine_are_allowed(host: str) -> None:
    assert says_of_host(LocalAccess(), host) == ""


@pytest.mark.parametrize(
    "host",
    [
        "evil.example.com",
        "evil.example.com:19876",
        "localhost.evil.example.com",
        "127.0.0.1.evil.example.com:19876",
        "127.0.0.2",
        "::1",
        "localhost:x",
        "",
        None,
    ],
)
def test_another_name_for_this_machine_is_refused_with_a_hint(host: str | None) -> None:
    """A page in a browser can send requests only to its own name (DNS rebinding)."""
    said = says_of_host(LocalAccess(), host)
    assert said.startswith(f"{HTTPStatus.MISDIRECTED_REQUEST.value} ")
    assert repr(host or "") in said
    assert "localhost" in said
    assert "--debug-hosts" in said


def test_further_names_can_be_added() -> None:
    access = LocalAccess(["queue.Example.com"])
    assert says_of_host(access, "queue.example.com:8443") == ""
    assert says_of_host(access, "localhost") == ""
    assert says_of_host(access, "other.example.com") != ""


ANN = {"authorization": "Bearer ann-token"}


def request(
    path: str, headers: dict[str, str] | None = None, params: dict[str, str] | None = None
) -> Request:
    raw = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
    scope: dict[str, Any] = {
        "type": "http",
        "path": path,
        "headers": raw,
        "path_params": params or {},
        "server": ("127.0.0.1", 1),
        "scheme": "https",
        "query_string": b"",
    }
    return Request(scope)


@pytest.fixture
def asked() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def access(asked: list[dict[str, Any]]) -> ReviewedAccess:
    return ReviewedAccess(make_authorizer(asked))


def make_authorizer(asked: list[dict[str, Any]], *, everywhere: bool = False) -> Authorizer:
    clock = VirtualClock()
    server = FakeApiServer(clock=clock, rng=random.Random(7))
    server.reviews.users["ann-token"] = {"username": "ann", "groups": ["staff"]}

    def allows(spec: dict[str, Any]) -> bool:
        asked.append(spec)
        where = str(spec.get("resourceAttributes", {}).get("namespace"))
        path = spec.get("nonResourceAttributes", {}).get("path", "")
        all_of_them = everywhere and where == ""
        return all_of_them or where == "team" or str(path).startswith("/debug/queues")

    server.reviews.allows = allows
    return Authorizer(client_to(server, clock), clock, READERS)


def status_of(access: ReviewedAccess, asked: Request) -> int:
    try:
        access(asked)
    except HTTPException as refused:
        return refused.status_code if refused.detail else 0  # every refusal has a text
    return 200


@pytest.mark.parametrize(
    ("asked_for", "want"),
    [
        pytest.param(request("/debug/queues"), 401, id="no token"),
        pytest.param(request("/debug/queues", {"authorization": "Basic x"}), 401, id="no bearer"),
        pytest.param(
            request("/debug/queues", {"authorization": "Bearer nobody"}), 401, id="unknown token"
        ),
        pytest.param(request("/debug/queues", ANN), 200, id="may get the path"),
        pytest.param(request("/debug/quotas", ANN), 403, id="may not get the path"),
        pytest.param(
            request("/debug/queueunits/team/a", ANN, {"namespace": "team", "name": "a"}),
            200,
            id="may list units there",
        ),
        pytest.param(
            request("/debug/queueunits/labs/a", ANN, {"namespace": "labs", "name": "a"}),
            403,
            id="may not list units there",
        ),
    ],
)
def test_which_user_may_get_what(access: ReviewedAccess, asked_for: Request, want: int) -> None:
    assert status_of(access, asked_for) == want


def test_the_right_for_a_namespace_is_to_list_queue_units(
    access: ReviewedAccess, asked: list[dict[str, Any]]
) -> None:
    access(request("/debug/queueunits/team/a", ANN, {"namespace": "team", "name": "a"}))
    assert asked[0]["resourceAttributes"] == {
        "namespace": "team",
        "verb": "list",
        "group": "scheduling.x-k8s.io",
        "resource": "queueunits",
    }
    assert (asked[0]["user"], asked[0]["groups"]) == ("ann", ["staff"])


def test_a_post_needs_the_right_to_create_on_its_path(
    access: ReviewedAccess, asked: list[dict[str, Any]]
) -> None:
    posted = request("/debug/queues", ANN)
    posted.scope["method"] = "POST"
    access(posted)
    access(request("/debug/queues", ANN))
    verbs = [each["nonResourceAttributes"]["verb"] for each in asked]
    assert verbs == ["create", "get"]


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/apis/v1/queue", "/debug/queues"),
        ("/apis/v1/userquota", "/debug/quotas"),
        ("/apis/v1/more", "/debug/apis/v1/more"),
        ("/apis", "/debug/apis"),
        ("/api/x", "/debug/api/x"),
        ("/healthz", "/debug/healthz"),
        ("/livez/ping", "/debug/livez/ping"),
        ("/readyz", "/debug/readyz"),
        ("/version/", "/debug/version/"),
        ("/openapi/v3", "/debug/openapi/v3"),
        ("/openapi.json", "/openapi.json"),
        ("/debug/queues", "/debug/queues"),
        ("/", "/"),
    ],
)
def test_a_path_that_every_cluster_lets_all_users_get_is_never_reviewed(
    access: ReviewedAccess, asked: list[dict[str, Any]], path: str, want: str
) -> None:
    status_of(access, request(path, ANN))
    assert asked[0]["nonResourceAttributes"] == {"path": want, "verb": "get"}


def test_a_program_sets_the_right_that_its_requests_need(asked: list[dict[str, Any]]) -> None:
    def right_of(_request: Request) -> Right:
        return TokenOnly()

    access = ReviewedAccess(make_authorizer(asked), right_of)
    assert status_of(access, request("/debug/quotas", ANN)) == 200
    assert status_of(access, request("/debug/quotas")) == 401
    assert asked == []


def test_on_a_loopback_address_every_request_is_allowed() -> None:
    open_access(request("/debug/queues"))


def test_units_are_named_only_to_users_who_may_list_them(
    access: ReviewedAccess, asked: list[dict[str, Any]]
) -> None:
    may_read = may_read_for(access, request("/debug/queueunits/team/a", ANN))
    assert [may_read(each) for each in ("team", "labs", "labs")] == [True, False, False]
    assert [each["resourceAttributes"]["namespace"] for each in asked] == ["", "team", "labs"]
    assert may_read_for(open_access, request("/"))("labs")


def test_one_answer_reviews_a_limited_number_of_namespaces(
    access: ReviewedAccess, asked: list[dict[str, Any]]
) -> None:
    may_read = may_read_for(access, request("/debug/queueunits/team/a", ANN))
    for number in range(2 * MAX_NAMESPACES):
        assert not may_read(f"labs-{number}")
    assert not may_read("team")
    assert len(asked) == 1 + MAX_NAMESPACES


def test_who_may_list_all_units_costs_one_review(asked: list[dict[str, Any]]) -> None:
    access = ReviewedAccess(make_authorizer(asked, everywhere=True))
    may_read = may_read_for(access, request("/debug/queues", ANN))
    assert all(may_read(f"labs-{number}") for number in range(2 * MAX_NAMESPACES))
    assert [each["resourceAttributes"]["namespace"] for each in asked] == [""]
