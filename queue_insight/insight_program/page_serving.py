"""Opens the port of the page."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

import structlog

from queue_insight.insight_program.api_connection import connect, connect_for_visitors
from queue_insight.insight_program.flags import PAGE_FLAG, PageFlags
from queue_insight.page.login import VISITORS
from queue_insight.page.page_app import Login, build_page_app
from queue_insight.page.page_metrics import PageMetrics
from queue_insight.page.page_server import PageServer, Tls
from queue_insight.page.renewed_certificate import RenewedCertificate
from queue_insight.page.sessions import Sessions
from queue_insight.page.sources import PageSources
from queue_insight.page.tls_acceptor import HandshakeLimits
from shared_api.authorization.authorizer import Authorizer
from shared_api.debug_api.access import LOCAL_HOSTS
from shared_api.debug_api.server import check_address, is_loopback
from shared_api.local_program import LocalProgram
from shared_api.process.open_files import RESERVED, WANTED, raise_open_files
from shared_api.process.probes import load_tls, open_listener, parse_address

CONNECTIONS: Final = 640
"""At once: 256 streams of open pages, one more for what each asks, since browsers keep it open, and
some for those that begin."""
LEAST_CONNECTIONS: Final = 16

log = structlog.get_logger("page")


def open_page(
    program: LocalProgram, flags: PageFlags, sources: PageSources, opened: ExitStack
) -> PageServer:
    """Open the port of the page; return its server, not yet started.

    On a loopback address every client may read everything, and the header Host is checked. On any
    other address visitors log in.

    Args:
        program: The process.
        flags: The flags of the page.
        sources: What it answers from.
        opened: Closes its connections to the API server at the end.

    Raises:
        AddressError: The address or the certificate cannot be used.
        SettingsError: There is neither a kubeconfig nor a service account.
    """
    address = parse_address(flags.address, PAGE_FLAG)
    check_address(address, flags.tls_certificate, flags.tls_key, "--page")
    login = None
    if not is_loopback(address):
        client = connect(program, flags.kubeconfig, flags.context, opened)
        authorizer = Authorizer(client, program.clock, VISITORS)
        for_visitors = connect_for_visitors(program, flags.kubeconfig, flags.context, opened)
        login = Login(Sessions(program.clock), authorizer, for_visitors, flags.trusted_proxies)
    hosts = frozenset(each.lower() for each in flags.hosts) or None
    if not flags.tls_certificate:
        hosts = (hosts or frozenset()) | LOCAL_HOSTS | {address.host.lower()}
    listener = open_listener(address, PAGE_FLAG)
    limit = _connections()
    port = listener.getsockname()[1]
    log.info(
        "listening",
        flag=PAGE_FLAG,
        address=f"{address.host}:{port}",
        port=port,
        connections=limit,
        login=login is not None,
    )
    metrics = PageMetrics(program.metrics.registry)
    return PageServer(
        lambda: build_page_app(sources, login, hosts, metrics),
        listener,
        _open_tls(flags),
        limit,
        program.metrics.ports.of_port("page"),
    )


def _open_tls(flags: PageFlags) -> Tls | None:
    context = load_tls(flags.tls_certificate, flags.tls_key, "--page-tls")
    if context is None:
        return None
    certificate = RenewedCertificate(context, flags.tls_certificate, flags.tls_key)
    return Tls(certificate, HandshakeLimits(shared=flags.trusted_proxies))


def _connections() -> int:
    """Return how many connections the process has room for, beside those of its other ports."""
    handshakes = HandshakeLimits().in_all + HandshakeLimits().waiting
    left = raise_open_files(CONNECTIONS + handshakes) - RESERVED - sum(WANTED.values()) - handshakes
    return max(LEAST_CONNECTIONS, min(CONNECTIONS, left))
