"""The program: its commands by name, each imported when it is used, and its exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from koord_queue.errors import EXIT_FAILED, EXIT_INTERRUPTED, CommandError
from shared_api.version import VERSION

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Entry(NamedTuple):
    """A command that is not imported yet.

    Attributes:
        module: In `koord_queue.cli`.
        attribute: The click command in it.
        help: What it does, in one line of `--help`.
    """

    module: str
    attribute: str
    help: str


SECTIONS: Final[dict[str, dict[str, Entry]]] = {
    "Look": {
        "queues": Entry("queues", "queues", "list queues: what waits, what runs, what is wrong"),
        "units": Entry("units", "units", "list queue units: where each stands, and why it waits"),
        "reservations": Entry(
            "reservations", "reservations", "list reservations: windows, and what runs into them"
        ),
        "tree": Entry("tree", "tree", "show the quotas as a tree: used, charged, limits"),
        "top": Entry("top", "top", "show which quotas and units use most"),
        "report": Entry("report", "report", "show who has used how much, in hours"),
        "log": Entry("log", "log", "show what was decided, from the record"),
        "describe": Entry("describe", "describe", "show the life of a job's unit, and its events"),
    },
    "Ask": {
        "explain": Entry("explain", "explain", "say why a job waits, and what would start it"),
        "when": Entry("when", "when", "say when a job starts and ends, or all of a queue"),
        "try": Entry("try_", "try_", "say what would become of a manifest"),
        "what-if": Entry("what_if", "what_if", "say what edits of quotas or queues would change"),
        "replay": Entry("replay", "replay", "replay a trace of jobs, without a cluster"),
        "shadow-report": Entry(
            "shadow_report", "shadow_report", "compare what happened with what would have"
        ),
        "dump": Entry("dump", "dump", "save what the scheduler believes, for a bug report"),
    },
    "Do": {
        "submit": Entry("submit", "submit", "create jobs, and follow them until they end"),
        "priority": Entry("acts", "priority", "set the priority of jobs"),
        "move": Entry("acts", "move", "move jobs to another queue"),
        "hold": Entry("acts", "hold", "keep waiting jobs from starting"),
        "release": Entry("acts", "release", "let jobs on hold start again"),
        "requeue": Entry("acts", "requeue", "evict jobs that have started; they wait again"),
        "deactivate": Entry("acts", "deactivate", "stop jobs until they are activated"),
        "activate": Entry("acts", "activate", "have inactive jobs wait again"),
        "stop": Entry("acts", "stop", "let queues start no more jobs"),
        "drain": Entry("acts", "drain", "stop queues, and evict what has started"),
        "resume": Entry("acts", "resume", "let queues start jobs again"),
    },
    "Set up and check": {
        "import": Entry("import_", "import_", "take over quotas, queues and jobs of another queue"),
        "check": Entry("check", "check", "find problems of an installation, and their fixes"),
        "version": Entry("version", "version", "show the versions here and in the cluster"),
        "completion": Entry("shells", "completion", "print the completion of a shell"),
    },
}
"""The order of `--help`."""

COMPLETION: Final = "_KOORD_QUEUE_COMPLETE"
"""Variable with which the shells' completions run the program; the `obj` of click's context."""

COMMANDS: Final = {name: entry for section in SECTIONS.values() for name, entry in section.items()}

INTRODUCTION: Final = """Ask a job queue, and work with it.

A job is named as you know it (job/train-1), a queue unit by its name.
`kubectl koord-queue` is the same program."""


class LazyCommands(click.Group):
    """The commands of `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of `--help`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is none of that name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"koord_queue.cli.{entry.module}")
        command = getattr(module, entry.attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one may be meant."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

            similar = get_close_matches(args[0], COMMANDS)
            meant = f" Did you mean {' or '.join(similar)}?" if similar else ""
            ctx.fail(f"There is no command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names of commands, with their lines of `--help`, without importing them."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - not for --help

        found = [
            CompletionItem(name, help=entry.help)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        for section, commands in SECTIONS.items():
            if commands:
                with formatter.section(section):
                    formatter.write_dl([(name, entry.help) for name, entry in commands.items()])


@click.command(
    cls=LazyCommands,
    help=INTRODUCTION,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, message="%(prog)s %(version)s")
def root() -> None:
    """Ask a job queue, and work with it."""


def run(arguments: Sequence[str], program: str = "koord-queue") -> int:
    """Run a command; return the exit code of the program."""
    if COMPLETION in os.environ:
        importlib.import_module("koord_queue.cli.shells").register()
    try:
        # What a command returns is of no use; `Exit` of one makes click return its exit code.
        code = root.main(list(arguments), program, standalone_mode=False, obj=COMPLETION)
    except CommandError as error:
        _print_error(error)
        return error.exit_code
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough; what is left in the stream is dropped at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    return code if isinstance(code, int) else 0


def _print_error(error: CommandError) -> None:
    from koord_queue.show.printer import printable  # noqa: PLC0415 - not for --help

    message = "\n".join(map(printable, error.message.splitlines()))
    sys.stderr.write(f"error: {message}\n")
    if error.next_step:
        sys.stderr.write(f"{printable(error.next_step)}\n")


def main() -> None:
    """Run with the arguments of the command line."""
    called = os.path.basename(sys.argv[0])  # noqa: PTH119 - pathlib takes longer to import
    program = "kubectl koord-queue" if called == "kubectl-koord_queue" else "koord-queue"
    sys.exit(run(sys.argv[1:], program))
