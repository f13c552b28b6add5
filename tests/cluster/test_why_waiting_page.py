"""The commands of docs/why-waiting.md, run from top to bottom, say what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.queue_world import PATIENCE_SECONDS, Cluster, QueueWorld, refusal_of, until
from tests.tidy.source_tree import ROOT

PAGE: Final = ROOT / "docs" / "why-waiting.md"
STEP: Final = re.compile(r"^    \$ (.+)\n((?:    .*\n)*)", re.MULTILINE)
PORT: Final = ":19876/"


@pytest.fixture
def waiting(cluster: Cluster, world: QueueWorld) -> Cluster:
    """The job of the page, which waits behind one that runs."""
    world.create_quota("team-a", cpu_max=4)
    world.create_job("old", "team-a", suspend=True, cpu="3", run_seconds="600")
    until(lambda: world.running_pods("old"))
    world.create_job("train", "team-a", suspend=True, cpu="2", run_seconds="600")
    until(lambda: refusal_of(cluster.scheduler, "train"))
    until(lambda: "needs more" in world.unit_of("train")["status"].get("message", ""))
    return cluster


def steps() -> Iterator[tuple[str, list[str]]]:
    """Yield each command of the page with the lines that it shows."""
    for match in STEP.finditer(PAGE.read_text(encoding="utf-8")):
        yield match[1], [line.strip() for line in match[2].splitlines()]


def test_the_commands_say_what_the_page_shows(waiting: Cluster, tmp_path: Path) -> None:
    port = waiting.scheduler.port_of("--debug-address")
    commands = list(steps())
    assert len(commands) > 5
    for command, shown in commands:
        found = run(waiting.world, command.replace(PORT, f":{port}/"), tmp_path)
        for line in shown:
            wanted = " ".join(line.removesuffix("...").split())
            assert wanted in found, f"{command}\n{found}"


def run(world: QueueWorld, command: str, folder: Path) -> str:
    """Return what a command of the page prints, with single spaces."""
    plane = world.plane
    environment = {
        "PATH": f"{plane.binaries}:{os.environ['PATH']}",
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
