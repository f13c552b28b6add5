"""Kueue's own load: 15,000 units in 30 queues, created directly and ended by a player.

Five cohorts of six queues; per queue a quota with min 20 and max 120 CPUs below a parent of 120;
three concurrent streams of units per queue. Measured are wall time from the first create to the
last end, CPU per unit of API server, etcd, and scheduler, memory, writes, and the time to admission
by class. The player checks at every event that no cohort exceeds its quota.

Controls: the same units at the same times on another server, by a bare loop that creates, dequeues
and ends each without asking whether it fits; and the scheduler itself before there is a unit.

Source of the shape: kueue test/performance/scheduler, config baseline.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tests.benchmarks.api_requests import Writes, count_writes, describe
from tests.benchmarks.bare_loop import warm_up
from tests.benchmarks.cluster_world import ClusterWorld
from tests.benchmarks.figures import Figure
from tests.benchmarks.load_player import LoadOutcome, LoadPlan, PlannedUnit, play
from tests.benchmarks.process_usage import Usage, usage
from tests.benchmarks.quota_tree_objects import await_queues, create_node, create_quotas, quota
from tests.cluster.program_metrics import scrape
from tests.cluster.program_process import SCHEDULER

COHORTS: Final = 5
QUEUES_PER_COHORT: Final = 6
COHORT_CPU: Final = 120
QUEUE_MIN_CPU: Final = 20
WORKERS: Final = 12
"""Connections of the player. Kueue's runner creates each queue's units on its own thread."""


@dataclass(frozen=True)
class UnitClass:
    """One stream of units of a queue."""

    name: str
    count: int
    every_seconds: float
    runs_seconds: float
    priority: int
    cpu: int


CLASSES: Final = (
    UnitClass("small", 350, 0.1, 0.2, 50, 1),
    UnitClass("medium", 100, 0.5, 0.5, 100, 5),
    UnitClass("large", 50, 1.2, 1.0, 200, 20),
)


@dataclass
class Measured:
    """The results of one run and its controls."""

    outcome: LoadOutcome
    bare: LoadOutcome
    writes: Writes
    empty: Usage
    scheduler: Usage
    api_server: Usage
    decisions: Counter[str]
    errors: list[str]


def run(share: float = 1.0, qps: float = 0) -> list[Figure]:
    """Run the load, or a share of its units; return the figures."""
    measured = measure(share, qps)
    for line in measured.errors[:5]:
        print("  in the scheduler's log:", line[:300])
    for story in measured.outcome.stories:
        print("  over quota:", story)
    print("  writes per unit:", describe(measured.writes, measured.outcome.finished))
    print("  decisions per unit:", describe(measured.decisions, measured.outcome.finished))
    suffix = f"_qps{qps:g}" if qps else ""
    figures = [*_main_figures(measured), *_wait_figures(measured.outcome)]
    return [figure.renamed(figure.name + suffix) for figure in figures]


def measure(share: float, qps: float) -> Measured:
    """Play the load on a new server, and before that the control on one of its own."""
    load = plan(share)
    with ClusterWorld() as world:
        warm_up(world)
        bare = play(world, replace(load, bare=True, group_cpu=0))
    with ClusterWorld() as world:
        client = world.client()
        warm_up(world)
        _create_tree(world)
        scheduler = world.start(SCHEDULER, *_limit_flags(qps))
        await_queues(client, COHORTS * (QUEUES_PER_COHORT + 1))
        empty = usage(scheduler.pid)
        writes = count_writes(client)
        outcome = play(world, load, {"scheduler": scheduler.pid})
        return Measured(
            outcome=outcome,
            bare=bare,
            writes=count_writes(client) - writes,
            empty=empty,
            scheduler=usage(scheduler.pid),
            api_server=usage(world.plane.pids["kube-apiserver"]),
            decisions=count_decisions(scrape(scheduler).text),
            errors=scheduler.errors(),
        )


def count_decisions(metrics: str) -> Counter[str]:
    """Return how often the scheduler decided, by result."""
    counted: Counter[str] = Counter()
    for line in metrics.splitlines():
        if line.startswith("job_schedule_attempts_total{"):
            result = line.partition('result="')[2].partition('"')[0]
            counted[result] += round(float(line.rpartition(" ")[2]))
    return counted


def _limit_flags(qps: float) -> list[str]:
    """Return the flags of a rate limit; as by default, the burst is twice the rate."""
    return [f"--kube-api-qps={qps:g}", f"--kube-api-burst={2 * qps:g}"] if qps else []


def plan(share: float) -> LoadPlan:
    """Return the units of all queues; a share has the first ones of each stream."""
    units = [
        PlannedUnit(
            name=f"{queue}-{each.name}-{number}",
            quota=queue,
            group=cohort,
            kind=each.name,
            cpu=each.cpu,
            priority=each.priority,
            due_seconds=number * each.every_seconds,
            runs_seconds=each.runs_seconds,
        )
        for cohort, queue in quota_names()
        for each in CLASSES
        for number in range(round(each.count * share))
    ]
    return LoadPlan(units=tuple(units), workers=WORKERS, group_cpu=COHORT_CPU)


def quota_names() -> Iterator[tuple[str, str]]:
    """Yield (cohort, queue)."""
    for cohort in range(COHORTS):
        for number in range(QUEUES_PER_COHORT):
            yield f"cohort-{cohort}", f"queue-{cohort}-{number}"


def _create_tree(world: ClusterWorld) -> None:
    client = world.client()
    parents = [
        quota(f"cohort-{n}", "", minimum=COHORT_CPU, maximum=COHORT_CPU, is_parent=True)
        for n in range(COHORTS)
    ]
    children = [
        quota(name, cohort, minimum=QUEUE_MIN_CPU, maximum=COHORT_CPU)
        for cohort, name in quota_names()
    ]
    create_quotas(client, parents + children)
    create_node(client, COHORTS * COHORT_CPU)


def _main_figures(measured: Measured) -> list[Figure]:
    outcome, bare = measured.outcome, measured.bare
    units = outcome.finished
    note = f"{units} units, over quota at {outcome.over_quota} events, {outcome.retries} retries"

    def cpu(name: str, process: str, control: str | None) -> Figure:
        value = outcome.cpu_ms_per_unit(process)
        beside = None if control is None else bare.cpu_ms_per_unit(control)
        return Figure(name=name, value=value, unit="ms/unit", control=beside)

    return [
        Figure(
            name="kueue_shape_wall_seconds",
            value=outcome.wall_seconds,
            unit="s",
            control=bare.wall_seconds,
            note=note,
        ),
        Figure(
            name="kueue_shape_units_per_second",
            value=outcome.units_per_second,
            unit="units/s",
            control=bare.units_per_second,
        ),
        Figure(name="kueue_shape_over_quota_events", value=outcome.over_quota, unit="events"),
        cpu("kueue_shape_api_cpu_ms_per_unit", "kube-apiserver", "kube-apiserver"),
        cpu("kueue_shape_etcd_cpu_ms_per_unit", "etcd", "etcd"),
        cpu("scheduler_cpu_ms_per_unit", "scheduler", "player").with_note(
            "control: the bare loop's process"
        ),
        cpu("kueue_shape_player_cpu_ms_per_unit", "player", "player"),
        cpu("kueue_shape_others_cpu_ms_per_unit", "others", None).with_note(
            "all else on this machine: high means a disturbed run"
        ),
        Figure(
            name="kueue_shape_writes_per_unit",
            value=sum(measured.writes.values()) / units,
            unit="writes",
            control=3.0,
            note=describe(measured.writes, units),
        ),
        Figure(
            name="scheduler_rss_mb_15k",
            value=measured.scheduler.peak_rss_mb,
            unit="MB",
            control=measured.empty.rss_mb,
            note=f"peak; {measured.scheduler.rss_mb:.0f} at the end; control: before any unit",
        ),
        Figure(name="kueue_shape_api_rss_mb", value=measured.api_server.peak_rss_mb, unit="MB"),
    ]


def _wait_figures(outcome: LoadOutcome) -> list[Figure]:
    figures = []
    for name, waits in outcome.waits.items():
        waits.sort()
        values = {"mean": statistics.mean(waits), "p99": waits[int(0.99 * (len(waits) - 1))]}
        for what, value in values.items():
            figures.append(Figure(name=f"kueue_shape_wait_{what}_{name}", value=value, unit="s"))
    return figures
