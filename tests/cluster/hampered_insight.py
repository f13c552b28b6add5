"""The insight program in bad health: its volume full, then stopped, then out of memory."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.cluster.program_process import INSIGHT, ProgramProcess
from tests.cluster.supervised import Supervised

MOST_BYTES: Final = 65_536
"""Of any file that it writes: more than its log, less than a minute's record."""
FULL, STOPPED, STARVED = "its volume is full", "it is stopped", "it has no memory left"
_NO_LIMIT: Final = resource.RLIM_INFINITY


class HamperedInsight:
    """Keeps the program running, as a kubelet does, with one of the faults at a time.

    Args:
        folder: Of its sockets, its record and its log.
    """

    def __init__(self, folder: Path) -> None:
        flags = [f"--socket-dir={folder}", f"--record-dir={folder}"]
        self.process = ProgramProcess(INSIGHT, None, folder / "insight.log", flags)
        self.seen: set[str] = set()
        """The faults that it has had."""
        self._supervised = Supervised(self.process)
        self._fault = ""
        self._begun = 0

    def __enter__(self) -> Self:
        """Start it."""
        self._supervised.__enter__()
        self.process.wait_until_ready()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        self.suffer("")
        self._supervised.__exit__(kind, error, trace)

    def suffer(self, fault: str) -> None:
        """Let it have this fault alone; "": none. Again if it has been started again meanwhile."""
        pid = self.process.pid
        if (fault, pid) == (self._fault, self._begun):
            return
        self._fault, self._begun = fault, pid
        with contextlib.suppress(ProcessLookupError):  # it has ended; the next one has its turn
            size = address_space(pid) if fault == STARVED else _NO_LIMIT
            limit(pid, resource.RLIMIT_AS, size)
            limit(pid, resource.RLIMIT_FSIZE, MOST_BYTES if fault == FULL else _NO_LIMIT)
            os.kill(pid, signal.SIGSTOP if fault == STOPPED else signal.SIGCONT)
            self.seen |= {fault} - {""}


def limit(pid: int, what: int, most: int) -> None:
    """Set a soft limit of a process, at most to its hard one."""
    _, hard = resource.prlimit(pid, what)
    resource.prlimit(pid, what, (hard if most == _NO_LIMIT else most, hard))


def address_space(pid: int) -> int:
    """Return the size of a process's memory, used or not, in bytes; 0: it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    except FileNotFoundError:
        return 0
    return pages * resource.getpagesize()
