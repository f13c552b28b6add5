"""The flags that both programs have: connection, addresses, leader election."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import yaml

from shared_api.durations import DurationError, parse_duration
from shared_api.version import VERSION

_LONG_FLAG: Final = re.compile(r"-[a-zA-Z][\w-]+(=.*)?")

DEFAULT_QPS = 500.0
DEFAULT_BURST = 1000

_DEFAULT: Final = " (default: %(default)s)"

DEBUG_VERBOSITY: Final = 4
"""The value of klog's `-v` from which on the log level is debug."""


class FlagError(ValueError):
    """The value of a flag is not valid; the message is one line."""


class ConfigurationError(FlagError):
    """A configuration file is not valid; the message is one line."""


class ProcessFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed flags of every program. Addresses are texts; `process.probes` parses them."""

    health_address: str
    metrics_address: str
    metrics_tls_certificate: str
    metrics_tls_key: str
    log_format: str
    log_level: str


class ProgramFlags(ProcessFlags, frozen=True, kw_only=True):
    """The parsed flags of a program that talks to the API server."""

    kubeconfig: str | None
    context: str | None
    metrics_secure: bool
    leader_elect: bool
    lease_name: str
    lease_namespace: str
    lease_seconds: int
    renew_deadline_seconds: float
    retry_seconds: float
    qps: float
    burst: int
    writers: int


def add_program_flags(
    parser: argparse.ArgumentParser, *, lease_name: str, metrics_address: str
) -> None:
    """Add the flags to a program's parser; upstream's names are aliases."""
    add = parser.add_argument
    add("--kubeconfig", help="path of a kubeconfig; absent: the pod's service account")
    add("--context", help="context of the kubeconfig; absent: the current one")
    _add_health_flag(add, ":8081")
    _add_metrics_flags(add, metrics_address)
    token = "require a bearer token to read /metrics" + _DEFAULT
    add("--metrics-secure", nargs="?", const="true", default="false", help=token)
    add(
        "--leader-elect",
        "--leaderElection",
        nargs="?",
        const="true",
        default="true",
        help="true: elect one replica that writes" + _DEFAULT,
    )
    _add_lease_flags(add, lease_name)
    add(
        "--kube-api-qps",
        "--qps",
        type=float,
        default=DEFAULT_QPS,
        help="requests per second to the API server; 0: no limit" + _DEFAULT,
    )
    add(
        "--kube-api-burst",
        "--burst",
        type=int,
        default=DEFAULT_BURST,
        help="requests in one burst" + _DEFAULT,
    )
    add("--writers", type=int, default=8, help="writes that are sent in parallel" + _DEFAULT)
    _add_common_flags(add)


def add_process_flags(
    parser: argparse.ArgumentParser, *, health_address: str, metrics_address: str
) -> None:
    """Add the flags of a program that talks to no API server."""
    _add_health_flag(parser.add_argument, health_address)
    _add_metrics_flags(parser.add_argument, metrics_address)
    _add_common_flags(parser.add_argument)


def _add_health_flag(add: Callable[..., object], address: str) -> None:
    add(
        "--health-address",
        "--health-probe-bind-address",
        default=address,
        help="/livez, /readyz and /healthz; port 0 picks a free one and logs it" + _DEFAULT,
    )


def _add_common_flags(add: Callable[..., object]) -> None:
    show = f"%(prog)s {VERSION}"
    add("--version", action="version", version=show, help="print the version, and end")
    add("--log-format", choices=("json", "console"), default="json", help="format" + _DEFAULT)
    levels = ("debug", "info", "warning", "error")
    add("--log-level", choices=levels, help="default: info, or as -v sets it")
    add(
        "-v",
        "--v",
        dest="verbosity",
        type=int,
        default=0,
        help=f"klog's verbosity; {DEBUG_VERBOSITY} or more: --log-level debug, unless that is set",
    )


def _add_metrics_flags(add: Callable[..., object], address: str) -> None:
    names = ("--metrics-address", "--metrics-bind-address")
    add(*names, default=address, help="/metrics" + _DEFAULT)
    add("--metrics-tls-certificate", default="", help="PEM file; serves /metrics over HTTPS")
    add("--metrics-tls-key", default="", help="PEM file of the certificate's key")


def _add_lease_flags(add: Callable[..., object], lease_name: str) -> None:
    prefix = "--leader-elect-"
    add(f"{prefix}lease-name", dest="lease_name", default=lease_name, help="Lease" + _DEFAULT)
    add(
        f"{prefix}lease-namespace",
        "--leader-namespace",
        dest="lease_namespace",
        default="",
        help="its namespace (default: the queue's)",
    )
    for name, dest, read, default, what in (
        ("lease-duration", "lease_seconds", _whole_seconds, 15, "when an unrenewed lease expires"),
        (
            "renew-deadline",
            "renew_deadline_seconds",
            _seconds,
            10.0,
            "the leader exits if it cannot renew for so long",
        ),
        ("retry-period", "retry_seconds", _seconds, 2.0, "between two attempts"),
    ):
        text = f"seconds, or a duration such as 15s; {what}{_DEFAULT}"
        add(prefix + name, dest=dest, type=read, default=default, help=text)


def _seconds(text: str) -> float:
    """Return the seconds of a number, or of a duration as Kubernetes' own programs accept it."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return float(parse_duration(text))
    except DurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _whole_seconds(text: str) -> int:
    seconds = _seconds(text)
    if not seconds.is_integer():
        # The field of a Lease holds whole seconds.
        raise argparse.ArgumentTypeError(f"{text!r} are no whole seconds")
    return int(seconds)


