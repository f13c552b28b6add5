"""How long nobody decides after a leader was killed.

A turn: two schedulers, many pending units, full quotas. The leader is killed, one unit ends, and
the time counts until a watch sees the next one Dequeued. Its parts are from the new leader's log.
Control: two processes with the election of the official client under the same durations, whose
leader is killed at the same moment; until `onstarted_leading` is called.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.leader_election import RETRY_SECONDS
from shared_api.queue_unit_phases import Phase
from tests.benchmarks.cluster_world import ClusterWorld
from tests.benchmarks.figures import Figure
from tests.benchmarks.load_player import NAMESPACE, PlannedUnit, unit_body
from tests.benchmarks.official_election import OfficialElection
from tests.benchmarks.quota_tree_objects import create_node, create_quotas, quota
from tests.benchmarks.release_latency import END
from tests.benchmarks.standing_units import ELECTED
from tests.benchmarks.unit_watch import await_start, pages_of_units, watch_units
from tests.cluster.program_process import ROOT, SCHEDULER, ProgramProcess

UNITS: Final = 20_000
TURNS: Final = 5
QUEUES: Final = 20
RUNNING: Final = 10
"""Units that a queue's quota has room for; all others wait."""
WRITERS: Final = 12
PATIENCE_SECONDS: Final = 300.0
POLL_SECONDS: Final = 1.0
PARTS: Final = ("lease", "settle", "preparing", "first_decision")


def run(*, quick: bool = False) -> list[Figure]:
    """Measure; `quick` has few units and one turn."""
    units, turns = (400, 1) if quick else (UNITS, TURNS)
    with ClusterWorld() as world:
        cluster = Cluster(world)
        cluster.fill(units)
        cluster.start()
        cluster.await_full()
        with OfficialElection(world.plane.kubeconfig) as control:
            takeovers = [cluster.take_over(control) for _ in range(turns)]
    return _takeover_figures(takeovers, units)


@dataclass(frozen=True)
class Taken:
    """Seconds from the kill of a leader, and those of the control from its own leader's kill."""

    seconds: float
    parts: Mapping[str, float]
    control: float


@dataclass
class Cluster:
    """Units of which `RUNNING` of each queue run, and the schedulers, of which the first leads.

    Attributes:
        world: Where they are.
        root: The checkout that schedulers are run from.
    """

    world: ClusterWorld
    root: Path = ROOT
    units: int = 0
    schedulers: deque[ProgramProcess] = field(default_factory=deque)
    running: deque[str] = field(default_factory=deque)

    def __post_init__(self) -> None:
        """Create the quotas."""
        self.client = self.world.client()
        names = [_queue(number) for number in range(QUEUES)]
        create_quotas(self.client, [quota(n, "", minimum=RUNNING, maximum=RUNNING) for n in names])
        create_node(self.client, QUEUES * RUNNING)

    def fill(self, count: int) -> None:
        """Create units until there are this many."""
        with ThreadPoolExecutor(WRITERS) as threads:
            for _ in threads.map(self._create, range(self.units, count)):
                pass
        self.units = count

    def start(self, *, is_awaited: bool = True) -> ProgramProcess:
        """Start one more scheduler, and return it when it is ready, or at once."""
        started = self.world.start(SCHEDULER, *ELECTED, root=self.root, is_awaited=is_awaited)
        self.schedulers.append(started)
        return started

    def pop_leader(self) -> ProgramProcess:
        """Return the scheduler that leads, which is the caller's to end."""
        return self.schedulers.popleft()

    def await_full(self) -> None:
        """Return when as many units run as may; learn which ones."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.running) < QUEUES * RUNNING:
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {len(self.running)} units run")
            time.sleep(POLL_SECONDS)
            units = (unit for page in pages_of_units(self.client) for unit in page)
            self.running = deque(
                unit.metadata.name for unit in units if unit.status.phase == Phase.DEQUEUED
            )

    def take_over(self, control: OfficialElection) -> Taken:
        """Kill the leader, and wait for the first decision of the next one."""
        standby = self.start()
        control.await_standby()
        leader = self.pop_leader()
        time.sleep(random.uniform(0.0, RETRY_SECONDS))  # any moment between two renewals
        with closing(watch_units(self.client)) as stream:
            killed = time.time()
            leader.kill()
            control.kill_leader()
            self._end_one()
            name, started = await_start(stream)
            self.running.append(name)
        times = times_of(standby)
        settled = times["acquired"] + times["settle"]
        moments = (killed, times["acquired"], settled, times["deciding"], started)
        parts = dict(zip(PARTS, _differences(moments), strict=True))
        return Taken(started - killed, parts, control.seconds())

    def _create(self, number: int) -> None:
        unit = PlannedUnit(name=f"unit-{number:06}", quota=_queue(number % QUEUES))
        self.client.create(QUEUE_UNITS, NAMESPACE, unit_body(unit))

    def _end_one(self) -> None:
        name = self.running.popleft()
        self.client.patch(QUEUE_UNITS, NAMESPACE, name, END, subresource="status")


def _queue(number: int) -> str:
    return f"team-{number:02}"


def times_of(scheduler: ProgramProcess) -> dict[str, float]:
    """Return when it acquired its lease and when it began to decide, as Unix time."""
    times: dict[str, float] = {"settle": 0.0}
    for line in scheduler.events():
        moment = datetime.fromisoformat(str(line.get("time", "1970-01-01"))).timestamp()
        match line.get("event"):
            case "acquired the lease":
                times["acquired"] = moment
                times["settle"] = float(str(line.get("settle_seconds", 0.0)))
            case "caches are up to date, deciding from now on":
                times["deciding"] = moment
            case _:
                pass
    return times


def _differences(moments: tuple[float, ...]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(moments)]


def _takeover_figures(turns: list[Taken], units: int) -> list[Figure]:
    seconds = [turn.seconds for turn in turns]
    spread = f"{min(seconds):.1f} to {max(seconds):.1f} s in {len(turns)} turns"
    total = Figure(
        name="takeover_seconds",
        value=median(seconds),
        unit="s",
        control=median(turn.control for turn in turns),
        note=f"leader killed to first decision, {units} units, {spread}; control: the official"
        " client's election, to onstarted_leading",
    )
    return [
        total,
        *(
            Figure(
                name=f"takeover_{part}_seconds",
                value=median(turn.parts[part] for turn in turns),
                unit="s",
            )
            for part in PARTS
        ),
    ]
