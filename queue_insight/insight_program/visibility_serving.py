"""Opens the aggregated API of the insight program, and its own connection to the API server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import structlog
from starlette.types import ASGIApp

from queue_insight.insight_program.api_connection import connect
from queue_insight.insight_program.flags import ADDRESS_FLAG, VisibilityFlags
from queue_insight.visibility.caller import Judge
from queue_insight.visibility.namespaces import namespace_reader
from queue_insight.visibility.server import VisibilityServer
from queue_insight.visibility.snapshots import KeptSnapshots
from shared_api.local_program import LocalProgram
from shared_api.objects.namespace import Namespace
from shared_api.process.probes import open_listener, parse_address

log = structlog.get_logger("visibility")


def open_visibility(
    program: LocalProgram,
    flags: VisibilityFlags,
    is_ready: Callable[[], bool],
    build: Callable[[Judge, Callable[[str], Namespace | None], KeptSnapshots], ASGIApp],
    opened: ExitStack,
) -> VisibilityServer:
    """Open the port of the aggregated API; return its server, not yet started.

    Args:
        program: The process.
        flags: The flags of the API.
        is_ready: Returns whether there is anything to answer from.
        build: Returns the application, given what judges callers, what reads a namespace, and the
            states that are kept; called at the first request.
        opened: Closes its connections to the API server at the end.

    Raises:
        AddressError: The address cannot be used.
        SettingsError: There is neither a kubeconfig nor a service account.
    """
    client = connect(program, flags.kubeconfig, flags.context, opened)
    listener = open_listener(parse_address(flags.address, ADDRESS_FLAG), ADDRESS_FLAG)
    port = listener.getsockname()[1]
    log.info("listening", flag=ADDRESS_FLAG, address=flags.address, port=port)

    def build_app(judge: Judge, kept: KeptSnapshots) -> ASGIApp:
        return build(judge, namespace_reader(client), kept)

    return VisibilityServer(program, client, listener, flags.service, is_ready, build_app)
