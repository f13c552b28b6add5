"""koord-queue-insight: answers what takes long, from a copy of the scheduler's engine."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from shared_api.server_packages import needed

with needed():
    from queue_insight.insight_program.flags import PROGRAM, parse_insight_flags
    from queue_insight.insight_program.wiring import SWITCH_SECONDS, Insight
    from shared_api.client.connection_settings import SettingsError
    from shared_api.local_program import USAGE_ERRORS, LocalProgram, run_local_program


def run(arguments: Sequence[str]) -> int:
    """Run the program until a signal; return its exit code."""
    flags = parse_insight_flags(arguments)
    program = LocalProgram(PROGRAM, flags.process, switch_seconds=SWITCH_SECONDS)
    return program.serve(Insight(program, flags))


def main() -> None:
    """Run with the arguments of the command line."""
    sys.exit(run_local_program(run, sys.argv[1:], (*USAGE_ERRORS, SettingsError)))


if __name__ == "__main__":
    main()
