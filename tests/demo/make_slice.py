"""Cuts the demo's load out of a large trace: `python -m tests.demo.make_slice FULL.csv.gz`.

The full file is not in this repository; the result is (`tests/data/traces`, with its attribution).
The same input gives the same bytes.

It keeps the jobs of one window of 16 hours that belong to the six tenants with the most GPU time in
it. Jobs that ran under two minutes or over half the window are excluded: at the demo's pace the
former would end at once, and the latter after the demo. Of all windows that start on a full hour
and keep 300 to 320 jobs, it takes the one whose largest tenant has the smallest share: competition
between equal tenants shows the most.
"""

from __future__ import annotations

import bisect
import csv
import gzip
import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SLICE = Path(__file__).parents[1] / "data" / "traces" / "philly-slice.csv.gz"
COLUMNS = ("submit_time_s", "duration_s", "tenant", "gpu")

HOUR = 3600
WINDOW_SECONDS = 16 * HOUR
SHORTEST_SECONDS = 120
LONGEST_SECONDS = WINDOW_SECONDS // 2
TENANTS = 6
FEWEST_JOBS = 300
MOST_JOBS = 320


@dataclass(frozen=True, kw_only=True)
class TraceRow:
    """One job of the trace; times in seconds, `gpu` is the job's total."""

    submit_time_s: int
    duration_s: int
    tenant: str
    gpu: int

    @property
    def gpu_seconds(self) -> int:
        """The GPU time of the job."""
        return self.duration_s * self.gpu


def read_rows(path: Path) -> list[TraceRow]:
    """Return the jobs of a trace file that ran, in order of submission."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return [
            TraceRow(
                submit_time_s=int(row["submit_time_s"]),
                duration_s=int(row["duration_s"]),
                tenant=row["tenant"],
                gpu=int(row["gpu"]),
            )
            for row in csv.DictReader(file)
            if row["duration_s"]
        ]


def choose_window(rows: Sequence[TraceRow]) -> list[TraceRow]:
    """Return the jobs of the best window, with times from its start.

    Raises:
        ValueError: No window has a suitable number of jobs.
    """
    candidates = [
        (_largest_share(kept), start, kept)
        for start, kept in _windows(rows)
        if FEWEST_JOBS <= len(kept) <= MOST_JOBS
    ]
    if not candidates:
        raise ValueError(f"no window with {FEWEST_JOBS} to {MOST_JOBS} jobs")
    _, start, kept = min(candidates, key=lambda candidate: candidate[:2])
    return [
        TraceRow(
            submit_time_s=row.submit_time_s - start,
            duration_s=row.duration_s,
            tenant=row.tenant,
            gpu=row.gpu,
        )
        for row in kept
    ]


def _windows(rows: Sequence[TraceRow]) -> Iterator[tuple[int, list[TraceRow]]]:
    times = [row.submit_time_s for row in rows]
    for start in range(0, times[-1] - WINDOW_SECONDS + 1, HOUR):
        first = bisect.bisect_left(times, start)
        end = bisect.bisect_left(times, start + WINDOW_SECONDS)
        fit = [r for r in rows[first:end] if SHORTEST_SECONDS <= r.duration_s <= LONGEST_SECONDS]
        largest = {tenant for tenant, _ in _gpu_seconds(fit).most_common(TENANTS)}
        yield start, [row for row in fit if row.tenant in largest]


def _gpu_seconds(rows: Iterable[TraceRow]) -> Counter[str]:
    total: Counter[str] = Counter()
    for row in rows:
        total[row.tenant] += row.gpu_seconds
    return total


def _largest_share(rows: Sequence[TraceRow]) -> float:
    used = _gpu_seconds(rows)
    return max(used.values()) / used.total()


def write_slice(rows: Iterable[TraceRow], path: Path) -> None:
    """Write the slice, without time and file name in the archive."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows((row.submit_time_s, row.duration_s, row.tenant, row.gpu) for row in rows)
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def main() -> int:
    """Write the slice and return the exit status."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -m tests.demo.make_slice FULL.csv.gz\n")
        return 2
    kept = choose_window(read_rows(Path(sys.argv[1])))
    write_slice(kept, SLICE)
    tenants = ", ".join(f"{tenant} {count}" for tenant, count in _gpu_seconds(kept).most_common())
    print(f"{SLICE.name}: {len(kept)} jobs; GPU-seconds: {tenants}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
