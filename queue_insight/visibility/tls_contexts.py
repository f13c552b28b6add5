"""TLS of the aggregated API's port, whose certificate and client authorities change while it runs.

Each connection gets the context that is current when it is accepted: its certificate, and its
authorities of clients. Sessions are not resumed, so that every connection is judged by them.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

from shared_api.process.memory_file import memory_file

_PROTOCOL: Final = "http/1.1"


class TlsContexts:
    """Begins TLS on accepted connections; a `ServerTls`. Callable from any thread."""

    def __init__(self) -> None:
        self._context: ssl.SSLContext | None = None

    def change(self, chain_and_key: bytes, client_authorities: str) -> None:
        """Serve new connections with this certificate and these authorities of clients.

        Args:
            chain_and_key: Certificate and key (PEM).
            client_authorities: Certificates (PEM); one of them must have signed the certificate
                that a client shows. A client need not show any.

        Raises:
            ssl.SSLError: They cannot be read.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0
        context.set_alpn_protocols([_PROTOCOL])
        context.verify_mode = ssl.CERT_OPTIONAL
        # An authority in between is trusted as well when it is listed by itself, as in Go.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if client_authorities:
            context.load_verify_locations(cadata=client_authorities)
        with memory_file(chain_and_key) as path:
            context.load_cert_chain(path)
        self._context = context

    def wrap_socket(
        self, sock: socket.socket, *, server_side: bool, do_handshake_on_connect: bool
    ) -> ssl.SSLSocket:
        """Return the socket with TLS.

        Raises:
            ssl.SSLError: There is no certificate yet.
        """
        if self._context is None:
            raise ssl.SSLError("there is no certificate yet")
        return self._context.wrap_socket(
            sock, server_side=server_side, do_handshake_on_connect=do_handshake_on_connect
        )
