"""One client of a port, as cheap as it can be, so that a flood costs the server and not itself."""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from io import BufferedReader
from typing import Final, NamedTuple, Self

NO_ANSWER: Final = 0
"""The status of a request whose connection was refused, reset, or silent for too long."""
PIECE_BYTES: Final = 65_536

NEW_TOKEN: Final = "@A-TOKEN-THAT-NOBODY-HAS-SEEN@"
"""In a question: replaced by another text of the same length each time it is asked."""
PAST_MOMENT: Final = "@A-MOMENT-OF-THE-PAST@"
"""In the target of a question: replaced by a time since the world began (RFC 3339)."""


class Endpoint(NamedTuple):
    """A port of this machine."""

    port: int
    is_tls: bool = False
    host: str = "127.0.0.1"

    @property
    def name(self) -> str:
        """What requests name in their header Host."""
        return f"{self.host}:{self.port}"


class Question(NamedTuple):
    """A request. `name` is for people; texts may hold `NEW_TOKEN` and `PAST_MOMENT`."""

    name: str
    target: str
    headers: Mapping[str, str]
    method: str = "GET"
    body: str = ""


class Asker:
    """Makes the requests of one client.

    Args:
        rng: What it draws tokens and moments from.
        since: When the past begins.
    """

    def __init__(self, rng: random.Random, since: datetime) -> None:
        self._rng = rng
        self._since = since

    def encode(self, question: Question, host: str) -> bytes:
        """Return a request, as it is sent."""
        body = question.body.encode()
        lines = [f"{question.method} {question.target} HTTP/1.1", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in question.headers.items()]
        if body or question.method != "GET":
            lines.append(f"Content-Length: {len(body)}")
        text = "\r\n".join([*lines, "", ""]) + question.body
        if NEW_TOKEN in text:
            text = text.replace(NEW_TOKEN, f"{self._rng.getrandbits(120):0{len(NEW_TOKEN)}x}")
        if PAST_MOMENT in text:
            text = text.replace(PAST_MOMENT, self._some_moment())
        return text.encode()

    def _some_moment(self) -> str:
        age = datetime.now(UTC) - self._since
        then = self._since + timedelta(seconds=self._rng.uniform(0, age.total_seconds()))
        return then.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def lenient_context() -> ssl.SSLContext:
    """Return a context that trusts any server: the authorities of the ports differ."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Connection:
    """A client of one port, which connects again when the server has closed.

    Args:
        endpoint: The port.
        seconds: The longest silence.
        source: The address of this machine that it comes from.
        context: For TLS; made once for many, since that takes longer than a handshake.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        seconds: float,
        source: str = "127.0.0.1",
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._seconds = seconds
        self._source = source
        self._context = context or lenient_context()
        self._socket: socket.socket | None = None
        self._reader: BufferedReader | None = None

    def __enter__(self) -> Self:
        """Connect later, with the first request."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def ask(self, request: bytes) -> int:
        """Send a request, and read all of the answer.

        Returns:
            The status, `NO_ANSWER` without one.
        """
        try:
            reader = self._reader or self._connect()
            assert self._socket is not None, "it is connected"
            self._socket.sendall(request)
            status, stays_open = _read_answer(reader)
        except (OSError, ValueError, EOFError):
            self.close()
            return NO_ANSWER
        if not stays_open:
            self.close()
        return status

    def close(self) -> None:
        """End the connection, if there is one."""
        for each in (self._reader, self._socket):
            if each is not None:
                each.close()
        self._reader = self._socket = None

    def _connect(self) -> BufferedReader:
        host, port = self._endpoint.host, self._endpoint.port
        made = socket.create_connection((host, port), self._seconds, (self._source, 0))
        self._socket = made
        if self._endpoint.is_tls:
            self._socket = self._context.wrap_socket(made, server_hostname=host)
        self._reader = self._socket.makefile("rb")
        return self._reader


def _read_answer(reader: BufferedReader) -> tuple[int, bool]:
    """Return the status of an answer, and whether another may follow on this connection."""
    status = int(_line(reader).split(b" ", 2)[1])
    headers = dict[bytes, bytes]()
    while line := _line(reader).strip():
        name, _, value = line.partition(b":")
        headers[name.lower()] = value.strip().lower()
    stays_open = headers.get(b"connection") != b"close"
    if headers.get(b"transfer-encoding") == b"chunked":
        while size := int(_line(reader).strip(), 16):
            _skip(reader, size + 2)
        _line(reader)
    elif b"content-length" in headers:
        _skip(reader, int(headers[b"content-length"]))
    else:
        while reader.read(PIECE_BYTES):
            pass
        stays_open = False
    return status, stays_open


def _line(reader: BufferedReader) -> bytes:
    line = reader.readline(PIECE_BYTES)
    if not line.endswith(b"\n"):
        raise EOFError
    return line


def _skip(reader: BufferedReader, count: int) -> None:
    while count:
        piece = reader.read(min(count, PIECE_BYTES))
        if not piece:
            raise EOFError
        count -= len(piece)
