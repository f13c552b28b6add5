"""The flags of the commands that take or ask a dump. Imports nothing that is costly: for --help."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

COMMANDS: Final = ("dump", "explain", "forecast", "try", "what-if", "units", "queues")
LOCAL_SERVER: Final = "http://127.0.0.1:19876"
STDOUT: Final = Path("-")
MAX_HORIZON_SECONDS: Final = 30 * 86_400


def add_commands(add_parser: Callable[..., argparse.ArgumentParser]) -> None:
    """Declare the commands; `add_parser`: of the subparsers."""

    def command(name: str, said: str) -> argparse.ArgumentParser:
        return add_parser(name, help=said, description=said)

    _add_dump(command("dump", "save what the scheduler believes, without names, for a bug report"))
    for name, said in (
        ("explain", "say why a unit waits, from a dump"),
        ("forecast", "say when a unit starts, from a dump"),
    ):
        parser = command(name, said)
        parser.add_argument("unit", metavar="NAMESPACE/NAME", type=unit, help="the unit")
        _add_source(parser)
        if name == "explain":
            parser.add_argument("--changes", action="store_true", help="also what would start it")
    _add_try(command("try", "say what would become of a manifest, from a dump"))
    _add_what_if(command("what-if", "say what edits of objects would change, from a dump"))
    _add_source(command("units", "list the units of a dump"))
    _add_source(command("queues", "list the queues of a dump"))


def _add_dump(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--server",
        default=LOCAL_SERVER,
        metavar="URL",
        help="the scheduler's debug API (default: %(default)s)",
    )
    source.add_argument(
        "--from-dump", type=Path, metavar="FILE", help="a dump that was saved with names"
    )
    add(
        "-o",
        "--output-file",
        type=Path,
        default=STDOUT,
        metavar="FILE",
        help="where to write; compressed if it ends in .gz (default: standard output)",
    )
    add(
        "--anonymize",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="replace names of objects, users and nodes (default: yes)",
    )
    add(
        "--key",
        default="",
        metavar="TEXT",
        help="mark each name with a hash by this key, to compare dumps; default: no marks",
    )
    add("--token-file", type=Path, metavar="FILE", help="a bearer token for the server")
    add("--ca-file", type=Path, metavar="FILE", help="trust these authorities for the server")


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from-dump", type=Path, required=True, metavar="FILE", help="the dump to ask"
    )
    parser.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="lines for people, or what the debug API answers (default: %(default)s)",
    )


def _add_try(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-f", "--filename", type=Path, required=True, metavar="FILE", help="YAML or JSON")
    add("-n", "--namespace", default="default", metavar="NAME", help="of objects that name none")
    add("--changes", action="store_true", help="also what would start it")
    _add_source(parser)


def _add_what_if(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--edits",
        type=Path,
        required=True,
        metavar="FILE",
        help="JSON: a list of edits, or a question as POST /debug/what-if takes it",
    )
    add("--horizon", type=horizon, metavar="SECONDS", help="also what changes until then")
    add("--seed", type=int, default=0, metavar="N", help="of what is drawn (default: 0)")
    _add_source(parser)


def unit(text: str) -> str:
    """Return the key of a unit.

    Raises:
        ValueError: It is not `namespace/name`. The error has this function's name.
    """
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ValueError(text)
    return text


def horizon(text: str) -> float:
    """Return seconds to look ahead.

    Raises:
        ValueError: It is no number above 0, or more than a month. The error has this function's
            name.
    """
    seconds = float(text)
    if not 0 < seconds <= MAX_HORIZON_SECONDS:
        raise ValueError(text)
    return seconds
