"""Runs uvicorn with the application, on a local socket; it is imported at the first question."""

from __future__ import annotations

from typing import Any, Final

import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from shared_api.process.local_socket import is_same_user

GRACE_SECONDS: Final = 2
"""Time for answers in progress when the server ends; after it they are canceled."""

NAME: Final = ("insight", 80)
"""What the application sees as its own address."""

log = structlog.get_logger("insight")


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Return a server of the application for processes of the same user, not yet started."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            http=_OwnConnection,
            ws="none",
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )


class _OwnConnection(H11Protocol):
    """A connection that is aborted unless a process of the same user is at its other end."""

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - a type of the framework's loop
        super().connection_made(transport)
        self.server = NAME
        if not is_same_user(transport.get_extra_info("socket")):
            log.warning("a process of another user asks on the local socket, and is not answered")
            transport.abort()