def read_program_flags(got: argparse.Namespace, *, namespace: str) -> ProgramFlags:
    """Return the parsed flags; `namespace` is the default namespace of the lease.

    Raises:
        FlagError: A value is not valid.
    """
    _check_numbers(got)
    return ProgramFlags(
        **msgspec.structs.asdict(read_process_flags(got)),
        kubeconfig=got.kubeconfig,
        context=got.context,
        metrics_secure=parse_bool("--metrics-secure", got.metrics_secure),
        leader_elect=parse_bool("--leader-elect", got.leader_elect),
        lease_name=got.lease_name,
        lease_namespace=got.lease_namespace or namespace,
        lease_seconds=got.lease_seconds,
        renew_deadline_seconds=got.renew_deadline_seconds,
        retry_seconds=got.retry_seconds,
        qps=got.kube_api_qps,
        burst=got.kube_api_burst,
        writers=got.writers,
    )


def read_process_flags(got: argparse.Namespace) -> ProcessFlags:
    """Return the parsed flags of a program that talks to no API server.

    Raises:
        FlagError: A value is not valid.
    """
    check_pair("--metrics-tls", got.metrics_tls_certificate, got.metrics_tls_key)
    return ProcessFlags(
        health_address=got.health_address,
        metrics_address=got.metrics_address,
        metrics_tls_certificate=got.metrics_tls_certificate,
        metrics_tls_key=got.metrics_tls_key,
        log_format=got.log_format,
        log_level=got.log_level or ("debug" if got.verbosity >= DEBUG_VERBOSITY else "info"),
    )


def _check_numbers(got: argparse.Namespace) -> None:
    for flag, count in (("--writers", got.writers), ("--kube-api-burst", got.kube_api_burst)):
        if count < 1:
            raise FlagError(f"{flag} {count}: at least 1 is needed")
    # The election checks that its durations are consistent, but nan would pass every comparison.
    for flag, number in (
        ("--kube-api-qps", got.kube_api_qps),
        ("--leader-elect-renew-deadline", got.renew_deadline_seconds),
        ("--leader-elect-retry-period", got.retry_seconds),
    ):
        if not (math.isfinite(number) and number >= 0):
            raise FlagError(f"{flag} {number:g}: a number is needed that is not below 0")


def check_keys(node: yaml.MappingNode) -> None:
    """Check that no key of a map in a YAML file is repeated; readers silently use the last one.

    Raises:
        ConstructorError: A key is repeated; the error has its name and line.
    """
    lines: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        name = (key.tag, key.value)
        if name in lines:
            problem = f"`{key.value}` is there already, on line {lines[name]}"
            raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
        lines[name] = key.start_mark.line + 1


class StrictLoader(yaml.SafeLoader):
    """Reads YAML, and refuses maps that repeat a key."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:  # noqa: ANN401 - the stub calls a text or None a dict
        """Return the node of a map."""
        # Here and not when it is constructed: by then merge keys may have added other keys.
        node = super().compose_mapping_node(anchor)
        check_keys(node)
        return node


def read_config_file(path: str) -> object:
    """Return the decoded content of the YAML file of `--config`; an empty map if it is empty.

    Raises:
        ConfigurationError: It cannot be read, is not YAML, or repeats a key.
    """
    try:
        document = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=StrictLoader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise ConfigurationError(f"--config {path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        msg = f"--config {path}: not valid YAML: {' '.join(str(error).split())}"
        raise ConfigurationError(msg) from error
    return {} if document is None else document


def name_choices(error: msgspec.ValidationError, options: type[msgspec.Struct]) -> str:
    """Return the text of an error, with the valid values if the option has a fixed set.

    Args:
        error: The validation error of the options.
        options: The type of the options; its fields are not nested.
    """
    words = str(error)
    for field in msgspec.structs.fields(options):
        if not words.endswith(f" - at `$.{field.encode_name}`"):
            continue
        for kind in (field.type, *get_args(field.type)):
            if isinstance(kind, type) and issubclass(kind, Enum):
                return f"{words}; valid are {', '.join(str(each.value) for each in kind)}"
    return words


def check_pair(prefix: str, certificate: str, key: str) -> None:
    """Check that certificate and key are given together, or neither is.

    Raises:
        FlagError: One of the two is missing.
    """
    if bool(certificate) != bool(key):
        raise FlagError(f"{prefix}-certificate and {prefix}-key go together")


def parse_bool(flag: str, text: str) -> bool:
    """Return a boolean as Go's flags parse it.

    Raises:
        FlagError: The text is not a boolean.
    """
    truth = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}
    value = truth.get(text.lower())
    if value is None:
        raise FlagError(f"{flag} {text!r} is neither true nor false")
    return value


def with_two_dashes(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with two dashes before long flags; Go's flags may have one."""
    return [f"-{each}" if _LONG_FLAG.fullmatch(each) else each for each in arguments]
