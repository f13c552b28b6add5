"""Tests of shared_api.process.probes, over real sockets on loopback."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from threading import Event

import httpx
import pytest
from structlog.testing import capture_logs

from shared_api.process import probes
from shared_api.process.answer_desk import limit_places
from shared_api.process.clock import SystemClock
from shared_api.process.connection_gate import REFUSAL_SECONDS
from shared_api.process.loop_thread import LoopThread, stop_all
from shared_api.process.probes import (
    Address,
    AddressError,
    ProbeServer,
    Routes,
    load_tls,
    open_listener,
    parse_address,
)
from tests.tls_files import CERTIFICATE, FOLDER, KEY, client_context, server_context

ANYWHERE = Address("127.0.0.1", 0)
PATIENCE_SECONDS = 60.0
LIMIT = 16


@contextmanager
def serving(routes: Routes, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve the routes; yield the port."""
    clock = SystemClock()
    server = ProbeServer(ANYWHERE, routes, flag="--x", clock=clock, limit=LIMIT, tls=tls)
    threads = server.gate.threads("probes", lambda name, step: LoopThread(name, step, clock))
    for thread in threads:
        thread.start()
    try:
        yield server.port
    finally:
        assert stop_all(threads, clock, PATIENCE_SECONDS)
        server.gate.close()


def get(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    url = f"http://127.0.0.1:{port}{path}"
    response = httpx.request(
        method, url, headers=headers, timeout=PATIENCE_SECONDS, trust_env=False
    )
    return response.status_code, response.text


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    def broken() -> tuple[bool, str]:
        raise ValueError("oops")

    routes = Routes(
        live={"threads": lambda: (True, "4 threads run")},
        ready={
            "leader": lambda: (True, ""),
            "caches": lambda: (False, "jobs not listed yet\n"),
            "broken": broken,
        },
    )
    with serving(routes) as port:
        yield port


SICK = "[-]broken failed: the check itself failed: ValueError('oops')\n"
SLOW = "[-]caches failed: jobs not listed yet\n"


def test_metrics_that_cannot_be_written_are_an_error_and_a_line_in_the_log() -> None:
    def broken() -> tuple[bytes, str]:
        raise ValueError("oops")

    with capture_logs() as logs, serving(Routes(metrics=broken)) as port:
        assert get(port, "/metrics")[0] == 500
    assert [each["log_level"] for each in logs if "metrics" in each["event"]] == ["error"]


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/livez", (200, "ok")),
        ("/livez/", (200, "ok")),
        ("/healthz", (200, "ok")),
        ("/livez?verbose", (200, "[+]threads ok: 4 threads run\nlivez check passed\n")),
        ("/healthz/threads", (200, "ok")),
        ("/readyz", (500, f"{SICK}{SLOW}[+]leader ok\nreadyz check failed\n")),
        ("/readyz/leader", (200, "ok")),
        ("/readyz/caches", (500, f"{SLOW}readyz check failed\n")),
        ("/readyz?exclude=caches&exclude=broken", (200, "ok")),
        ("/readyz?exclude=broken", (500, f"{SLOW}[+]leader ok\nreadyz check failed\n")),
        ("/readyz/nonsense", (404, "404 page not found\n")),
        ("/metrics", (404, "404 page not found\n")),
        ("/", (404, "404 page not found\n")),
        ("/../etc/passwd", (404, "404 page not found\n")),
    ],
)
def test_probes_answer_as_those_of_kubernetes(port: int, path: str, want: tuple[int, str]) -> None:
    assert get(port, path) == want


def test_head_has_no_body_and_a_post_is_refused(port: int) -> None:
    assert get(port, "/livez", "HEAD") == (200, "")
    assert get(port, "/livez", "POST")[0] == HTTPStatus.NOT_IMPLEMENTED


def test_metrics_have_their_content_type_and_may_require_permission() -> None:
    def authorize(path: str, headers: object) -> HTTPStatus:
        assert isinstance(headers, dict)
        known = (path, headers.get("authorization")) == ("/metrics", "Bearer good")
        return HTTPStatus.OK if known else HTTPStatus.UNAUTHORIZED

    routes = Routes(metrics=lambda: (b"up 1\n", "text/special"), authorize=authorize)
    with serving(routes) as port:
        assert get(port, "/metrics") == (401, "401 Unauthorized\n")
        assert get(port, "/metrics", Authorization="Bearer good") == (200, "up 1\n")
        assert get(port, "/livez")[0] == 404, "not served on this port"


