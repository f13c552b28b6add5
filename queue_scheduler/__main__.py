"""koord-queue-scheduler: decides which queued job may start."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from shared_api.server_packages import needed

with needed():
    from queue_scheduler.configuration import load_configuration, parse_flags
    from queue_scheduler.wiring import build_scheduler
    from shared_api.program import Program, run_program


def run(arguments: Sequence[str]) -> int:
    """Run the program until a signal; return its exit code."""
    flags = parse_flags(arguments, os.environ)
    configuration = load_configuration(flags.config)
    program = Program("koord-queue-scheduler", flags.program)
    return program.run(build_scheduler(program, flags, configuration))


def main() -> None:
    """Run with the arguments of the command line."""
    sys.exit(run_program(run, sys.argv[1:]))


if __name__ == "__main__":
    main()
