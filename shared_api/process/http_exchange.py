"""One HTTP request and its answer as values; sockets are read and written elsewhere.

The ports of both programs serve little: GET, and on ports that take one a POST with a body of a
stated length. Most have one request per connection: the answer says HTTP/1.0 and ends it, so they
keep no idle connection. On no port does a request wait behind another of its connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from email.utils import format_datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import Any, Final

import msgspec

MAX_HEAD_BYTES: Final = 32_768
"""Longest request line and headers together: a service account's token has one or two thousand
bytes, those of some identity providers ten times as many."""

MAX_ANSWER_BYTES: Final = 33_554_432
"""32 MiB: enough for a hundred thousand pending units under upstream's path. Eight such answers at
once are half of the memory that the chart gives the scheduler."""

Client = tuple[str, int]
"""Address and port of the client."""

_ENDS: Final = (b"\r\n\r\n", b"\n\n")

MAX_LENGTH_DIGITS: Final = 10
"""The digits of a Content-Length that are read; the first ten already make a gigabyte or more.
Python refuses to read numbers of thousands of digits."""


class Request(msgspec.Struct, frozen=True):
    """A request.

    Attributes:
        method: "GET".
        target: Path and query, as sent.
        headers: Values by name in lower case; the last one where a name is repeated.
        client: Address and port of the client, taken from the socket and never from a header; None
            when unknown.
        body: What a POST sends; empty for other methods, whose bodies are not read.
        lines: Every header in the order sent, names in lower case; empty where only `headers` is
            read.
        certificate: The client's certificate (DER), which one of the port's authorities has signed;
            empty without one.
        state: What the application gets as the state of the request.
        keep_alive: Whether the client would send another request on its connection.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    client: Client | None = None
    body: bytes = b""
    lines: tuple[tuple[str, str], ...] = ()
    certificate: bytes = b""
    state: Mapping[str, Any] = {}
    keep_alive: bool = False


class Answer(msgspec.Struct, frozen=True):
    """An answer.

    Attributes:
        status: HTTP status code.
        body: Content; empty where only the head is sent.
        content_type: Media type of the body.
        headers: Additional headers.
        length: Length of the body in bytes where `body` holds none of it, as for HEAD; None counts
            `body`.
    """

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    length: int | None = None


class BadRequestError(ValueError):
    """The client has not sent a valid request; carries the answer to send."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.body.decode())
        self.answer = answer


class AnswerTooLargeError(ValueError):
    """An answer is too long; the message says so to its reader."""

    def __init__(self, most: int) -> None:
        super().__init__(f"the answer is larger than {most} bytes: ask for less with ?limit=")


class BrokenAnswerError(ValueError):
    """There is no whole answer, and none will come."""


def is_head_complete(received: bytes | bytearray) -> bool:
    """Return whether the empty line after the headers has been received."""
    return any(end in received for end in _ENDS)


def head_length(received: bytes | bytearray) -> int:
    """Return how many bytes the request line, the headers and the empty line after them have.

    Raises:
        ValueError: The empty line has not been received.
    """
    return min(at + len(end) for end in _ENDS if (at := received.find(end)) >= 0)


def body_length(request: Request) -> int:
    """Return how many bytes of a body belong to a request; only a POST has any.

    Raises:
        BadRequestError: The length is not stated (411), or is not a number (400).
    """
    if request.method != "POST":
        return 0
    if "transfer-encoding" in request.headers:
        raise BadRequestError(
            text_answer(HTTPStatus.LENGTH_REQUIRED, "send the header Content-Length")
        )
    stated = request.headers.get("content-length", "0")
    if not (stated.isascii() and stated.isdecimal()):
        raise BadRequestError(text_answer(HTTPStatus.BAD_REQUEST, "Content-Length is not a number"))
    return int(stated.lstrip("0")[:MAX_LENGTH_DIGITS] or "0")


def read_request(head: bytes, client: Client | None = None) -> Request:
    """Return the request that a client has sent, parsed from its head.

    Raises:
        BadRequestError: The bytes are not a valid request.
    """
    read = _HeadReader(head)
    if read.refused is not None:
        raise BadRequestError(read.refused)
    headers = {name.lower(): value.strip() for name, value in read.headers.items()}
    return Request(read.command, read.path, headers, client)


def text_answer(status: HTTPStatus, detail: str = "") -> Answer:
    """Return an answer with one line of text."""
    return Answer(status.value, f"{status.value} {detail or status.phrase}\n".encode())


def encode(
    answer: Answer, now: datetime, *, with_body: bool = True, keep_alive: bool = False
) -> bytes:
    """Return the bytes to send.

    Args:
        answer: The answer.
        now: The time.
        with_body: Whether the body is sent: not for HEAD.
        keep_alive: Whether the connection stays open for another request.
    """
    length = len(answer.body) if answer.length is None else answer.length
    lines = [
        f"HTTP/{'1.1' if keep_alive else '1.0'} {answer.status} {_phrase_of(answer.status)}",
        f"Date: {format_datetime(now, usegmt=True)}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {length}",
        "X-Content-Type-Options: nosniff",
        f"Connection: {'keep-alive' if keep_alive else 'close'}",
        *(f"{name}: {value}" for name, value in answer.headers),
    ]
    head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return head + answer.body if with_body else head


def _phrase_of(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


class _HeadReader(BaseHTTPRequestHandler):
    """The standard library's parser of request lines and headers, without a socket."""

    def __init__(self, head: bytes) -> None:
        # The base class's constructor is not called: it would serve the connection.
        self.refused: Answer | None = None
        self.rfile = BytesIO(head.lstrip(b"\r\n"))
        self.raw_requestline = self.rfile.readline()
        if not self.parse_request() and self.refused is None:
            self.refused = text_answer(HTTPStatus.BAD_REQUEST)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Record the error, where the base class would send it."""
        self.refused = text_answer(HTTPStatus(code), " ".join((message or "").split()))
