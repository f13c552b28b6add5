"""Opens the aggregated API of the insight program, and its own connection to the API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog
from starlette.types import ASGIApp

from queue_scheduler.insight_program.flags import ADDRESS_FLAG, VisibilityFlags
from queue_scheduler.visibility.caller import Rights
from queue_scheduler.visibility.namespaces import namespace_reader
from queue_scheduler.visibility.server import VisibilityServer
from shared_api.client.flow_control import FlowControl
from shared_api.client.http_transport import HttpTransport
from shared_api.client.kube_config import load_connection
from shared_api.client.resource_client import ResourceClient
from shared_api.local_program import LocalProgram
from shared_api.objects.namespace import Namespace
from shared_api.process.probes import open_listener, parse_address
from shared_api.version import VERSION

QPS: Final = 50.0
BURST: Final = 100
"""Rate limit of requests to the API server. Nearly all are reviews of callers, at most one of each
kind per request and ten seconds."""

REQUEST_SECONDS: Final = 5.0
"""Time limit of one request: callers wait for it, and at the end of the program the pod does."""

log = structlog.get_logger("visibility")


def open_visibility(
    program: LocalProgram,
    flags: VisibilityFlags,
    is_ready: Callable[[], bool],
    build: Callable[[Rights, Callable[[str], Namespace | None]], ASGIApp],
) -> VisibilityServer:
    """Open the port of the aggregated API; return its server, not yet started.

    Args:
        program: The process.
        flags: The flags of the API.
        is_ready: Returns whether there is anything to answer from.
        build: Returns the application, given the rights of callers and what reads a namespace;
            called at the first request.

    Raises:
        AddressError: The address cannot be used.
        SettingsError: There is neither a kubeconfig nor a service account.
    """
    connection = load_connection(flags.kubeconfig, flags.context, clock=program.clock)
    client = ResourceClient(
        HttpTransport(connection, program.clock),
        flow=FlowControl(QPS, BURST, program.clock),
        clock=program.clock,
        rng=program.rng,
        request_timeout_seconds=REQUEST_SECONDS,
        user_agent=f"{program.component}/{VERSION}",
        host=connection.host,
        observer=program.metrics.rest_client,
    )
    listener = open_listener(parse_address(flags.address, ADDRESS_FLAG), ADDRESS_FLAG)
    port = listener.getsockname()[1]
    log.info("listening", flag=ADDRESS_FLAG, address=flags.address, port=port)

    def build_app(rights: Rights) -> ASGIApp:
        return build(rights, namespace_reader(client))

    return VisibilityServer(program, client, listener, flags.service, is_ready, build_app)
