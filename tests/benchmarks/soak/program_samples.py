"""What a running program holds: memory, threads, files, series; and what its self-audit found."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import httpx

from tests.benchmarks.process_usage import usage
from tests.benchmarks.soak.growth import Track
from tests.cluster.program_metrics import scrape
from tests.cluster.program_process import ProgramProcess

HOUR: Final = 3600.0
DIFFERENCES: Final = "koord_queue_audit_differences_total"

FLOORS: Final = {"rss": 2.0, "threads": 1.0, "files": 2.0, "series": 3.0}
"""What may come and go: a block of the allocator, a thread or a connection of the moment, and a
status code that was never seen before."""
UNITS: Final = {"rss": "MB", "threads": "", "files": "", "series": ""}


class ProgramSamples:
    """Samples one program.

    Args:
        name: The program, in tables.
        process: It; it may be restarted between samples.

    Attributes:
        tracks: What was sampled since its last start, by its kind.
        differences: The most that its self-audit has counted in a run of it.
        missed: Samples without an answer, such as right after a kill.
    """

    def __init__(self, name: str, process: ProgramProcess) -> None:
        self.process = process
        self.tracks = {
            kind: Track(name=f"{name}: {kind}", unit=UNITS[kind], floor=floor)
            for kind, floor in FLOORS.items()
        }
        self.differences = 0.0
        self.missed = 0
        self._began = time.monotonic()
        self._pid = 0

    def take(self) -> None:
        """Take a sample; a program that is not there is left out."""
        hours = (time.monotonic() - self._began) / HOUR
        try:
            values = _values(self.process)
        except (OSError, httpx.HTTPError, KeyError):
            self.missed += 1
            return
        if self._pid != self.process.pid:
            # It fills its caches again: what is judged is what it does after that.
            self._pid = self.process.pid
            for track in self.tracks.values():
                track.points.clear()
        self.differences = max(self.differences, values.pop("differences"))
        for kind, value in values.items():
            self.tracks[kind].points.append((hours, value))


def _values(process: ProgramProcess) -> dict[str, float]:
    lines = scrape(process).raise_for_status().text.splitlines()
    found = usage(process.pid)
    return {
        "rss": found.rss_mb,
        "threads": len(list(Path(f"/proc/{process.pid}/task").iterdir())),
        "files": len(list(Path(f"/proc/{process.pid}/fd").iterdir())),
        "series": sum(not line.startswith("#") for line in lines),
        "differences": sum(
            float(line.rpartition(" ")[2]) for line in lines if line.startswith(DIFFERENCES)
        ),
    }
