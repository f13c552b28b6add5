"""Where the API server is, how to reach it, and how to log in: the configuration of a transport.

`kube_config` makes these values; `http_transport` uses them. Address and path are fixed for the
life of a process. The login is not: tokens rotate and certificates expire, so it comes from a
`LoginSource` that is asked before each request, and never delays it beyond its deadline.
"""

from __future__ import annotations

import base64
from typing import Final, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec


class SettingsError(Exception):
    """The configuration of the connection is missing or invalid; the message is one line."""


class Login(msgspec.Struct, frozen=True):
    """The current credentials and certificate authorities."""

    authorization: str = ""
    """The whole header value ("Bearer ..."), "" for none."""
    certificate_pem: bytes = b""
    private_key_pem: bytes = b""
    ca_pem: bytes = b""
    """Authorities trusted for the server's certificate; empty: those of the operating system."""

    @property
    def tls_identity(self) -> tuple[bytes, bytes, bytes]:
        """The inputs of a TLS context; when they change, new connections are needed."""
        return (self.certificate_pem, self.private_key_pem, self.ca_pem)


class LoginSource(Protocol):
    """Gives the login. Used from many threads at once."""

    def current(self, limit_seconds: float = 0.0) -> Login:
        """Return the login to use now; wait for a new one only if the current one has expired.

        Args:
            limit_seconds: Longest wait.

        Raises:
            SettingsError: The login has expired, and there is no new one yet.
        """

    def renew(self, rejected: Login, limit_seconds: float) -> Login:
        """Return a newer login, after the server answered 401 to `rejected`.

        Returns `rejected` itself if there is no newer one; repeating the request is then pointless.

        Raises:
            SettingsError: Whether there is one is not known within `limit_seconds`.
        """


class FixedLogin:
    """A login that never changes."""

    def __init__(self, login: Login) -> None:
        self._login = login

    def current(self, limit_seconds: float = 0.0) -> Login:
        """Return the login."""
        del limit_seconds
        return self._login

    def renew(self, rejected: Login, limit_seconds: float) -> Login:
        """Return `rejected`: there is no newer login."""
        del limit_seconds
        return rejected


class WithoutCredentials:
    """The certificate authorities of another login, and none of its credentials.

    For requests that carry the credentials of whoever they are made for: whatever is missing in
    one, it is never sent with those of the process.

    Args:
        source: Gives the other login.
    """

    def __init__(self, source: LoginSource) -> None:
        self._source = source

    def current(self, limit_seconds: float = 0.0) -> Login:
        """Return the authorities to trust now. See `LoginSource`."""
        return Login(ca_pem=self._source.current(limit_seconds).ca_pem)

    def renew(self, rejected: Login, limit_seconds: float) -> Login:
        """Return `rejected`: other credentials are not sent instead."""
        del limit_seconds
        return rejected


class Proxy(msgspec.Struct, frozen=True):
    """An HTTP proxy that understands CONNECT."""

    host: str
    port: int
    authorization: str = ""
    """Value of `Proxy-Authorization`, "" for none."""


class ConnectionSettings(msgspec.Struct, frozen=True):
    """The configuration of a transport."""

    host: str
    port: int
    login: LoginSource
    tls: bool = True
    path_prefix: str = ""
    """Prefix of every path, without a trailing slash: for servers behind a gateway."""
    verify: bool = True
    tls_server_name: str = ""
    """Name to request by SNI and to verify in the certificate; "" means `host`."""
    proxy: Proxy | None = None

    @property
    def host_header(self) -> str:
        """Value of `Host` and target of CONNECT; always includes the port."""
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
    """Return the settings for the URLs of a server and a proxy.

    Args:
        server: "https://host:port/prefix".
        login: Where the login comes from.
        verify: Whether to verify the server's certificate; False accepts any.
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
    # Messages omit user and password, which a proxy's URL may contain.
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
