"""The protocol of a transport to the API server: its requests, its responses and its guarantees.

A `Transport` sends one request and returns one response, or opens a stream of lines (a watch).
`http_transport.HttpTransport` uses sockets; `shared_api.fake_api_server.server` runs in process.
All other modules use only this protocol.
"""

from __future__ import annotations

from typing import Protocol

import msgspec


class Request(msgspec.Struct, frozen=True):
    """One HTTP request, without host and credentials, which the transport adds."""

    method: str
    path: str
    """Absolute, percent-encoded: "/api/v1/namespaces/a/pods/b"."""
    query: tuple[tuple[str, str], ...] = ()
    """Names and values, not encoded; the transport encodes them."""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class Response(msgspec.Struct, frozen=True):
    """A whole HTTP response, of any status."""

    status: int
    headers: dict[str, str]
    """Values by lower-case name; repeated headers are joined by ", "."""
    body: bytes = b""


class ResponseStream(Protocol):
    """A response whose body is read line by line as it arrives, by one thread."""

    @property
    def status(self) -> int:
        """HTTP status code. With an error status, the only line is its `Status` object."""

    @property
    def headers(self) -> dict[str, str]:
        """Headers by lower-case name."""

    def read_line(self, timeout_seconds: float) -> bytes | None:
        """Return the next line without its newline, or None at the orderly end.

        With 0 seconds it returns a line only if it has already arrived; it may still wait for the
        rest of a TLS record.

        Raises:
            StreamIdle: No whole line arrived in that time; the stream can be read again.
            ConnectionLost: The stream broke (`sent` is True) or was closed by `close()`.
        """

    def close(self) -> None:
        """End the stream; a blocked reader returns. Idempotent; callable from any thread."""


class Transport(Protocol):
    """Sends requests to one API server. Used from many threads at once."""

    def send(self, request: Request, timeout_seconds: float) -> Response:
        """Send a request and return the whole response, whatever its status.

        Raises:
            Timeout: The time limit, which includes connecting, was reached.
            ConnectionLost: There is no connection, or it broke; `sent` says whether the server may
                have acted.
        """

    def stream(self, request: Request, timeout_seconds: float) -> ResponseStream:
        """Send a request and return once the head of the response has arrived.

        `timeout_seconds` covers connecting and the head; each `read_line` has its own.

        Raises:
            Timeout: The time limit was reached.
            ConnectionLost: There is no connection, or it broke.
        """

    def close(self) -> None:
        """Close idle connections now and those in use when they are returned. Later sends raise."""
