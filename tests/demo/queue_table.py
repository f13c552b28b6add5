"""The table of queues as lines of text. Pure.

Per queue: the numbers, and below them the scheduler's reason why its next unit waits. If admitted
jobs wait for nodes, a third line has the message of the cluster's scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.demo.cluster_picture import QueueRow
from tests.demo.terminal import WIDTH

BAR_CELLS: Final = 16
HEADER: Final = (
    f"{'QUEUE':<11} {'POLICY':<8} {'WAITING':>7} {'RUNNING':>7} {'DONE':>5}   "
    f"{'GPUS USED, OF MIN / MAX':<34} {'LONGEST WAIT':>12}"
)
_REFUSAL_MARK: Final = "   \u2514 "
_GPU_RESOURCES: Final = ("nvidia.com/gpu",)
_DOTS: Final = "..."
_NEVER_CUT: Final = re.compile(r": missing \S+")
"""The part of a refusal with the amount that the unit lacks."""


@dataclass(frozen=True, kw_only=True)
class QueueWords:
    """The data of the debug API about a queue."""

    policy: str = "?"
    refusal: str = ""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of the run."""

    seconds: float
    planned: int
    submitted: int
    ended: int
    used: int
    total: int
    events: int
    violations: int


def build_table(
    rows: Sequence[QueueRow], words: Mapping[str, QueueWords], progress: Progress
) -> list[str]:
    """Return the whole display: the progress, then the queues."""
    lines = [*_progress_lines(progress), "", HEADER]
    for row in rows:
        said = words.get(row.name, QueueWords())
        lines.append(_queue_line(row, said))
        lines.append(_refusal_line(row, said))
        if row.unplaced_pods:
            lines.append(_unplaced_line(row))
    return [cut(line) for line in lines]


def _progress_lines(progress: Progress) -> Iterator[str]:
    verdict = "no quota exceeded, nothing out of order"
    if progress.violations:
        verdict = f"{progress.violations} VIOLATIONS"
    yield (
        f"{clock(progress.seconds)}  jobs: {progress.submitted} of {progress.planned} submitted, "
        f"{progress.ended} complete   GPUs: {progress.used} of {progress.total} in use"
    )
    yield f"{'':7}observer: {progress.events} events read from the API, {verdict}"


def _queue_line(row: QueueRow, said: QueueWords) -> str:
    wait = f"{row.longest_wait_seconds:.1f} s" if row.waiting else "-"
    gpus = (
        f"{usage_bar(row.used, row.least, row.most)} {row.used:>3} of {row.least:>2} / {row.most}"
    )
    return (
        f"{row.name:<11} {said.policy:<8} {row.waiting:>7} {row.running:>7} {row.done:>5}   "
        f"{gpus:<34} {wait:>12}"
    )


def _refusal_line(row: QueueRow, said: QueueWords) -> str:
    return f"{_REFUSAL_MARK}{short_refusal(said.refusal)}" if row.waiting and said.refusal else ""


def _unplaced_line(row: QueueRow) -> str:
    pods = "1 pod" if row.unplaced_pods == 1 else f"{row.unplaced_pods} pods"
    why = short_refusal(row.why_unplaced)
    return f"{_REFUSAL_MARK}admitted, but no node for {pods}: {why}"


def short_refusal(text: str) -> str:
    """Return a refusal with a short name for the GPU resource."""
    for resource in _GPU_RESOURCES:
        text = text.replace(resource, "GPU")
    return text


def usage_bar(used: int, least: int, most: int) -> str:
    """Return a bar of used and max with a mark at min; usage to its right is borrowed."""
    if most <= 0:
        return " " * BAR_CELLS
    filled = min(round(used * BAR_CELLS / most), BAR_CELLS)
    mark = min(round(least * BAR_CELLS / most), BAR_CELLS)
    cells = "#" * filled + "." * (BAR_CELLS - filled)
    return cells[:mark] + "|" + cells[mark:]


def plain_line(rows: Sequence[QueueRow], progress: Progress) -> str:
    """Return the state in one line, for a log."""
    waiting, running = sum(row.waiting for row in rows), sum(row.running for row in rows)
    line = (
        f"{clock(progress.seconds)} {progress.submitted}/{progress.planned} jobs,"
        f" {waiting} waiting, {running} running, {progress.ended} done,"
        f" {progress.used}/{progress.total} GPUs"
    )
    longest = max(rows, key=lambda row: row.longest_wait_seconds, default=None)
    if longest is not None and waiting:
        line += f", longest wait {longest.longest_wait_seconds:.1f} s ({longest.name})"
    return line if not progress.violations else f"{line}, {progress.violations} VIOLATIONS"


def clock(seconds: float) -> str:
    """Return minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:>2}:{rest:02}"


def cut(line: str, width: int = WIDTH) -> str:
    """Return the line cut to the width of the display, without cutting the missing amount."""
    if len(line) <= width:
        return line
    room = width - len(_DOTS)
    kept = _NEVER_CUT.search(line)
    if kept is None or kept.end() < room:
        return f"{line[:room]}{_DOTS}"
    return f"{line[: room - len(kept[0])]}{_DOTS}{kept[0]}"
