"""The transport over sockets: a pool of kept-alive connections to one server.

A request uses the connection that was idle for the shortest time, or opens a new one. The server,
or something in between, closes idle connections; usually that is seen before use. If it happens
just as a request is sent, the request is repeated once, on a new connection, if it certainly did
not arrive or if repeating it does no harm. All other retries are up to `resource_client`, which
knows which writes are guarded.

Every call has a time limit: connecting and the TLS handshake have their own, within the caller's
deadline. The only exception is the resolution of host names, which has the limits of
/etc/resolv.conf.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections import deque
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

from shared_api.client.connection_settings import ConnectionSettings, Login, Proxy, SettingsError
from shared_api.client.errors import ConnectionLost, Timeout
from shared_api.client.http_connection import MAX_BODY_BYTES, HttpConnection, HttpStream
from shared_api.client.transport import Request, Response, ResponseStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared_api.process.clock import Clock

CONNECT_SECONDS: Final = 5.0
"""Longest time to connect to one address; a lost SYN is repeated after 1 s, and again after 3 s."""
TLS_HANDSHAKE_SECONDS: Final = 5.0
"""Longest TLS handshake. Half of client-go's 10 s: writes have 4 s in all."""
MAX_IDLE_CONNECTIONS: Final = 32
"""Most idle connections that are kept: 16 writers and as many readers."""
IDLE_SECONDS: Final = 60.0
"""How long an idle connection is kept. The API server closes it after 90 s (its IdleTimeout)."""
KEEP_ALIVE_PROBES: Final = (
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 15),
    ("TCP_KEEPCNT", 3),
)
"""Seconds, seconds, count: a dead peer of a quiet watch is detected after 75 s."""
MAX_PROXY_ANSWER_BYTES: Final = 65_536
"""Longest answer of a proxy to CONNECT."""
_UNAUTHORIZED: Final = 401
_REPEATABLE: Final = frozenset({"GET", "HEAD"})
_Answer = TypeVar("_Answer", Response, HttpStream)
_TlsIdentity = tuple[bytes, bytes, bytes]


