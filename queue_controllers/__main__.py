"""koord-queue-controllers: holds jobs back, and releases them when they are admitted."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from shared_api.server_packages import needed

with needed():
    from queue_controllers.configuration import PROGRAM, load_configuration, parse_flags
    from queue_controllers.extension_list import find_extensions
    from queue_controllers.wiring import build_controllers, serve_debug_api
    from shared_api.program import Program, run_program


def run(arguments: Sequence[str]) -> int:
    """Run the program until a signal; return its exit code."""
    flags = parse_flags(arguments)
    extensions = find_extensions()
    configuration = load_configuration(flags.config, extensions)
    program = Program(PROGRAM, flags.program)
    controllers = build_controllers(program, flags, configuration, extensions)
    serve_debug_api(program, flags.debug, controllers)
    return program.run(controllers)


def main() -> None:
    """Run with the arguments of the command line."""
    sys.exit(run_program(run, sys.argv[1:]))


if __name__ == "__main__":
    main()
