"""Flags and the configuration file of koord-queue-scheduler.

The file has upstream's shape (`KoordQueueConfiguration`, `scheduling.k8s.io/v1`). Unknown keys
are errors that name their path: a typo in a setting that would silently not apply is worse than
a process that does not start. Flags have upstream's names as aliases.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec

from shared_api.program_flags import (
    ConfigurationError,
    FlagError,
    ProgramFlags,
    add_program_flags,
    parse_duration,
    read_config_file,
    read_program_flags,
    with_two_dashes,
)

API_VERSION: Final = "scheduling.k8s.io/v1"
KIND: Final = "KoordQueueConfiguration"

DEFAULT_PLUGINS: Final = ("Priority", "ElasticQuotaV2")
"""Upstream's default."""


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
        default_reclaim_protect_time: A Go duration ("5m") or nanoseconds, upstream's type.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    plugins: tuple[PluginEntry, ...] = ()
    plugin_configs: dict[str, dict[str, Any]] = {}
    default_reclaim_protect_time: str | int = 0

    def plugin_names(self) -> tuple[str, ...]:
        """Return the plugins to load, in order."""
        return tuple(entry.name for entry in self.plugins) or DEFAULT_PLUGINS


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
        _check_duration(configuration.default_reclaim_protect_time)
    except (msgspec.ValidationError, FlagError) as error:
        msg = f"--config {path}: {error}"
        raise ConfigurationError(msg) from error
    return configuration


def _check_kind(configuration: KoordQueueConfiguration) -> None:
    got = (configuration.api_version, configuration.kind)
    if got != (API_VERSION, KIND):
        msg = f"apiVersion and kind are {got[0]} {got[1]}, want {API_VERSION} {KIND}"
        raise ConfigurationError(msg)


def _check_duration(value: str | int) -> None:
    """A number is nanoseconds, as Go's type has it."""
    if isinstance(value, str):
        parse_duration(value)


def parse_rate(text: str) -> Fraction:
    """Return a rate such as "1" or "1.5", exactly.

    Raises:
        FlagError: It is no number above 0.
    """
    try:
        rate = Fraction(text)
    except (ValueError, ZeroDivisionError) as error:
        msg = f"--oversellrate {text!r} is not a number"
        raise FlagError(msg) from error
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


def parse_flags(arguments: Sequence[str]) -> Flags:
    """Read the command line.

    Raises:
        SystemExit: `--help`, or an unknown flag (argparse's own message).
        FlagError: A value that makes no sense.
    """
    got = _parser().parse_args(with_two_dashes(arguments))
    return Flags(
        program=read_program_flags(got, namespace=got.queue_namespace),
        config=got.config,
        queue_namespace=got.queue_namespace,
        debug_address=got.debug_address,
        debug_tls_certificate=got.debug_tls_certificate,
        debug_tls_key=got.debug_tls_key,
        oversell_rate=parse_rate(got.oversellrate),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="koord-queue-scheduler",
        description="Decides which queued job may start: order, quota, turns.",
        allow_abbrev=False,
    )
    add_program_flags(parser, lease_name="koord-queue-scheduler", metrics_address=":10259")
    add = parser.add_argument
    add("--config", help=f"{KIND} file ({API_VERSION})")
    add("--queue-namespace", default="koord-queue", help="where Queue objects live")
    add("--debug-address", default="127.0.0.1:19876", help="debug API; port 0 picks a free one")
    add("--debug-tls-certificate", default="", help="PEM file; needed off the loopback address")
    add("--debug-tls-key", default="", help="PEM file of the certificate's key")
    add("--oversellrate", "--oversell-rate", default="1", help="factor on max, in mode max only")
    return parser
