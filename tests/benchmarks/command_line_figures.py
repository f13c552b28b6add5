"""How long a command takes, from the shell's prompt to the next, on a cluster with both APIs.

Controls in the same run: an empty Python, and the same question to kubectl.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tests.benchmarks.figures import Figure, percentile
from tests.cluster.command_line_kit import CommandLine, command_line
from tests.cluster.queue_world import OWN_TIMES_SECONDS
from tests.waiting import until

TIMES: Final = 15
UNITS: Final = 200


def run(binaries: Path, *, quick: bool = False) -> list[Figure]:
    """Measure the start of the program and the list of units; `quick`: fewer times."""
    times = 3 if quick else TIMES
    with command_line(binaries) as cli:
        world = cli.world
        world.create_quota("team", cpu_max=1)
        until(lambda: world.has_queue("team"))
        for number in range(UNITS):
            world.create_unit(f"unit-{number:03}", "team", cpu=1)
        until(lambda: len(cli.run("units").lines) == UNITS + 1, OWN_TIMES_SECONDS)
        kubectl = [str(binaries / "kubectl"), f"--kubeconfig={world.plane.kubeconfig}"]
        programs = {
            "python": [sys.executable, "-c", ""],
            "help": [*_program(), "--help"],
            "units": [*_program(), "units"],
            "explain": [*_program(), "explain", "unit/unit-100"],
            "kubectl_units": [*kubectl, "get", "queueunits.scheduling.x-k8s.io"],
        }
        spent = _measure(cli, programs, times)
    bare, listed = spent["python"], spent["kubectl_units"]
    return [
        _figure("command_line_help", spent["help"], bare, "control: an empty Python"),
        _figure("command_line_units", spent["units"], listed, f"{UNITS} units; control: kubectl"),
        _figure("command_line_explain", spent["explain"], listed, "control: kubectl's list"),
    ]


def _program() -> list[str]:
    return [sys.executable, "-m", "koord_queue"]


def _measure(
    cli: CommandLine, programs: dict[str, list[str]], times: int
) -> dict[str, list[float]]:
    environment = os.environ | {"KUBECONFIG": str(cli.world.plane.kubeconfig)}
    spent: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(times):
        for name, command in programs.items():  # in turn: a busy moment hits all of them
            started = time.perf_counter()
            subprocess.run(command, env=environment, capture_output=True, check=True)
            spent[name].append(time.perf_counter() - started)
    return spent


def _figure(name: str, spent: list[float], control: list[float], note: str) -> Figure:
    return Figure(
        name=f"{name}_ms",
        value=percentile(spent, 0.5) * 1_000,
        unit="ms",
        control=percentile(control, 0.5) * 1_000,
        note=f"median of {len(spent)} runs, wall; {note}",
    )
