"""``/livez``, ``/readyz``, ``/healthz`` and ``/metrics`` over HTTP, with the standard library.

Paths and answers are those of the Kubernetes components: 200 "ok", or 500 and the list of checks;
``?verbose`` shows the list with details in any case, ``?exclude=<check>`` leaves one out (any
number of times), ``/readyz/<check>`` asks for one. Only the status code is meant for machines.

A server is one ``step``: it accepts one connection and hands it to a thread. At most
``MAX_CONNECTIONS`` are served at a time, each for ``CONNECTION_SECONDS``; above that they are
closed at once, so that nobody can use up the program's threads through its probes.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
import structlog

from shared_api.process.clock import Clock

MAX_CONNECTIONS: Final = 16
"""A kubelet, a Prometheus or two, and a person; the rest is refused."""

CONNECTION_SECONDS: Final = 10.0
"""How long one connection may take in all, however slowly it sends; the kubelet's probes give up
after 1 s by default, Prometheus after 10 s."""

ACCEPT_SECONDS: Final = 0.5
"""How long one step waits for a connection: what `stop` may have to wait."""

MAX_PORT: Final = 65_535

Check = Callable[[], tuple[bool, str]]
"""Answers (ok, detail) at once, without waiting for anything; called on the server's threads."""

Exposition = Callable[[], tuple[bytes, str]]
"""Returns a body and its content type."""

Authorize = Callable[[str, Mapping[str, str]], HTTPStatus]
"""(path, headers) -> OK to go on, else the status to answer with."""

_Connection = socket.socket | tuple[bytes, socket.socket]
"""The base class serves datagrams as well; here it is always a socket."""

log = structlog.get_logger("probes")


class AddressError(ValueError):
    """An address that cannot be parsed or listened on; one line that names the flag."""


class Address(msgspec.Struct, frozen=True):
    """Where to listen."""

    host: str
    """ "" for all interfaces."""
    port: int
    """0 for any free one."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str, flag: str) -> Address:
    """Parse ":8081", "127.0.0.1:0", "localhost:8081", "[::1]:80".

    Args:
        text: the address.
        flag: where it comes from ("--health-address"), for the error.

    Raises:
        AddressError: It is none of these forms, or the port is out of range.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise AddressError(f"{flag}: {text!r}: an IPv6 address needs brackets: [{host}]:{port}")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > MAX_PORT:
        raise AddressError(f"{flag}: {text!r} is not HOST:PORT or :PORT")
    return Address(host, int(port))


def open_listener(address: Address, flag: str) -> socket.socket:
    """Open a listening TCP socket; all interfaces means IPv6 and IPv4 where the machine has both.

    Raises:
        AddressError: The address is in use, or not this machine's; one line, with the flag.
    """
    everywhere = not address.host
    dual = everywhere and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual or ":" in address.host else socket.AF_INET
    try:
        return socket.create_server(
            (address.host, address.port), family=family, dualstack_ipv6=dual, backlog=128
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressError(f"{flag}: {address} is already in use") from error
        raise AddressError(f"{flag}: cannot listen on {address}: {error}") from error


def load_tls(certificate: str, key: str, prefix: str) -> ssl.SSLContext | None:
    """Return what serves TLS with a certificate and its key (PEM files); None without any.

    Args:
        certificate: the file of the certificate, and of what leads from it to an authority.
        key: the file of its key.
        prefix: of the two flags that name them ("--metrics-tls"), for the error.

    Raises:
        AddressError: They can not be read, or do not belong together; one line.
    """
    if not certificate and not key:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # ssl.SSLError is one
        said = error.strerror or str(error)
        raise AddressError(
            f"{prefix}-certificate {certificate}, {prefix}-key {key}: {said}"
        ) from error
    return context


class Routes(msgspec.Struct, frozen=True, kw_only=True):
    """What a server answers, without any HTTP; a part that is None is not served."""

    live: Mapping[str, Check] | None = None
    """Checks of `/livez` and `/healthz` by name."""
    ready: Mapping[str, Check] | None = None
    """Checks of `/readyz` by name."""
    metrics: Exposition | None = None
    """Makes the body of `/metrics`."""
    authorize: Authorize | None = None
    """Asked before `/metrics` is answered. Probes are open: the kubelet has no credentials."""

    def answer(self, target: str, headers: Mapping[str, str]) -> _Answer:
        """Answer one GET."""
        url = urlsplit(target)
        query = parse_qs(url.query, keep_blank_values=True)
        group, _, name = unquote(url.path).strip("/").partition("/")
        if group == "metrics" and not name:
            return self._answer_metrics(headers)
        checks = {"livez": self.live, "healthz": self.live, "readyz": self.ready}.get(group)
        if checks is None or (name and name not in checks):
            return _Answer(HTTPStatus.NOT_FOUND, b"404 page not found\n")
        wanted = [name] if name else sorted(checks.keys() - set(query.get("exclude", ())))
        return _judge(group, {each: checks[each] for each in wanted}, verbose="verbose" in query)

    def _answer_metrics(self, headers: Mapping[str, str]) -> _Answer:
        if self.metrics is None:
            return _Answer(HTTPStatus.NOT_FOUND, b"404 page not found\n")
        status = HTTPStatus.OK
        if self.authorize is not None:
            status = self.authorize("/metrics", headers)
        if status is not HTTPStatus.OK:
            return _Answer(status, f"{status.value} {status.phrase}\n".encode())
        try:
            body, content_type = self.metrics()
        except Exception:  # one collector among many, a plugin's perhaps
            log.exception("the metrics can not be written")
            return _Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"500 see the program's log\n")
        return _Answer(HTTPStatus.OK, body, content_type)


