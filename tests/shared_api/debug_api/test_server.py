"""The addresses and TLS settings of the debug API, and how it serves."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from structlog.testing import capture_logs

from shared_api.debug_api import app_server
from shared_api.debug_api.server import Callers, DebugServer, check_address, is_loopback
from shared_api.process.clock import SystemClock
from shared_api.process.probes import Address, AddressError, load_tls, open_listener
from tests.served_app import PATIENCE_SECONDS, served
from tests.tls_files import CA, CERTIFICATE, CLIENT_CERTIFICATE, KEY, client_context

GO_ON = threading.Event()
HAS_BEGUN = threading.Event()


def hello(_request: Request) -> Response:
    return PlainTextResponse("hello")


def echo(request: Request) -> Response:
    heard = {
        "path": request.url.path,
        "query": request.url.query,
        "x-it": request.headers.get("x-it"),
        "scheme": request.url.scheme,
        "server": request.scope["server"],
        "client": request.scope["client"],
    }
    return JSONResponse(heard, headers={"Link": "<next>"})


def slow(_request: Request) -> Response:
    HAS_BEGUN.set()
    GO_ON.wait(PATIENCE_SECONDS)
    return PlainTextResponse("slow")


def broken(_request: Request) -> Response:
    raise ValueError("oops")


APP = Starlette(
    routes=[
        Route("/", hello),
        Route("/echo/{what}", echo),
        Route("/slow", slow),
        Route("/broken", broken),
    ]
)


@pytest.mark.parametrize(
    ("host", "want"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("", False),
        ("::", False),
        ("10.0.0.7", False),
        ("queue.example.com", False),
    ],
)
def test_which_addresses_only_this_machine_reaches(host: str, want: bool) -> None:
    assert is_loopback(Address(host, 1)) is want


@pytest.mark.parametrize(
    ("host", "certificate", "key"),
    [
        pytest.param("127.0.0.1", "", "", id="loopback"),
        pytest.param("127.0.0.1", CERTIFICATE, KEY, id="loopback with TLS"),
        pytest.param("", CERTIFICATE, KEY, id="everywhere with TLS"),
    ],
)
def test_these_settings_are_accepted(host: str, certificate: str, key: str) -> None:
    check_address(Address(host, 19876), certificate, key)


@pytest.mark.parametrize(
    ("host", "certificate", "key", "says"),
    [
        pytest.param("", "", "", "--debug-address :19876: .*needs --debug-tls", id="open"),
        pytest.param("10.0.0.7", "", "", "10.0.0.7:19876", id="an address of the machine"),
        pytest.param("", CERTIFICATE, "", "go together", id="no key"),
        pytest.param("127.0.0.1", "", KEY, "go together", id="no certificate"),
        pytest.param("", "/none.pem", KEY, "--debug-tls-certificate /none.pem", id="no file"),
        pytest.param("", CLIENT_CERTIFICATE, KEY, "KEY_VALUES_MISMATCH", id="two"),
        pytest.param("", __file__, KEY, "--debug-tls-key", id="no certificate in it"),
    ],
)
def test_these_settings_are_refused_in_one_line(
    host: str, certificate: str, key: str, says: str
) -> None:
    with pytest.raises(AddressError, match=says) as caught:
        check_address(Address(host, 19876), certificate, key)
    assert "\n" not in str(caught.value)


def test_it_serves_until_it_is_closed() -> None:
    with served(APP) as client:
        assert client.get("/").text == "hello"
        url = str(client.base_url)
    with pytest.raises(httpx.ConnectError), httpx.Client(trust_env=False) as late:
        late.get(url)


def test_it_serves_tls() -> None:
    tls = load_tls(CERTIFICATE, KEY, "--debug-tls")
    with served(APP, tls=tls, authority=CA) as client:
        assert client.get("/").text == "hello"


def test_the_application_gets_the_request_and_its_answer_is_returned() -> None:
    with served(APP) as client:
        answer = client.get("/echo/a%20b?x=1&y=%2F", headers={"X-It": "yes"})
        want = {"path": "/echo/a b", "query": "x=1&y=%2F", "x-it": "yes"}
        assert answer.json().items() >= want.items()
        assert answer.headers["Link"] == "<next>"
        assert client.post("/").status_code == HTTPStatus.METHOD_NOT_ALLOWED
        assert client.get("/nothing").status_code == HTTPStatus.NOT_FOUND


FORGED = {
    "X-Forwarded-For": "10.9.8.7",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Host": "evil.example.com",
    "X-Real-IP": "10.9.8.7",
    "Forwarded": "for=10.9.8.7;proto=https",
}


def test_the_client_is_the_peer_of_the_connection_whatever_the_headers() -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in FORGED.items())
    with served(APP) as client, connected(client) as connection:
        connection.sendall(f"GET /echo/a HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
        heard = json.loads(all_of(connection).partition(b"\r\n\r\n")[2])
        assert heard["client"] == list(connection.getsockname())
        assert heard["server"] == list(connection.getpeername())
        assert heard["scheme"] == "http"


def test_over_tls_the_scheme_is_https() -> None:
    tls = load_tls(CERTIFICATE, KEY, "--debug-tls")
    with served(APP, tls=tls, authority=CA) as client:
        heard = client.get("/echo/a", headers={"X-Forwarded-Proto": "http"}).json()
        assert (heard["scheme"], heard["client"][0]) == ("https", "127.0.0.1")


def test_head_gets_the_headers_of_get() -> None:
    with served(APP) as client, connected(client) as connection:
        connection.sendall(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head, _, body = all_of(connection).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.0 200 OK")
        assert b"Content-Length: 5" in head
        assert body == b""


def test_requests_are_answered_concurrently() -> None:
    with served(APP) as client, connected(client) as slow:
        slow.sendall(b"GET /slow HTTP/1.1\r\n\r\n")
        assert client.get("/").text == "hello"
        GO_ON.set()
        assert slow.recv(1000).startswith(b"HTTP/1.0 200 OK")


def test_an_application_that_never_answers_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_server, "ANSWER_SECONDS", 0.05)
    GO_ON.clear()
    with served(APP) as client:
        answer = client.get("/slow")
        assert answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE
        assert "took longer than 0.05 s" in answer.json()["detail"]
        GO_ON.set()


def test_close_does_not_wait_for_a_missing_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app_server, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(app_server, "GRACE_SECONDS", 0.0)
    GO_ON.clear()
    with served(APP) as client:
        assert client.get("/slow").status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert not GO_ON.is_set(), "it is closed while the answer is still being computed"
    GO_ON.set()


def test_places_are_left_for_other_callers() -> None:
    GO_ON.clear()
    other = httpx.HTTPTransport(local_address="127.0.0.2")
    callers = Callers(own_places=1)
    with (
        served(APP, callers=callers) as client,
        connected(client) as first,
        connected(client) as own,
    ):
        HAS_BEGUN.clear()
        first.sendall(b"GET /slow HTTP/1.1\r\n\r\n")
        assert HAS_BEGUN.wait(PATIENCE_SECONDS)
        own.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with httpx.Client(transport=other, timeout=PATIENCE_SECONDS) as their:
            assert their.get(f"{client.base_url}/").text == "hello"
        own.settimeout(0)
        with pytest.raises(BlockingIOError):
            own.recv(1)
        own.settimeout(PATIENCE_SECONDS)
        GO_ON.set()
        assert all_of(first).endswith(b"slow")
        assert all_of(own).endswith(b"hello")


def test_an_exception_of_the_application_is_an_answer() -> None:
    with served(APP) as client, capture_logs():
        assert client.get("/broken").status_code == HTTPStatus.INTERNAL_SERVER_ERROR
        assert client.get("/").text == "hello"


def test_closed_before_its_start_it_leaves_no_socket() -> None:
    listener = open_listener(Address("127.0.0.1", 0), "--debug-address")
    server = DebugServer(lambda: APP, listener, None, limit=8, clock=SystemClock())
    server.end()
    assert listener.fileno() == -1
    server.close()


def test_a_path_above_the_limit_is_refused() -> None:
    with served(APP) as client, connected(client) as connection:
        piece = b"a" * 100_000
        with pytest.raises(ConnectionError):  # noqa: PT012 - which of the sends is open
            connection.sendall(b"GET /")
            for _ in range(1000):
                connection.sendall(piece)


@pytest.mark.parametrize("how", ["plain", "TLS, silent", "TLS, shaken hands"])
def test_three_hundred_silent_connections_do_not_block_a_request(how: str) -> None:
    """Connections after a TLS handshake count too."""
    tls = None if how == "plain" else load_tls(CERTIFICATE, KEY, "--debug-tls")
    trusted = client_context()
    with served(APP, tls=tls, authority=CA) as client, ExitStack() as idle:
        for _ in range(300):
            connection = idle.enter_context(connected(client))
            if how == "TLS, shaken hands":
                idle.enter_context(trusted.wrap_socket(connection, server_hostname="localhost"))
        assert client.get("/", timeout=5.0).text == "hello"


def all_of(connection: socket.socket) -> bytes:
    """Return all data until the connection ends."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


@contextmanager
def connected(client: httpx.Client) -> Iterator[socket.socket]:
    """Connect to the address to which a client sends its requests."""
    port = client.base_url.port or 0
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        yield connection
