"""Flags of the programs, and commands of the command line, from the code."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import click

from koord_queue.cli.app import SECTIONS, root
from queue_admission_checks.__main__ import run as run_admission_checks
from queue_controllers.configuration import parse_flags as parse_controllers_flags
from queue_insight.insight_program.flags import parse_insight_flags
from tests.docs.reference_text import code, plain, prose, table
from tests.queue_scheduler.all_flags import parse_all_flags

PROGRAMS: Final[Sequence[Callable[[Sequence[str]], object]]] = (
    parse_all_flags,
    parse_controllers_flags,
    parse_insight_flags,
    run_admission_checks,
)
"""What reads the flags of each program."""

# -------------------------------------------------------------------------------------- flags


class _Found(Exception):
    """The parser of a program's flags."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.parser = parser


def parser_of(read: Callable[[Sequence[str]], object]) -> argparse.ArgumentParser:
    """Return the parser with which a function reads a command line."""

    def give(self: argparse.ArgumentParser, *_arguments: Any, **_more: Any) -> None:
        raise _Found(self)

    own = argparse.ArgumentParser.parse_args
    argparse.ArgumentParser.parse_args = give  # type: ignore[method-assign, assignment]  # restored below
    try:
        read([])
    except _Found as found:
        return found.parser
    finally:
        argparse.ArgumentParser.parse_args = own  # type: ignore[method-assign]  # as it was
    raise ValueError(f"{read} has no parser")


def flags_text() -> str:
    """Return the flags of all programs."""
    return "\n".join(_program_text(parser_of(read)) for read in PROGRAMS)


def _program_text(parser: argparse.ArgumentParser) -> str:
    lines = [f"## {parser.prog}\n", plain(parser.description or "") + "\n"]
    for group in parser._action_groups:  # noqa: SLF001 - argparse has no public list of its flags
        rows = [_flag(parser, each) for each in group._group_actions]  # noqa: SLF001 - the same
        if rows:
            title = (group.title or "").capitalize()
            lines += [] if title in {"Options", ""} else [f"{title}:\n"]
            lines.append(table(("flag", "what it is"), rows))
    return "\n".join(lines)


def _flag(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str]:
    names = ", ".join(code(name) for name in action.option_strings)
    choices = action.choices
    valid = f" One of {', '.join(map(code, map(str, choices)))}." if choices else ""
    formatter = argparse.HelpFormatter(parser.prog)
    return names, prose(formatter._expand_help(action)) + valid  # noqa: SLF001 - it fills in defaults


# ----------------------------------------------------------------------------------- commands


def commands_text() -> str:
    """Return the commands of the command line, with all options."""
    return "\n".join(_commands_text())


def _commands_text() -> Iterator[str]:
    context = click.Context(root, info_name="koord-queue")
    shared = _shared_options(context)
    for section, entries in SECTIONS.items():
        yield f"## {section}\n"
        for name in entries:
            command = root.get_command(context, name)
            assert command is not None, name
            yield _command_text(command, click.Context(command, context, info_name=name), shared)
    yield "## Options of every command that asks a cluster\n"
    yield table(("option", "what it is"), shared)


def _command_text(
    command: click.Command, context: click.Context, shared: Sequence[tuple[str, str]]
) -> str:
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f"### {context.info_name}\n",
        f"`{context.command_path} {usage}`\n",
        plain((command.help or "").replace("\b", "")) + "\n",
    ]
    rows = [row for row in _options(command, context) if row not in shared]
    return "\n".join([*lines, table(("option", "what it is"), rows)] if rows else lines)


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            yield code(record[0]), plain(record[1])


def _shared_options(context: click.Context) -> list[tuple[str, str]]:
    """Return the options that `queues` and `explain` have in common, and so do all that ask."""
    first, second = (root.get_command(context, name) for name in ("queues", "explain"))
    assert first is not None
    assert second is not None
    others = list(_options(second, context))
    return [row for row in _options(first, context) if row in others and "--output" not in row[0]]
