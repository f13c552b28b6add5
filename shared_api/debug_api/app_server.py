"""Serves the application on a socket that only this process can use.

A worker of the port calls it, with one connection per request, and reads the whole answer.
Application and uvicorn (`uvicorn_server`) are built at the first request: they take 15 MB and
0.15 s of CPU, and most replicas never get a request.

The socket is of AF_UNIX, so it opens no port. Its name is in the abstract namespace: it needs no
writable folder and no removal, and a crash leaves nothing behind. Such a name has no owner and no
mode, and every process in the network namespace can connect to it. So both ends ask the kernel
which process is at the other end, and close the connection unless it is this one.

The application gets the client's address, the scheme and the state of the request from the port,
separately from the connection: no header that a client sends can change them.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import structlog
from starlette.types import ASGIApp

from shared_api.debug_api.http_over_socket import (
    AnswerTooLargeError,
    BrokenAnswerError,
    exchange,
)
from shared_api.debug_api.peer_process import is_own_process
from shared_api.process.alarm import Alarm
from shared_api.process.clock import Clock
from shared_api.process.http_exchange import Answer, Request

ANSWER_SECONDS: Final = 60.0
"""Time limit of an answer: the API server alone is given 30 s to identify the reader."""

BACKLOG: Final = 64
"""Connections that wait until uvicorn has started: more than there are workers to connect."""

Problem = Callable[[HTTPStatus, str], Answer]
"""Returns a refusal, of a status and a text for a person."""

if TYPE_CHECKING:
    import uvicorn

log = structlog.get_logger("debug_api")


class AppServer:
    """The application behind a private socket.

    Args:
        build: Returns the application. Called once, at the first request, on the thread of `step`.
        server: The address and port that the application sees as its own.
        scheme: The scheme that it sees.
        clock: The time, for deadlines.
        problem: Makes the refusals, in the format of the application's own.
    """

    def __init__(
        self,
        build: Callable[[], ASGIApp],
        *,
        server: tuple[str, int],
        scheme: Literal["http", "https"],
        clock: Clock,
        problem: Problem | None = None,
    ) -> None:
        self._build = build
        self._problem = problem or _problem
        self._told = (server, scheme)
        self._clock = clock
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("")  # the kernel picks a free name
        self._listener.listen(BACKLOG)
        self.name: bytes = self._listener.getsockname()
        # Name of the socket that sends a request -> the request. Workers write, uvicorn's thread
        # reads; each access is a single operation on the dict.
        self._requests: dict[bytes, Request] = {}
        self._has_begun = False
        self._wanted = Alarm()  # set by the first request, or by `end`
        self._has_ended = False
        self._server: uvicorn.Server | None = None

    def step(self) -> None:
        """Wait for the first request, then serve until `end`; close the socket at the end."""
        self._has_begun = True
        self._wanted.wait(None)
        if not self._has_ended:
            self._server = self._make_server()
        # `end` sets _has_ended first and then reads _server, here it is the other way round: at
        # least one of the two sees the other's value.
        if self._server is None or self._has_ended:
            self._listener.close()
        else:
            self._server.run(sockets=[self._listener])

    def _make_server(self) -> uvicorn.Server:
        from shared_api.debug_api.uvicorn_server import make_server  # noqa: PLC0415 - costly, see above

        server, scheme = self._told
        return make_server(self._build(), self._requests, server=server, scheme=scheme)

    def end(self) -> None:
        """Make `step` return within about `GRACE_SECONDS` of uvicorn; callable from any thread."""
        self._has_ended = True
        if self._server is not None:
            self._server.should_exit = True
        if not self._has_begun:
            self._listener.close()
        self._wanted.set()

    def ask(self, request: Request) -> Answer:
        """Return the application's answer, or an error; callable from any worker's thread."""
        self._wanted.set()  # the connection waits in the backlog until uvicorn has started
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.bind("")
                name = connection.getsockname()
                self._requests[name] = request
                try:
                    return self._exchange(connection, request)
                finally:  # before the socket closes and another process can take the name
                    del self._requests[name]
        except TimeoutError:
            return self._problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"the answer took longer than {ANSWER_SECONDS:g} s: ask again, "
                "or for less with ?limit=",
            )
        except AnswerTooLargeError as error:
            return self._problem(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        except (OSError, BrokenAnswerError) as error:
            log.warning("an answer broke off", path=request.target, error=repr(error))
            return self._problem(HTTPStatus.SERVICE_UNAVAILABLE, "the answer broke off: ask again")

    def _exchange(self, connection: socket.socket, request: Request) -> Answer:
        until = self._clock.monotonic() + ANSWER_SECONDS
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(self.name)
        if not is_own_process(connection):
            msg = "another process has the name of the socket"
            raise ConnectionRefusedError(msg)
        return exchange(connection, request, self._clock, until)


def _problem(status: HTTPStatus, detail: str) -> Answer:
    """Return a refusal in the format of the application's own."""
    return Answer(status, msgspec.json.encode({"detail": detail}), "application/json")
