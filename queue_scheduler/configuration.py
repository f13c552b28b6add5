"""Flags and the configuration file of koord-queue-scheduler.

The file has upstream's shape (`KoordQueueConfiguration`, `scheduling.k8s.io/v1`). Unknown keys
are errors that name their path: a typo in a setting that would silently not apply is worse than
a process that does not start. Flags have upstream's names as aliases.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from shared_api.durations import DURATION_PATTERN, DurationError, parse_duration
from shared_api.program_flags import (
    ConfigurationError,
    FlagError,
    ProgramFlags,
    add_program_flags,
    parse_bool,
    read_config_file,
    read_program_flags,
    with_two_dashes,
)
from shared_api.upstream_flags import (
    KLOG_FLAGS,
    UpstreamFlag,
    add_upstream_flags,
    read_upstream_flags,
    values_of,
)

API_VERSION: Final = "scheduling.k8s.io/v1"
KIND: Final = "KoordQueueConfiguration"

DEFAULT_PLUGINS: Final = ("Priority", "ElasticQuotaV2")
"""Upstream's default."""

# At most two digits of exponent: as an exact number, 1e999999999 would take hours to write out.
_RATE: Final = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,2})?")

FEATURE_GATES_FLAG: Final = "--feature-gates"
FEATURE_GATES: Final[Mapping[str, bool | None]] = {
    "AllAlpha": False,
    "AllBeta": True,
    "ElasticQuota": True,
    "ElasticQuotaTreeBuildQueueForQuota": True,
    "ElasticQuotaTreeCheckAvailableQuota": False,
    "ElasticQuotaTreeDecoupledQueue": True,
    "MaximumExecutionTime": False,
    "QueueUnitActive": None,
    "QueueUnitConditions": None,
    "QueueUnitRequeueState": None,
}
"""Upstream's gates, each with the only value that describes what is done here. None: either value,
since the gated thing is always there, and harms nobody who does not use it."""

UPSTREAM_FLAGS: Final = (
    *KLOG_FLAGS,
    UpstreamFlag("--scheduleSuspendTimeInMillSecond", "workers rest until something changes"),
    UpstreamFlag(
        "--enableApiHandler", "the debug API is always there: --debug-address", is_switch=True
    ),
    UpstreamFlag(
        "--defaultPreemptible",
        "label jobs quota.scheduling.koordinator.sh/preemptible=false that may not be preempted",
        is_switch=True,
        only=True,
    ),
    UpstreamFlag(
        "--enableParentLimit",
        "a parent's max always counts; its runtime: enableCheckParentQuota of ElasticQuotaV2",
        is_switch=True,
    ),
    UpstreamFlag(
        "--enableVisibilityServer",
        "the debug API answers the same questions: --debug-address",
        is_switch=True,
    ),
    UpstreamFlag(FEATURE_GATES_FLAG, "what upstream gates is always on here, or not there"),
    UpstreamFlag(
        "--admissionCheckControllerWorker", "units with admission checks are held in this version"
    ),
    UpstreamFlag(
        "--strictDequeueMode",
        "units are dequeued without asking koord-scheduler first",
        is_switch=True,
        only=False,
    ),
    UpstreamFlag("--queue-list", "it chooses queues for strict dequeue mode, which is not there"),
    *(
        UpstreamFlag(name, "the controllers' backoffTimeout says how long a unit is put back")
        for name in ("--podInitialBackoffSeconds", "--podMaxBackoffSeconds")
    ),
    UpstreamFlag(
        "--default-queue-policy", "label ElasticQuotas koord-queue/queue-policy, or edit the Queue"
    ),
)
"""What is done otherwise here, or not at all."""


class PluginEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of `plugins`."""

    name: str


class KoordQueueConfiguration(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The configuration file.

    Attributes:
        plugins: Plugins by name, in the order in which they are asked.
        plugin_configs: Arguments by plugin name; each plugin checks its own.
        default_reclaim_protect_time: A Go duration ("5m") or nanoseconds, upstream's type: how
            long a unit is not reclaimed. None ever is in this version, so any time is kept.
    """

    # What schemas say besides the type; what a bad value is told comes from `load_configuration`.
    api_version: Annotated[str, Meta(extra_json_schema={"const": API_VERSION})] = API_VERSION
    kind: Annotated[str, Meta(extra_json_schema={"const": KIND})] = KIND
    plugins: Annotated[tuple[PluginEntry, ...], Meta(extra_json_schema={"uniqueItems": True})] = ()
    plugin_configs: dict[str, dict[str, Any]] = {}
    default_reclaim_protect_time: (
        Annotated[str, Meta(extra_json_schema={"pattern": f"^({DURATION_PATTERN})$"})]
        | Annotated[int, Meta(extra_json_schema={"minimum": 0})]
    ) = 0

    def plugin_names(self) -> tuple[str, ...]:
        """Return the plugins to load, in order."""
        return tuple(entry.name for entry in self.plugins) or DEFAULT_PLUGINS

    def without_effect(self) -> dict[str, str]:
        """Return the settings that were made and do nothing, each with the reason."""
        if not _read_protect_time(self.default_reclaim_protect_time):
            return {}
        return {"defaultReclaimProtectTime": "nothing is reclaimed in this version"}


