"""``/livez``, ``/readyz``, ``/healthz`` and ``/metrics`` over HTTP, with the standard library.

Paths and answers are those of the Kubernetes components: 200 "ok", or 500 and the list of checks;
``?verbose`` always shows the list with details, ``?exclude=<check>`` (repeatable) leaves one out,
``/readyz/<check>`` asks for one. Only the status code is meant for machines.

``connection_gate`` decides which connections are accepted, how many and for how long. Checks run on
its thread, so that nothing else can keep a probe waiting.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
import structlog

from shared_api.process.answer_desk import (
    NOBODY,
    AnswerDesk,
    Answerer,
    UserOf,
    limit_places,
    one_lane,
)
from shared_api.process.clock import Clock
from shared_api.process.connection_gate import REFUSAL_SECONDS, ConnectionGate, Observer
from shared_api.process.http_exchange import Answer, Request, text_answer

METRICS_LIMITS: Final = limit_places(4, waiting=16)
"""Metrics that are written at once: enough for a Prometheus or two, a person, and one request that
waits for the API server to identify its sender; with those that wait, a third of the port's
connections."""

BACKLOG: Final = 1024
"""Connections that the kernel keeps until they are accepted. Above that it drops the first packet
of a connection, which is repeated after a second: a probe would be late."""

MAX_PORT: Final = 65_535

Check = Callable[[], tuple[bool, str]]
"""Returns (ok, detail) without waiting for anything; called on the server's threads."""

Exposition = Callable[[], tuple[bytes, str]]
"""Returns a body and its content type."""

Authorize = Callable[[str, Mapping[str, str]], HTTPStatus]
"""(path, headers) -> OK to continue, else the status to answer with."""

log = structlog.get_logger("probes")


class AddressError(ValueError):
    """An address cannot be parsed or listened on; the message is one line that names the flag."""


class Address(msgspec.Struct, frozen=True):
    """Where to listen."""

    host: str
    """Host name or IP address; "" for all interfaces."""
    port: int
    """Port number; 0 for any free one."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str, flag: str) -> Address:
    """Return the address of a text like ":8081", "127.0.0.1:0", "localhost:8081" or "[::1]:80".

    Args:
        text: The address.
        flag: The flag that it comes from ("--health-address"), for the error.

    Raises:
        AddressError: The text has none of these forms, or the port is out of range.
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
    """Return a listening TCP socket; all interfaces means IPv6 and IPv4 if the machine has both.

    Raises:
        AddressError: The address is in use, or does not belong to this machine.
    """
    everywhere = not address.host
    dual = everywhere and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual or ":" in address.host else socket.AF_INET
    try:
        return socket.create_server(
            (address.host, address.port), family=family, dualstack_ipv6=dual, backlog=BACKLOG
        )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressError(f"{flag}: {address} is already in use") from error
        raise AddressError(f"{flag}: cannot listen on {address}: {error}") from error


