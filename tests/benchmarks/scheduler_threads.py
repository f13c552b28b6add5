"""What each thread of the scheduler uses for one unit: CPU, context switches, reads, bytes.

Nothing is short: units are created at a steady rate, admitted at once, and ended. After each turn
the scheduler has no work for a while: what it uses idle. With another checkout (`--before DIR`) the
schedulers of both take turns on one API server, in changing order, and each figure's control is
the other's. Context switches are counted since they depend less on other programs than CPU does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from shared_api.client.resource_types import QUEUE_UNITS
from tests.benchmarks.api_requests import count_writes
from tests.benchmarks.cluster_world import ClusterWorld
from tests.benchmarks.figures import Figure, figure_of_turns
from tests.benchmarks.load_player import NAMESPACE, LoadPlan, PlannedUnit, play
from tests.benchmarks.quota_tree_objects import await_queues, create_node, create_quotas, quota
from tests.benchmarks.thread_usage import ThreadUsage, usage_of_threads, used_between
from tests.benchmarks.turns import take_turns
from tests.cluster.program_process import ROOT

UNITS: Final = 1000
UNITS_PER_SECOND: Final = 60
"""Less than a machine with two cores can do: what threads that wait cost is seen at all."""
PAIRS: Final = 5
QUEUES: Final = 10
WORKERS: Final = 8
WARM_UP_UNITS: Final = 200
IDLE_SECONDS: Final = 10.0
SCRIPT: Final = str(ROOT / "tests" / "benchmarks" / "named_scheduler.py")
GROUPS: Final = {"writer/": "writers", "queue/": "workers", "informer-queueu": "reader"}
"""The first letters of a thread's name -> how it is shown. The reader's are those of queueunits."""
REST: Final = "rest"
WHOLE: Final = "whole"


class Turn(NamedTuple):
    """What one scheduler used per unit, by group of threads; its share of a core when idle.

    `writes` are those of the scheduler alone.
    """

    per_unit: Mapping[str, ThreadUsage]
    events: float
    writes: float
    idle_cores: float


def run(before: Path | None = None, *, quick: bool = False) -> list[Figure]:
    """Measure, with the scheduler of another checkout in turns if there is one."""
    pairs, units = (1, 200) if quick else (PAIRS, UNITS)
    with ClusterWorld() as world:
        names = [f"team-{number}" for number in range(QUEUES)]
        create_quotas(world.client(), [quota(n, "", minimum=units, maximum=units) for n in names])
        create_node(world.client(), QUEUES * units)
        ours: list[Turn] = []
        others: list[Turn] = []
        for number, root in take_turns(before, pairs):
            turn = _play(world, root, units)
            (ours if root == ROOT else others).append(turn)
            print(f"  {number} {root.name}:", _describe(turn), flush=True)
    return _figures(ours, others)


def _play(world: ClusterWorld, root: Path, units: int) -> Turn:
    client = world.client()
    flags = ("--debug-address=127.0.0.1:0",)
    scheduler = world.start(SCRIPT, *flags, root=root)
    try:
        await_queues(client, QUEUES)
        play(world, _plan("warm", WARM_UP_UNITS))
        writes, start = count_writes(client), usage_of_threads(scheduler.pid)
        play(world, _plan("unit", units))
        end, writes = usage_of_threads(scheduler.pid), count_writes(client) - writes
        time.sleep(IDLE_SECONDS)
        idle = used_between(end, usage_of_threads(scheduler.pid), lambda _: WHOLE)[WHOLE]
        errors = scheduler.errors()
    finally:
        scheduler.stop()
    if errors:
        print("  in the scheduler's log:", *errors[:5], sep="\n    ")
    for prefix, count in (("warm", WARM_UP_UNITS), ("unit", units)):
        for number in range(count):
            client.delete(QUEUE_UNITS, NAMESPACE, f"{prefix}-{number}")
    used = {name: each.times(1 / units) for name, each in used_between(start, end, _group).items()}
    for each in tuple(used.values()):
        used[WHOLE] = used.get(WHOLE, ThreadUsage()).plus(each)
    events = sum(
        count for name, count in writes.items() if name.split()[1].startswith("queueunits")
    )
    own = sum(writes.values()) - 2 * units  # the player creates each unit and ends it
    return Turn(used, events / units, own / units, idle.cpu_ms / IDLE_SECONDS / 1e3)


def _plan(prefix: str, count: int) -> LoadPlan:
    units = [
        PlannedUnit(
            name=f"{prefix}-{number}",
            quota=f"team-{number % QUEUES}",
            due_seconds=number / UNITS_PER_SECOND,
        )
        for number in range(count)
    ]
    return LoadPlan(units=tuple(units), workers=WORKERS)


def _group(thread: str) -> str:
    return next((group for start, group in GROUPS.items() if thread.startswith(start)), REST)


def _describe(turn: Turn) -> str:
    parts = (
        f"{name} {each.cpu_ms:.3f} ms, {each.voluntary:.1f}+{each.involuntary:.1f} switches,"
        f" {each.reads:.1f} reads of {each.read_bytes / 1000:.1f} kB,"
        f" {each.writes:.1f} writes of {each.written_bytes / 1000:.1f} kB"
        for name, each in sorted(turn.per_unit.items())
    )
    counts = f"{turn.events:.2f} events, {turn.writes:.2f} writes, idle {turn.idle_cores:.4f}"
    return "\n    ".join([counts, *parts])


def _figures(ours: Sequence[Turn], others: Sequence[Turn]) -> list[Figure]:
    figures = [
        _figure(name, field, [_of(each, name, field) for each in ours],
                [_of(each, name, field) for each in others])
        for name in sorted({name for each in ours for name in each.per_unit})
        for field in ThreadUsage._fields
    ]  # fmt: skip
    counts = [
        _figure(WHOLE, what, [getattr(each, what) for each in ours],
                [getattr(each, what) for each in others])
        for what in ("events", "writes", "idle_cores")
    ]  # fmt: skip
    return [*figures, *counts]


def _of(turn: Turn, name: str, field: str) -> float:
    value: float = getattr(turn.per_unit.get(name, ThreadUsage()), field)
    return value


def _figure(name: str, what: str, ours: Sequence[float], others: Sequence[float]) -> Figure:
    unit = "cores" if what == "idle_cores" else "per unit"
    return figure_of_turns(f"scheduler_{name}_{what}", unit, ours, others)
