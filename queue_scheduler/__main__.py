"""koord-queue-scheduler: decides which queued job may start."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from shared_api.server_packages import needed

with needed():
    from queue_scheduler.configuration import (
        Flags,
        ShadowFlags,
        load_configuration,
        parse_flags,
    )
    from queue_scheduler.wiring import build_scheduler
    from shared_api.program import Program, run_program


def run(arguments: Sequence[str]) -> int:
    """Run the program until a signal; return its exit code."""
    flags = parse_flags(arguments, os.environ)
    configuration = load_configuration(flags.config)
    if flags.shadow is not None:
        return _run_shadow(flags, flags.shadow)
    program = Program("koord-queue-scheduler", flags.program)
    return program.run(build_scheduler(program, flags, configuration))


def _run_shadow(flags: Flags, shadow: ShadowFlags) -> int:
    # What knows kinds of jobs is imported only where jobs are watched.
    from queue_scheduler.shadow_program.wiring import build_shadow  # noqa: PLC0415 - as said

    program = Program("koord-queue-shadow", flags.program, only_reads=True)
    return program.run(build_shadow(program, flags, shadow))


def main() -> None:
    """Run with the arguments of the command line."""
    sys.exit(run_program(run, sys.argv[1:]))


if __name__ == "__main__":
    main()
