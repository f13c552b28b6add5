"""Flags of upstream's programs that are accepted without effect.

A command line that was written for upstream must start this program as well, or fail with a reason.
So each of upstream's flags is an alias (`program_flags` and the two programs), a flag without
effect, which is accepted and logged with its replacement, or a refused one: a value that would
change which jobs start, and is not supported, ends the program with one line.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

import msgspec

from shared_api.program_flags import FlagError, parse_bool


class UpstreamFlag(msgspec.Struct, frozen=True):
    """A flag that is accepted and has no effect.

    Attributes:
        name: The flag, with two dashes.
        instead: Why it has no effect, and what to use instead.
        is_switch: Whether it is a boolean, which is true if given without a value.
        only: For a switch, the value that matches the behavior here; the other one is refused.
    """

    name: str
    instead: str
    is_switch: bool = False
    only: bool | None = None


_LOGS: Final = "logs go to stderr, as --log-format and --log-level say"

KLOG_FLAGS: Final = (
    *(
        UpstreamFlag(name, _LOGS, is_switch=True)
        for name in (
            "--add_dir_header",
            "--alsologtostderr",
            "--logtostderr",
            "--one_output",
            "--skip_headers",
            "--skip_log_headers",
        )
    ),
    *(
        UpstreamFlag(name, _LOGS)
        for name in (
            "--log_backtrace_at",
            "--log_dir",
            "--log_file",
            "--log_file_max_size",
            "--stderrthreshold",
            "--vmodule",
        )
    ),
)
"""Flags of klog, which both of upstream's programs use; its `-v` is in `program_flags`."""


def add_upstream_flags(parser: argparse.ArgumentParser, flags: Sequence[UpstreamFlag]) -> None:
    """Add the flags to a program's parser, in a separate group."""
    group = parser.add_argument_group("flags of upstream's that are taken and have no effect")
    for flag in flags:
        only = "" if flag.only is None else f"; only {str(flag.only).lower()}"
        text = flag.instead + only
        if flag.is_switch:
            group.add_argument(
                flag.name, nargs="?", const="true", action="append", metavar="BOOL", help=text
            )
        else:
            group.add_argument(flag.name, action="append", metavar="VALUE", help=text)


def values_of(got: argparse.Namespace, name: str) -> list[str]:
    """Return all values that were given for a flag."""
    return getattr(got, name.removeprefix("--").replace("-", "_")) or []


def read_upstream_flags(got: argparse.Namespace, flags: Sequence[UpstreamFlag]) -> dict[str, str]:
    """Return the flags that were given, each with what to use instead.

    Raises:
        FlagError: A switch is neither true nor false, or a value is not supported.
    """
    for flag in flags:
        for text in values_of(got, flag.name) if flag.is_switch else ():
            value = parse_bool(flag.name, text)
            if flag.only is not None and value is not flag.only:
                msg = f"{flag.name}={text} is not available in this version: {flag.instead}"
                raise FlagError(msg)
    return {flag.name: flag.instead for flag in flags if values_of(got, flag.name)}
