"""Serves the debug API: a port like the others, and behind it uvicorn with the application.

`connection_gate` has the sockets that others reach, and workers of its own. A worker hands each
complete request to uvicorn (`app_server`), which runs its loop on a thread of its own, and waits
for the answer as a whole. Loopback addresses are served plainly. Any other address needs TLS.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from typing import Final

from starlette.applications import Starlette

from queue_scheduler.debug_api.app_server import AppServer
from shared_api.process.clock import Clock
from shared_api.process.connection_gate import ConnectionGate, Observer, Spawn
from shared_api.process.loop_thread import LoopThread
from shared_api.process.probes import Address, AddressError, load_tls

WORKERS: Final = 8
"""Requests that are answered at once. One of them builds its answer; the others wait for it, or for
the API server to say who asks."""


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
    load_tls(certificate, key, "--debug-tls")


class DebugServer:
    """The application behind a port.

    Args:
        app: What answers.
        listener: Open already.
        tls: Serves HTTPS with this context, where there is one.
        limit: How many connections there may be at once.
        clock: The time.
        observe: Told what became of each connection.
    """

    def __init__(
        self,
        app: Starlette,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        *,
        limit: int,
        clock: Clock,
        observe: Observer = lambda _: None,
    ) -> None:
        host, port = listener.getsockname()[:2]
        self._app_server = AppServer(
            app, server=(host, port), scheme="http" if tls is None else "https", clock=clock
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
