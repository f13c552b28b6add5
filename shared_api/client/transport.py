"""The door to the API server: what goes through it, and what a door must promise.

A `Transport` sends one request and brings one response, or opens a stream of lines (a watch).
`http_transport.HttpTransport` is the real one; `shared_api.fake_api_server.server` is another,
in process. Everything above speaks to this protocol only.
"""

from __future__ import annotations

from typing import Protocol

import msgspec


class Request(msgspec.Struct, frozen=True):
    """One HTTP request, still without host and credentials, which the transport adds."""

    method: str
    path: str
    """Absolute, percent-encoded: "/api/v1/namespaces/a/pods/b"."""
    query: tuple[tuple[str, str], ...] = ()
    """Names and values as they are; the transport encodes them."""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class Response(msgspec.Struct, frozen=True):
    """A whole HTTP response, of any status."""

    status: int
    headers: dict[str, str]
    """Lower-case names; repeated ones joined by ", "."""
    body: bytes = b""


class ResponseStream(Protocol):
    """A response whose body is read line by line, by one thread, while it arrives."""

    @property
    def status(self) -> int:
        """HTTP status code. An error status has its `Status` object as the only line."""

    @property
    def headers(self) -> dict[str, str]:
        """Lower-case names."""

    def read_line(self, timeout_seconds: float) -> bytes | None:
        """Return the next line without its newline, or None at the orderly end.

        With 0 seconds it does not wait for news, and returns a line only if that has already
        arrived; the rest of a TLS record may be waited for.

        Raises:
            StreamIdle: No whole line came in that time; the stream can be read again.
            ConnectionLost: The stream broke (`sent` is True) or was closed by `close()`.
        """

    def close(self) -> None:
        """End the stream. From any thread, any number of times; a blocked reader returns."""


class Transport(Protocol):
    """Used from many threads at once."""

    def send(self, request: Request, timeout_seconds: float) -> Response:
        """Send a request and return the whole response, whatever its status.

        Raises:
            Timeout: The time, which covers connecting as well, was up.
            ConnectionLost: No connection, or it broke; `sent` says if the server may have acted.
        """

    def stream(self, request: Request, timeout_seconds: float) -> ResponseStream:
        """Send a request and return once the head of the response is there.

        `timeout_seconds` covers connecting and the head; each `read_line` has its own.

        Raises:
            Timeout: The time was up.
            ConnectionLost: No connection, or it broke.
        """

    def close(self) -> None:
        """Close idle connections, and those in use when they come back. Later sends raise."""
