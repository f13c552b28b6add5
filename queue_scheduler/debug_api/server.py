"""Serves the debug API with uvicorn, on a thread of its own.

uvicorn runs its loop inside that thread; the rest of the program sees a step that lasts until
`close`. Loopback addresses are served plainly. Any other address needs TLS.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from shared_api.process.probes import Address, AddressError, load_tls

MAX_CONNECTIONS: Final = 256
"""Of all clients together; more are closed at once. A process may have no more than 1024 sockets,
and needs some of them for its own requests."""

CONNECTION_SECONDS: Final = 60.0
"""How long one connection may take in all, however slowly it sends or reads."""

GRACE_SECONDS: Final = 2
"""What requests under way are given when the server closes."""


def is_loopback(address: Address) -> bool:
    """Say whether only this machine reaches the address."""
    if address.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return False


def check_address(address: Address, certificate: str, key: str) -> None:
    """Refuse to serve the cluster without TLS, or with a certificate that can not be used.

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
    # uvicorn reads them on its own thread, when it is too late to refuse to start.
    load_tls(certificate, key, "--debug-tls")


class _Connection(H11Protocol):
    """One of at most `MAX_CONNECTIONS`, for `CONNECTION_SECONDS`."""

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - a type of the framework's loop
        super().connection_made(transport)
        full = len(self.connections) > MAX_CONNECTIONS
        self._end = self.loop.call_later(0.0 if full else CONNECTION_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end.cancel()
        super().connection_lost(exc)


class DebugServer:
    """One uvicorn server on a socket that is open already."""

    def __init__(self, app: Starlette, listener: socket.socket, certificate: str, key: str) -> None:
        # Connections inherit it. uvicorn sends head and body apart: without it the body of every
        # answer waits 40 ms for the other side's delayed acknowledgement of the head.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._listener = listener
        self._has_begun = False
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                # Not httptools, which is faster and takes in a path of any length.
                http=_Connection,
                lifespan="off",
                ssl_certfile=certificate or None,
                ssl_keyfile=key or None,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )

    def step(self) -> None:
        """Serve until `close`; uvicorn closes the socket."""
        self._has_begun = True
        self._server.run(sockets=[self._listener])

    def close(self) -> None:
        """Let the server end; `step` returns soon after. From any thread."""
        self._server.should_exit = True
        if not self._has_begun:
            self._listener.close()