def test_a_refusal_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that come back at once would keep the port busy with handshakes."""
    monkeypatch.setattr(probes, "METRICS_LIMITS", limit_places(1, waiting=0))
    has_begun, go_on = Event(), Event()

    def metrics() -> tuple[bytes, str]:
        has_begun.set()
        go_on.wait(PATIENCE_SECONDS)
        return b"up 1\n", "text/plain"

    clock = SystemClock()
    with serving(Routes(metrics=metrics)) as port, ThreadPoolExecutor() as others:
        first = others.submit(get, port, "/metrics")
        assert has_begun.wait(PATIENCE_SECONDS)
        began = clock.monotonic()
        assert get(port, "/metrics") == (429, "429 ask again in 1 s\n")
        assert clock.monotonic() - began >= REFUSAL_SECONDS
        go_on.set()
        assert first.result() == (200, "up 1\n")


def test_metrics_can_be_served_over_tls_beside_clients_that_shake_no_hands() -> None:
    context = server_context()
    with serving(Routes(metrics=lambda: (b"up 1\n", "text/plain")), tls=context) as port:
        silent = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        with silent, plain:
            plain.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            trusted = client_context()
            got = httpx.get(
                f"https://localhost:{port}/metrics",
                verify=trusted,
                timeout=PATIENCE_SECONDS,
                trust_env=False,
            )
            assert got.text == "up 1\n"
            answer = b""
            with suppress(ConnectionResetError):  # the kind of refusal is up to TLS
                answer = plain.recv(100)
            assert b"up 1" not in answer


def test_a_certificate_that_can_not_be_used_is_one_line_that_names_the_flags() -> None:
    assert load_tls("", "", "--x-tls") is None
    assert load_tls(CERTIFICATE, KEY, "--x-tls")
    for key, says in (("/none.pem", "No such file"), (str(FOLDER / "README.md"), "PEM")):
        with pytest.raises(AddressError, match=f"--x-tls-key {key}: .*{says}") as caught:
            load_tls(CERTIFICATE, key, "--x-tls")
        assert "\n" not in str(caught.value)


def test_invalid_data_on_the_socket_is_harmless(port: int) -> None:
    for nonsense in (
        b"",
        b"\x16\x03\x01\x02\x00",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nx" + b"y" * 70_000,
    ):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
            connection.sendall(nonsense)
    assert get(port, "/livez") == (200, "ok")


HALF = b"GET /livez HT"


@contextmanager
def half_open(port: int, count: int, sends: bytes = HALF) -> Iterator[None]:
    """Open connections that never send a complete request."""
    with ExitStack() as opened:
        for _ in range(count):
            address = ("127.0.0.1", port)
            opened.enter_context(socket.create_connection(address, timeout=5)).sendall(sends)
        yield


@pytest.mark.parametrize("sends", [b"", HALF], ids=["nothing", "half a request"])
@pytest.mark.parametrize("count", [18, 1000])
def test_half_open_connections_do_not_delay_probes(port: int, count: int, sends: bytes) -> None:
    """Without a limit, 18 incomplete requests delayed `/livez` by 39 s; a kubelet waits 1 s."""
    with half_open(port, count, sends):
        for _ in range(20):
            got = httpx.get(f"http://127.0.0.1:{port}/livez", timeout=5.0, trust_env=False)
            assert got.text == "ok"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (":8081", Address("", 8081)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("localhost:8081", Address("localhost", 8081)),
        ("[::1]:80", Address("::1", 80)),
        ("[::]:80", Address("::", 80)),
    ],
)
def test_an_address_is_parsed_and_printed_back(text: str, want: Address) -> None:
    assert parse_address(text, "--health-address") == want
    assert str(want) == text


@pytest.mark.parametrize("text", ["", "8081", "::1:80", "host:", ":http", ":65536", ":-1", ":²"])
def test_a_wrong_address_is_a_one_line_error_that_names_the_flag(text: str) -> None:
    with pytest.raises(AddressError, match=r"^--health-address: [^\n]+$"):
        parse_address(text, "--health-address")


def test_a_port_in_use_is_a_one_line_error_that_names_the_flag() -> None:
    with open_listener(ANYWHERE, "--x") as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(AddressError) as caught:
            ProbeServer(
                address, Routes(), flag="--metrics-address", clock=SystemClock(), limit=LIMIT
            )
    assert str(caught.value) == f"--metrics-address: {address} is already in use"


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(AddressError, match=r"^--x: cannot listen on 192\.0\.2\.1:0: "):
        open_listener(Address("192.0.2.1", 0), "--x")


def test_no_host_means_every_interface() -> None:
    with open_listener(Address("", 0), "--x") as listener:
        port = listener.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS).close()