class HttpTransport:
    """A `Transport` over sockets, used from many threads at once."""

    # No lock: a deque's append and pop are atomic, and a connection is either in the pool or has
    # one user. `_tls` is replaced as a whole; two threads that do so at once set equal values.

    def __init__(
        self, settings: ConnectionSettings, clock: Clock, max_body_bytes: int = MAX_BODY_BYTES
    ) -> None:
        """Check the settings, without connecting.

        Args:
            settings: Where the server is, and how to log in.
            clock: The time.
            max_body_bytes: Longest body of a response; a longer one raises AnswerTooLarge.

        Raises:
            SettingsError: There is no login, or its certificates cannot be read.
        """
        self._settings = settings
        self._clock = clock
        self._max_body_bytes = max_body_bytes
        self._idle: deque[tuple[_TlsIdentity, HttpConnection]] = deque()
        self._tls: tuple[_TlsIdentity, ssl.SSLContext] | None = None
        self._closed = False
        if settings.tls:
            self._tls_context(settings.login.current())

    def send(self, request: Request, timeout_seconds: float) -> Response:
        """Send a request and return the whole response. See `Transport`.

        After a 401 the login is renewed, and the request sent once more.
        """
        deadline = self._clock.monotonic() + timeout_seconds
        login = self._login(deadline)
        response = self._send_as(login, request, deadline)
        if response.status == _UNAUTHORIZED:
            renewed = self._login(deadline, rejected=login)
            if renewed != login:
                return self._send_as(renewed, request, deadline)
        return response

    def stream(self, request: Request, timeout_seconds: float) -> ResponseStream:
        """Send a request and return the open response. See `Transport`.

        After a 401 the login is renewed, and the request sent once more.
        """
        deadline = self._clock.monotonic() + timeout_seconds
        login = self._login(deadline)
        stream = self._stream_as(login, request, deadline)
        if stream.status == _UNAUTHORIZED:
            try:
                renewed = self._login(deadline, rejected=login)
            except ConnectionLost:
                stream.close()
                raise
            if renewed != login:
                stream.close()
                return self._stream_as(renewed, request, deadline)
        return stream

    def close(self) -> None:
        """Close idle connections now, and those in use when they are returned."""
        self._closed = True
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop()[1].close()

    # ------------------------------------------------------------------------- one exchange

    def _login(self, deadline: float, *, rejected: Login | None = None) -> Login:
        source, left = self._settings.login, deadline - self._clock.monotonic()
        try:
            return source.current(left) if rejected is None else source.renew(rejected, left)
        except SettingsError as error:
            raise ConnectionLost(f"no login: {error}", sent=False) from error

    def _send_as(self, login: Login, request: Request, deadline: float) -> Response:
        data = self._encode(request, login)

        def exchange(connection: HttpConnection) -> Response:
            response = connection.exchange(data, deadline)
            self._give_back(login, connection)
            return response

        return self._on_a_connection(login, request, deadline, exchange)

    def _stream_as(self, login: Login, request: Request, deadline: float) -> HttpStream:
        data = self._encode(request, login)
        return self._on_a_connection(
            login, request, deadline, lambda connection: connection.open_stream(data, deadline)
        )

    def _on_a_connection(
        self,
        login: Login,
        request: Request,
        deadline: float,
        exchange: Callable[[HttpConnection], _Answer],
    ) -> _Answer:
        """Run an exchange on an idle connection, or on a new one if there is none or it broke."""
        if self._closed:
            raise ConnectionLost("the transport is closed", sent=False)
        rested = self._take_rested(login)
        if rested is not None:
            try:
                return _close_on_failure(exchange, rested)
            except Timeout:
                raise
            except ConnectionLost as lost:
                harmless = not lost.sent or request.method in _REPEATABLE
                if rested.answered or not harmless:
                    raise
        return _close_on_failure(exchange, self._connect(login, deadline))

    def _encode(self, request: Request, login: Login) -> bytes:
        """Return the bytes of the request: head and body in one piece, for one `sendall`."""
        target = self._settings.path_prefix + request.path
        if request.query:
            target += "?" + "&".join(f"{_quote(k)}={_quote(v)}" for k, v in request.query)
        lines = [f"{request.method} {target} HTTP/1.1", f"Host: {self._settings.host_header}"]
        if login.authorization:
            lines.append(f"Authorization: {login.authorization}")
        lines += [f"{name}: {value}" for name, value in request.headers]
        if request.body or request.method not in _REPEATABLE:
            lines.append(f"Content-Length: {len(request.body)}")
        head = "\r\n".join(lines)
        # A line break in a name or token would inject a header.
        if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
            raise ValueError(f"line break in the head of {request.method} {request.path!r}")
        return head.encode("latin-1") + b"\r\n\r\n" + request.body

    # ------------------------------------------------------------------------- the pool

    def _take_rested(self, login: Login) -> HttpConnection | None:
        identity = login.tls_identity
        oldest = self._clock.monotonic() - IDLE_SECONDS
        while self._idle:
            try:
                made_for, connection = self._idle.pop()
            except IndexError:  # another thread took the last one
                return None
            if (
                made_for == identity
                and connection.idle_since > oldest
                and not connection.is_stale()
            ):
                return connection
            connection.close()
        return None

    def _give_back(self, login: Login, connection: HttpConnection) -> None:
        if not connection.reusable:
            connection.close()
            return
        connection.idle_since = self._clock.monotonic()
        self._idle.append((login.tls_identity, connection))
        if self._closed:  # checked after the append: close() may have emptied the pool before it
            self.close()
        elif len(self._idle) > MAX_IDLE_CONNECTIONS:
            with contextlib.suppress(IndexError):
                self._idle.popleft()[1].close()

    # ------------------------------------------------------------------------- connecting

    def _connect(self, login: Login, deadline: float) -> HttpConnection:
        settings = self._settings
        try:
            sock = self._dial(deadline)
            if settings.tls:
                sock = self._wrap(sock, login, deadline)
        except TimeoutError as error:
            raise Timeout(f"no connection to {self._place()} in time", sent=False) from error
        except ssl.SSLCertVerificationError as error:
            message = f"the certificate of {self._place()} is refused: {error.verify_message}"
            raise ConnectionLost(message, sent=False) from error
        except (OSError, SettingsError) as error:
            message = f"no connection to {self._place()}: {error}"
            raise ConnectionLost(message, sent=False) from error
        return HttpConnection(sock, self._clock, self._max_body_bytes)

    def _dial(self, deadline: float) -> socket.socket:
        """Return a socket connected to the server, through the proxy's tunnel if there is one."""
        proxy = self._settings.proxy
        host, port = (
            (proxy.host, proxy.port) if proxy else (self._settings.host, self._settings.port)
        )
        failure: OSError = OSError(f"{host} has no address")
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, address in addresses:
            sock = socket.socket(family, kind, protocol)
            try:
                self._limit(sock, CONNECT_SECONDS, deadline)
                sock.connect(address)
                if sock.getsockname() == sock.getpeername():
                    # TCP's simultaneous open: if no server listens on a high loopback port, the
                    # kernel may pick that same port for the client, and the port stays in use.
                    raise ConnectionRefusedError("connected to itself, nothing listens")
                _tune(sock)
                if proxy:
                    self._open_tunnel(sock, proxy, deadline)
                return sock
            except OSError as error:
                sock.close()
                failure = error
        raise failure

    def _open_tunnel(self, sock: socket.socket, proxy: Proxy, deadline: float) -> None:
        target = self._settings.host_header
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if proxy.authorization:
            lines.append(f"Proxy-Authorization: {proxy.authorization}")
        sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        answer = b""
        # What follows the blank line would belong to the tunnel; but in TLS and HTTP the client
        # speaks first, so nothing follows.
        while b"\r\n\r\n" not in answer:
            self._limit(sock, CONNECT_SECONDS, deadline)
            piece = sock.recv(MAX_PROXY_ANSWER_BYTES)
            answer += piece
            if not piece or len(answer) > MAX_PROXY_ANSWER_BYTES:
                raise OSError("the proxy gave no answer to CONNECT")
        status_line = answer.split(b"\r\n", 1)[0].decode("latin-1")
        if status_line.split(" ")[1:2] != ["200"]:
            raise OSError(f"the proxy refused CONNECT: {status_line[:200]}")

    def _wrap(self, sock: socket.socket, login: Login, deadline: float) -> ssl.SSLSocket:
        settings = self._settings
        try:
            context = self._tls_context(login)
            self._limit(sock, TLS_HANDSHAKE_SECONDS, deadline)
            name = settings.tls_server_name or settings.host
            return context.wrap_socket(sock, server_hostname=name)
        except (OSError, SettingsError):
            sock.close()
            raise

    def _tls_context(self, login: Login) -> ssl.SSLContext:
        identity = login.tls_identity
        if self._tls is None or self._tls[0] != identity:
            self._tls = (identity, tls_context(login, verify=self._settings.verify))
        return self._tls[1]

    def _limit(self, sock: socket.socket, seconds: float, deadline: float) -> None:
        left = deadline - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError
        sock.settimeout(min(seconds, left))

    def _place(self) -> str:
        proxy = self._settings.proxy
        via = f" through the proxy {proxy.host}:{proxy.port}" if proxy else ""
        return self._settings.host_header + via


