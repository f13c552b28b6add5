"""One run of uvicorn, which another thread may end at any time, before it begins too."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import uvicorn  # its import is costly: whoever makes the server decides when


class UvicornRun:
    """Serves on a listener.

    Args:
        listener: The socket, already listening.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._has_ended = False
        self._server: uvicorn.Server | None = None

    def serve(self, server: uvicorn.Server) -> None:
        """Serve until `end`."""
        self._server = server
        # `end` sets _has_ended first and then reads _server, here it is the other way round: at
        # least one of the two sees the other's value.
        if not self._has_ended:
            server.run(sockets=[self._listener])

    def end(self) -> None:
        """Make `serve` return within the grace time of its server; callable from any thread."""
        self._has_ended = True
        if self._server is not None:
            self._server.should_exit = True

    def close(self) -> None:
        """Stop to listen; call it after the thread that serves has ended."""
        self._listener.close()
