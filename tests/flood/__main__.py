"""`python -m tests.flood`: floods every port as each kind of user, and prints what others saw.

It ends with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.controlplane.binaries import require_binaries
from tests.flood import report
from tests.flood.bystanders import INTERVAL_SECONDS
from tests.flood.flood_world import flood_world
from tests.flood.questions import USERS, Port, User
from tests.flood.rounds import Round, Rounds, rounds
from tests.flood.still_server import still_server

SECONDS: Final = 60.0
UNITS: Final = 3000
PER_SECOND: Final = 10.0
"""Jobs: what a busy cluster starts, and half of what two cores can."""
RESULTS: Final = Path("build/flood.json")


def main() -> int:
    """Run, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.flood", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each flood")
    parser.add_argument("--units", type=int, default=UNITS, help="that wait")
    parser.add_argument("--per-second", type=float, default=PER_SECOND, help="jobs")
    parser.add_argument(
        "--port", action="append", type=Port, choices=list(Port), help="only this one"
    )
    parser.add_argument(
        "--user", action="append", type=User, choices=list(User), help="only this kind"
    )
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the figures go")
    got = parser.parse_args()
    found = list[Round]()
    with (
        flood_world(require_binaries(), got.units) as world,
        rounds(
            world, seconds=got.seconds, per_second=got.per_second, interval=INTERVAL_SECONDS
        ) as going,
    ):
        print(f"{got.units} units wait; floods of {got.seconds:g} s", report.HEAD, sep="\n")
        for one in _play(going, got.port or list(Port), got.user or list(User), got.seconds):
            print(report.line(one), *report.details(one), sep="\n", flush=True)
            found.append(one)
            report.write(got.json, found)
    wrong = sum(bool(each.faults) for each in found)
    print(f"{len(found)} floods, {wrong} with faults; figures: {got.json}")
    return 1 if wrong else 0


def _play(going: Rounds, ports: list[Port], users: list[User], seconds: float) -> Iterator[Round]:
    with still_server() as still:
        quiet = going.watch(seconds)
        print(report.quiet_line(quiet), flush=True)
        yield going.control(still, quiet)
    for port in ports:
        quiet = going.watch(seconds)
        print(report.quiet_line(quiet), flush=True)
        for user in USERS[port]:
            if user in users:
                yield going.flood(port, user, quiet)


if __name__ == "__main__":
    sys.exit(main())
