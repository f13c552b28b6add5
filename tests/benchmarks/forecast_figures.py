"""How long a renewal of forecasts and a horizon of what-if take, in a full cluster of 100 queues.

The scores of forecasts on a trace are `koord-queue replay TRACE --score-forecasts`.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime

from queue_insight.debug_api.engine_state import State
from queue_insight.forecast.all_units import Settings
from queue_insight.forecast.arrivals import DAY
from queue_insight.forecast.renewals import Renewals
from queue_insight.forecast.run_times import SurvivalRunTimes
from queue_insight.insight.virtual_cluster import Arrival, Outside, VirtualCluster
from queue_insight.insight_program.horizons import BUDGET_SECONDS, PATHS, Horizons
from queue_insight.replay.jobs import Job
from queue_insight.replay.quota_files import Objects
from queue_insight.replay.replayed_world import UnitMaker, World, build_engine
from queue_insight.what_if.edit import Edit
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from shared_api.process.clock import SystemClock
from shared_api.testing.object_builders import elastic_quota
from tests.benchmarks.figures import Figure

RENEWAL_SECONDS = 60.0
QUEUES = 100
CORES = 12
START = Moment(0.0, datetime(2026, 1, 1, tzinfo=UTC))
MINUTE = Moment(60.0, datetime(2026, 1, 1, 0, 1, tzinfo=UTC))


def run(*, quick: bool) -> list[Figure]:
    """Return the figures."""
    sizes = (100,) if quick else (1_000, 10_000)
    return [*map(_renewal, sizes), *map(_horizon, sizes)]


def _renewal(pending: int) -> Figure:
    engine = _full_engine(pending)
    renewals = Renewals(SurvivalRunTimes(), Settings(), MINUTE.wall.timestamp())
    began = time.process_time()
    renewal = renewals.begin(engine, MINUTE)
    while renewal.sampling.play_next(lambda: time.process_time() - began >= RENEWAL_SECONDS):
        pass
    found = renewals.end(renewal, lambda _: True)
    seconds = time.process_time() - began
    return Figure(
        name=f"forecast_renewal_{pending}_s",
        value=seconds,
        unit="s",
        note=f"CPU of a renewal with {pending} pending, both with and without arrivals;"
        f" {found.sample} of 40 paths within the budget of {RENEWAL_SECONDS:g} s,"
        f" {len(found.units)} units answered",
    )


class _CpuClock(SystemClock):
    """Time is what this process computes for."""

    def monotonic(self) -> float:
        return time.process_time()


def _horizon(pending: int) -> Figure:
    horizons = Horizons(SurvivalRunTimes(), MINUTE.wall, _CpuClock())
    patch = {"spec": {"max": {"cpu": 2 * CORES}}}
    edits = [Edit(kind="ElasticQuota", name="team-000", patch=patch)]
    began = time.process_time()
    found = horizons.answer(State(_full_engine(pending), MINUTE), edits, DAY, 0)
    return Figure(
        name=f"what_if_horizon_{pending}_s",
        value=time.process_time() - began,
        unit="s",
        note=f"CPU of what one larger quota changes in a day, with {pending} pending;"
        f" {found.paths} of {PATHS} pairs of paths within {BUDGET_SECONDS:g} s",
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
