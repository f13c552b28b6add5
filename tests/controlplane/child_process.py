"""Starting and stopping the programs of a control plane.

Only processes started here are signaled, by the handle that started them.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.controlplane.tool_cache import tail

GUARDIAN = Path(__file__).with_name("guardian.py")
STOP_SECONDS = 5.0


class Guardian:
    """Ends the processes of its group, and removes the folder, when this process dies."""

    def __init__(self, folder: Path) -> None:
        """Start the guardian of a folder."""
        self._process = subprocess.Popen(
            # -I -S: neither the environment nor installed packages may delay or break it.
            [sys.executable, "-I", "-S", str(GUARDIAN), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            process_group=0,
        )

    @property
    def group(self) -> int:
        """The process group of the guarded programs."""
        return self._process.pid

    def dismiss(self) -> None:
        """End only the guardian; its group must be empty."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()


class ChildProcess:
    """One program; it may be started again after it has ended."""

    def __init__(
        self, command: Sequence[str], log_path: Path, environment: Mapping[str, str], group: int
    ) -> None:
        """Prepare a program without starting it.

        Args:
            command: the program and its arguments.
            log_path: the file to which stdout and stderr are appended.
            environment: the whole environment of the program.
            group: the process group to join, that of a Guardian.
        """
        self.name = Path(command[0]).name
        self._command = list(command)
        self._log_path = log_path
        self._environment = dict(environment)
        self._group = group
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, None if it does not run."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_status(self) -> int | None:
        """As in subprocess: negative for a signal; None while it runs or before its start."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start the program; it must not be running."""
        assert not self.running, f"{self.name} runs already"
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._log_path.parent,
                process_group=self._group,
            )

    def terminate(self) -> None:
        """Send the program SIGTERM; return at once."""
        if self._process is not None:
            self._process.terminate()

    def kill(self) -> None:
        """Kill the program, as in a crash, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def kill_after(self, seconds: float) -> None:
        """Wait this long for a terminated program, then kill it."""
        if self._process is None:
            return
        try:
            self._process.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            self.kill()

    def log(self) -> str:
        """Return its whole log, over all starts."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def describe_end(self) -> str:
        """Return how it ended, if it did, and the end of its log."""
        state = "is running" if self.running else f"ended with status {self.exit_status}"
        return f"{self.name} {state}; the end of its log:\n{tail(self.log())}"


def stop_all(children: Iterable[ChildProcess], seconds: float = STOP_SECONDS) -> None:
    """Terminate all at once, and kill those that take longer than `seconds`."""
    asked = list(children)
    for child in asked:
        child.terminate()
    deadline = time.monotonic() + seconds
    for child in asked:
        child.kill_after(deadline - time.monotonic())
