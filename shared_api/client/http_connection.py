"""One HTTP/1.1 connection: sends a request, reads a response or a stream of lines.

It uses a plain socket and httptools because every write and every watch event of both programs
passes through it: a PATCH over TLS costs a quarter of the CPU that `http.client` takes, and a
fourteenth of the official client's (tests/benchmarks/client_transport.py measures it).

This module decides whether a request was *sent*. If `sendall` fails or times out, the kernel has
not accepted the last bytes, so the server has an incomplete request and cannot act on it: not sent.
Once `sendall` has returned, the outcome is unknown until a response arrives.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections import deque
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, cast

import httptools

from shared_api.client.errors import AnswerTooLarge, ConnectionLost, StreamIdle, Timeout
from shared_api.client.transport import Response

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared_api.process.clock import Clock

RECEIVE_BYTES: Final = 16_384
"""Most bytes per call: as many as a TLS record has, so that a call always takes it whole."""
MAX_HEAD_BYTES: Final = 262_144
"""Longest status line and headers together, or what follows a body; the API server's take less than
1 KiB."""
MAX_BODY_BYTES: Final = 268_435_456
"""256 MiB: a list page of 500 objects of half a MiB each, far more than etcd's limit makes
usual."""
MAX_LINE_BYTES: Final = 16_777_216
"""16 MiB for one watch event; etcd accepts objects of 1.5 MiB, or 8 MiB when so configured."""
TIMEOUT_STEP_SECONDS: Final = 0.05
"""Socket timeouts are rounded down to multiples of this: most calls then find the timeout already
set, which saves a system call. A call may end by this much before its deadline, never after it."""
POLL_SECONDS: Final = TIMEOUT_STEP_SECONDS
"""How long a read that does not wait for news waits for the rest of a TLS record, if no earlier
read of the stream has set a timeout. The request's own deadline would be half a minute."""
_FIRST_FINAL_STATUS: Final = 200
"""Lower ones are interim answers (100 Continue, 103 Early Hints), which are skipped."""


@lru_cache(maxsize=64)  # a server sends the same dozen with each answer
def _header_key(name: bytes) -> str:
    return name.decode("latin-1").lower()


class _BrokenResponseError(Exception):
    """What arrived is not an HTTP response, or exceeds a limit."""


class _TooLargeError(_BrokenResponseError):
    """The body has more bytes than the connection takes."""


class _ResponseParts:
    """Collects the parts of one response that the parser has found."""

    __slots__ = ("_max_body_bytes", "body", "body_bytes", "complete", "ends_with_connection",
                 "head_bytes", "headers", "keep_alive", "parser", "status", "surplus")  # fmt: skip

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self.parser = httptools.HttpResponseParser(self)
        self.reset()

    def reset(self) -> None:
        """Discard the last response."""
        self.status = 0
        """HTTP status code; 0 until the head is complete."""
        self.headers: dict[str, str] = {}
        self.head_bytes = 0
        self.body: list[bytes] = []
        self.body_bytes = 0
        self.complete = False
        self.surplus = False
        self.keep_alive = False
        self.ends_with_connection = False

    def feed(self, data: memoryview) -> None:
        """Parse bytes from the socket; none of them are kept.

        Raises:
            _BrokenResponseError: They do not belong to a response, or exceed a limit.
        """
        before = self.body_bytes
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self.complete:  # only bytes after the response are invalid
                self.surplus = True
                return
            raise _BrokenResponseError(f"not an HTTP response: {error}") from error
        # Headers follow a chunked body as well, and have no end of their own.
        self.head_bytes = self.head_bytes + len(data) if self.body_bytes == before else 0
        if self.head_bytes > MAX_HEAD_BYTES:
            raise _BrokenResponseError(f"a head of more than {MAX_HEAD_BYTES} bytes")
        if self.body_bytes > self._max_body_bytes:
            raise _TooLargeError(f"a body of more than {self._max_body_bytes} bytes")

    def take_body(self) -> list[bytes]:
        """Return the pieces that arrived since the last call."""
        pieces = self.body
        self.body = []
        self.body_bytes = 0
        return pieces

    # Called by the parser.

    def on_message_begin(self) -> None:
        # Bytes after the end of the expected response: such a connection must not be reused.
        self.surplus = self.complete

    def on_header(self, name: bytes, value: bytes) -> None:
        key = _header_key(name)
        text = value.decode("latin-1")
        known = self.headers.get(key)
        self.headers[key] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if status < _FIRST_FINAL_STATUS:
            self.headers = {}
            return
        self.status = status
        self.keep_alive = self.parser.should_keep_alive()
        self.ends_with_connection = (
            not self.keep_alive
            and "content-length" not in self.headers
            and "chunked" not in self.headers.get("transfer-encoding", "")
        )

    def on_body(self, data: bytes) -> None:
        self.body.append(data)
        self.body_bytes += len(data)

    def on_message_complete(self) -> None:
        self.complete = self.status != 0


