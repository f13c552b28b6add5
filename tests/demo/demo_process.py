"""The demo as a process, for tests that start, interrupt, and kill it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.waiting import within

ROOT: Final = Path(__file__).parents[2]
SHORT: Final = ("--jobs", "40", "--submit-seconds", "4")


class DemoProcess:
    """A short demo, with its own folder for temporary files.

    Args:
        folder: An empty folder.
        flags: Further flags after those that make it short.
        cluster: The value of `CLUSTER`, "" for the API server in memory.
        python: What runs it and its programs.
    """

    def __init__(
        self, folder: Path, *flags: str, cluster: str = "", python: str = sys.executable
    ) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self._output = folder / "output.txt"
        mine = {"CLUSTER": cluster, "DEMO": "", "TMPDIR": str(self.temporary)}
        mine["PYTHONFAULTHANDLER"] = "1"
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [python, "-m", "tests.demo", *SHORT, *flags],
                cwd=ROOT,
                env={**os.environ, **mine},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        """The output so far."""
        return self._output.read_text()

    def wait_for_output(self, text: str, seconds: float) -> None:
        """Wait until it has printed this; raise AssertionError if it ends or takes longer."""

        def has_come() -> bool:
            if text in self.output:
                return True
            assert self.process.poll() is None, self.output
            return False

        assert within(seconds, has_come), f"not in {seconds:.0f} s: {text!r} in {self.output}"

    def wait(self, seconds: float) -> int:
        """Return its exit status; if it takes longer, raise AssertionError with its stacks."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # then Python writes them
            self.process.wait()
            raise AssertionError(f"it runs after {seconds:.0f} s: {self.output}") from None

    def programs(self) -> dict[int, str]:
        """Return running processes with a file of this demo in their command, by id."""
        processes = [entry for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
        commands = {int(entry.name): _command_of(entry) for entry in processes}
        return {pid: it for pid, it in commands.items() if str(self.temporary) in it}

    def leaves_nothing(self) -> bool:
        """Return whether no process and no file of it is left."""
        return not self.programs() and not list(self.temporary.iterdir())


@contextmanager
def demo_starter(
    folder: Path, *, cluster: str = "", python: str = sys.executable
) -> Iterator[Callable[..., DemoProcess]]:
    """Yield a function that starts a demo with further flags; the demos end with the block."""
    started: list[DemoProcess] = []

    def start_one(*flags: str) -> DemoProcess:
        started.append(DemoProcess(folder, *flags, cluster=cluster, python=python))
        return started[-1]

    try:
        yield start_one
    finally:
        for demo in started:
            demo.process.kill()
            demo.process.wait()


def _command_of(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""  # the process has just ended
