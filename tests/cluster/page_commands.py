"""Runs the commands of a page of docs/ from top to bottom, with the job that the page is about."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.cluster.queue_world import PATIENCE_SECONDS, Cluster, QueueWorld, refusal_of, until
from tests.tidy.source_tree import ROOT

STEP: Final = re.compile(r"^    \$ (.+)\n((?:    .*\n)*)", re.MULTILINE)
PORT: Final = ":19876/"
ASKS: Final = re.compile(r"^koord-queue (?:explain|when|try|what-if)\b(?!.*--from-dump)")
"""Commands that ask a cluster: this one has neither the aggregated API nor pods to forward to."""


def arrange_waiting_job(cluster: Cluster) -> None:
    """Create the job `train`, which waits behind one that runs."""
    world = cluster.world
    world.create_quota("team-a", cpu_max=4)
    world.create_job("old", "team-a", suspend=True, cpu="3", run_seconds="600")
    until(lambda: world.running_pods("old"))
    world.create_job("train", "team-a", suspend=True, cpu="2", run_seconds="600")
    until(lambda: refusal_of(cluster.scheduler, "train"))
    until(lambda: "needs more" in world.unit_of("train")["status"].get("message", ""))


def steps(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a page with the lines that it shows."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for match in STEP.finditer(text):
        yield match[1], [line.strip() for line in match[2].splitlines()]


def check_commands(page: str, cluster: Cluster, folder: Path, *, least: int) -> None:
    """Check that each command of a page prints what the page shows; `least`: how many there are."""
    port = cluster.scheduler.port_of("--debug-address")
    commands = list(steps(page))
    assert len(commands) >= least
    for command, shown in commands:
        asked = ASKS.sub(rf"\g<0> --server http://127.0.0.1:{port}", command)
        found = run(cluster.world, asked.replace(PORT, f":{port}/"), folder)
        for line in shown:
            wanted = " ".join(line.removesuffix("...").split())
            assert wanted in found, f"{command}\n{found}"


def run(world: QueueWorld, command: str, folder: Path) -> str:
    """Return what a command of the page prints, with single spaces."""
    plane = world.plane
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{plane.binaries}:{os.environ['PATH']}",
        "KUBECONFIG": str(plane.kubeconfig_for("admin")),
        "HOME": str(folder),
    }
    done = subprocess.run(
        ["/bin/bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return " ".join(done.stdout.split())