class ProbeServer:
    """Serves probes, metrics, or both, on one address.

    Args:
        address: where to listen; a port 0 becomes a free one.
        routes: what to answer.
        flag: the flag that set the address, for errors and logs.
        clock: how connections that take too long are found.
        tls: serves HTTPS with this context.

    Raises:
        AddressError: from the constructor, when the address cannot be listened on.
    """

    def __init__(
        self,
        address: Address,
        routes: Routes,
        *,
        flag: str,
        clock: Clock,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._server = _Server(open_listener(address, flag), routes, tls, clock)
        host, port = self._server.socket.getsockname()[:2]
        self.address = Address(address.host or host, port)
        log.info("listening", flag=flag, address=str(self.address), port=port)

    @property
    def port(self) -> int:
        """The port, also when a free one was asked for."""
        return self.address.port

    def step(self) -> float:
        """Accept one connection, or give up after `ACCEPT_SECONDS`; never rests."""
        self._server.handle_request()
        self._server.end_overdue()
        return 0.0

    def close(self) -> None:
        """Stop listening; after the thread that calls `step` has ended."""
        self._server.server_close()


class _Answer(msgspec.Struct, frozen=True):
    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


def _judge(group: str, checks: Mapping[str, Check], *, verbose: bool) -> _Answer:
    """Run the checks and word the outcome as the API server does."""
    results = [(name, *_run_check(check)) for name, check in checks.items()]
    failed = [name for name, ok, _ in results if not ok]
    if not failed and not verbose:
        return _Answer(HTTPStatus.OK, b"ok")
    lines = [_line(name, ok, detail) for name, ok, detail in results]
    lines.append(f"{group} check {'failed' if failed else 'passed'}")
    status = HTTPStatus.INTERNAL_SERVER_ERROR if failed else HTTPStatus.OK
    return _Answer(status, ("\n".join(lines) + "\n").encode())


def _line(name: str, ok: bool, detail: str) -> str:  # noqa: FBT001 - private, one caller
    verdict = f"[+]{name} ok" if ok else f"[-]{name} failed"
    return f"{verdict}: {' '.join(detail.split())}" if detail else verdict


def _run_check(check: Check) -> tuple[bool, str]:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - a broken check is a failed check, not a dropped connection
        return False, f"the check itself failed: {error!r}"


class _Server(ThreadingHTTPServer):
    """One thread per connection, at most `MAX_CONNECTIONS`."""

    daemon_threads = True
    block_on_close = False  # a connection that hangs must not keep the program from ending
    timeout = ACCEPT_SECONDS

    def __init__(
        self,
        listener: socket.socket,
        routes: Routes,
        tls: ssl.SSLContext | None,
        clock: Clock,
    ) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.routes = routes
        self._tls = tls
        self._clock = clock
        # Written by the accepting thread and by the serving ones, each entry by one of them at a
        # time; a dict takes that without a lock. Accepted socket -> since when, socket to cut
        # (with TLS another one, which has taken over the first one's descriptor).
        self._connections: dict[socket.socket, tuple[float, socket.socket]] = {}

    def process_request(self, request: _Connection, client_address: object) -> None:
        """Serve a connection on a thread of its own, or close it when there are too many."""
        assert isinstance(request, socket.socket)
        if len(self._connections) >= MAX_CONNECTIONS:
            self.shutdown_request(request)
            return
        request.settimeout(CONNECTION_SECONDS)
        self._connections[request] = (self._clock.monotonic(), request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: _Connection, client_address: object) -> None:
        """Serve a connection; on its own thread."""
        assert isinstance(request, socket.socket)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.pop(request, None)

    def finish_request(self, request: _Connection, client_address: object) -> None:
        """Shake hands (here, not in accept: a silent client must not block the others)."""
        if self._tls is None:
            super().finish_request(request, client_address)
            return
        assert isinstance(request, socket.socket)
        since, _ = self._connections[request]
        with self._tls.wrap_socket(
            request, server_side=True, do_handshake_on_connect=False
        ) as wrapped:
            self._connections[request] = (since, wrapped)
            wrapped.do_handshake()
            super().finish_request(wrapped, client_address)

    def end_overdue(self) -> None:
        """Cut connections that send or read too slowly; their threads see the end and leave."""
        limit = self._clock.monotonic() - CONNECTION_SECONDS
        for since, connection in list(self._connections.values()):
            if since <= limit:
                with contextlib.suppress(OSError):  # it has just ended by itself
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: _Connection, client_address: object) -> None:
        """Note a connection that broke; everyday for a port that port scanners can reach."""
        log.debug("connection failed", client=str(client_address), error=repr(sys.exception()))


class _Handler(BaseHTTPRequestHandler):
    """One GET, then the connection ends (HTTP/1.0: no idle connections to hold threads)."""

    server: _Server
    server_version = "koord-queue"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with status, headers and body."""
        self._send(with_body=True)

    def do_HEAD(self) -> None:
        """Answer without the body."""
        self._send(with_body=False)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing: a probe a second is no news."""

    def _send(self, *, with_body: bool) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.routes.answer(self.path, headers)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)
