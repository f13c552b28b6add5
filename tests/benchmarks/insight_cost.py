"""What the insight program, its record and forecasts, and the self-audit cost the scheduler.

Pairs of turns on one API server, one with all of them and one with none, in changing order: first a
load without a shortage of quota, then releases one by one. A thousand units wait meanwhile in a
quota that is full, so that there is something to forecast. The audit compares every ten seconds
instead of every minute, since a turn is short.

In a few pairs all of the programs share all cores, which the API server alone nearly fills: what
that costs is the CPU of the insight program.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

from shared_api.client.resource_types import QUEUE_UNITS
from tests.benchmarks import release_latency
from tests.benchmarks.cluster_world import ClusterWorld
from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.followed_scheduler import CORES, WORKERS, metric, pin_others, started
from tests.benchmarks.load_player import (
    NAMESPACE,
    LoadOutcome,
    LoadPlan,
    PlannedUnit,
    play,
    unit_body,
)
from tests.benchmarks.quota_tree_objects import await_queues, create_node, create_quotas, quota
from tests.cluster.program_process import ProgramProcess

PAIRS: Final = 10
CROWDED_PAIRS: Final = 4
"""Pairs in which all programs share all cores."""
UNITS: Final = 1200
RELEASES: Final = 500
"""The slowest five of a turn are above its p99."""
STANDING: Final = 1000
QUEUES: Final = 10
AUDIT_SECONDS: Final = 10
FULL: Final = "standing"
OTHERS: Final = ("kube-apiserver", "etcd", "player", "scheduler")


class Shape(NamedTuple):
    """How much of each."""

    pairs: int
    crowded_pairs: int
    units: int
    releases: int


WHOLE: Final = Shape(PAIRS, CROWDED_PAIRS, UNITS, RELEASES)
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
        crowded = _play_pairs(world, shape, shape.crowded_pairs, cores=CORES)
        # The player is a child of this process.
        pin_others(world.plane.pids)
        pairs = _play_pairs(world, shape, shape.pairs, cores=CORES[-1:])
    return _figures(pairs, crowded)


def _play_pairs(
    world: ClusterWorld, shape: Shape, count: int, *, cores: Sequence[int]
) -> list[Pair]:
    found: list[Pair] = []
    for number in range(count):
        turns = {
            is_on: _play_turn(world, shape, is_on=is_on, cores=cores)
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


def _play_turn(world: ClusterWorld, shape: Shape, *, is_on: bool, cores: Sequence[int]) -> Turn:
    client = world.client()
    audit = AUDIT_SECONDS if is_on else 0
    with started(
        world.plane.kubeconfig, insight=is_on, cores=cores, audit_seconds=audit
    ) as programs:
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


def _calls(scheduler: ProgramProcess) -> float:
    return metric(scheduler, "koord_queue_insight_feed_calls_total")


def _figures(pairs: Sequence[Pair], crowded: Sequence[Pair]) -> list[Figure]:
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
            f" in turns, {_spread(ratios)}; API server and etcd have a core of their own",
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
            name="insight_cost_crowded_ratio",
            value=median(pair.ratio for pair in crowded),
            unit="x",
            control=1.0,
            note=f"all on all cores; {len(crowded)} pairs,"
            f" {_spread(sorted(pair.ratio for pair in crowded))}",
        ),
        *release_latency.compare("insight_cost", [(a.starts, b.starts) for a, b in pairs]),
        Figure(
            name="insight_cost_scheduler_cpu_ms_per_unit",
            value=median(pair.on.load.cpu_ms_per_unit("scheduler") for pair in pairs),
            unit="ms/unit",
            control=median(pair.off.load.cpu_ms_per_unit("scheduler") for pair in pairs),
            note=f"{calls:.1f} calls of the engine for each unit",
        ),
        Figure(
            name="insight_cost_insight_cpu_ms_per_unit",
            value=median(pair.on.load.cpu_ms_per_unit("insight") for pair in pairs),
            unit="ms/unit",
            note="with its record and forecasts",
        ),
    ]


def _spread(ratios: Sequence[float]) -> str:
    middle = f"{percentile(list(ratios), 0.25):.3f} to {percentile(list(ratios), 0.75):.3f}"
    return f"the middle half from {middle}, all from {ratios[0]:.3f} to {ratios[-1]:.3f}"
