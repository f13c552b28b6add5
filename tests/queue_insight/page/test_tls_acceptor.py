"""TLS handshakes that are not finished hold a bounded number of places."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from queue_insight.page import tls_acceptor
from queue_insight.page.networks import read_networks
from queue_insight.page.page_server import Tls
from queue_insight.page.renewed_certificate import RenewedCertificate
from queue_insight.page.tls_acceptor import HandshakeLimits
from shared_api.process.clock import SystemClock
from shared_api.process.connection_gate import Outcome
from tests.queue_insight.page.page_kit import PATIENCE_SECONDS, served_page
from tests.queue_scheduler.shell_kit import ShellKit
from tests.tls_files import CERTIFICATE, KEY, client_context, server_context
from tests.waiting import until

sleep = SystemClock().sleep

HALF_HELLO = b"\x16\x03\x01\x02\x00\x01"


class Port:
    """A page with few places, and clients of it that do not speak, or not to the end."""

    def __init__(self, url: str, opened: ExitStack, outcomes: list[Outcome]) -> None:
        self.url = url
        self.outcomes = outcomes
        self._number = int(url.rpartition(":")[2])
        self._opened = opened

    def connect(self, address: str = "127.0.0.1", sends: bytes = b"") -> socket.socket:
        """Open a connection from an address of this machine, and send something."""
        made = socket.create_connection(("127.0.0.1", self._number), source_address=(address, 0))
        made.sendall(sends)
        return self._opened.enter_context(made)

    def stall(self, address: str = "127.0.0.1") -> socket.socket:
        """Open a connection that begins a handshake, and does not go on."""
        return self.connect(address, HALF_HELLO)

    def answers(self) -> bool:
        """Return whether a client that speaks TLS at once is served."""
        with httpx.Client(verify=client_context(), timeout=PATIENCE_SECONDS, trust_env=False) as it:
            return it.get(self.url).status_code == 200


@contextmanager
def port_with(kit: ShellKit, places: HandshakeLimits) -> Iterator[Port]:
    outcomes: list[Outcome] = []
    certificate = RenewedCertificate(server_context(), CERTIFICATE, KEY)
    with ExitStack() as opened:
        page = served_page(kit, Tls(certificate, places), observe=outcomes.append)
        yield Port(opened.enter_context(page), opened, outcomes)


def is_open(connection: socket.socket) -> bool:
    connection.settimeout(0)
    try:
        return bool(connection.recv(1))
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take places from handshakes that go on for a fifth of a second."""
    monkeypatch.setattr(tls_acceptor, "STALLED_SECONDS", 0.2)


def test_silent_connections_take_no_place(kit: ShellKit) -> None:
    with port_with(kit, HandshakeLimits(in_all=1, of_address=1)) as port:
        silent = [port.connect() for _ in range(20)]
        assert port.answers()
        assert all(is_open(each) for each in silent)
        assert port.outcomes == []


def test_of_many_that_wait_those_of_the_address_with_most_go(kit: ShellKit) -> None:
    with port_with(kit, HandshakeLimits(waiting=3)) as port:
        other = port.connect("127.0.0.2")
        own = [port.connect() for _ in range(4)]
        until(lambda: [is_open(each) for each in own] == [False, False, True, True])
        assert is_open(other)
        assert port.outcomes == [Outcome.EVICTED] * 2


def test_a_flood_of_ready_connections_keeps_nobody_out(kit: ShellKit) -> None:
    with port_with(kit, HandshakeLimits(in_all=4, of_address=2, waiting=8)) as port:
        for _ in range(20):
            port.stall("127.0.0.2")
            sleep(0.02)  # each has spoken before the next one comes
        assert port.answers()
        until(lambda: port.outcomes.count(Outcome.EVICTED) >= 10)


def test_a_flood_of_silent_connections_keeps_nobody_out(kit: ShellKit) -> None:
    with port_with(kit, HandshakeLimits(in_all=4, of_address=2, waiting=8)) as port:
        for _ in range(200):
            port.connect()
        assert port.answers()
        until(lambda: port.outcomes.count(Outcome.EVICTED) >= 192)


@pytest.mark.usefixtures("_soon")
def test_an_address_takes_places_from_itself_only(kit: ShellKit) -> None:
    with port_with(kit, HandshakeLimits(in_all=8, of_address=2)) as port:
        other = port.stall("127.0.0.2")
        own = [port.stall() for _ in range(2)]
        assert port.answers()
        assert [is_open(each) for each in (other, *own)] == [True, False, True]
        assert port.outcomes == [Outcome.EVICTED]
        assert port.answers()


@pytest.mark.usefixtures("_soon")
def test_all_addresses_together_have_so_many_places(kit: ShellKit) -> None:
    with port_with(kit, HandshakeLimits(in_all=3, of_address=2)) as port:
        stalled = []
        for last in range(2, 5):
            stalled.append(port.stall(f"127.0.0.{last}"))
            sleep(0.01)  # they come one after the other
        assert port.answers()
        assert [is_open(each) for each in stalled] == [False, True, True]


@pytest.mark.usefixtures("_soon")
def test_a_place_that_nobody_needs_is_not_taken(kit: ShellKit) -> None:
    with port_with(kit, HandshakeLimits(in_all=2, of_address=2)) as port:
        stalled = port.stall()
        sleep(0.5)
        assert port.answers()
        assert is_open(stalled)


@pytest.mark.usefixtures("_soon")
def test_trusted_proxies_take_all_places(kit: ShellKit) -> None:
    shared = read_networks(["127.0.0.2/31"])
    with port_with(kit, HandshakeLimits(in_all=6, of_address=2, shared=shared)) as port:
        behind = [port.stall("127.0.0.2") for _ in range(5)]
        assert port.answers()
        assert all(is_open(each) for each in behind)
        port.stall("127.0.0.3")
        port.stall("127.0.0.3")
        until(lambda: port.outcomes == [Outcome.EVICTED])
        assert [is_open(each) for each in behind].count(False) == 1


def test_of_those_that_are_ready_the_address_with_the_fewest_comes_first(kit: ShellKit) -> None:
    with port_with(kit, HandshakeLimits(in_all=3, of_address=3)) as port:
        busy = [port.stall("127.0.0.2") for _ in range(3)]
        sleep(0.1)
        waiting = port.stall("127.0.0.2")
        sleep(0.1)
        with ThreadPoolExecutor(1) as thread:
            answered = thread.submit(port.answers)
            sleep(0.1)
            busy[0].close()  # one place
            assert answered.result(PATIENCE_SECONDS)
        assert is_open(waiting)
        assert port.outcomes == [Outcome.BROKEN]


def test_finished_handshakes_take_no_place(kit: ShellKit) -> None:
    with port_with(kit, HandshakeLimits(in_all=1, of_address=1)) as port:
        assert [port.answers() for _ in range(5)] == [True] * 5
        assert port.outcomes == []


def test_who_is_late_or_speaks_no_tls_is_counted(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_acceptor, "SECONDS", 0.2)
    with port_with(kit, HandshakeLimits()) as port:
        late = [port.connect(), port.stall()]
        until(lambda: port.outcomes == [Outcome.LATE] * 2)
        assert not any(is_open(each) for each in late)
        port.connect().sendall(b"GET / HTTP/1.1\r\n\r\n")
        until(lambda: port.outcomes == [Outcome.LATE, Outcome.LATE, Outcome.BROKEN])
