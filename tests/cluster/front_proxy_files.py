"""The certificates with which a test's API server passes requests on to aggregated APIs."""

from __future__ import annotations

from pathlib import Path

from shared_api.process.clock import SystemClock
from tests.client_certificates import Identity, make_authority, sign_client

PROXY_NAME = "front-proxy-client"


class FrontProxyFiles:
    """An authority of request headers, and the API server's own certificate.

    Args:
        folder: Where the files are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._now = SystemClock().now()
        self.authority = make_authority("front-proxy-ca", self._now)
        self._certificate, self._key = self.sign(PROXY_NAME).write(folder, "proxy")
        self._authorities = folder / "authorities.crt"
        self._authorities.write_text(self.authority.pem)

    def sign(self, name: str, authority: Identity | None = None) -> Identity:
        """Return a client's certificate under a name."""
        return sign_client(authority or self.authority, name, now=self._now)

    def add_authority(self) -> Identity:
        """Make the API server believe one more authority; return it."""
        added = make_authority("front-proxy-ca-2", self._now)
        self._authorities.write_text(self.authority.pem + added.pem)
        return added

    def flags(self) -> tuple[str, ...]:
        """Return the flags of the API server."""
        return (
            f"--requestheader-client-ca-file={self._authorities}",
            f"--requestheader-allowed-names={PROXY_NAME}",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self._certificate}",
            f"--proxy-client-key-file={self._key}",
        )
