"""One HTTP request and its answer as values; the bytes are read and written elsewhere.

What a port of ours serves is small: GET, no body, one request per connection (the answer says
HTTP/1.0 and ends it). So nothing idle is kept, and nothing waits behind another request.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from email.utils import format_datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import Final

import msgspec

MAX_HEAD_BYTES: Final = 32_768
"""Of request line and headers together: a service account's token has one or two thousand bytes,
those of some identity providers ten times as many."""

Client = tuple[str, int]
"""Address and port of the client."""

_ENDS: Final = (b"\r\n\r\n", b"\n\n")


class Request(msgspec.Struct, frozen=True):
    """A request without its body.

    Attributes:
        method: "GET".
        target: Path and query, as sent.
        headers: By name in lower case; of one that comes twice, the last.
        client: Who has connected; None: unknown. Of the socket, never of a header.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    client: Client | None = None


class Answer(msgspec.Struct, frozen=True):
    """An answer.

    Attributes:
        status: HTTP's status code.
        body: What is said.
        content_type: Of the body.
        headers: Further ones.
        length: Of the body in bytes, where only the head is here, as for HEAD.
    """

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    length: int | None = None


class BadRequestError(ValueError):
    """What was sent is no request; carries what is answered."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.body.decode())
        self.answer = answer


def is_head_complete(received: bytes | bytearray) -> bool:
    """Return whether the empty line behind the headers is there."""
    return any(end in received for end in _ENDS)


def read_request(head: bytes, client: Client | None = None) -> Request:
    """Read the head of a request that a client has sent.

    Raises:
        BadRequestError: It is none.
    """
    read = _HeadReader(head)
    if read.refused is not None:
        raise BadRequestError(read.refused)
    headers = {name.lower(): value.strip() for name, value in read.headers.items()}
    return Request(read.command, read.path, headers, client)


def say(status: HTTPStatus, detail: str = "") -> Answer:
    """Return an answer of one line."""
    return Answer(status.value, f"{status.value} {detail or status.phrase}\n".encode())


def encode(answer: Answer, now: datetime, *, with_body: bool = True) -> bytes:
    """Return the answer as it is sent."""
    length = len(answer.body) if answer.length is None else answer.length
    lines = [
        f"HTTP/1.0 {answer.status} {_phrase_of(answer.status)}",
        f"Date: {format_datetime(now, usegmt=True)}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {length}",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
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
    """The standard library's reader of request lines and headers, without a socket."""

    def __init__(self, head: bytes) -> None:
        # Not the base's, which would serve the connection.
        self.refused: Answer | None = None
        self.rfile = BytesIO(head.lstrip(b"\r\n"))
        self.raw_requestline = self.rfile.readline()
        if not self.parse_request() and self.refused is None:
            self.refused = say(HTTPStatus.BAD_REQUEST)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Note what is wrong, where the base class would send it."""
        self.refused = say(HTTPStatus(code), " ".join((message or "").split()))
