"""Serves the debug API: a port like the others, and behind it uvicorn with the application.

`connection_gate` has the sockets that others reach, and workers of its own. A worker hands each
complete request to uvicorn (`app_server`), which runs its loop on a thread of its own, and waits
for the answer as a whole. Loopback addresses are served plainly. Any other address needs TLS.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog
from starlette.applications import Starlette

from shared_api.debug_api.access import (
    LocalAccess,
    ReviewedAccess,
    RightOf,
    open_access,
)
from shared_api.debug_api.app_server import AppServer
from shared_api.debug_api.debug_flags import DebugFlags
from shared_api.debug_api.router_group import Guard
from shared_api.process.clock import Clock
from shared_api.process.connection_gate import ConnectionGate, Observer, Spawn
from shared_api.process.loop_thread import LoopThread
from shared_api.process.probes import (
    Address,
    AddressError,
    load_tls,
    open_listener,
    parse_address,
)
from shared_api.program import Program

GuardOf = Callable[[RightOf], Guard]
"""Returns what lets requests pass, of what a reader needs where the API server is asked."""

WORKERS: Final = 8
"""Requests that are answered at once. One of them builds its answer; the others wait for it, or for
the API server to identify the reader."""

log = structlog.get_logger("debug_api")


def is_loopback(address: Address) -> bool:
    """Return whether only this machine reaches the address."""
    if address.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return False


def check_address(address: Address, certificate: str, key: str) -> None:
    """Refuse to serve the cluster without TLS, or with a certificate that cannot be used.

    Raises:
        AddressError: See its text.
    """
    if bool(certificate) != bool(key):
        msg = "--debug-tls-certificate and --debug-tls-key go together"
        raise AddressError(msg)
    if not certificate and not is_loopback(address):
        msg = (
            f"--debug-address {address}: an address that others reach needs "
            "--debug-tls-certificate and --debug-tls-key"
        )
        raise AddressError(msg)
    load_tls(certificate, key, "--debug-tls")


class DebugServer:
    """The application behind a port.

    Args:
        build: Returns what answers; called at the first question, on a thread of the server.
        listener: Open already.
        tls: Serves HTTPS with this context, where there is one.
        limit: How many connections there may be at once.
        clock: The time.
        observe: Told what became of each connection.
    """

    def __init__(
        self,
        build: Callable[[], Starlette],
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        *,
        limit: int,
        clock: Clock,
        observe: Observer = lambda _: None,
    ) -> None:
        host, port = listener.getsockname()[:2]
        self._app_server = AppServer(
            build, server=(host, port), scheme="http" if tls is None else "https", clock=clock
        )
        self._gate = ConnectionGate(
            listener,
            self._app_server.ask,
            limit=limit,
            clock=clock,
            tls=tls,
            workers=WORKERS,
            observe=observe,
        )

    def threads(self, spawn: Spawn) -> list[LoopThread]:
        """Return the threads that serve it, not started: of the port, and uvicorn's."""
        return [*self._gate.threads("debug", spawn), spawn("debug-api", self._app_server.step)]

    def end(self) -> None:
        """Let its threads end soon; where they have never begun, close the sockets."""
        self._app_server.end()
        self._gate.end()

    def close(self) -> None:
        """Close the port; after its threads have ended."""
        self._gate.close()


def open_debug_server(
    program: Program,
    flags: DebugFlags,
    build: Callable[[GuardOf], Starlette],
) -> DebugServer:
    """Open the port of a program's debug API; return what serves it, not started.

    Args:
        program: The process.
        flags: Where to listen, and with what.
        build: Returns the application, whose routes ask a guard of `GuardOf` first. Called at the
            first question: what it imports costs nothing before.

    Raises:
        AddressError: The address, or what it is served with, cannot be used.
    """
    address = parse_address(flags.address, "--debug-address")
    check_address(address, flags.tls_certificate, flags.tls_key)
    guard_of = partial(_build_access, program, flags, address)
    listener = open_listener(address, "--debug-address")
    port, limit = listener.getsockname()[1], program.port_shares["debug"]
    log.info(
        "listening",
        flag="--debug-address",
        address=f"{address.host}:{port}",
        port=port,
        connections=limit,
    )
    return DebugServer(
        lambda: build(guard_of),
        listener,
        load_tls(flags.tls_certificate, flags.tls_key, "--debug-tls"),
        limit=limit,
        clock=program.clock,
        observe=program.metrics.ports.of_port("debug"),
    )


def _build_access(
    program: Program, flags: DebugFlags, address: Address, right_of: RightOf
) -> Guard:
    if not is_loopback(address):
        return ReviewedAccess(program.reviewer, right_of)
    # A certificate names the valid hosts: a name that resolves elsewhere is not among them.
    return open_access if flags.tls_certificate else LocalAccess((*flags.hosts, address.host))
