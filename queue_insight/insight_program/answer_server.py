"""Serves the routes on a local socket, with uvicorn, which is imported at the first question."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp

from queue_insight.debug_api.uvicorn_run import UvicornRun
from shared_api.process.local_socket import wait_readable

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
        self._run = UvicornRun(listener)
        self.end, self.close = self._run.end, self._run.close

    def step(self) -> float:
        """Wait for the first question, then serve until `end`."""
        if not wait_readable([self._listener], REST_SECONDS):
            return 0.0
        from queue_insight.insight_program.uvicorn_server import make_server  # noqa: PLC0415 - costly, see above

        self._run.serve(make_server(self._build()))
        return 0.0
