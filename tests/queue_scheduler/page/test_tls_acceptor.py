"""TLS handshakes that are not finished hold a bounded number of places."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from queue_scheduler.page import tls_acceptor
from queue_scheduler.page.networks import read_networks
from queue_scheduler.page.page_server import Tls
from queue_scheduler.page.renewed_certificate import RenewedCertificate
from queue_scheduler.page.tls_acceptor import Places
from shared_api.process.connection_gate import Outcome
from tests.queue_scheduler.page.page_kit import PATIENCE_SECONDS, served_page, until
from tests.queue_scheduler.shell_kit import ShellKit
from tests.tls_files import CERTIFICATE, KEY, client_context, server_context


class Port:
    """A page with few places, and silent clients of it."""

    def __init__(self, url: str, opened: ExitStack, outcomes: list[Outcome]) -> None:
        self.url = url
        self.outcomes = outcomes
        self._number = int(url.rpartition(":")[2])
        self._opened = opened

    def connect(self, address: str = "127.0.0.1") -> socket.socket:
        """Open a connection that sends nothing, from an address of this machine."""
        made = socket.create_connection(("127.0.0.1", self._number), source_address=(address, 0))
        return self._opened.enter_context(made)

    def answers(self) -> bool:
        """Return whether a client that speaks TLS at once is served."""
        with httpx.Client(verify=client_context(), timeout=PATIENCE_SECONDS, trust_env=False) as it:
            return it.get(self.url).status_code == 200


@contextmanager
def port_with(kit: ShellKit, places: Places) -> Iterator[Port]:
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


def test_an_address_takes_places_from_itself_only(kit: ShellKit) -> None:
    with port_with(kit, Places(in_all=8, of_address=2)) as port:
        other = port.connect("127.0.0.2")
        own = [port.connect() for _ in range(4)]
        until(lambda: [is_open(each) for each in own] == [False, False, True, True])
        assert is_open(other)
        assert port.answers()
        until(lambda: port.outcomes == [Outcome.EVICTED] * 3)
        assert is_open(other)


def test_trusted_proxies_take_all_places(kit: ShellKit) -> None:
    shared = read_networks(["127.0.0.2/31"])
    with port_with(kit, Places(in_all=6, of_address=2, shared=shared)) as port:
        behind = [port.connect("127.0.0.2") for _ in range(5)]
        until(port.answers)
        assert all(is_open(each) for each in behind)
        port.connect("127.0.0.3")
        port.connect("127.0.0.3")
        until(lambda: [is_open(each) for each in behind] == [False, True, True, True, True])
        assert port.outcomes == [Outcome.EVICTED]


def test_all_addresses_together_have_so_many_places(kit: ShellKit) -> None:
    with port_with(kit, Places(in_all=3, of_address=2)) as port:
        silent = [port.connect(f"127.0.0.{last}") for last in range(2, 7)]
        until(lambda: [is_open(each) for each in silent] == [False] * 2 + [True] * 3)
        assert port.answers()
        assert is_open(silent[-1])


def test_a_flood_keeps_nobody_out(kit: ShellKit) -> None:
    with port_with(kit, Places(in_all=4, of_address=2)) as port:
        for _ in range(200):
            port.connect("127.0.0.2")
        assert port.answers()
        until(lambda: port.outcomes.count(Outcome.EVICTED) >= 198)


def test_finished_handshakes_take_no_place(kit: ShellKit) -> None:
    with port_with(kit, Places(in_all=1, of_address=1)) as port:
        assert [port.answers() for _ in range(5)] == [True] * 5
        assert port.outcomes == []


def test_who_is_late_or_speaks_no_tls_is_counted(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_acceptor, "SECONDS", 0.2)
    with port_with(kit, Places()) as port:
        late = port.connect()
        until(lambda: port.outcomes == [Outcome.LATE])
        assert not is_open(late)
        port.connect().sendall(b"GET / HTTP/1.1\r\n\r\n")
        until(lambda: port.outcomes == [Outcome.LATE, Outcome.BROKEN])
