"""Flags that upstream's programs take and that mean nothing here.

A command line written for upstream must start this program too, or end with a reason. So each of
its flags is one of three: an alias of ours (`program_flags` and the two programs), a flag without
effect, which is taken and named in the log with what replaces it, or a refused one: a value that
would have changed which jobs start, and cannot be honored, ends the program with one line.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

import msgspec

from shared_api.program_flags import FlagError, parse_bool


class UpstreamFlag(msgspec.Struct, frozen=True):
    """A flag that is taken and has no effect.

    Attributes:
        name: With two dashes.
        instead: Why it has no effect, and what to use instead.
        is_switch: It is a truth value, and true where it stands alone.
        only: Of a switch: the one value that describes what is done here; any other is refused.
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
"""Of klog, which both of upstream's programs log with; its `-v` is one of `program_flags`."""


def add_upstream_flags(parser: argparse.ArgumentParser, flags: Sequence[UpstreamFlag]) -> None:
    """Add them to a program's parser, in a group of their own."""
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
    """Return what a flag was given, each time that it was."""
    return getattr(got, name.removeprefix("--").replace("-", "_")) or []


def read_upstream_flags(got: argparse.Namespace, flags: Sequence[UpstreamFlag]) -> dict[str, str]:
    """Return those that were given, each with what to use instead.

    Raises:
        FlagError: A switch that is neither true nor false, or a value that is not available.
    """
    for flag in flags:
        for text in values_of(got, flag.name) if flag.is_switch else ():
            value = parse_bool(flag.name, text)
            if flag.only is not None and value is not flag.only:
                msg = f"{flag.name}={text} is not available in this version: {flag.instead}"
                raise FlagError(msg)
    return {flag.name: flag.instead for flag in flags if values_of(got, flag.name)}
