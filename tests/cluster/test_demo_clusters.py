"""The demo on real API servers: one of its own, and one that was there before."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shared_api.process.clock import SystemClock
from tests.controlplane.control_plane import ControlPlane
from tests.demo.clusters import QUOTA_CRD
from tests.demo.current_cluster import CurrentCluster
from tests.demo.demo_run import DemoRun
from tests.demo.demo_settings import Settings, Where
from tests.demo.terminal import Terminal

ROOT = Path(__file__).parents[2]
SHORT = ("--jobs", "40", "--submit-seconds", "8")


def start_local(folder: Path, *flags: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.demo", *SHORT, *flags],
        cwd=ROOT,
        env={**os.environ, "CLUSTER": "local", "DEMO": "", "TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def processes_with(text: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and text.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue  # it has just ended
    return found


@pytest.mark.usefixtures("controlplane_binaries")
def test_a_short_run_on_a_control_plane_of_its_own(tmp_path: Path) -> None:
    demo = start_local(tmp_path, "--once")
    output, _ = demo.communicate(timeout=110)
    assert demo.returncode == 0, output
    assert "40 of 40 jobs completed" in output
    assert "no quota exceeded" in output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("controlplane_binaries")
@pytest.mark.parametrize("seconds", [1.5, 12.0], ids=["while it starts", "while it runs"])
def test_an_interrupt_leaves_nothing(tmp_path: Path, seconds: float) -> None:
    demo = start_local(tmp_path)
    time.sleep(seconds)
    demo.send_signal(signal.SIGINT)
    output, _ = demo.communicate(timeout=60)
    assert demo.returncode == 130, output
    assert list(tmp_path.iterdir()) == []
    assert processes_with(str(tmp_path)) == []


def test_a_cluster_that_was_there_is_as_before(
    controlplane_binaries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ControlPlane(
        controlplane_binaries, controller_manager=True, scheduler=True, kwok=True, nodes=2
    ) as plane:
        plane.apply(QUOTA_CRD)
        before = everything_in(plane)
        monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
        text = io.StringIO()
        run = DemoRun(
            Settings(where=Where.CURRENT, once=True, jobs=40, submit_seconds=8.0),
            Terminal(text),
            SystemClock(),
            make_cluster=lambda _settings, _folder, clock: CurrentCluster(clock, lambda _: "y"),
        )
        run.run()
        assert run.outcome.exit_status == 0, text.getvalue()
        assert everything_in(plane) == before


def everything_in(plane: ControlPlane) -> set[str]:
    """What a run could leave behind; events go by themselves."""
    kinds = "namespaces,customresourcedefinitions,priorityclasses,elasticquotas,jobs,pods"
    listed = json.loads(plane.kubectl("get", kinds, "--all-namespaces", "--output", "json"))
    return {f"{item['kind']} {item['metadata']['name']}" for item in listed["items"]}
