"""How much of the API server's own speed a scheduler reaches, without a shortage of quota.

Control: a loop that sends the same three writes (create, dequeue, end; the same bodies) over the
same transport, with one watch open, without any decision. Both write over the same number of
connections: the loop has all of them, or else the player and the scheduler have half of them each.
The control runs before and after, since the machine's speed drifts.
"""

from __future__ import annotations

import time
from typing import Final

from tests.benchmarks import release_latency
from tests.benchmarks.api_requests import count_writes, describe
from tests.benchmarks.cluster_world import ClusterWorld
from tests.benchmarks.figures import Figure
from tests.benchmarks.load_player import LoadOutcome, LoadPlan, PlannedUnit, play
from tests.benchmarks.quota_tree_objects import await_queues, create_node, create_quotas, quota
from tests.cluster.program_process import SCHEDULER

UNITS: Final = 3000
CONNECTIONS: Final = 16
QUEUES: Final = 10
WARM_UP_UNITS: Final = 200
BOTH: Final = ("kube-apiserver", "etcd", "player")
SETTLE_SECONDS: Final = 3.0
"""The API server processes new CRDs for some seconds."""


def run(units: int = UNITS) -> list[Figure]:
    """Measure the control, the value, and the control again; return the figures."""
    with ClusterWorld() as world:
        before = measure_bare(world, units // 2)
        client = world.client()
        names = [f"team-{number}" for number in range(QUEUES)]
        create_quotas(client, [quota(n, "", minimum=units, maximum=units) for n in names])
        create_node(client, QUEUES * units)
        half = CONNECTIONS // 2
        scheduler = world.start(SCHEDULER, f"--writers={half}")
        await_queues(client, QUEUES)
        writes = count_writes(client)
        outcome = play(world, _plan("unit", units, half), {"scheduler": scheduler.pid})
        writes = count_writes(client) - writes
        latency = release_latency.measure(client)
        errors = scheduler.errors()
    with ClusterWorld() as world:
        after = measure_bare(world, units // 2)
    print("  writes per unit:", describe(writes, units), *errors[:5], sep="\n    ")
    return [*_figures(outcome, before, after), *latency]


def measure_bare(world: ClusterWorld, units: int) -> LoadOutcome:
    """Warm up a fresh server, then run the bare loop on it."""
    warm_up(world)
    outcome = play_bare(world, units)
    delete_units(world)
    return outcome


def warm_up(world: ClusterWorld) -> None:
    """Wait until a server has taken its CRDs, and let it do some work."""
    time.sleep(SETTLE_SECONDS)
    play(world, _plan("warm", WARM_UP_UNITS, CONNECTIONS, bare=True))


def play_bare(world: ClusterWorld, units: int) -> LoadOutcome:
    """Run the bare loop."""
    return play(world, _plan("bare", units, CONNECTIONS, bare=True))


def delete_units(world: ClusterWorld) -> None:
    """Delete all units."""
    world.plane.kubectl("delete", "queueunits", "--all", "--wait=false")


def _plan(prefix: str, count: int, workers: int, *, bare: bool = False) -> LoadPlan:
    units = [
        PlannedUnit(name=f"{prefix}-{number}", quota=f"team-{number % QUEUES}")
        for number in range(count)
    ]
    return LoadPlan(units=tuple(units), workers=workers, bare=bare)


def _figures(outcome: LoadOutcome, before: LoadOutcome, after: LoadOutcome) -> list[Figure]:
    def mean_of_bare(process: str) -> float:
        return (before.cpu_ms_per_unit(process) + after.cpu_ms_per_unit(process)) / 2

    wall = before.wall_seconds + after.wall_seconds
    rate = (before.finished + after.finished) / wall
    return [
        Figure(
            name="admission_ratio_to_bare_loop",
            value=outcome.units_per_second / rate,
            unit="x",
            control=1.0,
            note="units per second with the scheduler, of those of the bare loop",
        ),
        Figure(
            name="admissions_per_second",
            value=outcome.units_per_second,
            unit="units/s",
            control=rate,
            note=f"bare: {before.units_per_second:.0f} before, {after.units_per_second:.0f} after",
        ),
        Figure(
            name="uncontended_cpu_ms_per_unit",
            value=sum(outcome.cpu_ms_per_unit(name) for name in (*BOTH, "scheduler")),
            unit="ms/unit",
            control=sum(mean_of_bare(name) for name in BOTH),
            note="API server, etcd, player and scheduler: what decides on a machine without rest",
        ),
        Figure(
            name="uncontended_api_cpu_ms_per_unit",
            value=outcome.cpu_ms_per_unit("kube-apiserver"),
            unit="ms/unit",
            control=mean_of_bare("kube-apiserver"),
        ),
        Figure(
            name="uncontended_scheduler_cpu_ms_per_unit",
            value=outcome.cpu_ms_per_unit("scheduler"),
            unit="ms/unit",
            control=mean_of_bare("player"),
            note="control: the bare loop's process",
        ),
    ]