def load_configuration(path: str | None) -> KoordQueueConfiguration:
    """Read the file; without one, the defaults.

    Raises:
        ConfigurationError: It can not be read, is no YAML, or holds something unknown.
    """
    if not path:
        return KoordQueueConfiguration()
    document = read_config_file(path)
    try:
        configuration = msgspec.convert(document, KoordQueueConfiguration)
        _check_kind(configuration)
        _read_protect_time(configuration.default_reclaim_protect_time)
    except (msgspec.ValidationError, FlagError) as error:
        msg = f"--config {path}: {error}"
        raise ConfigurationError(msg) from error
    return configuration


def _check_kind(configuration: KoordQueueConfiguration) -> None:
    got = (configuration.api_version, configuration.kind)
    if got != (API_VERSION, KIND):
        msg = f"apiVersion and kind are {got[0]} {got[1]}, want {API_VERSION} {KIND}"
        raise ConfigurationError(msg)


def _read_protect_time(value: str | int) -> Fraction:
    """Return seconds; a number is nanoseconds, as Go's type has it."""
    try:
        return parse_duration(value if isinstance(value, str) else f"{value}ns")
    except DurationError as error:
        msg = f"defaultReclaimProtectTime: {error}"
        raise FlagError(msg) from error


def parse_rate(text: str) -> Fraction:
    """Return a rate such as "1" or "1.5", exactly.

    Raises:
        FlagError: It is no number above 0.
    """
    if not _RATE.fullmatch(text):
        msg = f"--oversellrate {text!r} is not a number"
        raise FlagError(msg)
    rate = Fraction(text)
    if rate <= 0:
        msg = f"--oversellrate {text} must be above 0"
        raise FlagError(msg)
    return rate


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The command line, read."""

    program: ProgramFlags
    config: str | None
    queue_namespace: str
    debug_address: str
    debug_tls_certificate: str
    debug_tls_key: str
    oversell_rate: Fraction
    without_effect: Mapping[str, str]
    """Flags that were given and do nothing, each with what to use instead."""


def parse_flags(arguments: Sequence[str]) -> Flags:
    """Read the command line.

    Raises:
        SystemExit: `--help`, or an unknown flag (argparse's own message).
        FlagError: A value that makes no sense, or asks for what is not available.
    """
    got = _parser().parse_args(with_two_dashes(arguments))
    for gates in values_of(got, FEATURE_GATES_FLAG):
        _check_feature_gates(gates)
    return Flags(
        program=read_program_flags(got, namespace=got.queue_namespace),
        config=got.config,
        queue_namespace=got.queue_namespace,
        debug_address=got.debug_address,
        debug_tls_certificate=got.debug_tls_certificate,
        debug_tls_key=got.debug_tls_key,
        oversell_rate=parse_rate(got.oversellrate),
        without_effect=read_upstream_flags(got, UPSTREAM_FLAGS),
    )


def _check_feature_gates(text: str) -> None:
    """Refuse a gate that upstream does not know, or that asks for something else than is done."""
    for gate in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = (each.strip() for each in gate.partition("="))
        if name not in FEATURE_GATES:
            msg = f"{FEATURE_GATES_FLAG}: {name!r} is unknown; known: {', '.join(FEATURE_GATES)}"
            raise FlagError(msg)
        wanted = parse_bool(f"{FEATURE_GATES_FLAG} {name}", value)
        if FEATURE_GATES[name] not in {None, wanted}:
            msg = f"{FEATURE_GATES_FLAG}: {gate} is not available in this version"
            raise FlagError(msg)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="koord-queue-scheduler",
        description="Decides which queued job may start: order, quota, turns.",
        allow_abbrev=False,
    )
    add_program_flags(parser, lease_name="koord-queue-scheduler", metrics_address=":10259")
    add = parser.add_argument
    add("--config", help=f"{KIND} file ({API_VERSION})")
    add("--queue-namespace", default="koord-queue", help="where Queues live (default: %(default)s)")
    add(
        "--debug-address",
        default="127.0.0.1:19876",
        help="debug API; port 0 picks a free one (default: %(default)s)",
    )
    add("--debug-tls-certificate", default="", help="PEM file; needed off the loopback address")
    add("--debug-tls-key", default="", help="PEM file of the certificate's key")
    add(
        "--oversellrate",
        "--oversell-rate",
        default="1",
        help="factor on max, in mode max only (default: %(default)s)",
    )
    add_upstream_flags(parser, UPSTREAM_FLAGS)
    return parser
