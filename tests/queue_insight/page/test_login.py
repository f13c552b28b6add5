"""Who has logged in: with which token, for how long, how many."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any

import pytest
from fastapi import HTTPException, Request
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from queue_insight.page.login import (
    BURST,
    BURST_OF_ALL,
    COOKIE,
    MAX_BODY_BYTES,
    MAX_REVIEWS,
    VISITORS,
    LoggedInVisitors,
    LoginRate,
)
from queue_insight.page.networks import read_networks
from queue_insight.page.page_metrics import PageMetrics
from queue_insight.page.sessions import MAX_OF_USER, MAX_SECONDS, MAX_SESSIONS, Sessions
from queue_insight.page.visitors import Visitor
from shared_api.authorization.authorizer import Authorizer
from shared_api.authorization.reviews import ReviewResult
from shared_api.fake_api_server.faults import Match
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_insight.page.page_kit import (
    PATIENCE_SECONDS,
    ROOT,
    TENANT,
    Browser,
    LoginWorld,
    browser,
)
from tests.queue_scheduler.shell_kit import ShellKit


@pytest.fixture
def world(kit: ShellKit) -> LoginWorld:
    return LoginWorld(kit)


@pytest.fixture
def client(world: LoginWorld) -> Iterator[Browser]:
    with browser(world) as client:
        yield client


JSON = {"content-type": "application/json"}


def token_until(seconds: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": seconds}).encode()).decode().rstrip("=")
    return f"head.{claims}.signature"


USERS = [(TENANT, "ann", False), (ROOT, "root", True)]


@pytest.mark.parametrize(("token", "user", "reads_all"), USERS)
def test_a_token_begins_a_session(
    client: Browser, token: str, user: str, *, reads_all: bool
) -> None:
    want = {"user": user, "login": True, "readsAll": reads_all}
    assert client.get("/page/session").status_code == 401
    answer = client.log_in(token)
    assert answer.json() == want
    assert client.get("/page/session").json() == want | {"whatIf": user == "root"}
    cookie = answer.headers["set-cookie"]
    name, _, rest = cookie.partition("=")
    assert name == COOKIE == "__Host-koord-queue"
    assert {"HttpOnly", "Path=/", "SameSite=strict", "Secure"} < set(rest.split("; "))
    assert len(rest.partition(";")[0]) >= 43, "256 bits"


def test_logging_out_ends_it(client: Browser) -> None:
    client.log_in(TENANT)
    answer = client.delete("/page/session")
    assert answer.status_code == 204
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert client.get("/page/session").status_code == 401


def test_a_login_is_short(client: Browser) -> None:
    sent = b'{"token": "%s"}' % (b"x" * MAX_BODY_BYTES)
    answer = client.post("/page/session", content=sent, headers=JSON)
    assert answer.status_code == 413
    assert str(MAX_BODY_BYTES) in answer.json()["detail"]


@pytest.mark.parametrize("sent", [{"token": "wrong"}, {"token": token_until(9e9)}])
def test_a_wrong_token_is_refused(client: Browser, sent: dict[str, str]) -> None:
    answer = client.post("/page/session", json=sent)
    assert (answer.status_code, answer.json()) == (401, {"detail": "the token is not valid"})
    assert "set-cookie" not in answer.headers


def test_nothing_answers_or_logs_a_token(client: Browser) -> None:
    with capture_logs() as logs:
        answers = [
            client.log_in(ROOT),
            client.post("/page/session", json={"token": "secret-1"}),
            client.post("/page/session", json={"token": ["secret-2"]}),
            client.post("/page/session", content=b'"secret-3', headers=JSON),
            client.get("/page/session"),
            client.get("/page/overview"),
        ]
    assert [each.status_code for each in answers] == [200, 401, 422, 422, 200, 200]
    said = str(logs) + "".join(f"{each.headers} {each.text}" for each in answers)
    assert "secret-" not in said
    assert ROOT not in said
    assert any(each["event"] == "a user has logged in to the page" for each in logs)


def test_a_failing_api_server(client: Browser, kit: ShellKit) -> None:
    kit.server.faults.fail(500, match=Match(plural="tokenreviews"), times=50)
    assert client.post("/page/session", json={"token": ROOT}).status_code == 503


def test_a_session_ends_with_its_token(client: Browser, world: LoginWorld, kit: ShellKit) -> None:
    token = token_until(kit.clock.now().timestamp() + 600)
    world.reviews.users[token] = {"username": "ann"}
    assert "Max-Age=600" in client.log_in(token).headers["set-cookie"]
    kit.clock.advance(599)
    assert client.get("/page/session").status_code == 200
    kit.clock.advance(1)
    assert client.get("/page/session").status_code == 401


def test_a_session_ends_after_eight_hours(client: Browser, kit: ShellKit) -> None:
    client.log_in(ROOT)
    kit.clock.advance(MAX_SECONDS - 1)
    assert client.get("/page/session").status_code == 200
    kit.clock.advance(1)
    assert client.get("/page/session").status_code == 401


def test_a_revoked_token_ends_the_session_within_a_minute(
    client: Browser, world: LoginWorld, kit: ShellKit
) -> None:
    client.log_in(TENANT)
    assert client.get("/page/session").status_code == 200
    user = world.reviews.users.pop(TENANT)
    kit.clock.advance(61)
    assert client.get("/page/session").status_code == 401
    world.reviews.users[TENANT] = user
    kit.clock.advance(61)
    assert client.get("/page/session").status_code == 401, "the session is gone"


def visitor(world: LoginWorld, token: str = TENANT) -> Visitor:
    """Return who has logged in with a token, as a request of a session of its own finds it."""
    assert world.login is not None
    visitors = LoggedInVisitors(world.sessions, world.login.authorizer, world.clock)
    number, _ = world.sessions.open("ann", token)
    headers = [(b"cookie", f"{COOKIE}={number}".encode())]
    return visitors.identify(Request({"type": "http", "headers": headers}))


def test_a_right_that_is_taken_away_counts_for_a_minute_at_most(
    world: LoginWorld, kit: ShellKit
) -> None:
    assert visitor(world).may_read("default")
    kit.clock.advance(59)
    world.readable["ann"].clear()
    long_one = visitor(world)
    assert long_one.may_read("default")
    kit.clock.advance(1)
    assert not visitor(world).may_read("default")
    assert not long_one.may_read("default"), "as a stream of events has it"


def test_what_one_session_has_asked_another_one_of_the_user_knows(
    world: LoginWorld, kit: ShellKit
) -> None:
    visitor(world).may_read("default")
    asked = len(kit.server.journal)
    assert visitor(world).may_read("default")
    assert len(kit.server.journal) == asked


def test_a_review_that_fails_hides_a_namespace_for_seconds(
    world: LoginWorld, kit: ShellKit
) -> None:
    ann = visitor(world)
    kit.server.faults.fail(500, match=Match(plural="subjectaccessreviews"), times=1)
    assert not ann.may_read("default")
    kit.clock.advance(VISITORS.failed_seconds)
    assert ann.may_read("default")


def test_one_request_asks_about_few_namespaces_and_a_later_one_about_more(
    world: LoginWorld, kit: ShellKit
) -> None:
    spaces = [f"space-{number}" for number in range(2 * MAX_REVIEWS)]
    world.readable["ann"].update(spaces)
    for readable in (MAX_REVIEWS, 2 * MAX_REVIEWS):
        ann = visitor(world)
        assert sum(map(ann.may_read, spaces)) == readable
        assert sum(map(ann.may_read, spaces)) == readable, "the same within a request"
        kit.clock.advance(20)


def test_of_a_slow_api_server_one_request_asks_for_some_seconds(
    world: LoginWorld, kit: ShellKit
) -> None:
    allows, asked = world.reviews.allows, list[str]()

    def allow_slowly(spec: dict[str, Any]) -> bool:
        asked.append(spec["resourceAttributes"]["namespace"])
        kit.clock.advance(2.0)
        return allows(spec)

    ann = visitor(world)
    world.reviews.allows = allow_slowly
    spaces = [f"space-{number}" for number in range(9)]
    world.readable["ann"].update(spaces)
    assert sum(map(ann.may_read, spaces)) == 3
    assert asked == spaces[:3]
    assert sum(map(visitor(world).may_read, spaces)) == 6, "a later request asks about others"


def test_results_for_many_namespaces_are_kept_until_all_are_known(world: LoginWorld) -> None:
    spaces = [f"space-{number}" for number in range(1200)]
    world.readable["ann"].update(spaces)
    seen = [sum(map(visitor(world).may_read, spaces)) for _ in range(1 + 1200 // MAX_REVIEWS)]
    assert seen[-1] == len(spaces)


def test_a_new_login_has_a_new_number(client: Browser) -> None:
    client.log_in(TENANT)
    before = client.headers["cookie"]
    client.log_in(TENANT)
    assert client.headers["cookie"] != before
    client.headers["cookie"] = before
    assert client.get("/page/session").status_code == 401


def test_too_many_logins_from_one_address(client: Browser, kit: ShellKit) -> None:
    got = [client.post("/page/session", json={"token": ROOT}).status_code for _ in range(11)]
    assert got == [200] * int(BURST) + [429]
    kit.clock.advance(5)
    assert client.post("/page/session", json={"token": ROOT}).status_code == 200


def test_an_address_that_tries_too_often_takes_nothing_from_others(client: Browser) -> None:
    flood = Browser(str(client.base_url), address="127.0.0.2")
    with flood:
        for _ in range(int(BURST_OF_ALL) + 20):
            flood.post("/page/session", json={"token": ROOT})
        assert flood.post("/page/session", json={"token": ROOT}).status_code == 429
        assert client.log_in(ROOT).status_code == 200


def test_logins_that_wait_for_the_api_server_hold_up_nobody_else(
    client: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty of them: more than the server has threads for whatever else may wait."""
    assert client.log_in(TENANT).status_code == 200
    may_answer, asked = threading.Event(), threading.Event()

    def identify(authorizer: Authorizer, token: str, *, anew: bool = False) -> ReviewResult:
        if not anew:  # who has logged in
            return identify_by_cache(authorizer, token)
        asked.set()
        may_answer.wait(PATIENCE_SECONDS)
        return ReviewResult(HTTPStatus.UNAUTHORIZED)

    identify_by_cache = Authorizer.identify
    monkeypatch.setattr(Authorizer, "identify", identify)
    url = str(client.base_url)
    with ThreadPoolExecutor(50) as pool:
        logins = [
            pool.submit(log_in_from, f"127.0.0.{2 + number % 5}", url) for number in range(50)
        ]
        assert asked.wait(PATIENCE_SECONDS)
        try:
            answers = [client.get("/page/overview").status_code for _ in range(5)]
            assert not any(each.done() for each in logins)
        finally:
            may_answer.set()
        assert {each.result() for each in logins} == {401}
    assert answers == [200] * 5


