"""The speed of the engine's decisions in memory, and the cost of a fork.

A decision is one unit decided, charged, and released; a life also includes the server's
confirmation of the write. Times are CPU times of this process, without building the objects. The
control is the same number of lives with a heap and a dict per queue, without objects, rules, or
reasons: the limit of Python.
"""

from __future__ import annotations

import heapq
import time
from statistics import median
from types import TracebackType
from typing import Final

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.quota.quota_settings import QuotaSettings, Rounding
from tests.benchmarks.engine_load import EngineLoad, deep_load, flat_load
from tests.benchmarks.figures import Figure

FEW: Final = 1_000
MANY: Final = 100_000
LIVES: Final = 30_000
DEEP_LIVES: Final = 10_000
AT_MOST_SECONDS: Final = 8.0
"""Engine seconds per measurement; a slow engine is measured with fewer lives."""
FORKS: Final = 7
QUEUES: Final = 100


def run(*, quick: bool = False) -> list[Figure]:
    """Return all figures; `quick` has a tenth of the units."""
    many = MANY // 10 if quick else MANY
    few = flat_load(FEW, QUEUES, has_room=True)
    few.run(LIVES, at_most_seconds=AT_MOST_SECONDS)
    flat = flat_load(many, QUEUES, has_room=True)
    forks = _fork_figures(flat)
    flat.run(LIVES, at_most_seconds=AT_MOST_SECONDS)
    figures = [
        _decisions("decisions_per_second", flat, many),
        Figure(
            name="decisions_growth",
            value=few.per_second / flat.per_second,
            unit="x",
            control=bare_lives_per_second(FEW, QUEUES) / bare_lives_per_second(many, QUEUES),
            note=f"{FEW} pending against {many}; control: the same of plain heaps and dicts",
        ),
        Figure(
            name="enqueue_us",
            value=1e6 * flat.enqueue_seconds / flat.enqueued,
            unit="us/unit",
            note="a unit arrives; not part of a decision",
        ),
        *forks,
    ]
    flat.is_confirmed = True
    flat.forget_figures()
    flat.run(LIVES, at_most_seconds=AT_MOST_SECONDS)
    figures.append(_decisions("lives_per_second", flat, many))
    del few, flat
    for name, under_one_parent in (
        ("decisions_per_second_full", False),
        ("decisions_per_second_full_tree", True),
    ):
        full = flat_load(many, QUEUES, under_one_parent=under_one_parent)
        full.run(LIVES, at_most_seconds=AT_MOST_SECONDS)
        figures.append(_decisions(name, full, many))
        del full
    for rounding, name in (
        (Rounding.LARGEST_REMAINDER, "runtime_decisions_per_second"),
        (Rounding.HALF_UP, "runtime_decisions_per_second_half_up"),
    ):
        deep = deep_load(many, QuotaSettings(rounding_override=rounding))
        deep.run(DEEP_LIVES, at_most_seconds=AT_MOST_SECONDS)
        figures.append(_decisions(name, deep, many))
        del deep
    return figures


def _decisions(name: str, load: EngineLoad, pending: int) -> Figure:
    return Figure(
        name=name,
        value=load.per_second,
        unit="1/s",
        control=bare_lives_per_second(pending, len(load.queues)),
        note=f"{pending} pending, {load.lives} lives; {load.describe()}",
    )


def bare_lives_per_second(pending: int, queues: int) -> float:
    """Decide, charge, and release with plain heaps and dicts; return lives per second of CPU."""
    lines = [[(n // queues, n % 4 + 1) for n in range(q, pending, queues)] for q in range(queues)]
    used = dict.fromkeys(range(queues), 0)
    lives = max(LIVES, 1)
    began = time.process_time()
    for number in range(lives):
        queue = number % queues
        place, cpu = heapq.heappop(lines[queue])
        if used[queue] + cpu <= 12:
            used[queue] += cpu
        used[queue] = max(0, used[queue] - cpu)
        heapq.heappush(lines[queue], (place + pending, cpu))
    return lives / (time.process_time() - began)


def _fork_figures(load: EngineLoad) -> list[Figure]:
    """Return the time until a copy has answered its first question, and the time under the lock."""
    lock = TimedLock()
    shared = SharedEngine(load.engine, lambda _: None)
    shared._lock = lock  # type: ignore[assignment]  # noqa: SLF001 - how long it is held is the question
    whole, held, copies = [], [], []
    records = load.engine.units.records
    for _ in range(FORKS):
        began = time.process_time()
        twin = shared.fork()
        for queue in load.queues:
            twin.decide_next(queue, 0.0)
        whole.append(1000 * (time.process_time() - began))
        held.append(1000 * lock.held_seconds)
        del twin
        began = time.process_time()
        dict(records)
        copies.append(1000 * (time.process_time() - began))
    note = f"median of {FORKS}; {len(records)} units; control: dict() of the units' records"
    return [
        Figure(
            name="fork_ms",
            value=median(whole),
            unit="ms",
            control=median(copies),
            note=f"until every queue of the copy was asked once; {note}",
        ),
        Figure(
            name="fork_lock_ms",
            value=median(held),
            unit="ms",
            control=median(copies),
            note=note,
        ),
    ]


class TimedLock:
    """Replaces the engine's lock and records how long it was last held."""

    def __init__(self) -> None:
        self.held_seconds = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.process_time()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.held_seconds = time.process_time() - self._began
