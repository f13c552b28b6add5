"""The command line of koord-queue-insight."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from queue_insight.api_registration.api_service import HTTPS_PORT, ServiceReference
from queue_insight.forecast.no_forecast import LEAST_RUNS
from queue_insight.page.networks import Networks, read_networks
from queue_insight.record.record_limits import DEFAULT_BYTES
from shared_api.durations import DurationError, parse_seconds
from shared_api.program_flags import (
    FlagError,
    ProcessFlags,
    add_process_flags,
    read_process_flags,
    with_two_dashes,
)
from shared_api.quantity import QuantityError, amount

PROGRAM: Final = "koord-queue-insight"

METRICS_ADDRESS: Final = ":8085"
HEALTH_ADDRESS: Final = ":8084"
"""Beside the scheduler and the admission checks, which have 8081 to 8083 and 10259 in the same
pod."""


FORECAST_INTERVAL: Final = "1m"
"""Shorter waits need no forecast."""

MAX_DIGITS: Final = 9
"""The most digits of a whole number: more runs than any record keeps."""

RECORD_LIMIT_FLAG: Final = "--record-limit"
RECORD_LIMIT: Final = "2Gi"
"""The default of the chart's `insight.record.sizeLimit`, too."""

ADDRESS_FLAG: Final = "--visibility-address"
PAGE_FLAG: Final = "--page-address"
DASHBOARDS_FLAG: Final = "--page-dashboards"
MAX_ADDRESS: Final = 2_000
"""Characters of an address: more than this some browsers cut."""
_ADDRESS: Final = re.compile(
    r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:[/?#][!-~]*)?"
)
"""URLs of http or https alone: a browser runs what follows `javascript:`."""
TRUSTED_FLAG: Final = "--page-trusted-proxies"
SERVICE_FLAG: Final = "--visibility-service"
_SERVICE: Final = re.compile(
    r"(?P<namespace>[a-z0-9-]+)/(?P<name>[a-z0-9-]+)(:(?P<port>[0-9]{1,5}))?"
)


class VisibilityFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of the aggregated API.

    Attributes:
        address: Where to listen.
        service: The Service that leads there.
        kubeconfig: Path of a kubeconfig; None: the pod's service account.
        context: Context of the kubeconfig; None: the current one.
    """

    address: str
    service: ServiceReference
    kubeconfig: str | None
    context: str | None


class PageFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of the page.

    Attributes:
        address: Where to listen.
        hosts: Names that the header Host may have, in addition to this machine's own without TLS;
            with TLS, without any, it is not looked at.
        tls_certificate: Path of a PEM file; "": plain HTTP, on loopback addresses only.
        tls_key: Path of the certificate's key.
        trusted_proxies: The networks whose addresses stand for many visitors.
        dashboards: The address of dashboards that the page links to; "": there is none.
        kubeconfig: Path of a kubeconfig; None: the pod's service account.
        context: Context of the kubeconfig; None: the current one.
    """

    address: str
    hosts: tuple[str, ...] = ()
    tls_certificate: str = ""
    tls_key: str = ""
    trusted_proxies: Networks = ()
    dashboards: str = ""
    kubeconfig: str | None = None
    context: str | None = None


class InsightFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed command line.

    Attributes:
        process: What all programs have.
        socket_folder: Where the sockets are made.
        record_folder: Where the record is kept; None: nothing is recorded.
        record_bytes: What all files of the record take at most.
        forecast_seconds: The shortest time between two forecasts.
        least_runs: How many runs of a kind must have ended before times are told of it.
        visibility: The aggregated API; None if it is not served.
        page: The page; None if it is not served.
    """

    process: ProcessFlags
    socket_folder: Path
    record_folder: Path | None
    forecast_seconds: float
    least_runs: int = LEAST_RUNS
    record_bytes: int = DEFAULT_BYTES
    visibility: VisibilityFlags | None = None
    page: PageFlags | None = None


def parse_insight_flags(arguments: Sequence[str]) -> InsightFlags:
    """Return the parsed command line.

    Raises:
        FlagError: A value is not valid.
    """
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Answers what takes long, from a copy of the scheduler's engine.",
        allow_abbrev=False,
    )
    add_process_flags(parser, health_address=HEALTH_ADDRESS, metrics_address=METRICS_ADDRESS)
    parser.add_argument(
        "--socket-dir",
        required=True,
        help="folder of the sockets; the scheduler's --insight-socket-dir is the same",
    )
    parser.add_argument(
        "--record-dir",
        default="",
        help="folder of the record of what was decided (default: nothing is recorded)",
    )
    parser.add_argument(
        RECORD_LIMIT_FLAG,
        default=RECORD_LIMIT,
        help="what all files of the record take at most; above that, the oldest rows are deleted"
        " (default: %(default)s)",
    )
    parser.add_argument(
        "--forecast-interval",
        default=FORECAST_INTERVAL,
        help="shortest time between two forecasts; they take a quarter of a core at most"
        " (default: %(default)s)",
    )
    parser.add_argument(
        "--forecast-least-runs",
        default=str(LEAST_RUNS),
        help="finished runs like a unit's from which on its times are told; 0: always"
        " (default: %(default)s)",
    )
    _add_visibility_flags(parser)
    _add_page_flags(parser)
    got = parser.parse_args(with_two_dashes(arguments))
    return InsightFlags(
        process=read_process_flags(got),
        socket_folder=_folder("--socket-dir", got.socket_dir),
        record_folder=_folder("--record-dir", got.record_dir) if got.record_dir else None,
        forecast_seconds=_interval(got.forecast_interval),
        least_runs=_count("--forecast-least-runs", got.forecast_least_runs),
        record_bytes=_bytes(RECORD_LIMIT_FLAG, got.record_limit),
        visibility=_read_visibility(got),
        page=_read_page(got),
    )


def _add_visibility_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        ADDRESS_FLAG,
        default="",
        help="where the aggregated API is served over HTTPS (default: it is not served)",
    )
    add(
        SERVICE_FLAG,
        default="",
        help="NAMESPACE/NAME or NAMESPACE/NAME:PORT of the Service that leads there",
    )
    own = f"; read only with {ADDRESS_FLAG} or {PAGE_FLAG}"
    add("--kubeconfig", help=f"path of a kubeconfig; absent: the pod's service account{own}")
    add("--context", help=f"context of the kubeconfig; absent: the current one{own}")


def _read_visibility(got: argparse.Namespace) -> VisibilityFlags | None:
    if not got.visibility_address:
        return None
    return VisibilityFlags(
        address=got.visibility_address,
        service=_service(got.visibility_service),
        kubeconfig=got.kubeconfig,
        context=got.context,
    )


def _add_page_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        PAGE_FLAG,
        default="",
        help="where the page is served; others than loopback need a certificate, and a login"
        " (default: it is not served)",
    )
    add(
        "--page-hosts",
        default="",
        metavar="NAMES",
        help="names that the header Host may have, in addition to localhost without TLS",
    )
    add(
        "--page-tls-certificate",
        default="",
        help="PEM file; required on other addresses than loopback",
    )
    add("--page-tls-key", default="", help="PEM file of the certificate's key")
    add(
        TRUSTED_FLAG,
        default="",
        metavar="NETWORKS",
        help="networks of what stands in front of the page, such as 10.0.0.0/8: one of their"
        " addresses is many visitors, so the bounds for one address do not count",
    )
    add(
        DASHBOARDS_FLAG,
        default="",
        metavar="URL",
        help="address of dashboards in Grafana that the page links to (default: no link)",
    )


def _read_page(got: argparse.Namespace) -> PageFlags | None:
    if not got.page_address:
        return None
    return PageFlags(
        address=got.page_address,
        hosts=_parts(got.page_hosts),
        tls_certificate=got.page_tls_certificate,
        tls_key=got.page_tls_key,
        trusted_proxies=_networks(got.page_trusted_proxies),
        dashboards=_address(DASHBOARDS_FLAG, got.page_dashboards),
        kubeconfig=got.kubeconfig,
        context=got.context,
    )


def _parts(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in text.split(","))))


def _address(flag: str, text: str) -> str:
    """Return an address that a page may link to: of http or https, and without a password."""
    if not text:
        return ""
    if len(text) > MAX_ADDRESS or _ADDRESS.fullmatch(text) is None:
        msg = f"{flag} must be an address such as https://grafana.example.com/d/x, without a user"
        raise FlagError(msg)
    return text


def _networks(text: str) -> Networks:
    try:
        return read_networks(_parts(text))
    except ValueError as error:
        raise FlagError(f"{TRUSTED_FLAG}: {error}") from error


def _service(text: str) -> ServiceReference:
    parts = _SERVICE.fullmatch(text)
    if parts is None:
        msg = f"{SERVICE_FLAG} {text!r} is neither NAMESPACE/NAME nor NAMESPACE/NAME:PORT"
        raise FlagError(msg)
    port = int(parts["port"] or HTTPS_PORT)
    return ServiceReference(namespace=parts["namespace"], name=parts["name"], port=port)


def _interval(text: str) -> float:
    try:
        seconds = parse_seconds(text)
    except DurationError as error:
        raise FlagError(f"--forecast-interval: {error}") from error
    if not seconds:
        raise FlagError("--forecast-interval must be above 0")
    return seconds


def _count(flag: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS):
        raise FlagError(f"{flag} {text!r} is no whole number from 0 on")
    return int(text)


def _bytes(flag: str, text: str) -> int:
    try:
        found = amount("memory", text)
    except QuantityError as error:
        raise FlagError(f"{flag}: {error}") from error
    if found <= 0:
        raise FlagError(f"{flag} must be above 0")
    return found


def _folder(flag: str, text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise FlagError(f"{flag} {text!r} is no folder")
    return path
