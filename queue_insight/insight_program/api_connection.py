"""The insight program's connections to the API server.

One is its own, to ask who its callers are. Another has no credentials: each of its requests carries
the token of the visitor that it is made for.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Final

from msgspec.structs import replace

from queue_insight.page.visitor_client import MAX_ANSWER_BYTES
from shared_api.client.connection_settings import WithoutCredentials
from shared_api.client.flow_control import FlowControl
from shared_api.client.http_transport import HttpTransport
from shared_api.client.kube_config import open_connection
from shared_api.client.resource_client import ResourceClient
from shared_api.client.transport import Transport
from shared_api.local_program import LocalProgram
from shared_api.version import VERSION

QPS: Final = 50.0
BURST: Final = 100
"""Rate limit of requests to the API server. Nearly all are reviews of callers, at most one of each
kind per request and ten seconds."""

REQUEST_SECONDS: Final = 5.0
"""Time limit of one request: callers wait for it, and at the end of the program the pod does."""


def connect(
    program: LocalProgram, kubeconfig: str | None, context: str | None, opened: ExitStack
) -> ResourceClient:
    """Return a client of the API server.

    Args:
        program: The process.
        kubeconfig: Path of a kubeconfig; None: the pod's service account.
        context: Context of the kubeconfig; None: the current one.
        opened: Closes the connections of the client at the end.

    Raises:
        SettingsError: There is neither a kubeconfig nor a service account.
    """
    connection = open_connection(kubeconfig, context, clock=program.clock).settings
    transport = opened.enter_context(closing(HttpTransport(connection, program.clock)))
    return ResourceClient(
        transport,
        flow=FlowControl(QPS, BURST, program.clock),
        clock=program.clock,
        rng=program.rng,
        request_timeout_seconds=REQUEST_SECONDS,
        user_agent=f"{program.component}/{VERSION}",
        host=connection.host,
        observer=program.metrics.rest_client,
    )


def connect_for_visitors(
    program: LocalProgram, kubeconfig: str | None, context: str | None, opened: ExitStack
) -> Transport:
    """Return a transport without credentials to the same API server, verified as for the program.

    Args:
        program: The process.
        kubeconfig: As of `connect`.
        context: As of `connect`.
        opened: Closes its connections at the end.

    Raises:
        SettingsError: There is neither a kubeconfig nor a service account.
    """
    connection = open_connection(kubeconfig, context, clock=program.clock).settings
    without = replace(connection, login=WithoutCredentials(connection.login))
    transport = HttpTransport(without, program.clock, max_body_bytes=MAX_ANSWER_BYTES)
    return opened.enter_context(closing(transport))
