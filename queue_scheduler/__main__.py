"""koord-queue-scheduler: decides which queued job may start."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from shared_api.server_packages import needed

with needed():
    from queue_scheduler.configuration import load_configuration, parse_flags
    from queue_scheduler.setup.additions import load_additions
    from queue_scheduler.wiring import build_scheduler
    from shared_api.program import Program, run_program


def run(arguments: Sequence[str]) -> int:
    """Run the program until a signal; return its exit code."""
    additions = load_additions()
    flags = parse_flags(arguments, os.environ, additions)
    requests = [each.read_flags(flags) for each in additions]
    configuration = load_configuration(flags.config)
    for request in requests:
        if request.other_program is not None:
            return request.other_program()
    program = Program("koord-queue-scheduler", flags.program)
    return program.run(build_scheduler(program, flags, configuration, requests))


def main() -> None:
    """Run with the arguments of the command line."""
    sys.exit(run_program(run, sys.argv[1:]))


if __name__ == "__main__":
    main()