class HttpConnection:
    """One connection, used by one thread at a time, for one request at a time."""

    def __init__(
        self, sock: socket.socket, clock: Clock, max_body_bytes: int = MAX_BODY_BYTES
    ) -> None:
        self.idle_since = clock.monotonic()
        self.answered = False
        """Whether any byte of the current response has arrived."""
        self._sock = sock
        self._clock = clock
        self._timeout = -1.0
        """Timeout of the socket in seconds; negative until it is set here."""
        self._parts = _ResponseParts(max_body_bytes)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        # One buffer for all reads. A new one for each would be shrunk to what arrived, and its rest
        # would be filled with whatever is allocated next, so that the heap grows for hours.
        buffer = bytearray(RECEIVE_BYTES)
        self._received = memoryview(buffer)
        self._read: Callable[[], int] = partial(sock.recv_into, buffer)
        if isinstance(sock, ssl.SSLSocket):
            # SSLSocket.recv_into only adds two calls to it. With a buffer it returns a number.
            self._read = cast("Callable[[], int]", partial(sock.read, RECEIVE_BYTES, buffer))

    @property
    def reusable(self) -> bool:
        """Whether another request may follow the response just read."""
        parts = self._parts
        return parts.complete and parts.keep_alive and not parts.surplus

    def is_stale(self) -> bool:
        """Return whether an idle connection has input, which can only mean that it was closed."""
        return bool(self._poll.poll(0))

    def has_input(self) -> bool:
        """Return whether bytes have arrived that were not received yet."""
        # No decrypted bytes wait inside the socket: each read takes a whole TLS record.
        return bool(self._poll.poll(0))

    def exchange(self, data: bytes, deadline: float) -> Response:
        """Send one encoded request and read the whole response.

        Raises:
            ConnectionLost: (or Timeout) the connection must not be used again.
        """
        parts = self._parts
        self._send(data, deadline)
        while not parts.complete:
            self.receive(deadline)
        body = parts.body
        return Response(parts.status, parts.headers, body[0] if len(body) == 1 else b"".join(body))

    def open_stream(self, data: bytes, deadline: float) -> HttpStream:
        """Send one encoded request, read the head of the response, and return the body as a stream.

        From then on the connection belongs to the stream.

        Raises:
            ConnectionLost: (or Timeout) the connection must not be used again.
        """
        self._send(data, deadline)
        while not self._parts.status:
            self.receive(deadline)
        self._set_timeout(POLL_SECONDS)
        return HttpStream(self, self._parts, self._clock)

    def receive(self, deadline: float | None) -> None:
        """Receive the next bytes of the response.

        Args:
            deadline: When to give up, on the monotonic clock. None, allowed only if `has_input`,
                takes what is there: only the rest of an incomplete TLS record is waited for, with
                the last timeout.

        Raises:
            ConnectionLost: (or Timeout) no bytes arrived, or they are invalid.
        """
        try:
            if deadline is not None:
                self._limit(deadline)
            count = self._read()
            if count:
                self.answered = True
                self._parts.feed(self._received[:count])
            else:
                self._end_of_connection()
        except TimeoutError as error:
            raise Timeout("no complete answer in time", sent=True) from error
        except _TooLargeError as error:
            raise AnswerTooLarge(str(error), sent=True) from error
        except (OSError, _BrokenResponseError) as error:
            raise ConnectionLost(f"the connection broke: {error}", sent=True) from error

    def shutdown(self) -> None:
        """Wake a thread that is reading: it sees the connection end."""
        # Not SSLSocket.shutdown, which would remove the TLS object that the other thread reads.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket; not allowed while another thread reads from it."""
        with contextlib.suppress(OSError):
            self._sock.close()

    def _send(self, data: bytes, deadline: float) -> None:
        self._parts.reset()
        self.answered = False
        try:
            self._limit(deadline)
            self._sock.sendall(data)
        except TimeoutError as error:
            raise Timeout("time was up before the request was sent", sent=False) from error
        except OSError as error:
            raise ConnectionLost(f"the request could not be sent: {error}", sent=False) from error

    def _end_of_connection(self) -> None:
        if not (self._parts.status and self._parts.ends_with_connection):
            raise _BrokenResponseError("closed before the end of the response")
        self._parts.complete = True

    def _limit(self, deadline: float) -> None:
        """Set the socket's timeout so that its next call ends by the deadline."""
        seconds = deadline - self._clock.monotonic()
        if seconds <= 0:
            raise TimeoutError
        # A remaining time of less than one step is not rounded.
        self._set_timeout(seconds // TIMEOUT_STEP_SECONDS * TIMEOUT_STEP_SECONDS or seconds)

    def _set_timeout(self, timeout: float) -> None:
        if timeout != self._timeout:
            self._timeout = timeout
            self._sock.settimeout(timeout)


class HttpStream:
    """A `ResponseStream`: the body of a response, line by line."""

    def __init__(self, connection: HttpConnection, parts: _ResponseParts, clock: Clock) -> None:
        self.status = parts.status
        self.headers = parts.headers
        self._connection = connection
        self._parts = parts
        self._clock = clock
        self._lines: deque[bytes] = deque()
        self._unfinished: list[bytes] = []
        self._unfinished_bytes = 0
        # Guards _reading and _closed, and with them the socket: it is only shut down while a
        # thread reads it, and only closed when none does, so that a file descriptor that now
        # belongs to something else is never touched.
        self._lock = threading.Lock()
        self._reading = False
        self._closed = False
        self._split_lines()

    def read_line(self, timeout_seconds: float) -> bytes | None:
        """Return the next line, or None at the orderly end. See `ResponseStream`."""
        if self._lines:
            return self._lines.popleft()
        # Asked after each event whether there is another; mostly there is none. If the stream is
        # closed meanwhile, a closed or even a foreign descriptor is polled, and nothing is read.
        if timeout_seconds <= 0 and not (
            self._closed or self._parts.complete or self._connection.has_input()
        ):
            raise StreamIdle("nothing has arrived")
        with self._lock:
            if self._closed:
                raise ConnectionLost("the stream is closed", sent=True)
            self._reading = True
        broken = True
        try:
            line = self._next_line(timeout_seconds)
            broken = False
            return line
        except Timeout as error:
            broken = False
            raise StreamIdle(f"nothing for {timeout_seconds:g} s") from error
        finally:
            with self._lock:
                self._reading = False
                self._closed |= broken
                if self._closed:
                    self._connection.close()

    def close(self) -> None:
        """End the stream, from any thread."""
        with self._lock:
            self._closed = True
            if self._reading:
                self._connection.shutdown()
            else:
                self._connection.close()

    def _next_line(self, seconds: float) -> bytes | None:
        deadline = self._clock.monotonic() + seconds if seconds > 0 else None
        while not self._lines:
            if self._parts.complete:
                return self._rest()
            if deadline is None and not self._connection.has_input():
                raise Timeout("nothing has arrived", sent=True)
            self._connection.receive(deadline)
            self._split_lines()
        return self._lines.popleft()

    def _split_lines(self) -> None:
        """Split the received pieces into whole lines; each byte is scanned once."""
        for piece in self._parts.take_body():
            first, *more = piece.split(b"\n")
            self._unfinished.append(first)
            self._unfinished_bytes += len(first)
            for start in more:
                self._lines.append(b"".join(self._unfinished))
                self._unfinished = [start]
                self._unfinished_bytes = len(start)
        if self._unfinished_bytes > MAX_LINE_BYTES:
            raise ConnectionLost(f"a line of more than {MAX_LINE_BYTES} bytes", sent=True)

    def _rest(self) -> bytes | None:
        """Return what follows the last newline: the body of an error does not end with one."""
        rest = b"".join(self._unfinished)
        self._unfinished = []
        self._unfinished_bytes = 0
        return rest or None
