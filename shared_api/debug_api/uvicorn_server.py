"""Runs uvicorn with the application, on the private socket of `app_server`.

It is imported only at the first request. The application gets the client's address and scheme from
the port, never from a header that a client sends.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from shared_api.debug_api.peer_process import is_own_process
from shared_api.process.http_exchange import Request

GRACE_SECONDS: Final = 2
"""Time for answers in progress when the server ends; after it they are cancelled."""

log = structlog.get_logger("debug_api")


def make_server(
    app: ASGIApp,
    requests: Mapping[bytes, Request],
    *,
    server: tuple[str, int],
    scheme: Literal["http", "https"],
    may_ask: Callable[[socket.socket], bool] = is_own_process,
) -> uvicorn.Server:
    """Return a server of the application, not yet started.

    Args:
        app: The application.
        requests: Name of the socket that sends a request -> the request, for its client and state.
        server: The address and port that the application sees as its own.
        scheme: The scheme that it sees.
        may_ask: Returns whether the process at the other end of a connection is answered.
    """
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            # h11 is the stricter of uvicorn's two parsers: it checks once more what the port
            # accepted as a request.
            http=_protocol_for(requests, server, scheme, may_ask),
            ws="none",
            lifespan="off",
            # Otherwise X-Forwarded-For, which any client can send, would set the client's address.
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )


def _protocol_for(
    requests: Mapping[bytes, Request],
    server: tuple[str, int],
    scheme: Literal["http", "https"],
    may_ask: Callable[[socket.socket], bool],
) -> type[H11Protocol]:
    """Return uvicorn's protocol for connections from processes that may ask."""

    class OwnConnection(H11Protocol):
        """A connection that knows the client of its request."""

        def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - a type of the framework's loop
            super().connection_made(transport)
            if not may_ask(transport.get_extra_info("socket")):
                log.warning("another process asks on the private socket, and is not answered")
                transport.abort()
            request = requests.get(transport.get_extra_info("peername"))
            if request is not None:
                self.client = request.client
                self.app_state = dict(request.state)
            self.server = server
            self.scheme = scheme

    return OwnConnection
