"""uvicorn with the application, on the private socket of `app_server`.

Imported at the first question only. What the application hears of a client (address, scheme) is
what the port knows, and no header that a client sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from shared_api.debug_api.peer_process import is_own_process
from shared_api.process.http_exchange import Client

GRACE_SECONDS: Final = 2
"""What answers that are being made are given when the server ends; then they are cancelled."""

log = structlog.get_logger("debug_api")


def make_server(
    app: ASGIApp,
    clients: Mapping[bytes, Client | None],
    *,
    server: tuple[str, int],
    scheme: Literal["http", "https"],
) -> uvicorn.Server:
    """Return a server of the application, not started.

    Args:
        app: What answers.
        clients: Whose request comes from which name of a socket.
        server: The address and port that the application is told it is served on.
        scheme: The scheme that it is told.
    """
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            # On h11, the stricter one of uvicorn's two: what the port took for a request is
            # judged once more.
            http=_protocol_for(clients, server, scheme),
            ws="none",
            lifespan="off",
            # Else X-Forwarded-For, which anybody can send, would be the client.
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )


def _protocol_for(
    clients: Mapping[bytes, Client | None],
    server: tuple[str, int],
    scheme: Literal["http", "https"],
) -> type[H11Protocol]:
    """Return uvicorn's protocol for connections from this process."""

    class OwnConnection(H11Protocol):
        """Knows which client's request it carries."""

        def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - a type of the framework's loop
            super().connection_made(transport)
            if not is_own_process(transport.get_extra_info("socket")):
                log.warning("another process asks on the private socket, and is not answered")
                transport.abort()
            self.client = clients.get(transport.get_extra_info("peername"))
            self.server = server
            self.scheme = scheme

    return OwnConnection
