"""What each thread of a process has used, from /proc: CPU, context switches, reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple


class ThreadUsage(NamedTuple):
    """The usage of one thread, or of several together."""

    cpu_ms: float = 0.0
    voluntary: float = 0.0
    """How often it gave up the processor to wait."""
    involuntary: float = 0.0
    reads: float = 0.0
    """Calls of `read`; OpenSSL makes one per header and one per content of a TLS record."""
    read_bytes: float = 0.0
    writes: float = 0.0
    written_bytes: float = 0.0

    def plus(self, other: ThreadUsage, factor: float = 1.0) -> ThreadUsage:
        """Return this usage and `factor` times another."""
        return ThreadUsage(*(a + factor * b for a, b in zip(self, other, strict=True)))

    def times(self, factor: float) -> ThreadUsage:
        """Return this usage, multiplied."""
        return ThreadUsage(*(factor * each for each in self))


def usage_of_threads(pid: int) -> dict[tuple[str, int], ThreadUsage]:
    """Return the usage so far by (name, id) of each thread that is alive."""
    found = {}
    for folder in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
            found[name, int(folder.name)] = _usage_of(folder)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
    return found


def used_between(
    before: Mapping[tuple[str, int], ThreadUsage],
    after: Mapping[tuple[str, int], ThreadUsage],
    group_of: Callable[[str], str],
) -> dict[str, ThreadUsage]:
    """Return what was used between two readings, by group of names."""
    found: dict[str, ThreadUsage] = {}
    for thread, used in after.items():
        group = group_of(thread[0])
        more = used.plus(before.get(thread, ThreadUsage()), -1.0)
        found[group] = found.get(group, ThreadUsage()).plus(more)
    return found


def _usage_of(folder: Path) -> ThreadUsage:
    on_cpu = int((folder / "schedstat").read_text(encoding="ascii").split()[0])
    status, io = (_fields(folder / name) for name in ("status", "io"))
    return ThreadUsage(
        cpu_ms=on_cpu / 1e6,
        voluntary=int(status["voluntary_ctxt_switches"]),
        involuntary=int(status["nonvoluntary_ctxt_switches"]),
        reads=int(io["syscr"]),
        read_bytes=int(io["rchar"]),
        writes=int(io["syscw"]),
        written_bytes=int(io["wchar"]),
    )


def _fields(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
