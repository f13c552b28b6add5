"""How good forecasts are: of a trace, if one is named; else of a made one.

A made one shows that nothing became worse, and not how good forecasts are elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from queue_insight.forecast.run_times import SurvivalRunTimes
from queue_insight.replay.jobs import Trace
from queue_insight.replay.progress import Progress
from queue_insight.replay.score_command import (
    FORECASTS,
    LOADS,
    PATHS,
    POLICIES,
    ScoreOptions,
    score_worlds,
    world_lines,
)
from queue_insight.replay.scored_world import NEAR, NONE
from queue_insight.replay.trace_files import read_trace
from shared_api.process.clock import SystemClock
from tests.benchmarks.figures import Figure
from tests.queue_insight.replay.replay_kit import made_trace

SEED = 1
JOBS = 1_200
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
    forecasts=FORECASTS,
    paths=PATHS,
    oracle=False,
)


def run(*, quick: bool, trace: Path | None) -> Iterator[Figure]:
    """Print the table of each world; yield what stands in its last row."""
    read = made_trace(JOBS) if trace is None else read_trace(trace, "")[1]
    for world in _score(read, SMALL if quick or trace is None else FULL):
        every = world["horizons"]["all"]
        if not every["n"]:
            continue
        name = f"{world['policy']}_{world['load']:g}_{world['declared']}"
        note = f"of {every['n']} forecasts"
        for what, value in (
            ("p90_covers", every["forecast"]["coverageP90"]),
            ("skill", every["last200"]["skill"]),
        ):
            yield Figure(name=f"forecast_{what}_{name}", value=value, unit="", note=note)


def _score(trace: Trace, options: ScoreOptions) -> list[dict[str, Any]]:
    def progress(runs: int) -> Progress:
        return Progress(sys.stderr, SystemClock(), runs)

    worlds = score_worlds(trace, SEED, options, SurvivalRunTimes, progress)
    for line in world_lines(worlds):
        print(line)
    return worlds
