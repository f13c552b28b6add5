"""Serves the debug API: a port like the others, and behind it the web framework's application.

`connection_gate` has the sockets, and workers of its own. A worker hands each request to the
framework, whose event loop runs on a thread that the framework starts, and waits for the answer as
a whole. Loopback addresses are served plainly. Any other address needs TLS.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Generator, MutableMapping
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

from anyio.from_thread import BlockingPortal, start_blocking_portal
from anyio.lowlevel import checkpoint
from starlette.applications import Starlette

from shared_api.process.alarm import Alarm
from shared_api.process.clock import Clock
from shared_api.process.connection_gate import ConnectionGate, Observer, Spawn
from shared_api.process.http_exchange import Answer, Request, say
from shared_api.process.loop_thread import LoopThread, run_once
from shared_api.process.probes import Address, AddressError, load_tls

WORKERS: Final = 8
"""Requests that are answered at once. One of them builds its answer; the others wait for it, or for
the API server to say who asks."""

ANSWER_SECONDS: Final = 60.0
"""In which an answer must be made: the API server is given 30 s to say who asks."""

GRACE_SECONDS: Final = 2.0
"""What answers that are being made are given when the server closes."""

_OWN_HEADERS: Final = frozenset({"content-length", "content-type", "connection", "date"})


def is_loopback(address: Address) -> bool:
    """Say whether only this machine reaches the address."""
    if address.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return False


def check_address(address: Address, certificate: str, key: str) -> None:
    """Refuse to serve the cluster without TLS, or with a certificate that can not be used.

    Raises:
        AddressError: See its text.
    """
    if bool(certificate) != bool(key):
        msg = "--debug-tls-certificate and --debug-tls-key go together"
        raise AddressError(msg)
    if not certificate and not is_loopback(address):
        msg = (
            f"--debug-address {address}: an address that others reach needs "
            "--debug-tls-certificate and --debug-tls-key"
        )
        raise AddressError(msg)
    load_tls(certificate, key, "--debug-tls")


class DebugServer:
    """The application behind a port.

    Args:
        app: What answers.
        listener: Open already.
        tls: Serves HTTPS with this context, where there is one.
        limit: How many connections there may be at once.
        clock: The time.
        observe: Told what became of each connection.
    """

    def __init__(
        self,
        app: Starlette,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        *,
        limit: int,
        clock: Clock,
        observe: Observer = lambda _: None,
    ) -> None:
        self._app = app
        self._clock = clock
        self._scheme = "http" if tls is None else "https"
        self._server = listener.getsockname()[:2]
        self._running = ExitStack()
        self._portal: BlockingPortal | None = None
        self._gate = ConnectionGate(
            listener,
            self._answer,
            limit=limit,
            clock=clock,
            tls=tls,
            workers=WORKERS,
            observe=observe,
        )

    def threads(self, spawn: Spawn) -> list[LoopThread]:
        """Return the threads that serve it, not started."""
        return self._gate.threads("debug", spawn)

    def start(self) -> None:
        """Start the framework's loop; before the threads."""
        self._portal = self._running.enter_context(start_blocking_portal())

    def close(self) -> None:
        """Close the port; after its threads have ended.

        The framework's loop waits for answers that are being made, and these perhaps for the API
        server. Whoever stops the program waits for `GRACE_SECONDS` only.
        """
        self._gate.close()
        ended = Alarm()

        def end() -> None:
            self._running.close()
            ended.set()

        run_once("debug-loop-end", end, self._clock)
        self._clock.wait(ended, GRACE_SECONDS)

    def end(self) -> None:
        """Let its threads end soon; where they have never begun, close the port."""
        self._gate.end()

    def _answer(self, request: Request) -> Answer:
        assert self._portal is not None
        collected = _Collected()
        scope = self._scope_of(request)
        run = self._portal.start_task_soon(self._app, scope, collected.receive, collected.send)
        try:
            run.result(ANSWER_SECONDS)
        except TimeoutError:
            run.cancel()
            return say(HTTPStatus.SERVICE_UNAVAILABLE, "the answer took too long")
        return collected.answer()

    def _scope_of(self, request: Request) -> dict[str, Any]:
        """Return a request as ASGI has it (https://asgi.readthedocs.io, HTTP scope)."""
        path, _, query = request.target.partition("?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.0",
            "method": request.method,
            "scheme": self._scheme,
            "path": unquote(path),
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "root_path": "",
            "headers": [
                (name.encode("latin-1"), value.encode("latin-1"))
                for name, value in request.headers.items()
            ],
            "client": None,
            "server": self._server,
        }


class _EmptyBody:
    """What the application awaits."""

    def __await__(self) -> Generator[Any, Any, MutableMapping[str, Any]]:
        yield from checkpoint().__await__()
        return {"type": "http.request", "body": b"", "more_body": False}


class _Collected:
    """An answer of the application, put together; requests have no body."""

    def __init__(self) -> None:
        self._status = 500
        self._headers: list[tuple[str, str]] = []
        self._parts: list[bytes] = []

    def receive(self) -> Awaitable[MutableMapping[str, Any]]:
        """Give the application the body of the request."""
        return _EmptyBody()

    def send(self, message: MutableMapping[str, Any]) -> Awaitable[None]:
        """Take a part of the answer."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = [
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in message.get("headers", ())
            ]
        elif message["type"] == "http.response.body":
            self._parts.append(message.get("body", b""))
        return checkpoint()

    def answer(self) -> Answer:
        """Return all of it."""
        named = {name.lower(): value for name, value in self._headers}
        return Answer(
            self._status,
            b"".join(self._parts),
            named.get("content-type", "text/plain; charset=utf-8"),
            tuple(pair for pair in self._headers if pair[0].lower() not in _OWN_HEADERS),
        )
