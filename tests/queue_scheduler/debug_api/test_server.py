"""Where the debug API may listen, and with what."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from queue_scheduler.debug_api import server as debug_server
from queue_scheduler.debug_api.server import DebugServer, check_address, is_loopback
from shared_api.process.clock import SystemClock
from shared_api.process.loop_thread import LoopThread
from shared_api.process.probes import Address, AddressError, open_listener
from tests.queue_scheduler.served_app import PATIENCE_SECONDS, served

TLS = Path(__file__).parents[2] / "data" / "tls"
CERTIFICATE, KEY = str(TLS / "test_only_server.pem"), str(TLS / "test_only_server_key.pem")


def hello(_request: Request) -> Response:
    return PlainTextResponse("hello")


APP = Starlette(routes=[Route("/", hello)])


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
def test_what_only_this_machine_reaches(host: str, want: bool) -> None:
    assert is_loopback(Address(host, 1)) is want


@pytest.mark.parametrize(
    ("host", "certificate", "key"),
    [
        pytest.param("127.0.0.1", "", "", id="loopback"),
        pytest.param("127.0.0.1", CERTIFICATE, KEY, id="loopback with TLS"),
        pytest.param("", CERTIFICATE, KEY, id="everywhere with TLS"),
    ],
)
def test_these_are_fine(host: str, certificate: str, key: str) -> None:
    check_address(Address(host, 19876), certificate, key)


@pytest.mark.parametrize(
    ("host", "certificate", "key", "says"),
    [
        pytest.param("", "", "", "--debug-address :19876: .*needs --debug-tls", id="open"),
        pytest.param("10.0.0.7", "", "", "10.0.0.7:19876", id="an address of the machine"),
        pytest.param("", CERTIFICATE, "", "go together", id="no key"),
        pytest.param("127.0.0.1", "", KEY, "go together", id="no certificate"),
        pytest.param("", "/none.pem", KEY, "--debug-tls-certificate /none.pem", id="no file"),
        pytest.param("", str(TLS / "test_only_client.pem"), KEY, "KEY_VALUES_MISMATCH", id="two"),
        pytest.param("", __file__, KEY, "--debug-tls-key", id="no certificate in it"),
    ],
)
def test_these_are_refused_in_one_line(host: str, certificate: str, key: str, says: str) -> None:
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
    listener = open_listener(Address("127.0.0.1", 0), "--debug-address")
    port = listener.getsockname()[1]
    server = DebugServer(APP, listener, CERTIFICATE, KEY)
    thread = LoopThread("debug-api", server.step, SystemClock(), unblock=server.close)
    thread.start()
    trusted = ssl.create_default_context(cafile=str(TLS / "test_only_ca.pem"))
    try:
        with httpx.Client(verify=trusted, timeout=PATIENCE_SECONDS, trust_env=False) as client:
            assert client.get(f"https://127.0.0.1:{port}/").text == "hello"
    finally:
        assert thread.stop()


def test_closed_before_it_began_it_leaves_no_socket() -> None:
    listener = open_listener(Address("127.0.0.1", 0), "--debug-address")
    DebugServer(APP, listener, "", "").close()
    assert listener.fileno() == -1


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    listener = open_listener(Address("127.0.0.1", 0), "--debug-address")
    server = DebugServer(APP, listener, "", "")
    with socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        accepted.close()
    server.close()


def test_a_path_of_any_length_is_not_taken_in() -> None:
    with served(APP) as client, connected(client) as connection:
        piece = b"a" * 100_000
        with pytest.raises(ConnectionError):  # noqa: PT012 - which of the sends is open
            connection.sendall(b"GET /")
            for _ in range(1000):
                connection.sendall(piece)


def test_who_sends_too_slowly_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug_server, "CONNECTION_SECONDS", 0.05)
    with served(APP) as client, connected(client) as connection:
        connection.sendall(b"GET / HT")
        assert is_closed(connection)


def test_too_many_connections_are_closed_and_the_others_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(debug_server, "MAX_CONNECTIONS", 2)
    with served(APP) as client, connected(client):
        assert client.get("/").text == "hello"
        with connected(client) as third:
            assert is_closed(third)
        assert client.get("/").text == "hello"


@contextmanager
def connected(client: httpx.Client) -> Iterator[socket.socket]:
    """Connect to where a client sends its requests."""
    port = client.base_url.port or 0
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
        yield connection


def is_closed(connection: socket.socket) -> bool:
    """Wait for the other side to close it."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
