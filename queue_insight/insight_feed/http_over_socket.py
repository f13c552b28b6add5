"""One HTTP request over a connected local socket, and its whole answer."""

from __future__ import annotations

import socket
from typing import Final

import httptools

from shared_api.process.clock import Clock
from shared_api.process.http_exchange import (
    MAX_ANSWER_BYTES,
    Answer,
    AnswerTooLargeError,
    BrokenAnswerError,
    Request,
)

RECEIVE_BYTES: Final = 65_536

_LENGTHS: Final = frozenset({"content-length", "transfer-encoding"})
"""Headers that say where a body ends."""


def exchange(connection: socket.socket, request: Request, clock: Clock, until: float) -> Answer:
    """Return the answer to a request.

    Args:
        connection: A connected socket, used for this request only.
        request: The request.
        clock: The time.
        until: When the answer must be complete, in monotonic seconds.

    Raises:
        TimeoutError: It is not complete in time.
        AnswerTooLargeError: It is too large.
        BrokenAnswerError: It is not HTTP.
        OSError: The connection ended before it was complete.
    """
    connection.sendall(encode_request(request))
    reader = _AnswerReader()
    while not reader.is_complete:
        left = until - clock.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        piece = connection.recv(RECEIVE_BYTES)
        if piece:
            reader.feed(piece)
        else:
            reader.end()
        if reader.received > MAX_ANSWER_BYTES:
            raise AnswerTooLargeError(MAX_ANSWER_BYTES)
    return reader.answer()


def encode_request(request: Request) -> bytes:
    """Return the bytes of a request: a GET, or a POST with a body.

    Args:
        request: The request. Values of its headers are printable ASCII.
    """
    lines = [
        f"{request.method} {request.target} HTTP/1.1",
        "connection: close",
        "host:",  # required; empty means unknown
        *(f"{name}: {value}" for name, value in request.headers.items()),
        *((f"content-length: {len(request.body)}",) if request.method == "POST" else ()),
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + request.body


class _AnswerReader:
    """Assembles an answer; httptools calls its `on_` methods."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._status = 0
        self._headers: list[tuple[str, str]] = []
        self._parts: list[bytes] = []
        self.received = 0
        self.is_complete = False

    def feed(self, piece: bytes) -> None:
        """Receive a piece of the response.

        Raises:
            BrokenAnswerError: It is not HTTP.
        """
        self.received += len(piece)
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserError as error:
            raise BrokenAnswerError(repr(error)) from error

    def end(self) -> None:
        """Handle the end of the connection.

        Raises:
            ConnectionResetError: The answer is not complete.
        """
        names = {name.lower() for name, _ in self._headers}
        # uvicorn's answer to a request that is not HTTP ends with the connection.
        self.is_complete = bool(self._status) and not names & _LENGTHS
        if not self.is_complete:
            raise ConnectionResetError("no more of it came")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        self.is_complete = True

    def answer(self) -> Answer:
        """Return the whole answer, once it is complete."""
        named = {name.lower(): value for name, value in self._headers}
        return Answer(
            self._status,
            b"".join(self._parts),
            named.get("content-type", "text/plain; charset=utf-8"),
            tuple(self._headers),
        )
