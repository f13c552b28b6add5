"""Where the API server is, how to reach it, and how to log in: the values a transport is made of.

`kube_config` makes them; `http_transport` uses them. Place and path are fixed for the life of a
process. The login is not: tokens rotate, certificates expire, so it comes from a `LoginSource`
that is asked again before each request, and never holds it up for longer than the request has.
"""

from __future__ import annotations

import base64
from typing import Final, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec


class SettingsError(Exception):
    """The configuration of the connection is missing or makes no sense; one line for a person."""


class Login(msgspec.Struct, frozen=True):
    """The credentials and certificate authorities that are current."""

    authorization: str = ""
    """The whole header value ("Bearer ..."), "" for none."""
    certificate_pem: bytes = b""
    private_key_pem: bytes = b""
    ca_pem: bytes = b""
    """Authorities that may vouch for the server; empty: those of the operating system."""

    @property
    def tls_identity(self) -> tuple[bytes, bytes, bytes]:
        """What a TLS context is made of; a change of it needs new connections."""
        return (self.certificate_pem, self.private_key_pem, self.ca_pem)


class LoginSource(Protocol):
    """Gives the login. Used from many threads at once."""

    def current(self, limit_seconds: float = 0.0) -> Login:
        """Return the login to use now; waits, so long at most, only where that has expired.

        Raises:
            SettingsError: It has expired, and there is no other yet.
        """

    def renew(self, rejected: Login, limit_seconds: float) -> Login:
        """Return a newer login, after the server answered 401 to `rejected`.

        When there is none, `rejected` itself comes back, and asking again is pointless.

        Raises:
            SettingsError: It is not known in that time whether there is one.
        """


class FixedLogin:
    """A login that never changes."""

    def __init__(self, login: Login) -> None:
        self._login = login

    def current(self, limit_seconds: float = 0.0) -> Login:
        """Return it."""
        del limit_seconds
        return self._login

    def renew(self, rejected: Login, limit_seconds: float) -> Login:
        """Return `rejected`: there is no other."""
        del limit_seconds
        return rejected


class Proxy(msgspec.Struct, frozen=True):
    """An HTTP proxy that understands CONNECT."""

    host: str
    port: int
    authorization: str = ""
    """Value of `Proxy-Authorization`, "" for none."""


class ConnectionSettings(msgspec.Struct, frozen=True):
    """All a transport needs to know."""

    host: str
    port: int
    login: LoginSource
    tls: bool = True
    path_prefix: str = ""
    """Before every path, without a slash at the end: servers behind a gateway."""
    verify: bool = True
    tls_server_name: str = ""
    """Name to ask for and to check in the certificate; "": `host`."""
    proxy: Proxy | None = None

    @property
    def host_header(self) -> str:
        """`Host`, also the target of CONNECT: always with the port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def connection_settings(
    server: str,
    login: LoginSource,
    *,
    verify: bool = True,
    tls_server_name: str = "",
    proxy_url: str = "",
) -> ConnectionSettings:
    """Build the settings from URLs.

    Args:
        server: "https://host:port/prefix".
        login: Where the login comes from.
        verify: False takes any certificate.
        tls_server_name: Overrides the name in the server's URL.
        proxy_url: "http://user:password@host:port", or "" for none.

    Raises:
        SettingsError: A URL has no host, a bad port, or a scheme that is not supported.
    """
    parts = _split("server", server, schemes=("http", "https"))
    return ConnectionSettings(
        host=parts.hostname or "",
        port=parts.port or DEFAULT_PORTS[parts.scheme],
        login=login,
        tls=parts.scheme == "https",
        path_prefix=parts.path.rstrip("/"),
        verify=verify,
        tls_server_name=tls_server_name,
        proxy=_proxy(proxy_url) if proxy_url else None,
    )


def _proxy(url: str) -> Proxy:
    parts = _split("proxy", url if "://" in url else f"http://{url}", schemes=("http",))
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    return Proxy(parts.hostname or "", parts.port or DEFAULT_PORTS["http"], authorization)


def _split(what: str, url: str, *, schemes: tuple[str, ...]) -> SplitResult:
    # Messages leave out user and password, which a proxy's URL may carry.
    try:
        parts = urlsplit(url)
        shown = f"{parts.scheme}://{parts.hostname}"
        port_is_bad = parts.port == 0
    except ValueError as error:
        raise SettingsError(f"the {what} URL cannot be read: {error}") from error
    if parts.scheme not in schemes or not parts.hostname or port_is_bad:
        raise SettingsError(
            f"the {what} URL {shown!r} does not have the form {' or '.join(schemes)}://host:port"
        )
    return parts
