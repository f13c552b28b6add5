"""The port of the page: uvicorn itself, since streams of events do not end.

The other ports have a gate that makes whole answers (`shared_api.process.connection_gate`). Here
the protocol keeps what that gate does: a bound on connections, and a time for the head of a
request; and ``tls_acceptor`` bounds the handshakes before them.
"""

from __future__ import annotations

import asyncio  # noqa: TID251 - the framework's own loop
import socket
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from queue_scheduler.page.renewed_certificate import RenewedCertificate
from queue_scheduler.page.tls_acceptor import Places, TlsAcceptor
from shared_api.process.connection_gate import Outcome
from shared_api.process.loop_thread import Step

HEAD_SECONDS: Final = 5.0
"""Time from a connection, after its TLS handshake, to its first request."""
KEEP_SECONDS: Final = 10
"""For how long a connection is kept for the next request."""
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
        places: How many handshakes may be unfinished.
        observe: Called with the outcome of each connection without a handshake.
    """

    certificate: RenewedCertificate
    places: Places = Places()
    observe: Callable[[Outcome], None] = lambda _: None


class PageServer:
    """Serves the application; its `step` is a thread of its own.

    Args:
        build: Returns the application; called on that thread when it begins.
        listener: The socket of the port, already listening.
        tls: How HTTPS is served; None serves HTTP.
        limit: Most connections at once.
    """

    def __init__(
        self,
        build: Callable[[], ASGIApp],
        listener: socket.socket,
        tls: Tls | None,
        limit: int,
    ) -> None:
        self._build = build
        self._listener = listener
        self._tls = tls
        self._limit = limit
        self._has_ended = False
        self._server: uvicorn.Server | None = None

    @property
    def step(self) -> Step:
        """What serves until `end`."""
        return self._serve

    def _serve(self) -> float:
        config = uvicorn.Config(
            self._build(),
            log_config=None,
            access_log=False,
            http=_protocol_for(self._limit),
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
        self._server = _Server(config, self._tls)
        # `end` sets _has_ended first and then reads _server, here it is the other way round: at
        # least one of the two sees the other's value.
        if not self._has_ended:
            self._server.run(sockets=[self._listener])
        return 0.0

    def end(self) -> None:
        """Make the step return within about `GRACE_SECONDS`; callable from any thread."""
        self._has_ended = True
        if self._server is not None:
            self._server.should_exit = True

    def close(self) -> None:
        """Stop to listen; call it after the thread has ended."""
        self._listener.close()


class _Server(uvicorn.Server):
    """Begins to serve with bounds on TLS handshakes, and reads renewed certificates."""

    def __init__(self, config: uvicorn.Config, tls: Tls | None) -> None:
        super().__init__(config)
        self._tls = tls
        self.servers = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop, config = asyncio.get_running_loop(), self.config

        def connect() -> asyncio.Protocol:
            protocol: Any = config.http_protocol_class
            made: asyncio.Protocol = protocol(
                config=config, server_state=self.server_state, app_state={}
            )
            return made

        for each in sockets or ():
            if self._tls is None:
                self.servers.append(await loop.create_server(connect, sock=each))
            else:
                acceptor = TlsAcceptor(connect, each, *self._tls)
                self.servers.append(acceptor)  # type: ignore[arg-type]  # what uvicorn calls of it
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        if self._tls is not None and counter % LOOK_TICKS == 0:
            self._tls.certificate.look()
        return await super().on_tick(counter)


def _protocol_for(limit: int) -> type[H11Protocol]:
    """Return uvicorn's protocol for a port with so many connections at most."""

    class BoundedConnection(H11Protocol):
        """A connection that is closed if there are too many, or if no request comes on it."""

        def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - a type of the framework's loop
            super().connection_made(transport)
            if len(self.connections) > limit:
                transport.abort()
                return
            self.loop.call_later(HEAD_SECONDS, self._check_asked)

        def _check_asked(self) -> None:
            # As uvicorn declares it, it cannot be None; it is until the first request.
            if getattr(self, "cycle", None) is None:
                self.transport.abort()

    return BoundedConnection
