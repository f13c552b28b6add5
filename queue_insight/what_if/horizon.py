"""What edits change over a time: two copies of the engine in virtual time, on the same paths. Pure.

Not in the scheduler's own process: a horizon of hours takes seconds of computing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from queue_insight.insight.trials import SpentError, end_pauses, never_late
from queue_insight.insight.virtual_cluster import Outside, VirtualCluster
from queue_insight.what_if.apply import apply_edits
from queue_insight.what_if.edit import Edit
from queue_insight.what_if.measures import COMPLETED, USED, Comparison, Name, PathTally, compare
from queue_insight.what_if.paths import Path, PathSource
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_writes.applied_patches import with_status
from queue_scheduler.unit_writes.eviction_patches import build_request
from shared_api.evictions import BACKOFF_TIMEOUT, REQUEUE_REQUESTED


class Horizon(msgspec.Struct, frozen=True, kw_only=True):
    """What edits change until the horizon.

    Attributes:
        seconds: The horizon.
        paths: How many paths were played on both sides; fewer than the source has if the time was
            spent before, perhaps none.
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
    is_over: Callable[[], bool] = never_late,
) -> Horizon:
    """Return what edits change until a horizon.

    Args:
        engine: A fork; it must not be used afterwards.
        edits: The edits, which are made now.
        moment: The time of the engine's state.
        seconds: How far to look ahead; above 0.
        source: The paths.
        is_over: Returns whether the time for the answer is spent.

    Raises:
        EditError: An edit is wrong, or cannot be tried.
    """
    end_pauses(engine)
    edited = engine.fork()
    for applied in apply_edits(edited, edits, moment.wall):
        _ask_back(edited, applied.stranded, BACKOFF_TIMEOUT, moment)
        _ask_back(edited, applied.requeued, REQUEUE_REQUESTED, moment)
    player = _Player(moment, seconds, is_over)
    before, after = [], []
    for path in source.paths():
        try:
            pair = player.play(engine, path), player.play(edited, path)
        except SpentError:
            break
        before.append(pair[0])
        after.append(pair[1])
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


class _Player:
    """Plays paths on copies of engines, until the horizon."""

    def __init__(self, moment: Moment, seconds: float, is_over: Callable[[], bool]) -> None:
        self._moment, self._seconds, self._is_over = moment, seconds, is_over

    def play(self, engine: Engine, path: Path) -> Mapping[Name, float]:
        """Return the numbers of one side.

        Raises:
            SpentError: The time is over.
        """
        fork, tally = engine.fork(), PathTally()
        outside = Outside(run_seconds=path.runs_in(fork))
        cluster = VirtualCluster(fork, self._moment, outside, path.arrivals(), tally.on_event)
        tally.begin(cluster)
        cluster.run(self._moment.now + self._seconds, self._is_over)
        return tally.end(self._seconds)


def _ask_back(engine: Engine, keys: Iterable[str], reason: str, moment: Moment) -> None:
    """Evict units: they are stopped and pending again, after a backoff if the reason has one."""
    for key in keys:
        record = engine.record(key)
        if record is not None and record.occupies:
            patch = build_request(record.unit, reason, "asked by an edit", moment.wall)
            engine.on_queue_unit(with_status(record.unit, patch, record.version + 1))
