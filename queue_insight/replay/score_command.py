"""How good forecasts are on a trace: options in, scores out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from queue_insight.forecast.run_times import RunTimeModel
from queue_insight.replay.forecast_scores import score, score_lines
from queue_insight.replay.jobs import Trace, TraceError
from queue_insight.replay.progress import Progress
from queue_insight.replay.replayed_world import policy_names
from queue_insight.replay.scored_replay import ScoredReplay, ScoringSettings
from queue_insight.replay.scored_world import BACKFILL, build_scored_world
from queue_insight.replay.trace_files import read_trace

Json = dict[str, Any]

LOADS: Final = (0.4, 0.6, 0.9)
POLICIES: Final = ("FIFO", "Priority", BACKFILL)
FORECASTS: Final = 400
PATHS: Final = 40


class ScoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The flags that are about scores; the names are theirs.

    Attributes:
        score_forecasts: Whether forecasts are scored, and nothing else is replayed.
        loads: The work that is offered, as shares of what there is.
        policies: Policies of all queues.
        declared: How jobs declare times: keys of `DECLARED`.
        forecasts: About how many forecasts in each world.
        paths: Paths of each.
        oracle: Whether true run times and later arrivals are given.
    """

    score_forecasts: bool = False
    loads: tuple[float, ...] = LOADS
    policies: tuple[str, ...] = POLICIES
    declared: tuple[str, ...] = ("near", "far")
    forecasts: int = FORECASTS
    paths: int = PATHS
    oracle: bool = False


def score_trace(
    trace: Path,
    form: str,
    seed: int,
    options: ScoreOptions,
    new_model: Callable[[], RunTimeModel],
    progress: Callable[[int], Progress],
) -> Json:
    """Score forecasts on a trace, in each world that the options name.

    Args:
        trace: The file.
        form: Its format; "": found by its name and header line.
        seed: The seed of all that is drawn.
        options: The worlds, and how many forecasts.
        new_model: Makes the model that learns run times.
        progress: Makes what tells how far so many runs are.

    Raises:
        TraceError: The trace, or a policy, is wrong.
    """
    found_form, read = read_trace(trace, form)
    return {
        "trace": {"file": trace.name, "format": found_form, "jobs": len(read.jobs)},
        "seed": seed,
        "paths": options.paths,
        "oracle": options.oracle,
        "worlds": score_worlds(read, seed, options, new_model, progress),
    }


def score_worlds(
    trace: Trace,
    seed: int,
    options: ScoreOptions,
    new_model: Callable[[], RunTimeModel],
    progress: Callable[[int], Progress],
) -> list[Json]:
    """Return the scores of each world; see `score_trace`."""
    known = (*policy_names(), BACKFILL)
    for name in options.policies:
        if name not in known:
            names = ", ".join(known)
            raise TraceError(f"--policies {name}: there is no such policy; known: {names}")
    worlds = [_World(*each) for each in product(options.loads, options.policies, options.declared)]
    bar = progress(len(worlds))
    found = []
    try:
        for world in worlds:
            bar.start(world.text)
            found.append(_score_world(trace, world, seed, options, new_model(), bar.show))
    finally:
        bar.end()
    return found


class _World(NamedTuple):
    load: float
    policy: str
    declared: str

    @property
    def text(self) -> str:
        return f"{self.policy}, load {self.load:g}, declared times: {self.declared}"


def _score_world(
    trace: Trace,
    world: _World,
    seed: int,
    options: ScoreOptions,
    model: RunTimeModel,
    on_progress: Callable[[float], None],
) -> Json:
    load, policy, declared = world
    built = build_scored_world(trace, load=load, policy=policy, declared=declared, seed=seed)
    asking = ScoringSettings(
        seed=seed,
        paths=options.paths,
        forecasts=options.forecasts,
        is_oracle=options.oracle,
    )
    questions = ScoredReplay(built, asking, model, on_progress).run()
    errors = [abs(each.raw.p50 - (each.true or 0.0)) for each in questions]
    return {
        **world._asdict(),
        "capacity": built.capacity,
        "leftOut": built.skipped,
        "questions": len(questions),
        "largestOracleError": max(errors, default=0.0) if options.oracle else None,
        **score(questions),
    }


def score_report_lines(report: Json) -> Iterator[str]:
    """Yield the tables as lines."""
    yield f"{report['trace']['jobs']} jobs; seed {report['seed']}, {report['paths']} paths"
    yield from world_lines(report["worlds"])


def world_lines(worlds: Iterable[Json]) -> Iterator[str]:
    """Yield the table of each world as lines."""
    for world in worlds:
        yield ""
        world_text = _World(world["load"], world["policy"], world["declared"]).text
        yield f"{world_text}; {world['questions']} forecasts"
        if world["largestOracleError"] is not None:
            yield f"largest error with the truth given: {world['largestOracleError']:g} s"
        yield from score_lines(world)