def tls_context(login: Login, *, verify: bool) -> ssl.SSLContext:
    """Return the TLS context for a login.

    Raises:
        SettingsError: The certificate, its key or the authorities cannot be read.
    """
    # Not ssl.create_default_context: its VERIFY_X509_STRICT (Python 3.13) refuses the
    # authorities of many clusters, which lack extensions that RFC 5280 asks for.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        if login.ca_pem:
            # Only comments between the certificates can contain non-ASCII bytes.
            context.load_verify_locations(cadata=login.ca_pem.decode("ascii", "ignore"))
        elif verify:
            context.load_default_certs()
        if login.certificate_pem:
            _load_certificate(context, login.certificate_pem + b"\n" + login.private_key_pem)
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(f"certificate, key or authorities cannot be read: {error}") from error
    return context


def _load_certificate(context: ssl.SSLContext, pem: bytes) -> None:
    # The ssl module only accepts a path. A file in memory leaves no key on disk, and works with a
    # read-only root file system.
    descriptor = os.memfd_create("client-certificate", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, pem)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=_refuse_password_prompt)
    finally:
        os.close(descriptor)


def _refuse_password_prompt() -> str:
    # Without a callback OpenSSL would prompt on the terminal and wait.
    raise ValueError("the private key is encrypted")


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE_PROBES:
        if hasattr(socket, name):  # the names differ between platforms
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _close_on_failure(
    exchange: Callable[[HttpConnection], _Answer], connection: HttpConnection
) -> _Answer:
    try:
        return exchange(connection)
    except BaseException:
        connection.close()
        raise


def _quote(text: str) -> str:
    return text if text.isalnum() and text.isascii() else quote(text, safe="")
