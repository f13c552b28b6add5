"""A scheduler with the insight program beside it, and which cores each may use.

In a cluster the API server and etcd are on machines of their own. So benchmarks give them the first
core, with the player, and leave the last one to the scheduler and the insight program. There the
kernel shares it between the two as in their pod: by the CPU that the chart requests for each.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.benchmarks import audited_scheduler
from tests.benchmarks.cluster_world import programs_of
from tests.cluster.program_metrics import scrape
from tests.cluster.program_process import INSIGHT, ProgramProcess
from tests.waiting import within

CORES: Final = sorted(os.sched_getaffinity(0))
WORKERS: Final = 8
PATIENCE_SECONDS: Final = 60.0
SCHEDULER: Final = "tests/benchmarks/audited_scheduler.py"
NICENESS: Final = 10
"""A tenth of the weight of niceness 0, as the chart requests a tenth of the scheduler's CPU."""


def pin(pid: int, cores: Sequence[int]) -> None:
    """Let a process run on these cores only; Linux does it for one thread, and those it starts."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


def lower(pid: int) -> None:
    """Let others go first where they want the same core; Linux does it for one thread."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(thread.name), NICENESS)


def pin_others(pids: Mapping[str, int]) -> None:
    """Let these programs, and this process, have the first core."""
    for pid in (os.getpid(), *pids.values()):
        pin(pid, CORES[:1])


@contextmanager
def started(
    kubeconfig: Path,
    *,
    insight: bool,
    cores: Sequence[int],
    audit_seconds: int = 0,
    insight_flags: Sequence[str] = (),
) -> Iterator[dict[str, ProgramProcess]]:
    """Yield a scheduler, and the insight program that follows it once it has a record.

    Args:
        kubeconfig: Of the API server.
        insight: Whether there is an insight program.
        cores: What both may use.
        audit_seconds: How often the scheduler audits itself; 0: never.
        insight_flags: More flags of the insight program.
    """
    with tempfile.TemporaryDirectory() as folder, programs_of(kubeconfig) as programs:
        flags, found = list[str](), dict[str, ProgramProcess]()
        if insight:
            found["insight"] = _start_insight(Path(folder), insight_flags)
            pin(found["insight"].pid, cores)
            lower(found["insight"].pid)
            flags.append(f"--insight-socket-dir={folder}")
        audit = f"{audited_scheduler.FLAG}{audit_seconds}"
        ours = ("--debug-address=127.0.0.1:0", f"--writers={WORKERS}", *flags, audit)
        try:
            found["scheduler"] = programs.start(SCHEDULER, *ours)
            pin(found["scheduler"].pid, cores)
            if insight:
                _await(found["scheduler"], "koord_queue_insight_feed_connected", 1)
                # The first state is on disk: what a start costs is over.
                _await(found["insight"], "koord_queue_insight_record_age_seconds", 0)
            yield found
        finally:
            if insight:
                found["insight"].stop()


def _start_insight(folder: Path, more: Sequence[str]) -> ProgramProcess:
    flags = (f"--socket-dir={folder}", f"--record-dir={folder}", *more)
    insight = ProgramProcess(INSIGHT, None, folder / "log", flags)
    insight.start()
    insight.wait_until_ready()
    return insight


def _await(program: ProgramProcess, name: str, least: float) -> None:
    # It is not a number at first.
    reached = within(PATIENCE_SECONDS, lambda: metric(program, name) >= least)
    assert reached, f"{name} stayed below {least:g}"


def metric(program: ProgramProcess, name: str) -> float:
    """Return the value of a metric without labels, -1 if there is none."""
    lines = scrape(program).raise_for_status().text.splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith(f"{name} ")), -1.0)
