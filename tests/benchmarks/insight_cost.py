"""What the insight program, its record and forecasts, and the self-audit cost the scheduler.

Pairs of turns on one API server, one with all of them and one with none, in changing order: first a
load without a shortage of quota, then releases one by one. A thousand units wait meanwhile in a
quota that is full, so that there is something to forecast. The audit compares every ten seconds
instead of every minute, since a turn is short.

On a machine with two cores the insight program would take from all others what it computes, while
in a cluster it may use what its node has left over. So it has the lowest priority here; a few
pairs without that show what it takes where nothing is left over.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from shared_api.client.resource_types import QUEUE_UNITS
from tests.benchmarks import audited_scheduler, release_latency
from tests.benchmarks.cluster_world import ClusterWorld, programs_of
from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.load_player import (
    NAMESPACE,
    LoadOutcome,
    LoadPlan,
    PlannedUnit,
    play,
    unit_body,
)
from tests.benchmarks.quota_tree_objects import await_queues, create_node, create_quotas, quota
from tests.cluster.program_metrics import scrape
from tests.cluster.program_process import INSIGHT, ProgramProcess

PAIRS: Final = 10
SHARED_PAIRS: Final = 4
"""Pairs in which the insight program has the priority of the others."""
UNITS: Final = 600
RELEASES: Final = 100
STANDING: Final = 1000
QUEUES: Final = 10
WORKERS: Final = 8
AUDIT_SECONDS: Final = 10
PATIENCE_SECONDS: Final = 60.0
LOWEST: Final = 19
FULL: Final = "standing"
OTHERS: Final = ("kube-apiserver", "etcd", "player", "scheduler")
SCHEDULER: Final = "tests/benchmarks/audited_scheduler.py"


class Shape(NamedTuple):
    """How much of each."""

    pairs: int
    shared_pairs: int
    units: int
    releases: int


WHOLE: Final = Shape(PAIRS, SHARED_PAIRS, UNITS, RELEASES)
QUICK: Final = Shape(1, 1, 200, 20)


class Turn(NamedTuple):
    """What one turn has measured; `starts`: times from a release to the next start, in ms."""

    load: LoadOutcome
    starts: list[float]
    calls: float


class Pair(NamedTuple):
    """Two turns that follow each other."""

    on: Turn
    off: Turn

    @property
    def ratio(self) -> float:
        """Units per second with everything, of those without."""
        return self.on.load.units_per_second / self.off.load.units_per_second

    @property
    def cpu_ratio(self) -> float:
        """CPU for each unit of all but the insight program: without it, of that with it.

        On a machine without rest this is the ratio of units per second, without its noise.
        """
        on, off = (sum(map(each.load.cpu_ms_per_unit, OTHERS)) for each in self)
        return off / on


def run(*, quick: bool = False) -> list[Figure]:
    """Measure everything."""
    shape = QUICK if quick else WHOLE
    with ClusterWorld() as world:
        client = world.client()
        names = [*(f"team-{number}" for number in range(QUEUES)), release_latency.QUOTA, FULL]
        most = [shape.units] * QUEUES + [1, 1]
        each = zip(names, most, strict=True)
        create_quotas(client, [quota(name, "", minimum=cpu, maximum=cpu) for name, cpu in each])
        create_node(client, QUEUES * shape.units)
        for number in range(STANDING):
            unit = PlannedUnit(name=f"standing-{number}", quota=FULL)
            client.create(QUEUE_UNITS, NAMESPACE, unit_body(unit))
        shared = _play_pairs(world, shape, shape.shared_pairs, priority=0)
        pairs = _play_pairs(world, shape, shape.pairs, priority=LOWEST)
    return _figures(pairs, shared)


def _play_pairs(world: ClusterWorld, shape: Shape, count: int, *, priority: int) -> list[Pair]:
    found: list[Pair] = []
    for number in range(count):
        turns = {
            is_on: _play_turn(world, shape, is_on=is_on, priority=priority)
            for is_on in (number % 2 == 0, number % 2 == 1)
        }
        found.append(Pair(turns[True], turns[False]))
        print(_describe(found[-1], number), flush=True)
    return found


def _describe(pair: Pair, number: int) -> str:
    on, off = (each.load for each in pair)
    cpu = ", ".join(
        f"{name} {on.cpu_ms_per_unit(name):.2f} and {off.cpu_ms_per_unit(name):.2f}"
        for name in OTHERS
    )
    return (
        f"  pair {number}: {on.units_per_second:.1f} and {off.units_per_second:.1f} units/s,"
        f" ratio {pair.ratio:.3f}, by CPU {pair.cpu_ratio:.3f}; ms/unit: {cpu}, insight"
        f" {on.cpu_ms_per_unit('insight'):.2f}"
    )


def _play_turn(world: ClusterWorld, shape: Shape, *, is_on: bool, priority: int) -> Turn:
    client = world.client()
    with _started(world, is_on=is_on, priority=priority) as programs:
        await_queues(client, QUEUES + 2)
        scheduler = programs["scheduler"]
        before = _calls(scheduler) if is_on else 0.0
        pids = {name: program.pid for name, program in programs.items()}
        load = play(world, _plan(shape.units), pids)
        calls = _calls(scheduler) - before if is_on else 0.0
        starts, _ = release_latency.release_in_turn(client, "turn", shape.releases)
    for name in (*_names("unit", shape.units), *_names("turn", shape.releases + 1)):
        client.delete(QUEUE_UNITS, NAMESPACE, name)
    return Turn(load, starts, calls / shape.units)


def _plan(count: int) -> LoadPlan:
    units = [
        PlannedUnit(name=name, quota=f"team-{number % QUEUES}")
        for number, name in enumerate(_names("unit", count))
    ]
    return LoadPlan(units=tuple(units), workers=WORKERS)


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number:03}" for number in range(count)]


@contextmanager
def _started(
    world: ClusterWorld, *, is_on: bool, priority: int
) -> Iterator[dict[str, ProgramProcess]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        programs_of(world.plane.kubeconfig) as programs,
    ):
        flags, started = list[str](), dict[str, ProgramProcess]()
        if is_on:
            insight = _start_insight(Path(folder))
            started["insight"] = insight
            # Linux sets the priority of one thread; those that are started later inherit it.
            for thread in Path(f"/proc/{insight.pid}/task").iterdir():
                os.setpriority(os.PRIO_PROCESS, int(thread.name), priority)
            flags.append(f"--insight-socket-dir={folder}")
        audit = f"{audited_scheduler.FLAG}{AUDIT_SECONDS if is_on else 0}"
        ours = ("--debug-address=127.0.0.1:0", f"--writers={WORKERS}", *flags, audit)
        try:
            started["scheduler"] = programs.start(SCHEDULER, *ours)
            if is_on:
                _await_following(started["scheduler"])
            yield started
        finally:
            if is_on:
                started["insight"].stop()


def _start_insight(folder: Path) -> ProgramProcess:
    flags = (f"--socket-dir={folder}", f"--record-dir={folder}")
    insight = ProgramProcess(INSIGHT, None, folder / "log", flags)
    insight.start()
    insight.wait_until_ready()
    return insight


def _await_following(scheduler: ProgramProcess) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _metric(scheduler, "koord_queue_insight_feed_connected") < 1:
        if time.monotonic() > deadline:
            raise TimeoutError("the insight program does not follow")
        time.sleep(0.1)


def _calls(scheduler: ProgramProcess) -> float:
    return _metric(scheduler, "koord_queue_insight_feed_calls_total")


def _metric(program: ProgramProcess, name: str) -> float:
    lines = scrape(program).raise_for_status().text.splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith(f"{name} ")), -1.0)


def _figures(pairs: Sequence[Pair], shared: Sequence[Pair]) -> list[Figure]:
    ratios = sorted(pair.ratio for pair in pairs)
    by_cpu = sorted(pair.cpu_ratio for pair in pairs)
    calls = median(pair.on.calls for pair in pairs)
    return [
        Figure(
            name="insight_cost_ratio",
            value=median(ratios),
            unit="x",
            control=1.0,
            note=f"units per second with all of it, of those without; median of {len(pairs)} pairs"
            f" in turns, {_spread(ratios)}; the insight program takes what is left over",
        ),
        Figure(
            name="insight_cost_cpu_ratio",
            value=median(by_cpu),
            unit="x",
            control=1.0,
            note="the same by CPU of the API server, etcd, the player and the scheduler for each"
            f" unit, which other programs change less; {_spread(by_cpu)}",
        ),
        Figure(
            name="insight_cost_shared_ratio",
            value=median(pair.ratio for pair in shared),
            unit="x",
            control=1.0,
            note=f"with the same priority; {len(shared)} pairs,"
            f" {_spread(sorted(pair.ratio for pair in shared))}",
        ),
        *(_release(pairs, what, share) for what, share in (("p50", 0.5), ("p99", 0.99))),
        Figure(
            name="insight_cost_scheduler_cpu_ms_per_unit",
            value=median(pair.on.load.cpu_ms_per_unit("scheduler") for pair in pairs),
            unit="ms/unit",
            control=median(pair.off.load.cpu_ms_per_unit("scheduler") for pair in pairs),
            note=f"{calls:.1f} calls of the engine for each unit",
        ),
        Figure(
            name="insight_cost_insight_cpu_ms_per_unit",
            value=median(pair.on.load.cpu_ms_per_unit("insight") for pair in shared),
            unit="ms/unit",
            note="with the same priority, with its record and forecasts",
        ),
    ]


def _spread(ratios: Sequence[float]) -> str:
    middle = f"{percentile(list(ratios), 0.25):.3f} to {percentile(list(ratios), 0.75):.3f}"
    return f"the middle half from {middle}, all from {ratios[0]:.3f} to {ratios[-1]:.3f}"


def _release(pairs: Sequence[Pair], what: str, share: float) -> Figure:
    on, off = ([ms for pair in pairs for ms in pair[which].starts] for which in (0, 1))
    each = [percentile(a.starts, share) / percentile(b.starts, share) for a, b in pairs]
    return Figure(
        name=f"insight_cost_release_to_start_ms_{what}",
        value=percentile(on, share),
        unit="ms",
        control=percentile(off, share),
        note=f"of {len(on)} releases each; median of the pairs' ratios {median(each):.3f}",
    )
