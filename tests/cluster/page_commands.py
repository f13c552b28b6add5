"""Runs the commands of a page of docs/ from top to bottom, with the job that the page is about."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.cluster.queue_world import Cluster, QueueWorld, refusal_of
from tests.docs.page_steps import Command, steps
from tests.waiting import PATIENCE_SECONDS, until

PORT: Final = ":19876/"
ASKS: Final = re.compile(r"^koord-queue (?:explain|when|try|what-if)\b(?!.*--from-dump)")
"""Commands that ask a cluster: this one has neither the aggregated API nor pods to forward to."""


def arrange_waiting_job(cluster: Cluster) -> None:
    """Create the job `train`, which waits behind one that runs."""
    world = cluster.world
    world.create_quota("team-a", cpu_max=4)
    world.create_job("old", "team-a", cpu="3", run_seconds="600")
    until(lambda: world.running_pods("old"))
    world.create_job("train", "team-a", cpu="2", run_seconds="600")
    until(lambda: refusal_of(cluster.scheduler, "train"))
    until(lambda: "needs more" in world.unit_of("train")["status"].get("message", ""))


def check_commands(page: str, cluster: Cluster, folder: Path, *, least: int) -> None:
    """Check that each command of a page prints what the page shows; `least`: how many there are."""
    port = cluster.scheduler.port_of("--debug-address")
    commands = [step for step in steps(page) if isinstance(step, Command)]
    assert len(commands) >= least
    for command in commands:
        asked = ASKS.sub(rf"\g<0> --server http://127.0.0.1:{port}", command.text)
        found = run(cluster.world, asked.replace(PORT, f":{port}/"), folder)
        assert command.missing(found) == [], f"{command.text}\n{found}"


def run(world: QueueWorld, command: str, folder: Path) -> str:
    """Return what a command of the page prints, with single spaces."""
    plane = world.plane
    environment = {"KUBECONFIG": str(plane.kubeconfig_for("admin"))}
    done = run_in_shell(command, folder, plane.binaries, environment)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_in_shell(
    command: str, folder: Path, binaries: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command as a reader does.

    Args:
        command: For bash.
        folder: Where it runs; also the home.
        binaries: Has kubectl.
        environment: Variables in addition to `PATH` and `HOME`. A `PATH` among them comes first.
    """
    more = dict(environment)
    path = f"{Path(sys.executable).parent}:{binaries}:{os.environ['PATH']}"
    if first := more.pop("PATH", ""):
        path = f"{first}:{path}"
    return subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        env={"PATH": path, "HOME": str(folder), **more},
        cwd=folder,
        timeout=2 * PATIENCE_SECONDS,
        check=False,
    )
