"""A whole check controller in one call: flags, leader election, probes, metrics, watches, writes.

    def judge(unit: QueueUnit, check: AdmissionCheck) -> Verdict: ...

    if __name__ == "__main__":
        raise SystemExit(serve("example.com/my-check", judge))

The program has the flags of Koord-Queue's own (`shared_api.program_flags`). Its account needs:
`queueunits` get, list, watch, and patch of `queueunits/status` (scheduling.x-k8s.io);
`admissionchecks` get, list, watch, and patch of `admissionchecks/status` (kueue.x-k8s.io); create
and patch of `events` (events.k8s.io); get, create and update of `leases` (coordination.k8s.io).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, Final, overload

import msgspec

from shared_api.admission_check_kit.check_controller import CheckController
from shared_api.admission_check_kit.judging import Judge
from shared_api.admission_check_kit.rules import P, Reader, Rule, RuleJudge, read_all
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.program import Program, run_program
from shared_api.program_flags import (
    FlagError,
    ProgramFlags,
    add_program_flags,
    read_program_flags,
    with_two_dashes,
)

LEASE_NAMESPACE: Final = "koord-queue"

# A domain and a word, as in keys of labels; Kubernetes requires such names for event reporters.
_CONTROLLER_NAME: Final = re.compile(
    r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
MAX_CONTROLLER_NAME_CHARS: Final = 128
"""The API allows 253; events, which are reported under the name, allow fewer."""


class CheckFlags(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed command line of a check controller."""

    program: ProgramFlags
    controller_name: str
    workers: int


@overload
def serve(
    controller_name: str,
    judge: Judge | Rule[AdmissionCheck],
    *,
    arguments: Sequence[str] | None = None,
) -> int: ...


@overload
def serve(
    controller_name: str,
    judge: Rule[P],
    read: Reader[P],
    *,
    arguments: Sequence[str] | None = None,
) -> int: ...


def serve(
    controller_name: str,
    judge: Judge | Rule[Any],
    read: Reader[Any] = read_all,
    *,
    arguments: Sequence[str] | None = None,
) -> int:
    """Run a check controller until a signal; return the exit code of the process.

    Args:
        controller_name: `spec.controllerName` of its AdmissionChecks, such as
            `example.com/opening-hours`. The last part names the program and the Lease.
        judge: The rule, a function or a `judging.Judge`.
        read: Returns the second argument of a function, from the check; by default, the check.
        arguments: The command line; None: that of this process.
    """
    program_name = controller_name.rpartition("/")[2]

    def run(given: Sequence[str]) -> int:
        flags = parse_check_flags(given, program_name, controller_name)
        program = Program(program_name, flags.program)
        rule = judge if isinstance(judge, Judge) else RuleJudge(judge, read)
        work = CheckController(program, flags.controller_name, rule, workers=flags.workers)
        return program.run(work)

    return run_program(run, sys.argv[1:] if arguments is None else arguments)


def parse_check_flags(
    arguments: Sequence[str],
    program_name: str,
    controller_name: str,
    *,
    metrics_address: str = ":8080",
    health_address: str | None = None,
) -> CheckFlags:
    """Return the parsed command line.

    Args:
        arguments: The command line, without the program's name.
        program_name: Shown in the help; also the default name of the Lease.
        controller_name: The default name of the controller.
        metrics_address: The default address of metrics.
        health_address: The default address of probes; None: that of the other programs.

    Raises:
        FlagError: A value is not valid.
    """
    parser = argparse.ArgumentParser(
        prog=program_name,
        description="Carries out admission checks of Koord-Queue.",
        allow_abbrev=False,
    )
    add_program_flags(parser, lease_name=program_name, metrics_address=metrics_address)
    if health_address is not None:
        parser.set_defaults(health_address=health_address)
    parser.add_argument(
        "--controller-name",
        default=controller_name,
        help="spec.controllerName of the AdmissionChecks to carry out (default: %(default)s)",
    )
    parser.add_argument(
        "--workers",
        type=int,
        help="units that are checked in parallel (default: as --writers)",
    )
    got = parser.parse_args(with_two_dashes(arguments))
    name = got.controller_name
    if len(name) > MAX_CONTROLLER_NAME_CHARS or _CONTROLLER_NAME.fullmatch(name) is None:
        raise FlagError(f"--controller-name {name!r}: a domain, a slash and a word are needed")
    program = read_program_flags(got, namespace=LEASE_NAMESPACE)
    workers = program.writers if got.workers is None else got.workers
    if workers < 1:
        raise FlagError(f"--workers {workers}: at least 1 is needed")
    return CheckFlags(program=program, controller_name=name, workers=workers)
