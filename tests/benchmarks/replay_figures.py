"""How fast a trace is replayed, beside complete lives of the same engine without one.

The trace is made from a seed: as many jobs as a real one of three months, in as many tenants, with
run times of a wide range, at a load at which about half of the jobs wait.
"""

from __future__ import annotations

import random
import time
from typing import Final

from queue_insight.replay.jobs import GPU, Job, Trace
from queue_insight.replay.quota_files import Objects
from queue_insight.replay.replay_run import Outcome, Settings, replay
from queue_insight.replay.replayed_world import World
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.testing.object_builders import elastic_quota
from tests.benchmarks.engine_figures import AT_MOST_SECONDS, LIVES, QUEUES
from tests.benchmarks.engine_load import flat_load
from tests.benchmarks.figures import Figure

JOBS: Final = 74_000
PENDING: Final = 100_000
TENANTS: Final = 15
LOAD: Final = 0.9
MEAN_PAUSE: Final = 100.0
SIZES: Final = (1, 1, 1, 1, 1, 1, 1, 2, 4, 8)
DAY: Final = 86_400.0


def run(*, quick: bool) -> list[Figure]:
    """Return the figures."""
    jobs, pending = (2_000, 1_000) if quick else (JOBS, PENDING)
    control = _lives_per_second_full(pending)
    trace = _trace(jobs)
    world = World(objects=Objects(quotas=_quotas(trace)), policy="FIFO")
    began = time.process_time()
    outcome = replay(world, trace, Settings(path="made"), lambda _: None)
    seconds = time.process_time() - began
    return [
        Figure(
            name="replayed_jobs_per_second",
            value=jobs / seconds,
            unit="1/s",
            control=control,
            note=f"{jobs} jobs of {TENANTS} tenants in {seconds:.0f} s of CPU;"
            f" {_share_that_waits(outcome):.0%} wait; control: lives_per_second_full",
        )
    ]


def _lives_per_second_full(pending: int) -> float:
    """Return complete lives per second, confirmed, in queues that are always full."""
    full = flat_load(pending, QUEUES)
    full.is_confirmed = True
    full.run(LIVES, at_most_seconds=AT_MOST_SECONDS)
    return full.per_second


def _share_that_waits(outcome: Outcome) -> float:
    return sum(life.wait >= 1 for life in outcome.lives) / len(outcome.lives)


def _trace(count: int) -> Trace:
    rng, now = random.Random(7), 0.0
    jobs = []
    for number in range(count):
        now += rng.expovariate(1 / MEAN_PAUSE)
        # A few tenants have most of the jobs.
        tenant = f"team-{min(int(rng.expovariate(0.4)), TENANTS - 1)}"
        run = min(rng.lognormvariate(7.0, 1.8), 20 * DAY)
        gpus = rng.choice(SIZES)
        jobs.append(Job(line=number, submit=now, run=run, tenant=tenant, requests={GPU: str(gpus)}))
    return Trace(jobs=tuple(jobs), skipped={})


def _quotas(trace: Trace) -> tuple[ElasticQuota, ...]:
    """Return a quota per tenant below one, which has room for the work at this load."""
    work: dict[str, float] = {}
    for job in trace.jobs:
        work[job.tenant] = work.get(job.tenant, 0.0) + job.run * int(job.requests[GPU])
    room = LOAD * trace.jobs[-1].submit
    total = max(round(sum(work.values()) / room), *SIZES)
    whole = {GPU: total}
    return (
        elastic_quota("org", min=whole, max=whole, is_parent=True, metadata={"uid": "org"}),
        *(
            elastic_quota(
                tenant,
                min={GPU: int(done / room)},
                max=whole,
                parent="org",
                metadata={"uid": tenant},
            )
            for tenant, done in sorted(work.items())
        ),
    )
