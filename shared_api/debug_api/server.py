"""Serves the debug API: a port like the others, with the application behind it.

`connection_gate` owns the sockets, and has workers. A worker passes each complete request to the
application, which runs on another thread (`app_server`), and waits for the whole answer. Loopback
addresses are served without TLS; any other address requires it.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec
import structlog
from msgspec.structs import replace
from starlette.applications import Starlette

from shared_api.debug_api.access import LocalAccess, ReviewedAccess, RightOf, open_access
from shared_api.debug_api.app_server import AppServer
from shared_api.debug_api.debug_flags import DebugFlags
from shared_api.debug_api.router_group import Guard
from shared_api.process.answer_desk import NOBODY, UserOf, limit_places, one_lane
from shared_api.process.clock import Clock
from shared_api.process.connection_gate import REFUSAL_SECONDS, ConnectionGate, Observer, Spawn
from shared_api.process.http_exchange import Answer
from shared_api.process.loop_thread import LoopThread
from shared_api.process.probes import Address, AddressError, load_tls, open_listener, parse_address
from shared_api.program import Program

GuardOf = Callable[[RightOf], Guard]
"""Returns the guard of requests, given the right that a request needs where tokens are checked."""

PLACES: Final = 6
"""Number of requests that are answered at once. One of them builds its answer; the others wait for
it, or for the API server to identify the reader."""
OWN_PLACES: Final = 2
"""The answers of one caller at once, where callers are distinguished: one is built at a time, so
more would only make others wait behind them."""
WAITING: Final = 8
"""Requests that wait: with those that are answered, fewer than the port holds bodies of."""

MAX_BODY_BYTES: Final = 1_048_576
"""Longest body of a question: an object that the API server stores has no more (etcd's limit)."""

log = structlog.get_logger("debug_api")


def is_loopback(address: Address) -> bool:
    """Return whether only this machine can reach the address."""
    if address.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return False


def check_address(address: Address, certificate: str, key: str, flag: str = "--debug") -> None:
    """Check that the address can be served with this certificate, if any.

    Args:
        address: Where to listen.
        certificate: Path of the certificate; "" if there is none.
        key: Path of its key.
        flag: What the flags of the port begin with.

    Raises:
        AddressError: The address is not loopback and there is no TLS, or the certificate cannot be
            used.
    """
    if bool(certificate) != bool(key):
        raise AddressError(f"{flag}-tls-certificate and {flag}-tls-key go together")
    if not certificate and not is_loopback(address):
        msg = (
            f"{flag}-address {address}: an address that others reach needs "
            f"{flag}-tls-certificate and {flag}-tls-key"
        )
        raise AddressError(msg)
    load_tls(certificate, key, f"{flag}-tls")


class Callers(NamedTuple):
    """How callers share the places of a port.

    Attributes:
        user_of: Who asks.
        own_places: The most answers at once of one caller; None: as many as are free.
    """

    user_of: UserOf = NOBODY
    own_places: int | None = None


class DebugServer:
    """The application behind a port.

    Args:
        build: Returns the application; called at the first request, on a thread of the server.
        listener: The socket of the port, already listening.
        tls: The context to serve HTTPS with; None serves HTTP.
        limit: Most connections at once.
        clock: The time, for deadlines.
        callers: How callers share the places.
        observe: Called with the outcome of each connection.
    """

    def __init__(
        self,
        build: Callable[[], Starlette],
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        *,
        limit: int,
        clock: Clock,
        callers: Callers = Callers(),  # noqa: B008 - it is immutable
        observe: Observer = lambda _: None,
    ) -> None:
        host, port = listener.getsockname()[:2]
        self._app_server = AppServer(
            build, server=(host, port), scheme="http" if tls is None else "https", clock=clock
        )
        limits = replace(limit_places(PLACES, WAITING), own_places=callers.own_places)
        self._gate = ConnectionGate(
            listener,
            one_lane(self._app_server.ask, limits, _refuse, clock, callers.user_of),
            limit=limit,
            clock=clock,
            tls=tls,
            max_body=MAX_BODY_BYTES,
            refusal_seconds=REFUSAL_SECONDS,
            observe=observe,
        )

    def threads(self, spawn: Spawn) -> list[LoopThread]:
        """Return the threads of the port and of the application, not yet started."""
        return [*self._gate.threads("debug", spawn), spawn("debug-api", self._app_server.step)]

    def end(self) -> None:
        """Make its threads end soon; if they have never run, close the sockets."""
        self._app_server.end()
        self._gate.end()

    def close(self) -> None:
        """Close the port; call it after its threads have ended."""
        self._gate.close()


def _refuse(retry_after: int) -> Answer:
    """Return the refusal of a request whose caller has had its share, as the application would."""
    detail = f"too many requests of yours at once: ask again in {retry_after} s"
    content = msgspec.json.encode({"detail": detail})
    again = (("Retry-After", str(retry_after)),)
    return Answer(HTTPStatus.TOO_MANY_REQUESTS, content, "application/json", again)


def open_debug_server(
    program: Program,
    flags: DebugFlags,
    build: Callable[[GuardOf], Starlette],
) -> DebugServer:
    """Open the port of a program's debug API; return its server, not yet started.

    Args:
        program: The process.
        flags: The flags of the debug API.
        build: Returns the application, whose routes call a guard of `GuardOf` first. Called at the
            first request, so that its imports cost nothing before.

    Raises:
        AddressError: The address or the certificate cannot be used.
    """
    address = parse_address(flags.address, "--debug-address")
    check_address(address, flags.tls_certificate, flags.tls_key)
    guard_of = partial(_build_access, program, flags, address)
    listener = open_listener(address, "--debug-address")
    port, limit = listener.getsockname()[1], program.port_shares["debug"]
    log.info(
        "listening",
        flag="--debug-address",
        address=f"{address.host}:{port}",
        port=port,
        connections=limit,
    )
    return DebugServer(
        lambda: build(guard_of),
        listener,
        load_tls(flags.tls_certificate, flags.tls_key, "--debug-tls"),
        limit=limit,
        clock=program.clock,
        # All who come through a port-forward come from one address, and none has a token.
        callers=Callers(
            program.authorizer.cached_user, None if is_loopback(address) else OWN_PLACES
        ),
        observe=program.metrics.ports.of_port("debug"),
    )


def _build_access(
    program: Program, flags: DebugFlags, address: Address, right_of: RightOf
) -> Guard:
    if not is_loopback(address):
        return ReviewedAccess(program.authorizer, right_of)
    # With TLS the certificate names the valid hosts, so a rebound name is not among them.
    return open_access if flags.tls_certificate else LocalAccess((*flags.hosts, address.host))
