"""koord-queue: asks the engine questions without a cluster."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from queue_scheduler.offline import flags as offline
from queue_scheduler.replay import command as replay
from shared_api.process.clock import SystemClock

EXIT_INTERRUPTED: Final = 130


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="koord-queue", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    said = "replay a trace of jobs: who would have waited, how long, and for what"
    replay.add_arguments(commands.add_parser("replay", help=said, description=said))
    offline.add_commands(commands.add_parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run a command; return its exit code."""
    got = build_parser().parse_args(arguments)
    try:
        if got.command in offline.COMMANDS:
            # The routes' answers need FastAPI, whose import takes a second.
            from queue_scheduler.offline import command  # noqa: PLC0415 - as said

            return command.run(got, sys.stdout, sys.stderr)
        return replay.run(replay.read_options(got), sys.stdout, sys.stderr, SystemClock())
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def main() -> None:
    """Run with the arguments of the command line."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
