"""Connections that are held without a request end, and never keep others out."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import httpx
import pytest

from queue_insight.page import bounded_connection
from queue_insight.page.page_server import Tls
from queue_insight.page.renewed_certificate import RenewedCertificate
from shared_api.process.clock import SystemClock
from shared_api.process.connection_gate import Outcome
from tests.queue_insight.page.page_kit import PATIENCE_SECONDS, served_page
from tests.queue_scheduler.shell_kit import ShellKit
from tests.tls_files import CERTIFICATE, KEY, client_context, server_context
from tests.waiting import until

LIMIT = 8
GET = b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = (
    b"POST /page/what-if HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n"
    b"Content-Type: application/json\r\n"
)
OVER = ["http", "https"]


class Port:
    """A page with few connections, and clients of it that do not behave."""

    def __init__(self, url: str, opened: ExitStack, outcomes: list[Outcome]) -> None:
        self.outcomes = outcomes
        self._url = url
        self._opened = opened

    def connect(self, sent: bytes = b"", host: str = "127.0.0.1") -> socket.socket:
        """Open a connection, and send something; a TLS handshake is finished."""
        address = ("127.0.0.1", int(self._url.rpartition(":")[2]))
        made = socket.create_connection(address, source_address=(host, 0))
        self._opened.enter_context(made)
        if self._url.startswith("https"):
            made = self._opened.enter_context(
                client_context().wrap_socket(made, server_hostname="127.0.0.1")
            )
        made.sendall(sent)
        return made

    def answers(self) -> bool:
        """Return whether a newcomer is served."""
        with httpx.Client(verify=client_context(), timeout=PATIENCE_SECONDS, trust_env=False) as it:
            return it.get(f"{self._url}/login").status_code == 200


@contextmanager
def port_with(kit: ShellKit, scheme: str, limit: int = LIMIT) -> Iterator[Port]:
    outcomes: list[Outcome] = []
    certificate = RenewedCertificate(server_context(), CERTIFICATE, KEY)
    tls = Tls(certificate) if scheme == "https" else None
    with ExitStack() as opened:
        page = served_page(kit, tls, limit=limit, observe=outcomes.append)
        yield Port(opened.enter_context(page), opened, outcomes)


def read_answer(connection: socket.socket) -> bytes:
    """Return the head and the body of one answer."""
    connection.settimeout(PATIENCE_SECONDS)
    got = b""
    while b"\r\n\r\n" not in got:
        got += connection.recv(65_536)
    head, _, body = got.partition(b"\r\n\r\n")
    (length,) = (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n")
                 if line.startswith(b"content-length:"))  # fmt: skip
    while len(body) < length:
        body += connection.recv(65_536)
    return head


def is_open(connection: socket.socket) -> bool:
    connection.settimeout(0)
    try:
        return bool(connection.recv(65_536))
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except OSError:
        return False


@pytest.mark.parametrize("scheme", OVER)
def test_held_connections_keep_nobody_out(kit: ShellKit, scheme: str) -> None:
    with port_with(kit, scheme) as port:
        held = []
        for _ in range(LIMIT):
            held.append(port.connect(GET))
            assert read_answer(held[-1]).startswith(b"HTTP/1.1 200")
            held[-1].sendall(b"G")
        assert [port.answers() for _ in range(3)] == [True] * 3
        until(lambda: [is_open(each) for each in held[:3]] == [False, True, True])
        assert port.outcomes == [Outcome.EVICTED]


def test_the_idlest_goes_first(kit: ShellKit) -> None:
    with port_with(kit, "http", limit=3) as port:
        first, second, third = (port.connect(GET) for _ in range(3))
        for each in (first, second, third):
            read_answer(each)
        second.sendall(b"G")  # a byte is no request
        first.sendall(GET)
        read_answer(first)
        newcomers = [port.connect() for _ in range(2)]
        until(lambda: [is_open(each) for each in (first, second, third)] == [True, False, False])
        assert all(is_open(each) for each in newcomers)


def test_the_address_with_most_connections_loses_one(kit: ShellKit) -> None:
    with port_with(kit, "http", limit=4) as port:
        other = port.connect(GET, "127.0.0.2")
        read_answer(other)
        held = [port.connect() for _ in range(4)]
        until(lambda: [is_open(each) for each in held] == [False, True, True, True])
        other.sendall(GET)
        assert read_answer(other).startswith(b"HTTP/1.1 200")


def test_only_where_all_are_answered_a_newcomer_is_refused(kit: ShellKit) -> None:
    with port_with(kit, "http", limit=2) as port:
        streams = [port.connect(GET.replace(b"/login", b"/page/events")) for _ in range(2)]
        for each in streams:
            each.settimeout(PATIENCE_SECONDS)
            assert b"200 OK" in each.recv(1_000)
        newcomer = port.connect()
        until(lambda: not is_open(newcomer))
        assert port.outcomes == [Outcome.REFUSED]
        assert all(is_open(each) for each in streams)


LATE = [
    pytest.param(b"", "HEAD_SECONDS", id="who sends nothing"),
    pytest.param(GET[:20], "HEAD_SECONDS", id="who sends half of a head"),
    pytest.param(POST + b"\r\n12", "BODY_SECONDS", id="who sends a part of a body that is refused"),
    pytest.param(
        POST + b"Origin: %s://localhost\r\n\r\n{",
        "BODY_SECONDS",
        id="who sends a part of a body that is read",
    ),
]


@pytest.mark.parametrize("scheme", OVER)
@pytest.mark.parametrize(("sent", "bound"), LATE)
def test_each_request_has_deadlines(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch, scheme: str, sent: bytes, bound: str
) -> None:
    monkeypatch.setattr(bounded_connection, bound, 1.0)
    sent = sent.replace(b"%s", scheme.encode())
    with port_with(kit, scheme) as port:
        first, second = port.connect(sent), port.connect(GET)
        read_answer(second)
        second.sendall(sent or b"G")
        until(lambda: not (is_open(first) or is_open(second)))
        assert port.outcomes == [Outcome.LATE] * 2
        assert port.answers()


def test_single_bytes_move_no_deadline(kit: ShellKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_connection, "HEAD_SECONDS", 0.5)
    clock = SystemClock()
    with port_with(kit, "http") as port:
        slow = port.connect(GET)
        read_answer(slow)
        began = clock.monotonic()
        for byte in GET * 9:
            if not is_open(slow):
                break
            slow.send(bytes([byte]))
            clock.sleep(0.05)
        assert 0.4 < clock.monotonic() - began < 2.0
        assert port.outcomes == [Outcome.LATE]


def test_who_does_not_read_is_cut(kit: ShellKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_connection, "ANSWER_SECONDS", 0.5)
    with port_with(kit, "http") as port:
        deaf = port.connect()
        deaf.settimeout(PATIENCE_SECONDS)
        file = b"GET /assets/app/main.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with suppress(ConnectionError):
            while True:
                deaf.sendall(file * 100)
        assert port.outcomes == [Outcome.LATE]
