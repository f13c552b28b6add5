"""A transport that reads, and writes nothing but the Lease of its own election."""

from __future__ import annotations

from typing import Final

from shared_api.client.errors import ApiFailure
from shared_api.client.transport import Request, Response, ResponseStream, Transport

READS: Final = frozenset({"GET", "HEAD"})


class WriteRefusedError(ApiFailure):
    """A write was not sent: this program only reads."""


class ReadOnlyTransport:
    """Refuses every request that is no read, before it leaves the process.

    Roles should refuse them as well; this holds whatever the roles say.

    Args:
        transport: Sends what is allowed.
        lease_namespace: Namespace of the one Lease that may be created and patched.
        lease_name: Its name.
    """

    def __init__(self, transport: Transport, lease_namespace: str, lease_name: str) -> None:
        self._transport = transport
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{lease_namespace}/leases"
        self._allowed = frozenset({("POST", leases), ("PATCH", f"{leases}/{lease_name}")})

    def send(self, request: Request, timeout_seconds: float) -> Response:
        """Send a read, or a write of the Lease; as `Transport.send`.

        Raises:
            WriteRefusedError: It is another write.
        """
        self._check(request)
        return self._transport.send(request, timeout_seconds)

    def stream(self, request: Request, timeout_seconds: float) -> ResponseStream:
        """Open a stream; as `Transport.stream`.

        Raises:
            WriteRefusedError: It is no read.
        """
        self._check(request)
        return self._transport.stream(request, timeout_seconds)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def _check(self, request: Request) -> None:
        if request.method in READS or (request.method, request.path) in self._allowed:
            return
        msg = f"{request.method} {request.path} was not sent: this program only reads"
        raise WriteRefusedError(msg)
