"""koord-queue-admission-checks: asks the cluster-autoscaler for nodes before a job starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from shared_api.server_packages import needed

with needed():
    from queue_admission_checks.provisioning_judge import ProvisioningJudge
    from shared_api.admission_check_kit.check_controller import CheckController
    from shared_api.admission_check_kit.serving import parse_check_flags
    from shared_api.program import Program, run_program

PROGRAM: Final = "koord-queue-admission-checks"

CONTROLLER_NAME: Final = "koord-queue.sh/provisioning-request"
"""Not Kueue's (`kueue.x-k8s.io/provisioning-request`), so that both may serve one cluster."""

METRICS_ADDRESS: Final = ":8083"
HEALTH_ADDRESS: Final = ":8082"
"""Beside the scheduler, which has 8081 and 10259 in the same pod."""


def run(arguments: Sequence[str]) -> int:
    """Run the program until a signal; return its exit code."""
    flags = parse_check_flags(
        arguments,
        PROGRAM,
        CONTROLLER_NAME,
        metrics_address=METRICS_ADDRESS,
        health_address=HEALTH_ADDRESS,
    )
    program = Program(PROGRAM, flags.program)
    judge = ProvisioningJudge(flags.controller_name)
    return program.run(
        CheckController(program, flags.controller_name, judge, workers=flags.workers)
    )


def main() -> None:
    """Run with the arguments of the command line."""
    sys.exit(run_program(run, sys.argv[1:]))


if __name__ == "__main__":
    main()
