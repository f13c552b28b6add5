"""A made trace for scores: three tenants whose jobs come in bursts, and wait for each other."""

from __future__ import annotations

import random
from typing import Final

from queue_insight.replay.jobs import GPU_CORE, Job, Trace

HOUR: Final = 3600.0


def made_trace(count: int, seed: int = 7) -> Trace:
    """Return a trace of this many jobs, about twenty an hour at noon and few at night."""
    rng, now, jobs = random.Random(seed), 0.0, []
    for line in range(count):
        is_day = now % (24 * HOUR) < 12 * HOUR
        now += rng.expovariate(1 / (180.0 if is_day else 900.0))
        tenant = rng.choice(("blue", "blue", "green", "red"))
        run = min(rng.lognormvariate(7.0, 1.3), 20 * HOUR)
        gpus = rng.choice((1, 1, 1, 2, 4))
        jobs.append(
            Job(
                line=line,
                submit=float(int(now)),
                run=float(int(run) + 1),
                tenant=tenant,
                user=f"{tenant}-{rng.randrange(3)}",
                requests={GPU_CORE: str(gpus * 100)},
            )
        )
    return Trace(jobs=tuple(jobs), skipped={})
