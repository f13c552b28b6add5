"""Serves the aggregated API: a bounded port with TLS, its judge, and the application behind them.

The port is a `ConnectionGate`, as the other ports: it bounds connections, heads, bodies and how
long a client may take. The workers of its `Gatekeeper` identify the caller and have its rights
reviewed, and ask the application only then, over a socket inside this process.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

import structlog
from starlette.types import ASGIApp

from queue_insight.api_registration.api_service import ApiServices, ServiceReference
from queue_insight.visibility.caller import Judge
from queue_insight.visibility.gatekeeper import Gatekeeper
from queue_insight.visibility.registration import Registration
from queue_insight.visibility.snapshots import KeptSnapshots
from queue_insight.visibility.status_answers import status_answer
from queue_insight.visibility.tls_contexts import TlsContexts
from queue_insight.visibility.upkeep import Upkeep
from queue_insight.visibility.visibility_metrics import VisibilityMetrics
from shared_api.authorization.authorizer import Authorizer, Policy
from shared_api.client.resource_client import ResourceClient
from shared_api.debug_api.app_server import AppServer
from shared_api.local_program import LocalProgram
from shared_api.process.connection_gate import ConnectionGate
from shared_api.process.http_head import read_every_header
from shared_api.process.loop_thread import LoopThread, stop_all

HEAD_SECONDS: Final = 10.0
"""Time from the accept to a complete request, TLS handshake included: as long as the API server
gives a handshake. It opens hundreds of connections at once, and each handshake takes milliseconds
of this thread; silent connections are closed earlier where their places are needed."""
IDLE_SECONDS: Final = 120.0
"""How long a connection is kept for another request: longer than an API server keeps one that is
idle (90 s). A handshake for each request would cost this thread as much again as the request, and
the API server as well."""
MAX_BODY_BYTES: Final = 1_048_576
"""Longest body: an object that the API server stores has no more (etcd's limit)."""

CALLERS: Final = Policy(allowed_seconds=10.0, refused_seconds=10.0, failed_seconds=1.0)
"""How callers are authorized: the API server's own authorizer of aggregated APIs has the same
times. A failed review is soon tried again, since the API server relies on this API."""

log = structlog.get_logger("visibility")


class VisibilityServer:
    """The port, its threads, and the upkeep.

    Args:
        program: The process.
        client: The client of the API server.
        listener: The socket of the port, already listening.
        service: The Service that leads to the port.
        is_ready: Returns whether there is anything to answer from.
        build: Returns the application, given what judges callers and the states that it keeps;
            called at the first request, on a thread of the server.
    """

    def __init__(
        self,
        program: LocalProgram,
        client: ResourceClient,
        listener: socket.socket,
        service: ServiceReference,
        is_ready: Callable[[], bool],
        build: Callable[[Judge, KeptSnapshots], ASGIApp],
    ) -> None:
        clock = self._clock = program.clock
        metrics = VisibilityMetrics(program.metrics.registry)
        authorizer = Authorizer(client, clock, CALLERS)
        kept = self._kept = KeptSnapshots(clock)
        contexts = TlsContexts()
        domain = f"{service.name}.{service.namespace}.svc"
        self._upkeep = Upkeep(
            client,
            Registration(ApiServices(client), service, clock),
            contexts,
            clock,
            is_ready,
            owner=socket.gethostname(),
            names=(domain, f"{domain}.cluster.local"),
        )
        metrics.show(self._upkeep.seconds_left)
        host, port = listener.getsockname()[:2]
        self._app = AppServer(
            lambda: build(authorizer.judge, kept),
            server=(host, port),
            scheme="https",
            clock=clock,
            problem=status_answer,
        )
        keeper = Gatekeeper(
            lambda: self._upkeep.certificates,
            authorizer,
            self._app.ask,
            clock,
            metrics.on_answer,
        )
        self._gate = ConnectionGate(
            listener,
            keeper.desk(),
            limit=program.port_shares["debug"],  # a program has one of the two
            clock=clock,
            tls=contexts,
            max_body=MAX_BODY_BYTES,
            read_head=read_every_header,
            head_seconds=HEAD_SECONDS,
            idle_seconds=IDLE_SECONDS,
            takes_chunks=True,  # kubectl create --raw, and the API server behind it
            observe=program.metrics.ports.of_port("visibility"),
        )
        self._threads = [
            *self._gate.threads(
                "visibility", lambda name, step: program.spawn(name, step, unblock=self._gate.wake)
            ),
            program.spawn("visibility-api", self._app.step, unblock=self._app.end),
        ]
        self._upkeep_thread = program.spawn("visibility-upkeep", self.look_after)

    def look_after(self) -> float:
        """Look once after certificate, trust, registration, and the states that are kept.

        Returns:
            Seconds until the next look of the upkeep's thread.
        """
        self._kept.forget_old()
        return self._upkeep.step()

    def start(self) -> None:
        """Start the threads."""
        for thread in (*self._threads, self._upkeep_thread):
            thread.start()

    def threads(self) -> list[LoopThread]:
        """Return the threads that `/livez` watches; the application's is in one step forever."""
        return [*self._threads[:-1], self._upkeep_thread]

    def stop(self) -> None:
        """Take the registration back, while the port still answers; then stop everything."""
        self._upkeep_thread.stop()
        self._upkeep.withdraw()
        stop_all(self._threads, self._clock)
        self._gate.close()
