"""The certificate of the page, read again when its files change."""

from __future__ import annotations

import ssl
from pathlib import Path

import structlog

from shared_api.process.memory_file import memory_file

log = structlog.get_logger("page")


class RenewedCertificate:
    """A TLS context that serves new connections with the certificate that is in the files now.

    A mounted Secret is renewed by another target of a symbolic link: so what the paths lead to is
    read each time, and compared.

    Attributes:
        context: For all connections; it stays the same.

    Args:
        context: With the certificate as it was at the start.
        certificate: Path of the certificate, with its chain up to an authority (PEM).
        key: Path of its private key (PEM).
    """

    def __init__(self, context: ssl.SSLContext, certificate: str, key: str) -> None:
        self.context = context
        self._certificate = Path(certificate)
        self._key = Path(key)
        self._content: bytes | None = None

    def look(self) -> None:
        """Read the files; to be called by the thread that begins connections, now and then.

        What cannot be read, or does not belong together, is said once, and the last certificate
        goes on: of two files that are written one after the other, one is old for a moment.
        """
        try:
            content = self._certificate.read_bytes() + b"\n" + self._key.read_bytes()
        except OSError as error:
            content, problem = b"", error.strerror or str(error)
        else:
            problem = ""
        if content == self._content:
            return
        is_first, self._content = self._content is None, content
        problem = problem or self._take(content)
        if problem:
            log.warning("the certificate of the page cannot be renewed", error=problem)
        elif not is_first:
            log.info("the page serves a new certificate", file=str(self._certificate))

    def _take(self, content: bytes) -> str:
        """Serve new connections with a certificate; return why that cannot be, or ""."""
        try:
            with memory_file(content) as path:
                # Tried first: of a pair that does not fit the certificate would stay.
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
                self.context.load_cert_chain(path)
        except OSError as error:  # ssl.SSLError is one
            return error.strerror or str(error)
        return ""
