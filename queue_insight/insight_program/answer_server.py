"""Serves the routes on a local socket, with uvicorn, which is imported at the first question."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp

from shared_api.process.local_socket import wait_readable

if TYPE_CHECKING:
    import uvicorn

REST_SECONDS: Final = 0.5
"""Longest wait for the first question, and so the longest delay of a stop before it."""


class AnswerServer:
    """The step of the thread that answers.

    Args:
        listener: The socket for questions.
        build: Returns the application; called at the first question.
    """

    def __init__(self, listener: socket.socket, build: Callable[[], ASGIApp]) -> None:
        self._listener = listener
        self._build = build
        self._has_ended = False
        self._server: uvicorn.Server | None = None

    def step(self) -> float:
        """Wait for the first question, then serve until `end`."""
        if not wait_readable([self._listener], REST_SECONDS):
            return 0.0
        from queue_insight.insight_program.uvicorn_server import make_server  # noqa: PLC0415 - costly, see above

        self._server = make_server(self._build())
        # `end` sets _has_ended first and then reads _server, here it is the other way round: at
        # least one of the two sees the other's value.
        if not self._has_ended:
            self._server.run(sockets=[self._listener])
        return 0.0

    def end(self) -> None:
        """Make `step` return within about two seconds; callable from any thread."""
        self._has_ended = True
        if self._server is not None:
            self._server.should_exit = True

    def close(self) -> None:
        """Stop to listen; call it after the thread has ended."""
        self._listener.close()
