"""The summary of a run: jobs, waits, use of GPUs, writes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.demo.cluster_picture import GpuUse, JobStory

SPARK_CELLS: Final = 60
SPARKS: Final = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
TENANT_HEADER: Final = (
    f"{'TENANT':<12} {'JOBS':>5} {'WAIT P50':>10} {'WAIT P99':>10} {'GPU-SECONDS':>12} {'SHARE':>7}"
)
MOST_COMPLAINTS: Final = 20
"""Complaints shown; further ones are only counted."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """The input of the summary."""

    namespaces: tuple[str, ...]
    jobs: Sequence[JobStory]
    use: GpuUse
    total_gpus: int
    seconds_to_ready: float
    writes: Mapping[str, int]
    """Write requests by program."""
    writes_by_kind: Mapping[str, int] = field(default_factory=dict)
    events: int = 0
    complaints: Sequence[str] = ()


def quantile(values: Sequence[float], fraction: float) -> float:
    """Return the smallest value that this fraction of values does not exceed; 0 without values."""
    if not values:
        return 0.0
    return sorted(values)[max(math.ceil(len(values) * fraction) - 1, 0)]


def build_summary(facts: RunFacts) -> list[str]:
    """Return the summary as lines."""
    return [
        "",
        *_run_lines(facts),
        "",
        *_tenant_lines(facts),
        "",
        *_write_lines(facts),
        *_verdict_lines(facts),
    ]


def _run_lines(facts: RunFacts) -> Iterator[str]:
    done = sum(story.succeeded for story in facts.jobs)
    start, end = _span(facts)
    yield (
        f"{done} of {len(facts.jobs)} jobs completed in {end - start:.0f} s;"
        f" ready {facts.seconds_to_ready:.1f} s after the start"
    )
    used, possible = sum(facts.use.seconds.values()), facts.total_gpus * (end - start)
    yield (
        f"GPUs: {used:.0f} of {possible:.0f} GPU-seconds used"
        f" ({_percent(used, possible)} of {facts.total_gpus} GPUs)"
    )
    yield f"  {spark_line(facts.use.samples, start, end, facts.total_gpus)}"


def _span(facts: RunFacts) -> tuple[float, float]:
    start = min((story.submitted_at for story in facts.jobs), default=0.0)
    end = max((story.ended_at or start for story in facts.jobs), default=start)
    return start, end


def _tenant_lines(facts: RunFacts) -> Iterator[str]:
    whole = sum(facts.use.seconds.values())
    yield TENANT_HEADER
    for name in (*facts.namespaces, "all"):
        stories = [story for story in facts.jobs if name in {story.namespace, "all"}]
        waits = [s.released_at - s.submitted_at for s in stories if s.released_at is not None]
        used = whole if name == "all" else facts.use.seconds.get(name, 0.0)
        yield (
            f"{name:<12} {len(stories):>5} {quantile(waits, 0.5):>8.2f} s"
            f" {quantile(waits, 0.99):>8.2f} s {used:>12.0f} {_percent(used, whole):>7}"
        )


def _write_lines(facts: RunFacts) -> Iterator[str]:
    jobs = max(len(facts.jobs), 1)
    programs = ", ".join(f"{name} {count / jobs:.2f}" for name, count in facts.writes.items())
    total = sum(facts.writes.values())
    yield f"API writes per job: {total / jobs:.2f} ({programs})"
    if facts.writes_by_kind:
        kinds = sorted(facts.writes_by_kind.items(), key=lambda pair: (-pair[1], pair[0]))
        yield "  " + ", ".join(f"{name} {count / jobs:.2f}" for name, count in kinds)


def _verdict_lines(facts: RunFacts) -> Iterator[str]:
    if not facts.complaints:
        yield (
            f"observer: {facts.events} events read from the API; no quota exceeded at any of them,"
            " every job"
        )
        yield "          released once, completed once, and had no pod before its admission"
        return
    yield f"observer: {facts.events} events read from the API; {len(facts.complaints)} complaints:"
    for complaint in facts.complaints[:MOST_COMPLAINTS]:
        yield f"  - {complaint}"
    if len(facts.complaints) > MOST_COMPLAINTS:
        yield f"  ... and {len(facts.complaints) - MOST_COMPLAINTS} more"


def spark_line(samples: Sequence[tuple[float, int]], start: float, end: float, total: int) -> str:
    """Return the use over time, with a cell per equal part of the run: its mean of the total."""
    width = (end - start) / SPARK_CELLS
    if width <= 0 or total <= 0:
        return ""
    cells = [0.0] * SPARK_CELLS
    following = [*samples[1:], (end, 0)]
    for (since, gpus), (until, _) in zip(samples, following, strict=True):
        for cell in range(SPARK_CELLS):
            left, right = start + cell * width, start + (cell + 1) * width
            overlap = min(until, right) - max(since, left)
            cells[cell] += gpus * max(overlap, 0.0) / width
    top = len(SPARKS) - 1
    return "".join(SPARKS[min(math.ceil(cell / total * top), top)] for cell in cells)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"