def log_in_from(address: str, url: str) -> int:
    with Browser(url, address) as client:
        return client.log_in("slow").status_code


def test_all_addresses_together_have_a_bound() -> None:
    clock = VirtualClock()
    rate = LoginRate(clock, PageMetrics(CollectorRegistry()))
    for number in range(int(BURST_OF_ALL)):
        rate.spend(f"10.0.0.{number}")
    with pytest.raises(HTTPException) as refused:
        rate.spend("10.0.1.1")
    assert (refused.value.status_code, refused.value.headers) == (429, {"Retry-After": "1"})
    clock.advance(0.2)
    rate.spend("10.0.1.1")
    clock.advance(100.0 - 0.2)
    for _ in range(int(BURST)):
        rate.spend("10.0.1.1")  # what all together have refused is not counted


def test_trusted_proxies_have_only_the_bound_of_all() -> None:
    shared = read_networks(["10.0.0.0/8", "fd00::/64"])
    rate = LoginRate(VirtualClock(), PageMetrics(CollectorRegistry()), shared)
    for address in ("10.9.8.7", "::ffff:10.9.8.7", "fd00::1"):
        for _ in range(30):
            rate.spend(address)
    for _ in range(int(BURST)):
        rate.spend("11.0.0.1")
    with pytest.raises(HTTPException):
        rate.spend("10.9.8.7")


def test_the_oldest_sessions_leave() -> None:
    sessions = Sessions(VirtualClock())
    own = [sessions.open("ann", "t")[0] for _ in range(MAX_OF_USER + 1)]
    assert [sessions.find(each) is not None for each in own] == [False] + [True] * MAX_OF_USER
    others = [sessions.open(f"user-{number}", "t")[0] for number in range(MAX_SESSIONS)]
    assert sessions.find(own[-1]) is None
    assert all(sessions.find(each) is not None for each in others)
