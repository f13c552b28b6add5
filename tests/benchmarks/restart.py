"""How long nobody decides after a scheduler was started, with 50,000 units that wait.

A turn: the only scheduler is stopped, one unit ends, and the time counts from the start of the next
process until a watch sees the next unit Dequeued. Control: the same units read in pages and decoded
by a client that keeps nothing.
"""

from __future__ import annotations

import time
from contextlib import closing
from statistics import median
from typing import Final, NamedTuple

from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import QUEUE_UNITS
from tests.benchmarks.cluster_world import ClusterWorld
from tests.benchmarks.distant_server import AS_SHIPPED
from tests.benchmarks.figures import Figure
from tests.benchmarks.load_player import NAMESPACE
from tests.benchmarks.release_latency import END
from tests.benchmarks.standing_units import (
    ELECTED,
    queue_name,
    running_name,
    start_first,
    write_copies,
)
from tests.benchmarks.takeover import times_of
from tests.benchmarks.unit_watch import await_start, pages_of_units, watch_units
from tests.cluster.program_process import SCHEDULER

UNITS: Final = 50_000
QUEUES: Final = 100
TURNS: Final = 5


class Restarted(NamedTuple):
    """Seconds from the start of a process to its first decision.

    Attributes:
        seconds: All of them.
        preparing: Of these, until the caches are up to date.
        reading: What a client takes that only reads the units.
    """

    seconds: float
    preparing: float
    reading: float


def run(*, quick: bool = False) -> list[Figure]:
    """Measure; `quick` has few units and one turn."""
    units, queues, turns = (1000, 10, 1) if quick else (UNITS, QUEUES, TURNS)
    with ClusterWorld() as world:
        start_first(world, queues).stop()
        write_copies(world, queues, units)
        client = world.client()
        found = [_restart(world, client, queue_name(turn)) for turn in range(turns)]
    return _figures(found, units)


def _restart(world: ClusterWorld, client: ResourceClient, queue: str) -> Restarted:
    """End one unit of a queue, start a scheduler, and stop it after its first decision."""
    began = time.monotonic()
    for _ in pages_of_units(client):
        pass
    reading = time.monotonic() - began
    with closing(watch_units(client)) as stream:
        client.patch(QUEUE_UNITS, NAMESPACE, running_name(queue, 0), END, subresource="status")
        at = time.time()
        scheduler = world.start(SCHEDULER, *AS_SHIPPED, *ELECTED, is_awaited=False)
        _, started = await_start(stream)
    preparing = times_of(scheduler)["deciding"] - at
    scheduler.stop()
    return Restarted(started - at, preparing, reading)


def _figures(turns: list[Restarted], units: int) -> list[Figure]:
    seconds = [turn.seconds for turn in turns]
    return [
        Figure(
            name="restart_seconds",
            value=median(seconds),
            unit="s",
            control=median(turn.reading for turn in turns),
            note=f"start of a process to its first decision, {units} units, {min(seconds):.1f} to"
            f" {max(seconds):.1f} s in {len(turns)} turns; control: reading the units in pages",
        ),
        Figure(
            name="restart_preparing_seconds",
            value=median(turn.preparing for turn in turns),
            unit="s",
            note="of these, until the caches are up to date",
        ),
    ]
