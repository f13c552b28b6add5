"""A program that is restarted whenever it ends, as by a Deployment."""

from __future__ import annotations

import os
import signal
import threading
from types import TracebackType
from typing import Self

from tests.cluster.program_process import ProgramProcess

PATIENCE_SECONDS = 3600.0
"""Longest wait for the end of a program: any test is over before."""


class Supervised:
    """Keeps one program running between `__enter__` and `__exit__`.

    Args:
        process: not started.
    """

    def __init__(self, process: ProgramProcess) -> None:
        self.process = process
        self.exit_codes: list[int] = []
        """Of the runs that have ended, except the last."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep_running, name="supervisor")

    def __enter__(self) -> Self:
        self.process.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        while self._thread.is_alive():
            self.process.stop()  # again, in case one was started meanwhile
            self._thread.join(0.1)

    def kill(self) -> None:
        """Kill it, as a crash would."""
        os.kill(self.process.pid, signal.SIGKILL)

    def _keep_running(self) -> None:
        while True:
            code = self.process.wait(PATIENCE_SECONDS)
            if self._stopping.is_set():
                return
            self.exit_codes.append(code)
            self.process.start()
