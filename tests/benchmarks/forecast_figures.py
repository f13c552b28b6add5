"""How long a renewal of forecasts takes, and how good forecasts are.

A renewal is one of a full cluster of a hundred queues. Scores are of a trace, if one is named; else
of a made one, which shows that nothing became worse, and not how good forecasts are elsewhere.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.forecast.all_units import Settings
from queue_scheduler.forecast.renewals import Renewals
from queue_scheduler.forecast.run_times import SurvivalRunTimes
from queue_scheduler.insight.virtual_cluster import Arrival, Outside, VirtualCluster
from queue_scheduler.replay.jobs import Job, Trace
from queue_scheduler.replay.progress import Progress
from queue_scheduler.replay.quota_files import Objects
from queue_scheduler.replay.replayed_world import UnitMaker, World, build_engine
from queue_scheduler.replay.score_command import (
    LOADS,
    PATHS,
    POLICIES,
    ScoreOptions,
    score_worlds,
    tell_worlds,
)
from queue_scheduler.replay.scored_world import NEAR, NONE
from queue_scheduler.replay.trace_files import read_trace
from shared_api.process.clock import SystemClock
from shared_api.testing.object_builders import elastic_quota
from tests.benchmarks.figures import Figure
from tests.queue_scheduler.replay.scored_kit import made_trace

BUDGET_SECONDS = 60.0
QUEUES = 100
CORES = 12
START = Moment(0.0, datetime(2026, 1, 1, tzinfo=UTC))
MINUTE = Moment(60.0, datetime(2026, 1, 1, 0, 1, tzinfo=UTC))


SEED = 1
MADE_JOBS = 1_200
SMALL = ScoreOptions(
    score_forecasts=True,
    loads=(0.9,),
    policies=("FIFO",),
    declared=(NEAR,),
    forecasts=60,
    paths=10,
    oracle=False,
)
FULL = ScoreOptions(
    score_forecasts=True,
    loads=LOADS,
    policies=POLICIES,
    declared=(NEAR, NONE),
    forecasts=400,
    paths=PATHS,
    oracle=False,
)


def run(*, quick: bool, trace: Path | None) -> list[Figure]:
    """Print the scores; return the figures."""
    renewals = [_renewal(pending) for pending in ((100,) if quick else (1_000, 10_000))]
    read = made_trace(MADE_JOBS) if trace is None else read_trace(trace, "")[1]
    return [*renewals, *_scores(read, SMALL if quick or trace is None else FULL)]


def _scores(trace: Trace, options: ScoreOptions) -> Iterator[Figure]:
    worlds = score_worlds(
        trace,
        SEED,
        options,
        SurvivalRunTimes,
        lambda runs: Progress(sys.stderr, SystemClock(), runs),
    )
    for line in tell_worlds(worlds):
        print(line)
    for world in worlds:
        name = f"{world['policy']}_{world['load']:g}_{world['declared']}"
        every = world["horizons"]["all"]
        if every["n"]:
            yield _score(f"forecast_p90_covers_{name}", every, every["forecast"]["coverageP90"])
            yield _score(f"forecast_skill_{name}", every, every["last200"]["skill"])


def _score(name: str, every: dict[str, Any], value: float) -> Figure:
    return Figure(name=name, value=value, unit="", note=f"of {every['n']} forecasts")


def _renewal(pending: int) -> Figure:
    engine = _full_engine(pending)
    renewals = Renewals(SurvivalRunTimes(), Settings(), MINUTE.wall.timestamp())
    began = time.process_time()
    found = renewals.renew(engine, MINUTE, lambda: time.process_time() - began >= BUDGET_SECONDS)
    seconds = time.process_time() - began
    return Figure(
        name=f"forecast_renewal_{pending}_s",
        value=seconds,
        unit="s",
        note=f"CPU of a renewal with {pending} pending, both with and without arrivals;"
        f" {found.sample} of 40 paths within the budget of {BUDGET_SECONDS:g} s,"
        f" {len(found.units)} units answered",
    )


def _full_engine(pending: int) -> Engine:
    """Return an engine with about this many that wait, and five running units in each queue."""
    names = [f"team-{number:03}" for number in range(QUEUES)]
    whole = {"cpu": CORES}
    quotas = tuple(
        elastic_quota(name, min=whole, max=whole, metadata={"uid": name}) for name in names
    )
    engine = build_engine(World(objects=Objects(quotas=quotas)))
    maker = UnitMaker()
    arrivals = []
    for number in range(pending + 5 * QUEUES):
        requests = {"cpu": str(1 + number // QUEUES % 4)}
        job = Job(
            line=number, submit=0.0, run=1.0, tenant=names[number % QUEUES], requests=requests
        )
        arrivals.append(Arrival(0.0, maker.make(number, job)))
    outside = Outside(run_seconds=lambda _unit, _ran: 1e9)
    VirtualCluster(engine, START, outside, arrivals).run(MINUTE.now)
    return engine
