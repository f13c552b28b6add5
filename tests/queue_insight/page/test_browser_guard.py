"""What keeps pages of other sites away, and the headers of every answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from queue_insight.page import browser_guard
from queue_insight.page.browser_guard import HEADERS
from tests.queue_insight.page.page_kit import ROOT, Browser, LoginWorld, browser
from tests.queue_scheduler.shell_kit import ShellKit

ANSWERS = ("/page/session", "/page/overview", "/page/nothing")
FILES = ("/", "/queues/team", "/units/default/a", "/quotas/team", "/what-if", "/login", "/nothing",
         "/assets/nothing.js", "/assets/../page_app.py")  # fmt: skip
OTHER = "https://other.example"


@pytest.fixture
def client(kit: ShellKit) -> Iterator[Browser]:
    with browser(LoginWorld(kit), ROOT) as client:
        yield client


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "PUT", "OPTIONS"])
@pytest.mark.parametrize("path", [*ANSWERS, *FILES])
def test_every_answer_has_the_headers(client: Browser, method: str, path: str) -> None:
    for sent in ({}, {"host": "evil"}, {"origin": OTHER, "sec-fetch-site": "cross-site"}):
        answer = client.request(method, path, headers=sent)
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
        if path in ANSWERS:
            assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
        assert method != "HEAD" or not answer.content


@pytest.mark.parametrize("host", ["evil", "evil:80", "127.0.0.1.evil", "", "localhost.evil:1"])
@pytest.mark.parametrize("path", ["/", "/page/session", "/assets/x"])
def test_a_host_of_another_name(client: Browser, path: str, host: str) -> None:
    answer = client.get(path, headers={"host": host})
    assert answer.status_code == 421
    assert "--page-hosts" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("sent", "want"),
    [
        pytest.param({}, 204, id="a script of the page"),
        pytest.param({"sec-fetch-site": ""}, 204, id="an old browser"),
        pytest.param({"origin": OTHER}, 403, id="another origin"),
        pytest.param({"origin": ""}, 403, id="no origin"),
        pytest.param({"origin": "null"}, 403, id="an origin that is hidden"),
        pytest.param({"sec-fetch-site": "cross-site"}, 403, id="another site"),
        pytest.param({"sec-fetch-site": "same-site"}, 403, id="a sibling of the site"),
        pytest.param({"sec-fetch-site": "none"}, 403, id="no page at all"),
    ],
)
def test_who_may_change_something(client: Browser, sent: dict[str, str], want: int) -> None:
    assert client.delete("/page/session", headers=sent).status_code == want
    assert client.get("/page/session").status_code == (401 if want == 204 else 200)


def test_a_request_that_names_no_origin(client: Browser) -> None:
    del client.headers["origin"]
    assert client.delete("/page/session").status_code == 403
    assert client.get("/page/session").status_code == 200


def test_an_origin_of_another_scheme_or_port(client: Browser) -> None:
    own = client.headers["origin"]
    for origin in (own.replace("http:", "https:"), own + "0", own.rpartition(":")[0]):
        assert client.delete("/page/session", headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_answers_are_not_made_for_other_sites(client: Browser, site: str) -> None:
    sent = {"sec-fetch-site": site}
    assert client.get("/page/overview", headers=sent).status_code == 403
    assert client.get("/queues/team", headers=sent).status_code == 200, "a link to a view"


@pytest.mark.parametrize(
    ("media_type", "want"),
    [("application/json", 200), ("text/plain", 415), ("application/x-www-form-urlencoded", 415)],
)
def test_only_json_is_taken(client: Browser, media_type: str, want: int) -> None:
    sent = {"content-type": media_type}
    body = f'{{"token": "{ROOT}"}}'
    assert client.post("/page/session", content=body, headers=sent).status_code == want


def test_a_body_that_is_too_long(client: Browser) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"token": "'
        for _ in range(1100):
            yield b"x" * 1024

    sent = {"content-type": "application/json"}
    assert client.post("/page/session", content=pieces(), headers=sent).status_code == 413


def test_a_body_that_does_not_come(client: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_guard, "BODY_SECONDS", 0.2)
    port = client.base_url.port
    assert port is not None
    head = (
        f"POST /page/session HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: 9\r\n"
        f"origin: http://127.0.0.1:{port}\r\ncontent-type: application/json\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
