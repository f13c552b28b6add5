"""The port of the page: uvicorn itself, since streams of events do not end.

The other ports have a gate that makes whole answers (`shared_api.process.connection_gate`). Here
the protocol keeps what that gate does (``bounded_connection``): a bound on connections, and a time
for each thing that a client is waited for; and ``tls_acceptor`` bounds the handshakes before them.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - the framework's own loop
import socket
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog
import uvicorn
from starlette.types import ASGIApp

from queue_insight.debug_api.uvicorn_run import UvicornRun
from queue_insight.page.bounded_connection import KEEP_SECONDS, BoundedConnection, Line
from queue_insight.page.renewed_certificate import RenewedCertificate
from queue_insight.page.tls_acceptor import HandshakeLimits, TlsAcceptor
from shared_api.process.connection_gate import Observer

GRACE_SECONDS: Final = 2
"""Time for answers in progress when the server ends."""
MAX_HEAD_BYTES: Final = 32_768
LOOK_TICKS: Final = 100
"""Between two looks at the files of the certificate, in ticks of uvicorn: ten seconds."""

log = structlog.get_logger("page")


class Tls(NamedTuple):
    """How HTTPS is served.

    Attributes:
        certificate: What it is served with.
        limits: How many handshakes may be unfinished.
    """

    certificate: RenewedCertificate
    limits: HandshakeLimits = HandshakeLimits()


class PageServer:
    """Serves the application; its `step` is a thread of its own.

    Args:
        build: Returns the application; called on that thread when it begins.
        listener: The socket of the port, already listening.
        tls: How HTTPS is served; None serves HTTP.
        limit: Most connections at once.
        observe: Called with the outcome of each connection that is cut; of others, nothing is told.
    """

    def __init__(
        self,
        build: Callable[[], ASGIApp],
        listener: socket.socket,
        tls: Tls | None,
        limit: int,
        observe: Observer = lambda _: None,
    ) -> None:
        self._build = build
        self._tls = tls
        self._limit = limit
        self._observe = observe
        self._run = UvicornRun(listener)
        self.end, self.close = self._run.end, self._run.close

    def step(self) -> float:
        """Serve until `end`."""
        config = uvicorn.Config(
            self._build(),
            log_config=None,
            access_log=False,
            http=BoundedConnection,
            ws="none",
            lifespan="off",
            # Otherwise X-Forwarded-For, which any client can send, would set the client's address.
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        )
        config.load()
        self._run.serve(_Server(config, self._tls, Line(self._limit, self._observe)))
        return 0.0


class _Server(uvicorn.Server):
    """Begins to serve with bounds on TLS handshakes, and reads renewed certificates."""

    def __init__(self, config: uvicorn.Config, tls: Tls | None, line: Line) -> None:
        super().__init__(config)
        self._tls = tls
        self._line = line
        self.servers = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()

        def connect() -> asyncio.Protocol:
            return BoundedConnection(self._line, self.config, self.server_state)

        for each in sockets or ():
            if self._tls is None:
                self.servers.append(await loop.create_server(connect, sock=each))
            else:
                acceptor = TlsAcceptor(connect, each, *self._tls, self._line.observe)
                self.servers.append(acceptor)  # type: ignore[arg-type]  # what uvicorn calls of it
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        if self._tls is not None and counter % LOOK_TICKS == 0:
            self._tls.certificate.look()
        return await super().on_tick(counter)
