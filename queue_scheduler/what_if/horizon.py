"""What edits change over a time: two copies of the engine in virtual time, on the same paths. Pure.

Not in the scheduler's own process: a horizon of hours takes seconds of computing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.insight.trials import end_pauses
from queue_scheduler.insight.virtual_cluster import Outside, VirtualCluster
from queue_scheduler.unit_writes.applied_patches import with_status
from queue_scheduler.unit_writes.eviction_patches import build_request
from queue_scheduler.what_if.apply import apply_edits
from queue_scheduler.what_if.edit import Edit
from queue_scheduler.what_if.measures import (
    COMPLETED,
    USED,
    Comparison,
    Name,
    PathTally,
    compare,
)
from queue_scheduler.what_if.paths import Path, PathSource
from shared_api.evictions import BACKOFF_TIMEOUT


class Horizon(msgspec.Struct, frozen=True, kw_only=True):
    """What edits change until the horizon.

    Attributes:
        seconds: The horizon.
        paths: How many paths were played.
        basis: What the run times and arrivals are based on.
        comparisons: Numbers by what they are about (`queue/NAME`, `quota/NAME`, `resource/NAME`,
            "" for all) and by name: `waitP50` and `waitP90` in seconds, `completed` units, `used`
            in base units, on average.
    """

    seconds: float
    paths: int
    basis: str
    comparisons: Mapping[Name, Comparison]


def answer_horizon(
    engine: Engine,
    edits: Iterable[Edit],
    moment: Moment,
    seconds: float,
    source: PathSource,
    outside: Outside,
) -> Horizon:
    """Return what edits change until a horizon.

    Args:
        engine: A fork; it must not be used afterwards.
        edits: The edits, which are made now.
        moment: The time of the engine's state.
        seconds: How far to look ahead; above 0.
        source: The paths.
        outside: What is outside of the engine, but for run times, which are the paths'.

    Raises:
        EditError: An edit is wrong, or cannot be tried.
    """
    end_pauses(engine)
    edited = engine.fork()
    for told in apply_edits(edited, edits, moment.wall):
        _ask_back(edited, told.stranded, moment)
    before, after = [], []
    for path in source.paths():
        before.append(_play(engine.fork(), path, moment, seconds, outside))
        after.append(_play(edited.fork(), path, moment, seconds, outside))
    names = sorted({name for numbers in (*before, *after) for name in numbers})
    return Horizon(
        seconds=seconds,
        paths=len(before),
        basis=source.basis,
        comparisons={name: compare(_values(before, name), _values(after, name)) for name in names},
    )


def _values(numbers: Iterable[Mapping[Name, float]], name: Name) -> list[float]:
    """Return one number of each path; a wait is unknown where no unit has waited."""
    nothing = 0.0 if name[1] in {COMPLETED, USED} else float("inf")
    return [each.get(name, nothing) for each in numbers]


def _play(
    engine: Engine, path: Path, moment: Moment, seconds: float, outside: Outside
) -> Mapping[Name, float]:
    tally = PathTally()
    outside = msgspec.structs.replace(outside, run_seconds=path.run_seconds)
    cluster = VirtualCluster(engine, moment, outside, path.arrivals(), tally.on_event)
    tally.begin(cluster)
    cluster.run(moment.now + seconds)
    return tally.end(seconds)


def _ask_back(engine: Engine, keys: Iterable[str], moment: Moment) -> None:
    """Ask units back that lost pods: they are stopped, and wait again after a backoff."""
    for key in keys:
        record = engine.record(key)
        if record is not None and record.occupies:
            patch = build_request(record.unit, BACKOFF_TIMEOUT, "a node is removed", moment.wall)
            engine.on_queue_unit(with_status(record.unit, patch, record.version + 1))
