"""What open pages cost the scheduler: the time from a release to the next start, and its CPU.

Turns with and without 200 pages, in changing order, beside one scheduler and one insight program.
Most of ten thousand units wait in a quota that is full. Units are released one by one, so something
changes in each second, and each page asks again in each second. The pages are those of people who
may read everything, on a loopback address.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Final, NamedTuple

from shared_api.client.resource_types import QUEUE_UNITS
from tests.benchmarks import release_latency
from tests.benchmarks.cluster_world import ClusterWorld
from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.followed_scheduler import CORES, pin, pin_others, started
from tests.benchmarks.load_player import NAMESPACE, PlannedUnit, unit_body
from tests.benchmarks.page_viewers import READY
from tests.benchmarks.process_usage import Meter, usage
from tests.benchmarks.quota_tree_objects import await_queues, create_node, create_quotas, quota
from tests.cluster.program_process import ROOT, ProgramProcess

QUEUES: Final = 20
STANDING: Final = 10_000
RELEASES: Final = 500
PAIRS: Final = 8
PAGES: Final = 200
SETTLE_SECONDS: Final = 90.0
"""For the reasons of all units that wait."""
FULL: Final = "standing"
VIEWS: Final = (
    *("/page/overview",) * 4,
    "/page/jobs?limit=200",
    "/page/jobs?limit=200&filter=state:waiting&sort=-created",
    "/page/over-time?range=1d",
    f"/page/queues/{FULL}-0?limit=100",
    f"/page/queues/{release_latency.QUOTA}?limit=100",
    f"/page/units/{NAMESPACE}/standing-7",
)
"""What people look at: four of ten at the overview, and two at all jobs."""


class Turn(NamedTuple):
    """One turn: the times of releases in ms, cores that were used meanwhile, and answers."""

    starts: list[float]
    cores: Mapping[str, float]
    seen: Mapping[str, float]


@dataclass
class Viewing:
    """What the pages saw, once they are closed."""

    seen: dict[str, float] = field(default_factory=dict)


def run(*, quick: bool = False) -> list[Figure]:
    """Measure; `quick` with a tenth of the units, and one pair."""
    standing, pairs, releases = (1000, 1, 50) if quick else (STANDING, PAIRS, RELEASES)
    with ClusterWorld() as world:
        _prepare(world, standing)
        pin_others(world.plane.pids)
        flags = ("--page-address=127.0.0.1:0",)
        config = world.plane.kubeconfig
        with started(config, insight=True, cores=CORES[-1:], insight_flags=flags) as programs:
            await_queues(world.client(), QUEUES + 1)
            time.sleep(SETTLE_SECONDS / 10 if quick else SETTLE_SECONDS)
            turns = [
                {on: _play(world, programs, releases, pages=on * PAGES) for on in order}
                for order in ([True, False] if n % 2 else [False, True] for n in range(pairs))
            ]
            rss = usage(programs["insight"].pid).peak_rss_mb
    return _figures([each[True] for each in turns], [each[False] for each in turns], rss)


def _prepare(world: ClusterWorld, standing: int) -> None:
    client = world.client()
    names = [release_latency.QUOTA, *(f"{FULL}-{number}" for number in range(QUEUES))]
    create_quotas(client, [quota(name, "", minimum=1, maximum=1) for name in names])
    create_node(client, standing)
    for number in range(standing):
        unit = PlannedUnit(name=f"standing-{number}", quota=f"{FULL}-{number % QUEUES}")
        client.create(QUEUE_UNITS, NAMESPACE, unit_body(unit))


def _play(
    world: ClusterWorld, programs: Mapping[str, ProgramProcess], releases: int, pages: int
) -> Turn:
    client = world.client()
    port = programs["insight"].port_of("--page-address")
    pids = {name: each.pid for name, each in programs.items()}
    with _viewing(port, pages) as viewing:
        meter, began = Meter.start(pids), time.monotonic()
        starts, _ = release_latency.release_in_turn(client, "turn", releases)
        took = time.monotonic() - began
        cores = {name: seconds / took for name, seconds in meter.read().items()}
    for number in range(releases + 1):
        client.delete(QUEUE_UNITS, NAMESPACE, f"turn-{number:03}")
    turn = Turn(starts, cores, viewing.seen)
    used = ", ".join(f"{name} {each:.3f}" for name, each in cores.items())
    p50, p99 = (percentile(starts, share) for share in (0.5, 0.99))
    got = f"p50 {p50:.1f}, p99 {p99:.1f} ms; cores {used}; {turn.seen}"
    print(f"  {pages} pages: {got}", flush=True)
    return turn


@contextmanager
def _viewing(port: int, pages: int) -> Iterator[Viewing]:
    """Keep pages open; they use the first core."""
    found = Viewing()
    if not pages:
        yield found
        return
    command = [sys.executable, "-m", "tests.benchmarks.page_viewers", str(port), str(pages), *VIEWS]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as viewers:
        assert viewers.stdin is not None, "a pipe"
        assert viewers.stdout is not None, "a pipe"
        try:
            pin(viewers.pid, CORES[:1])
            assert viewers.stdout.readline().strip() == READY, "the pages could not be opened"
            yield found
            viewers.stdin.close()
            found.seen = json.loads(viewers.stdout.readline())  # nothing if pages have ended
        finally:
            viewers.terminate()


def _figures(on: list[Turn], off: list[Turn], rss: float) -> list[Figure]:
    scheduler, insight = (
        [median(each.cores[name] for each in turns) for turns in (on, off)]
        for name in ("scheduler", "insight")
    )
    pairs = [(a.starts, b.starts) for a, b in zip(on, off, strict=True)]
    asked = median(each.seen["asked"] for each in on)
    took = median(each.seen["median_ms"] for each in on)
    slowest = max(each.seen["slowest_ms"] for each in on)
    return [
        *release_latency.compare("page_cost", pairs),
        Figure(
            name="page_cost_scheduler_cores",
            value=scheduler[0],
            unit="cores",
            control=scheduler[1],
            note=f"{PAGES} pages; {scheduler[0] - scheduler[1]:+.3f} of a core, median of"
            f" {len(on)} turns each",
        ),
        Figure(
            name="page_cost_insight_cores",
            value=insight[0],
            unit="cores",
            control=insight[1],
            note=f"{asked:.0f} views a turn, the median took {took:.0f} ms, the slowest"
            f" {slowest:.0f}; peak memory {rss:.0f} MB",
        ),
    ]
