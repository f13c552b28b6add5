"""CPU seconds and memory of a process, from /proc."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The usage of a process with its threads so far."""

    cpu_seconds: float
    rss_mb: float
    peak_rss_mb: float


def usage(pid: int) -> Usage:
    """Return the usage of a process, which must be alive."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    sizes = {line.partition(":")[0]: line.split() for line in status.splitlines() if "kB" in line}
    return Usage(
        cpu_seconds=cpu_seconds(pid),
        rss_mb=int(sizes["VmRSS"][1]) / 1024,
        peak_rss_mb=int(sizes["VmHWM"][1]) / 1024,
    )


def own_rss_mb() -> float:
    """Return the memory of this process."""
    return usage(os.getpid()).rss_mb


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process and its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def cpu_seconds_of_all() -> float:
    """Return the time that all processors of the machine were busy, for any process."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    user, nice, system, _idle, _iowait, irq, softirq, *_ = (int(ticks) for ticks in first[1:])
    return (user + nice + system + irq + softirq) / TICKS


@dataclass(frozen=True)
class Meter:
    """Processes that are measured together, and their usage at the start."""

    pids: Mapping[str, int]
    before: Mapping[str, float]
    all_before: float

    @classmethod
    def start(cls, pids: Mapping[str, int]) -> Meter:
        """Start measuring."""
        return cls(pids, {name: cpu_seconds(p) for name, p in pids.items()}, cpu_seconds_of_all())

    def read(self) -> dict[str, float]:
        """Return the CPU seconds of each process since the start, and of "others"."""
        used = {name: cpu_seconds(pid) - self.before[name] for name, pid in self.pids.items()}
        used["others"] = cpu_seconds_of_all() - self.all_before - sum(used.values())
        return used
