"""The demo, shortened: it ends by itself, and leaves nothing behind.

Two at once would quarrel about the port of the debug API: all that start one as a process are here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.scenario

ROOT = Path(__file__).parents[2]
SHORT = ["--jobs", "40", "--submit-seconds", "4"]
READY_SECONDS = 60.0
GONE_SECONDS = 20.0


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds:.0f} s: {what}"
        time.sleep(0.05)


class Demo:
    """The demo as a process, with a folder for temporary files of its own."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self._output = folder / "output.txt"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.demo", *SHORT, *flags],
                cwd=ROOT,
                env={**os.environ, "TMPDIR": str(self.temporary), "CLUSTER": "", "DEMO": ""},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    def wait_until_ready(self) -> None:
        wait_until(lambda: "ready after" in self.output, READY_SECONDS, "the demo is ready")

    def programs(self) -> dict[int, str]:
        """Running processes that were given a file of this demo's, by id."""
        processes = [entry for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
        commands = {int(entry.name): _command_of(entry) for entry in processes}
        return {pid: it for pid, it in commands.items() if str(self.temporary) in it}

    def leaves_nothing(self) -> bool:
        return not self.programs() and not list(self.temporary.iterdir())


def _command_of(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""  # it has just ended


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    started: list[Demo] = []

    def start_one(*flags: str) -> Demo:
        started.append(Demo(tmp_path, *flags))
        return started[-1]

    yield start_one
    for demo in started:
        demo.process.kill()
        demo.process.wait()


def test_a_short_run_completes_every_job(start: Callable[..., Demo]) -> None:
    demo = start("--once")
    assert demo.process.wait(100) == 0, demo.output
    for words in (
        "40 of 40 jobs completed",
        "no quota exceeded",
        "API writes per job",
        "WAIT P99",
        "GPU-seconds used",
    ):
        assert words in demo.output
    assert demo.leaves_nothing()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_leave_no_process_and_no_file(
    start: Callable[..., Demo], number: signal.Signals
) -> None:
    demo = start()
    demo.wait_until_ready()
    assert len(demo.programs()) == 3  # two programs and their guardian
    demo.process.send_signal(number)
    demo.process.send_signal(number)  # an impatient person
    assert demo.process.wait(GONE_SECONDS) == 130, demo.output
    assert demo.leaves_nothing()


def test_a_killed_demo_takes_its_programs_along(start: Callable[..., Demo]) -> None:
    demo = start()
    demo.wait_until_ready()
    demo.process.kill()
    wait_until(demo.leaves_nothing, GONE_SECONDS, "the guardian has cleaned up")


def test_a_program_that_dies_is_reported_with_its_log(start: Callable[..., Demo]) -> None:
    demo = start()
    demo.wait_until_ready()
    (scheduler,) = (pid for pid, it in demo.programs().items() if "-m queue_scheduler" in it)
    os.kill(scheduler, signal.SIGKILL)
    assert demo.process.wait(GONE_SECONDS) == 1
    assert "koord-queue-scheduler ended with status -9; the end of its log:" in demo.output
    assert "cache complete" in demo.output
    assert demo.leaves_nothing()