def load_tls(certificate: str, key: str, prefix: str) -> ssl.SSLContext | None:
    """Return a TLS context with a certificate and its key (PEM files); None when neither is given.

    Args:
        certificate: Path of the certificate, with its chain up to an authority.
        key: Path of its private key.
        prefix: Common prefix of the two flags that name them ("--metrics-tls"), for the error.

    Raises:
        AddressError: The files cannot be read, or do not belong together.
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
    """What a server answers, apart from HTTP; a part that is None is not served."""

    live: Mapping[str, Check] | None = None
    """Checks of `/livez` and `/healthz` by name."""
    ready: Mapping[str, Check] | None = None
    """Checks of `/readyz` by name."""
    metrics: Exposition | None = None
    """Makes the body of `/metrics`."""
    authorize: Authorize | None = None
    """Called before `/metrics` is answered. Probes are open: the kubelet has no credentials."""
    user_of: UserOf = NOBODY
    """Who reads metrics, for the share of each."""

    def answer(self, request: Request) -> Answer:
        """Return the answer to one request."""
        if request.method not in {"GET", "HEAD"}:
            return text_answer(HTTPStatus.NOT_IMPLEMENTED)
        try:
            url = urlsplit(request.target)
        except ValueError:  # "//["
            return text_answer(HTTPStatus.BAD_REQUEST)
        query = parse_qs(url.query, keep_blank_values=True)
        group, _, name = unquote(url.path).strip("/").partition("/")
        if group == "metrics" and not name:
            return self._answer_metrics(request.headers)
        checks = {"livez": self.live, "healthz": self.live, "readyz": self.ready}.get(group)
        if checks is None or (name and name not in checks):
            return text_answer(HTTPStatus.NOT_FOUND, "page not found")
        wanted = [name] if name else sorted(checks.keys() - set(query.get("exclude", ())))
        return _judge(group, {each: checks[each] for each in wanted}, verbose="verbose" in query)

    def _answer_metrics(self, headers: Mapping[str, str]) -> Answer:
        if self.metrics is None:
            return text_answer(HTTPStatus.NOT_FOUND, "page not found")
        status = HTTPStatus.OK
        if self.authorize is not None:
            status = self.authorize("/metrics", headers)
        if status is not HTTPStatus.OK:
            return text_answer(status)
        try:
            body, content_type = self.metrics()
        except Exception:  # one collector of many failed, perhaps a plugin's
            log.exception("the metrics cannot be written")
            return text_answer(HTTPStatus.INTERNAL_SERVER_ERROR, "see the program's log")
        return Answer(HTTPStatus.OK, body, content_type)


class ProbeServer:
    """Serves probes, metrics, or both, on one address.

    Args:
        address: Where to listen; port 0 becomes a free one.
        routes: What to answer.
        flag: The flag that set the address, for errors and logs.
        clock: The time, for deadlines of connections.
        limit: Most connections at once.
        tls: The context to serve HTTPS with; None serves HTTP.
        observe: Called with the outcome of each connection.

    Raises:
        AddressError: The address cannot be listened on.
    """

    def __init__(
        self,
        address: Address,
        routes: Routes,
        *,
        flag: str,
        clock: Clock,
        limit: int,
        tls: ssl.SSLContext | None = None,
        observe: Observer = lambda _: None,
    ) -> None:
        listener = open_listener(address, flag)
        host, port = listener.getsockname()[:2]
        self.address = Address(address.host or host, port)
        # Checks answer at once. Metrics take longer, and may wait until the API server has
        # identified the sender.
        answer: Answerer | AnswerDesk = routes.answer
        if routes.metrics is not None:
            answer = one_lane(routes.answer, METRICS_LIMITS, _refuse, clock, routes.user_of)
        self.gate = ConnectionGate(
            listener,
            answer,
            limit=limit,
            clock=clock,
            tls=tls,
            refusal_seconds=REFUSAL_SECONDS,
            observe=observe,
        )
        log.info("listening", flag=flag, address=str(self.address), port=port, connections=limit)

    @property
    def port(self) -> int:
        """The port that is listened on, also when a free one was asked for."""
        return self.address.port


def _refuse(retry_after: int) -> Answer:
    refusal = text_answer(HTTPStatus.TOO_MANY_REQUESTS, f"ask again in {retry_after} s")
    return msgspec.structs.replace(refusal, headers=(("Retry-After", str(retry_after)),))


def _judge(group: str, checks: Mapping[str, Check], *, verbose: bool) -> Answer:
    """Run the checks and return the result in the API server's format."""
    results = [(name, *_run_check(check)) for name, check in checks.items()]
    failed = [name for name, ok, _ in results if not ok]
    if not failed and not verbose:
        return Answer(HTTPStatus.OK, b"ok")
    lines = [_line(name, ok, detail) for name, ok, detail in results]
    lines.append(f"{group} check {'failed' if failed else 'passed'}")
    status = HTTPStatus.INTERNAL_SERVER_ERROR if failed else HTTPStatus.OK
    return Answer(status, ("\n".join(lines) + "\n").encode())


def _line(name: str, ok: bool, detail: str) -> str:  # noqa: FBT001 - private, one caller
    verdict = f"[+]{name} ok" if ok else f"[-]{name} failed"
    return f"{verdict}: {' '.join(detail.split())}" if detail else verdict


def _run_check(check: Check) -> tuple[bool, str]:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - a broken check is a failed check, not a dropped connection
        return False, f"the check itself failed: {error!r}"
