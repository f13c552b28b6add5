"""The aggregated API's port over real TLS: who is answered, and who is not."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from queue_insight.visibility import snapshots
from shared_api.process.clock import SystemClock
from shared_api.process.http_exchange import MAX_HEAD_BYTES
from tests.client_certificates import Identity, make_authority, sign_client
from tests.queue_insight.insight_kit import new_engine
from tests.queue_insight.visibility.server_kit import (
    API_SERVICE,
    BASE,
    LIST,
    NOW,
    PROXIES,
    PROXY,
    USERS,
    Served,
    served,
    trust_data,
)

ANN = [("X-Remote-User", "ann"), ("X-Remote-Group", "dev")]
MANY = 150
"""Groups of a caller: more than the standard library's parser takes headers."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("visibility")) as running:
        yield running


def test_the_front_proxys_caller_reaches_the_application(api: Served) -> None:
    more = [("X-Remote-Group", f"g{each}") for each in range(MANY)]
    extra = [("X-Remote-Extra-a%2Fb", "1"), ("X-Remote-Extra-a%2Fb", "2")]
    answer = api.ask(identity=PROXY, headers=ANN + more + extra + [("Authorization", "Basic x")])
    assert answer.status_code == 200
    got = answer.json()
    assert got["user"] == "ann"
    assert got["groups"] == ["dev", *(f"g{each}" for each in range(MANY)), "system:authenticated"]
    assert got["extra"] == {"a/b": ["1", "2"]}
    kept = [name for name in got["headers"] if name.startswith(("x-remote", "authorization"))]
    assert kept == []


@pytest.mark.parametrize(
    ("identity", "want"),
    [
        pytest.param(None, 401, id="without a certificate"),
        pytest.param(sign_client(PROXIES, "mallory", now=NOW), 401, id="under a wrong name"),
        pytest.param(PROXY, 200, id="the front proxy"),
    ],
)
def test_headers_count_for_the_front_proxy_alone(
    api: Served, identity: Identity | None, want: int
) -> None:
    answer = api.ask(identity=identity, headers=ANN)
    assert answer.status_code == want
    assert want == 200 or answer.json()["reason"] == "Unauthorized"


def test_a_user_with_a_certificate_is_itself(api: Served) -> None:
    bob = sign_client(USERS, "bob", ["ops"], NOW)
    got = api.ask(identity=bob, headers=ANN).json()
    assert (got["user"], got["groups"]) == ("bob", ["ops", "system:authenticated"])


def test_a_foreign_certificate_ends_the_handshake(api: Served) -> None:
    foreign = sign_client(make_authority("front-proxy-ca", NOW), "aggregator", now=NOW)
    with pytest.raises(httpx.TransportError):
        api.ask(identity=foreign, headers=ANN)


def test_a_token_identifies_its_user(api: Served) -> None:
    api.fake.reviews.users["carl-token"] = {"username": "carl", "groups": ["x"]}
    got = api.ask(headers=[("Authorization", "Bearer carl-token"), *ANN])
    assert (got.status_code, got.json()["user"]) == (200, "carl")
    assert api.ask(headers=[("Authorization", "Bearer other")]).status_code == 401
    impersonating = [("Authorization", "Bearer carl-token"), ("Impersonate-User", "ann")]
    assert api.ask(headers=impersonating).status_code == 403


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
def test_what_anybody_may_read(api: Served, path: str) -> None:
    assert api.ask(path).json()["user"] == ""


def test_a_right_that_is_missing(api: Served) -> None:
    api.fake.reviews.allows = lambda spec: spec["user"] != "dora"
    answer = api.ask(identity=PROXY, headers=[("X-Remote-User", "dora")])
    assert answer.status_code == 403
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pendingunits.visibility.koord-queue is forbidden: User "dora" cannot list '
        'resource "pendingunits" in API group "visibility.koord-queue" in the namespace "team"',
        "reason": "Forbidden",
        "details": {"group": "visibility.koord-queue", "kind": "pendingunits"},
        "code": 403,
    }
    path = api.ask("/openapi/v3", identity=PROXY, headers=[("X-Remote-User", "dora")])
    assert path.json()["message"] == 'forbidden: User "dora" cannot get path "/openapi/v3"'


def test_a_review_that_cannot_be_made_is_asked_again(api: Served) -> None:
    api.fake.faults.fail(500, times=10)
    try:
        answer = api.ask(identity=PROXY, headers=[("X-Remote-User", "emil")])
    finally:
        api.fake.faults.clear()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.json()["reason"] == "ServiceUnavailable"


@pytest.mark.parametrize(
    ("user", "path", "want"),
    [
        pytest.param("system:kube-aggregator", BASE, 200, id="the aggregator discovers"),
        pytest.param("system:aggregator", "/openapi/v3", 200, id="it fetches schemas"),
        pytest.param("system:kube-aggregator", LIST, 503, id="it reads no objects"),
        pytest.param("fred", BASE, 503, id="others are reviewed"),
    ],
)
def test_discovery_goes_on_without_reviews(api: Served, user: str, path: str, want: int) -> None:
    api.fake.faults.fail(403, times=10)
    try:
        answer = api.ask(path, identity=PROXY, headers=[("X-Remote-User", user)])
    finally:
        api.fake.faults.clear()
    assert answer.status_code == want


def test_bodies_and_heads_are_bounded(api: Served) -> None:
    tries = LIST.replace("pendingunits", "tries")
    assert api.ask(tries, identity=PROXY, headers=ANN, body=b"x" * 1000).json()["body"] == 1000
    too_long = api.ask(tries, identity=PROXY, headers=ANN, body=b"x" * 1_048_577)
    assert too_long.status_code == 413
    long = [("X-Long", "x" * 2 * MAX_HEAD_BYTES)]
    assert api.ask(identity=PROXY, headers=ANN + long).status_code == 431


def test_a_new_authority_counts_without_a_restart(api: Served) -> None:
    others = make_authority("front-proxy-ca-2", NOW)
    other = sign_client(others, "aggregator", now=NOW)
    with pytest.raises(httpx.TransportError):
        api.ask(identity=other, headers=ANN)
    name, namespace = "extension-apiserver-authentication", "kube-system"
    api.fake.direct.patch("configmaps", name, {"data": trust_data(others)}, namespace=namespace)
    try:
        api.server.look_after()
        assert api.ask(identity=other, headers=ANN).json()["user"] == "ann"
        with pytest.raises(httpx.TransportError):
            api.ask(identity=PROXY, headers=ANN)
    finally:
        api.fake.direct.patch("configmaps", name, {"data": trust_data()}, namespace=namespace)
        api.server.look_after()


def test_no_state_outlives_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "KEPT_SECONDS", 0.5)
    with served(tmp_path) as running:
        running.ask(identity=PROXY, headers=ANN)
        (kept,) = running.kept
        kept.keep(new_engine(), "ann")
        SystemClock().sleep(0.5)
        running.server.look_after()
        assert len(kept) == 0
        assert len(kept) == 0


def test_the_registration_comes_and_goes_with_the_server(tmp_path: Path) -> None:
    with served(tmp_path) as running:
        spec = running.fake.direct.get("apiservices", API_SERVICE)["spec"]
        assert spec["service"] == {"namespace": "queue", "name": "insight", "port": 443}
        assert b64decode(spec["caBundle"]).count(b"BEGIN CERTIFICATE") == 1
        assert not [each for each in tmp_path.iterdir() if "PRIVATE" in each.read_text("latin-1")]
    assert not running.fake.direct.exists("apiservices", API_SERVICE)
