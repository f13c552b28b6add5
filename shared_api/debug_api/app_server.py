"""Serves the application on a socket that only this process can use.

A worker of the port calls it, with one connection per request, and reads the whole answer.
Application and uvicorn (`uvicorn_server`) are built at the first request: they take 15 MB and
0.15 s of CPU, and most replicas never get a request.

The socket is of AF_UNIX, so it opens no port. Its name is in the abstract namespace: it needs no
writable folder and no removal, and a crash leaves nothing behind. Such a name has no owner and no
mode, and every process in the network namespace can connect to it. So both ends ask the kernel
which process is at the other end, and close the connection unless it is this one.

The application gets the client's address and scheme from the port, separately from the connection:
no header that a client sends can change them.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal

import httptools
import msgspec
import structlog
from starlette.types import ASGIApp

from shared_api.debug_api.peer_process import is_own_process
from shared_api.process.alarm import Alarm
from shared_api.process.clock import Clock
from shared_api.process.http_exchange import Answer, Client, Request

ANSWER_SECONDS: Final = 60.0
"""Time limit of an answer: the API server alone is given 30 s to identify the reader."""

MAX_ANSWER_BYTES: Final = 33_554_432
"""32 MiB, head included: enough for a hundred thousand pending units under upstream's path. Eight
such answers at once are half of the memory that the chart gives the scheduler."""

BACKLOG: Final = 64
"""Connections that wait until uvicorn has started: more than there are workers to connect."""

RECEIVE_BYTES: Final = 65_536

_PASSED_ON_NEVER: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that are not forwarded: about the client's connection, or about how a body is sent."""

_LENGTHS: Final = frozenset({"content-length", "transfer-encoding"})
"""Headers that say where a body ends."""

_WRITTEN_BY_THE_PORT: Final = frozenset(
    {"connection", "content-type", "date", "keep-alive", *_LENGTHS}
)

_LINE_ENDS: Final = re.compile(r"\s*[\r\n]+\s*")

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
    """

    def __init__(
        self,
        build: Callable[[], ASGIApp],
        *,
        server: tuple[str, int],
        scheme: Literal["http", "https"],
        clock: Clock,
    ) -> None:
        self._build = build
        self._told = (server, scheme)
        self._clock = clock
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("")  # the kernel picks a free name
        self._listener.listen(BACKLOG)
        self.name: bytes = self._listener.getsockname()
        # Name of the socket that sends a request -> client of the request. Workers write, uvicorn's
        # thread reads; each access is a single operation on the dict.
        self._clients: dict[bytes, Client | None] = {}
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
        return make_server(self._build(), self._clients, server=server, scheme=scheme)

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
                self._clients[name] = request.client
                try:
                    return self._exchange(connection, request)
                finally:  # before the socket closes and another process can take the name
                    del self._clients[name]
        except TimeoutError:
            return _problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"the answer took longer than {ANSWER_SECONDS:g} s: ask again, "
                "or for less with ?limit=",
            )
        except (OSError, httptools.HttpParserError) as error:
            log.warning("an answer broke off", path=request.target, error=repr(error))
            return _problem(HTTPStatus.SERVICE_UNAVAILABLE, "the answer broke off: ask again")

    def _exchange(self, connection: socket.socket, request: Request) -> Answer:
        until = self._clock.monotonic() + ANSWER_SECONDS
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(self.name)
        if not is_own_process(connection):
            msg = "another process has the name of the socket"
            raise ConnectionRefusedError(msg)
        connection.sendall(encode_request(request))
        reader = _AnswerReader(has_body=request.method != "HEAD")
        while not reader.is_complete:
            left = until - self._clock.monotonic()
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
            piece = connection.recv(RECEIVE_BYTES)
            if piece:
                reader.feed(piece)
            else:
                reader.end()
            if reader.received > MAX_ANSWER_BYTES:
                return _problem(
                    HTTPStatus.INTERNAL_SERVER_ERROR,
                    f"the answer is larger than {MAX_ANSWER_BYTES} bytes: "
                    "ask for less with ?limit=",
                )
        return reader.answer()


def encode_request(request: Request) -> bytes:
    """Return the bytes of a request to uvicorn.

    A header value that was folded over several lines becomes one line, so that one header of a
    client never becomes two. The length of a body is that of the bytes that the port received.
    """
    passed_on = {
        name: value for name, value in request.headers.items() if name not in _PASSED_ON_NEVER
    }
    lines = [
        f"{request.method} {request.target} HTTP/1.1",
        "connection: close",
        *(() if "host" in passed_on else ("host:",)),  # required; empty means unknown
        *(f"{name}: {_LINE_ENDS.sub(' ', value)}" for name, value in passed_on.items()),
        *((f"content-length: {len(request.body)}",) if request.method == "POST" else ()),
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + request.body


class _AnswerReader:
    """Assembles an answer; httptools calls its `on_` methods."""

    def __init__(self, *, has_body: bool) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._has_body = has_body
        self._status = 0
        self._headers: list[tuple[str, str]] = []
        self._parts: list[bytes] = []
        self.received = 0
        self.is_complete = False

    def feed(self, piece: bytes) -> None:
        """Receive a piece of the response."""
        self.received += len(piece)
        self._parser.feed_data(piece)

    def end(self) -> None:
        """Handle the end of the connection.

        Raises:
            ConnectionResetError: The answer is not complete.
        """
        names = {name.lower() for name, _ in self._headers}
        # uvicorn's answer to a request that is not HTTP ends with the connection.
        self.is_complete = bool(self._status) and not names & _LENGTHS
        if not self.is_complete:
            msg = "no more of it came"
            raise ConnectionResetError(msg)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        # An answer to HEAD states the length of a body that is not sent.
        self.is_complete = not self._has_body

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        self.is_complete = True

    def answer(self) -> Answer:
        """Return the whole answer, once it is complete."""
        named = {name.lower(): value for name, value in self._headers}
        length = None if self._has_body else int(named.get("content-length", "0"))
        return Answer(
            self._status,
            b"".join(self._parts),
            named.get("content-type", "text/plain; charset=utf-8"),
            tuple(pair for pair in self._headers if pair[0].lower() not in _WRITTEN_BY_THE_PORT),
            length,
        )


def _problem(status: HTTPStatus, detail: str) -> Answer:
    """Return a refusal in the format of the application's own."""
    return Answer(status, msgspec.json.encode({"detail": detail}), "application/json")
